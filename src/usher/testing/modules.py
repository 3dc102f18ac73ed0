"""Files of Go modules, for tests: the CRDs of others as they ship them. Fetched once through the module proxy.

What is fetched is checked against the sum that is written down here, and stays in our cache, never in the repository.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from usher.devcluster.errors import DevClusterError
from usher.devcluster.parts import Say, say_on_stderr
from usher.devcluster.places import cache_dir
from usher.devcluster.toolchain import find_go


@dataclass(frozen=True)
class Module:
    """A module of Go at a version, and the sum by which Go knows it."""

    path: str
    version: str
    sum: str


KOORDINATOR: Final = Module(
    "github.com/koordinator-sh/koordinator", "v1.8.0", "h1:CEMaFv6qru+arNhcdhkLP2Shxw77Heb6PSaXjHZ/t0I="
)
ELASTIC_QUOTA_CRD: Final = "config/crd/bases/scheduling.sigs.k8s.io_elasticquotas.yaml"


def module_file(module: Module, name: str, say: Say = say_on_stderr) -> Path:
    """A file of a module, from the cache or through the proxy."""
    kept = cache_dir() / "modules" / f"{module.path.replace('/', '_')}@{module.version}" / name
    if not kept.exists():
        say(f"Fetching {name} of {module.path} {module.version}")
        found = module_folder(module, say) / name
        if not found.exists():
            raise DevClusterError(f"{module.path} {module.version} has no {name}.")
        kept.parent.mkdir(parents=True, exist_ok=True)
        partial = kept.with_name(f".{kept.name}-{os.getpid()}")
        shutil.copyfile(found, partial)
        partial.replace(kept)
    return kept


def module_folder(module: Module, say: Say = say_on_stderr) -> Path:
    """Where Go keeps a module, fetched if need be; not to be written to."""
    go = find_go(say)
    settings = {"GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "", "GO111MODULE": "on"}
    with tempfile.TemporaryDirectory() as elsewhere:
        done = subprocess.run(  # noqa: S603
            [go.program, "mod", "download", "-json", f"{module.path}@{module.version}"],
            cwd=elsewhere,
            env={**os.environ, **settings, **go.env},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode != 0:
        raise DevClusterError(f"{module.path} {module.version} could not be fetched:\n{done.stdout}{done.stderr}")
    answer = json.loads(done.stdout)
    if answer["Sum"] != module.sum:
        raise DevClusterError(f"{module.path} {module.version} is not what it was: {answer['Sum']}, not {module.sum}.")
    return Path(answer["Dir"])
