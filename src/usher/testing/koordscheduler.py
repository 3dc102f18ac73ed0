"""The real koord-scheduler, for tests: built once from Koordinator's module, run against a control plane.

Its module replaces others by folders of its own, so it is built in a copy of its own folder, not as somebody's
dependency. `USHER_KOORD_SCHEDULER` names a program that is used instead.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from usher.devcluster.errors import DevClusterError
from usher.devcluster.logs import tail
from usher.devcluster.parts import Say, say_on_stderr
from usher.devcluster.places import cache_dir
from usher.devcluster.toolchain import find_go
from usher.testing.modules import KOORDINATOR, module_folder

NAME: Final = "koord-scheduler"
QUOTAS: Final = "koordinator-system"
"""The namespace in which it makes its own quotas."""


def find_koord_scheduler(say: Say = say_on_stderr) -> str:
    """The path of the program; builds it (about four minutes, once) if the cache lacks it."""
    if given := os.environ.get("USHER_KOORD_SCHEDULER"):
        return given
    place = cache_dir() / "tools" / f"{NAME}-{KOORDINATOR.version}" / NAME
    if not os.access(place, os.X_OK):
        place.parent.mkdir(parents=True, exist_ok=True)
        _build(place, say)
    return str(place)


def _build(place: Path, say: Say) -> None:
    say(f"Building {NAME} {KOORDINATOR.version}: about 4 minutes on 2 idle cores, done once; kept in {place.parent}")
    go = find_go(say)
    settings = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "-buildvcs=false"}
    with tempfile.TemporaryDirectory() as folder:
        source, output = Path(folder) / "source", Path(folder) / NAME
        shutil.copytree(module_folder(KOORDINATOR, say), source, copy_function=shutil.copyfile)
        subprocess.run(["chmod", "-R", "u+w", str(source)], check=True)  # noqa: S603, S607
        done = subprocess.run(  # noqa: S603
            [go.program, "build", "-mod=mod", "-trimpath", "-ldflags", "-s -w", "-o", str(output), f"./cmd/{NAME}"],
            cwd=source,
            env={**os.environ, **settings, **go.env},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise DevClusterError(f"{NAME} could not be built:\n{done.stderr[-4000:]}")
        partial = place.with_name(f".{NAME}-{os.getpid()}")
        shutil.copyfile(output, partial)
        partial.chmod(0o755)
        partial.replace(place)


def configuration(kubeconfig: Path) -> dict[str, Any]:
    """Elastic quotas with runtime and parents checked and min scaled, as our `koordinator` has it; nothing preempts."""
    points = {
        "preEnqueue": ["Coscheduling"],
        "preFilter": ["Coscheduling", "ElasticQuota"],
        "permit": ["Coscheduling"],
        "reserve": ["Coscheduling", "ElasticQuota"],
        "postBind": ["Coscheduling"],
    }
    plugins: dict[str, Any] = {
        point: {"enabled": [{"name": name} for name in names]} for point, names in points.items()
    }
    plugins["postFilter"] = {
        "disabled": [{"name": "*"}],
        "enabled": [{"name": "Coscheduling"}, {"name": "ElasticQuota"}],
    }
    arguments = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "ElasticQuotaArgs",
        "quotaGroupNamespace": QUOTAS,
        "enableRuntimeQuota": True,
        "enableCheckParentQuota": True,
        "enableMinQuotaScale": True,
    }
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 500, "burst": 1000},
        "profiles": [
            {
                "schedulerName": NAME,
                "pluginConfig": [{"name": "ElasticQuota", "args": arguments}],
                "plugins": plugins,
            }
        ],
    }


@contextlib.contextmanager
def koord_scheduler(program: str, kubeconfig: Path, home: Path) -> Iterator[Path]:
    """Run it as long as the block lasts; its log. Pods ask for it by `schedulerName: koord-scheduler`."""
    home.mkdir(parents=True, exist_ok=True)
    config, log = home / "koord-scheduler.yaml", home / "koord-scheduler.log"
    config.write_text(yaml.safe_dump(configuration(kubeconfig)))
    with log.open("wb") as sink:
        process = subprocess.Popen(  # noqa: S603
            [program, f"--config={config}", "--secure-port=0", "--v=2"],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
        )
        try:
            yield log
            if process.poll() is not None:
                raise DevClusterError(f"{NAME} died:\n{tail(log)}")
        finally:
            process.terminate()
            process.wait()
