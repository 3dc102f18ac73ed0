"""Reaching a cluster: flags, and what is said when it cannot be reached or says no."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from usher.cli.connecting import Connection, connected, told
from usher.cli.main import VALUED, usher
from usher.kube import errors as e
from usher.kube.config import Config

CONFIG = Config("https://10.0.0.1:6443", source="my.conf")


def written(path: Path, server: str = "http://127.0.0.1:1") -> Path:
    """A kubeconfig with two contexts, two clusters and two users."""
    found = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "one",
        "clusters": [
            {"name": "here", "cluster": {"server": server}},
            {"name": "there", "cluster": {"server": "http://127.0.0.1:2"}},
        ],
        "users": [{"name": "me", "user": {"token": "mine"}}, {"name": "you", "user": {"token": "yours"}}],
        "contexts": [
            {"name": "one", "context": {"cluster": "here", "user": "me", "namespace": "red"}},
            {"name": "two", "context": {"cluster": "there", "user": "you"}},
        ],
    }
    file = path / "config"
    file.write_text(json.dumps(found))
    return file


Wanted = tuple[str, str, str]
FLAGS: dict[str, tuple[Callable[[Path], Connection], Wanted]] = {
    "the current context": (lambda file: Connection(file), ("http://127.0.0.1:1", "mine", "red")),
    "another context": (lambda file: Connection(file, context="two"), ("http://127.0.0.1:2", "yours", "default")),
    "another namespace": (lambda file: Connection(file, namespace="blue"), ("http://127.0.0.1:1", "mine", "blue")),
    "another cluster": (lambda file: Connection(file, cluster="there"), ("http://127.0.0.1:2", "mine", "red")),
    "another user": (lambda file: Connection(file, user="you"), ("http://127.0.0.1:1", "yours", "red")),
}


@pytest.mark.parametrize("given", FLAGS)
def test_flags_choose_the_cluster_the_user_and_the_namespace(given: str, tmp_path: Path) -> None:
    make, want = FLAGS[given]

    found = make(written(tmp_path)).config()

    assert (found.server, found.user.token, found.namespace) == want


def test_somebody_else_is_acted_as_with_groups_and_uid(tmp_path: Path) -> None:
    file = written(tmp_path)

    whom = Connection(file, as_user="jane", as_groups=("a", "b"), as_uid="7").config().user.impersonate

    assert whom is not None
    assert (whom.user, whom.groups, whom.uid) == ("jane", ("a", "b"), "7")
    with pytest.raises(e.ConfigError, match="--as-group and --as-uid need --as"):
        Connection(file, as_groups=("a",)).config()


ERRORS: dict[str, tuple[e.KubeError, str]] = {
    "not reached": (
        e.ConnectionLost("GET /x: 10.0.0.1:6443: Connection refused", sent=False),
        "The API server cannot be reached: 10.0.0.1:6443: Connection refused. Is it up? "
        "Its address, https://10.0.0.1:6443, is from my.conf.",
    ),
    "broken off": (
        e.ConnectionLost("POST /x: the connection broke: it ended", sent=True),
        "POST /x: the connection broke: it ended. Whether it was carried out is not known: look before you try again.",
    ),
    "too slow": (
        e.Timeout("GET /x: no answer in time"),
        "GET /x: no answer in time. Give it more time with --request-timeout.",
    ),
    "unknown": (
        e.Unauthorized("Unauthorized"),
        "The API server does not know who you are (Unauthorized). Renew your credentials in my.conf.",
    ),
    "not trusted": (
        e.ConnectionLost("GET /x: 10.0.0.1:6443: its certificate cannot be trusted: self-signed", sent=False),
        "The certificate of the API server cannot be trusted: 10.0.0.1:6443: self-signed. Name the authority of "
        "https://10.0.0.1:6443 in my.conf, as certificate-authority-data of the cluster.",
    ),
    "forbidden": (
        e.Forbidden("queues.scheduling.x-k8s.io is forbidden"),
        "queues.scheduling.x-k8s.io is forbidden. Ask an administrator for a role that may "
        "(view reads what Usher has, usher-admin changes it).",
    ),
    "forbidden by others": (
        e.Forbidden('deployments.apps "usher" is forbidden'),
        'deployments.apps "usher" is forbidden. Ask an administrator for a role that may.',
    ),
    "refused by a rule": (
        e.Forbidden('admission webhook "x" denied the request: no such queue'),
        'admission webhook "x" denied the request: no such queue.',
    ),
    "without our kinds": (
        e.NotFound("the server could not find the requested resource"),
        "https://10.0.0.1:6443 does not have Usher's kinds. Install them with: usher install",
    ),
    "without our group": (
        e.NotFound("404 page not found"),
        "https://10.0.0.1:6443 does not have Usher's kinds. Install them with: usher install",
    ),
    "not there": (e.NotFound('queues "x" not found'), 'queues "x" not found.'),
    "changed meanwhile": (e.Conflict("it changed"), "it changed. Somebody changed it meanwhile: try again."),
    "overloaded": (e.Throttled("too many requests"), "too many requests. Try again in a while."),
    "failing": (e.ServerError("etcd is away"), "etcd is away. Try again in a while."),
    "invalid": (e.Invalid("spec.weight: must be more"), "spec.weight: must be more."),
}


@pytest.mark.parametrize("given", ERRORS)
def test_every_error_says_what_to_do(given: str) -> None:
    error, want = ERRORS[given]

    assert told(error, CONFIG) == want


def test_a_server_that_is_not_there_is_one_sentence_and_exit_code_one(tmp_path: Path) -> None:
    done = CliRunner().invoke(usher, ["get", "queues", "--kubeconfig", str(written(tmp_path))])

    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == (
        "Error: The API server cannot be reached: 127.0.0.1:1: Connection refused. Is it up? "
        f"Its address, http://127.0.0.1:1, is from {tmp_path / 'config'}.\n"
    )


def test_a_kubeconfig_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = CliRunner().invoke(usher, ["get", "queues", "--kubeconfig", str(tmp_path / "none")])

    assert (done.exit_code, done.stdout) == (1, "")
    assert f"{tmp_path / 'none'} cannot be read" in done.stderr


def test_every_flag_of_the_connection_is_known_to_the_group() -> None:
    options = [name for param in connected(lambda **_: None).__click_params__ for name in param.opts]

    assert sorted(options) == sorted(VALUED)


def test_flags_of_the_connection_may_stand_before_the_command(tmp_path: Path) -> None:
    file = str(written(tmp_path))

    done = CliRunner().invoke(usher, ["--kubeconfig", file, "--context=two", "-n", "x", "get", "queues"])

    assert "http://127.0.0.1:2" in done.stderr


NO_NAMES = {
    "nothing": ["get", "queue", ""],
    "a place above": ["describe", "queue", ".."],
    "a namespace that is a path": ["get", "queues", "-n", "../x"],
    "a queue that is a path": ["stop", "queue", "%2e"],
}


@pytest.mark.parametrize("given", NO_NAMES)
def test_what_can_be_no_name_is_a_usage_error(given: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(usher, [*NO_NAMES[given], "--kubeconfig", str(written(tmp_path))])

    assert (done.exit_code, done.stdout) == (2, "")
    assert "cannot be the name of an object." in done.stderr


def test_a_dry_run_of_the_manager_that_reaches_nobody_says_so(tmp_path: Path) -> None:
    done = CliRunner().invoke(usher, ["manager", "--dry-run", "--kubeconfig", str(written(tmp_path))])

    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: The API server cannot be reached: ")
    assert "Traceback" not in done.stderr


USAGE = {
    "no kind": (["get"], "Missing argument 'KIND [NAME...]'"),
    "a kind that is none": (["get", "frogs"], "There is no kind 'frogs' here"),
    "a name in all namespaces": (["get", "queue", "a", "-A"], "A name belongs to one namespace"),
    "a name and a selector": (["get", "queue", "a", "-l", "x=y"], "Give names or a selector, not both."),
    "an output that is none": (["get", "queues", "-o", "xml"], "'xml' is not one of 'wide', 'json', 'yaml', 'name'"),
    "nothing to run": (["submit", "-q", "main"], "Say what to run: --image IMAGE, or -f FILE."),
    "a file and flags": (["submit", "-f", "x", "--image", "y"], "A file says itself what its jobs run"),
    "waiting for a dry run": (
        ["submit", "--image", "x", "--wait", "--dry-run=server"],
        "Nothing comes of a dry run: leave out --wait and --follow.",
    ),
    "a label that is none": (["submit", "--image", "x", "--label", "y"], "'y' is not KEY=VALUE."),
    "a time that is none": (["submit", "--image", "x", "--max-time", "soon"], '"soon" is not a duration'),
    "a priority that is none": (["submit", "--image", "x", "--priority", "9999999999"], "is not in the range"),
    "explaining several": (["explain", "a", "b"], "Name one of the jobs, not 2."),
    "draining a job": (["stop", "job", "a", "--drain"], "--drain is for queues"),
    "stopping a quota": (["stop", "quota", "a"], "There is no kind 'quota' here. There are: queues, jobs, queuejobs"),
    "moving to nowhere": (["move", "a"], "Missing option '--to'"),
    "setting nothing": (["set", "queue", "main"], "Say what to change, as in weight=3."),
    "setting what there is not": (["set", "queue", "main", "colour=red"], "A queue has no 'colour' to set. There is:"),
    "setting what is no number": (["set", "queue", "main", "weight=x"], "weight must be a whole number, not 'x'."),
    "setting twice": (["set", "queue", "main", "weight=1", "weight=2"], "weight is given twice."),
    "setting several": (["set", "queue", "a", "b", "weight=1"], "Name one queue"),
    "setting nobody": (["set", "weight=1"], "Name a queue, as in"),
    "describing nobody": (["describe", "queue"], "Name one of the queues"),
    "a shell that is none": (["completion", "csh"], "'csh' is not one of 'bash', 'zsh', 'fish'"),
}


@pytest.mark.parametrize("given", USAGE)
def test_what_cannot_be_meant_is_exit_code_two_before_anybody_is_asked(given: str) -> None:
    args, want = USAGE[given]

    done = CliRunner().invoke(usher, args)

    assert (done.exit_code, done.stdout) == (2, "")
    assert want in done.stderr
