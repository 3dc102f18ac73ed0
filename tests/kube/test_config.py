"""kubeconfig files: found and merged as kubectl does it, and refused with the file and the field."""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from usher.kube import load
from usher.kube.config import Impersonation
from usher.kube.errors import ConfigError


def write(path: Path, **fields: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **fields}))
    return path


def complete(path: Path, *, cluster: Any = None, user: Any = None, context: Any = None) -> Path:
    """A kubeconfig with one of each."""
    return write(
        path,
        clusters=[{"name": "c", "cluster": {"server": "https://one:6443"} if cluster is None else cluster}],
        users=[{"name": "u", "user": {"token": "t"} if user is None else user}],
        contexts=[{"name": "x", "context": {"cluster": "c", "user": "u", **(context or {})}}],
        **{"current-context": "x"},
    )


def test_the_named_file_wins_over_the_environment(tmp_path: Path) -> None:
    named = complete(tmp_path / "named")
    other = complete(tmp_path / "other", cluster={"server": "https://two:6443"})

    assert load(named, environ={"KUBECONFIG": str(other)}).server == "https://one:6443"
    assert load(environ={"KUBECONFIG": str(other)}).server == "https://two:6443"


def test_without_anything_the_home_directory_is_looked_into(tmp_path: Path) -> None:
    complete(tmp_path / ".kube" / "config", context={"namespace": "mine"})
    config = load(environ={"HOME": str(tmp_path)})

    assert (config.server, config.namespace, config.user.token) == ("https://one:6443", "mine", "t")


def test_of_several_files_the_first_that_says_something_wins(tmp_path: Path) -> None:
    first = write(
        tmp_path / "first",
        users=[{"name": "u", "user": {"token": "of the first"}}],
        contexts=[{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    )
    second = complete(tmp_path / "second", user={"token": "of the second"}, context={"namespace": "second"})
    third = write(
        tmp_path / "third",
        clusters=[
            {"name": "c", "cluster": {"server": "https://three"}},
            {"name": "d", "cluster": {"server": "http://d"}},
        ],
        contexts=[{"name": "y", "context": {"cluster": "d"}}],
        **{"current-context": "y"},
    )
    environ = {"KUBECONFIG": f"{first}:{tmp_path / 'missing'}::{second}:{third}"}

    config = load(environ=environ)
    assert (config.server, config.user.token, config.namespace) == ("https://one:6443", "of the first", "default")
    other = load(environ=environ, context="y")
    assert (other.server, other.user.token) == ("http://d", "")


def test_relative_paths_start_at_the_file_that_names_them(tmp_path: Path) -> None:
    for name in ("ca.crt", "me.crt", "me.key"):
        (tmp_path / "deep").mkdir(exist_ok=True)
        (tmp_path / "deep" / name).write_text(name)
    user = {"client-certificate": "me.crt", "client-key": "./me.key", "tokenFile": "../token"}
    path = complete(
        tmp_path / "deep" / "config",
        cluster={"server": "https://h/prefix/", "certificate-authority": "ca.crt"},
        user=user,
    )
    config = load(path)

    assert config.server == "https://h/prefix"
    pems = (config.certificate_authority, config.user.certificate, config.user.key)
    assert [pem.read() for pem in pems if pem] == [b"ca.crt", b"me.crt", b"me.key"]
    assert config.user.token_file == tmp_path / "deep" / ".." / "token"


def test_data_in_the_file_wins_over_a_named_file(tmp_path: Path) -> None:
    data = base64.b64encode(b"pem").decode()
    cluster = {"server": "https://h", "certificate-authority": "missing", "certificate-authority-data": data}

    authority = load(complete(tmp_path / "config", cluster=cluster)).certificate_authority
    assert authority is not None
    assert authority.read() == b"pem"


def test_everything_that_a_context_can_say_is_read(tmp_path: Path) -> None:
    cluster = {
        "server": "https://h",
        "insecure-skip-tls-verify": True,
        "tls-server-name": "name",
        "proxy-url": "http://proxy:3128",
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}],
    }
    exec_ = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "bin/plugin",
        "args": ["--x"],
        "env": [{"name": "A", "value": "b"}],
        "installHint": "get it",
        "provideClusterInfo": True,
    }
    extra = {"scopes": ["a", "b"]}
    user = {"exec": exec_, "as": "jane", "as-uid": "7", "as-groups": ["g", "h"], "as-user-extra": extra}
    config = load(complete(tmp_path / "config", cluster=cluster, user=user))

    assert (config.insecure, config.server_name, config.proxy_url) == (True, "name", "http://proxy:3128")
    assert config.user.impersonate == Impersonation("jane", "7", ("g", "h"), (("scopes", ("a", "b")),))
    plugin = config.user.exec
    assert plugin is not None
    assert plugin.command == str(tmp_path / "bin/plugin")
    assert (plugin.args, plugin.env, plugin.install_hint) == (("--x",), (("A", "b"),), "get it")
    assert plugin.cluster is not None
    assert plugin.cluster.extension == {"audience": "a"}


def test_a_pod_uses_its_service_account_if_there_is_no_file(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}

    with pytest.raises(ConfigError, match=r"serviceaccount/token is missing: is automountServiceAccountToken off"):
        load(environ=environ)
    with pytest.raises(ConfigError, match=r"There is no kubeconfig .*/.kube/config.*this is not a pod"):
        load(environ={"HOME": str(tmp_path)})


NOBODY = """
import os, pwd
os.environ.pop("HOME", None)
from usher.kube.errors import ConfigError
from usher.kube.kubeconfig import load
os.setuid(54321)
try: load(environ={})
except ConfigError as error: print(error.message)
"""
"""A user that nobody knows, as containers have them, without HOME."""


@pytest.mark.skipif(os.getuid() != 0, reason="only root becomes somebody else")
def test_a_user_without_a_home_is_told_what_to_do() -> None:
    done = subprocess.run([sys.executable, "-c", NOBODY], capture_output=True, text=True, check=True)

    assert done.stdout == (
        "There is no kubeconfig (nor a home directory to look in), and this is not a pod. Set KUBECONFIG, or name a "
        "file.\n"
    )


def test_secrets_do_not_show_in_the_representation(tmp_path: Path) -> None:
    key = base64.b64encode(b"very private").decode()
    user = {"token": "also-private", "password": "hidden", "client-certificate-data": key, "client-key-data": key}
    shown = repr(load(complete(tmp_path / "config", user=user)))

    assert "private" not in shown
    assert "hidden" not in shown


V1 = "client.authentication.k8s.io/v1"
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no server": ({"cluster": {}}, r"clusters\[c\]\.cluster\.server must begin with https://"),
    "a server without a scheme": ({"cluster": {"server": "h:443"}}, r"cluster\.server must begin .* not be 'h:443'"),
    "an authority that is not there": (
        {"cluster": {"server": "https://h", "certificate-authority": "no.crt"}},
        r"clusters\[c\]\.cluster\.certificate-authority: there is no file .*no\.crt",
    ),
    "data that is not base64": (
        {"cluster": {"server": "https://h", "certificate-authority-data": "%%%"}},
        r"certificate-authority-data is not base64",
    ),
    "an authority that nobody looks at": (
        {"cluster": {"server": "https://h", "certificate-authority-data": "YQ==", "insecure-skip-tls-verify": True}},
        r"insecure-skip-tls-verify cannot be true beside a certificate-authority",
    ),
    "a flag that is a text": (
        {"cluster": {"server": "https://h", "insecure-skip-tls-verify": "yes"}},
        r"insecure-skip-tls-verify must be true or false, not 'yes'",
    ),
    "a kind of proxy that we do not speak": (
        {"cluster": {"server": "https://h", "proxy-url": "socks5://p"}},
        r"proxy-url: only http and https proxies",
    ),
    "a certificate without a key": (
        {"user": {"client-certificate-data": "YQ=="}},
        r"users\[u\]\.user\.client-key is missing",
    ),
    "a token that is a number": ({"user": {"token": 7}}, r"users\[u\]\.user\.token must be a text, not 7"),
    "an old provider": ({"user": {"auth-provider": {"name": "gcp"}}}, r"auth-provider is no longer a part"),
    "a plug-in without a command": ({"user": {"exec": {"apiVersion": V1}}}, r"user\.exec\.command is missing"),
    "a plug-in of an unknown version": (
        {"user": {"exec": {"apiVersion": "v7", "command": "x"}}},
        r"exec\.apiVersion must be .*/v1 or .*/v1beta1, not 'v7'",
    ),
    "a plug-in that must ask": (
        {"user": {"exec": {"apiVersion": V1, "command": "x", "interactiveMode": "Always"}}},
        r"interactiveMode is Always, but there is nobody to ask",
    ),
    "a variable without a value": (
        {"user": {"exec": {"apiVersion": V1, "command": "x", "env": [{"name": "A"}]}}},
        r"exec\.env\[0\] must have a name and a value",
    ),
    "arguments that are not texts": (
        {"user": {"exec": {"apiVersion": V1, "command": "x", "args": ["a", 1]}}},
        r"exec\.args\[1\] must be a text, not 1",
    ),
    "groups of nobody": ({"user": {"as-groups": ["g"]}}, r"user\.as is missing"),
    "a user that is not there": ({"context": {"user": "v"}}, r"context\.user 'v' is not among the users: u"),
    "a cluster that is not there": (
        {"context": {"cluster": "d"}},
        r"context\.cluster 'd' is not among the clusters: c",
    ),
    "a user that is a list": ({"user": [1]}, r"users\[u\]\.user must have fields"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_refused_with_file_and_field(tmp_path: Path, case: str) -> None:
    fields, message = BAD[case]
    path = complete(tmp_path / "the-file", **fields)

    with pytest.raises(ConfigError, match=message) as raised:
        load(path)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not YAML"),
        ("[]", "is not a kubeconfig"),
        ("kind: Pod", "kind is 'Pod', not Config"),
        ("{}", "current-context is not set. Contexts there are: none"),
        ("contexts: 7", "contexts must be a list"),
        ("contexts: [{}]", r"contexts\[0\].name is missing"),
        ("current-context: x", "context 'x' is not among the contexts: none"),
    ],
)
def test_a_file_that_is_no_kubeconfig_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "the-file"
    path.write_text(text)

    with pytest.raises(ConfigError, match=message) as raised:
        load(path)
    assert str(path) in str(raised.value)


def test_a_named_file_that_is_missing_is_an_error_and_a_listed_one_is_not(tmp_path: Path) -> None:
    there = complete(tmp_path / "there")

    assert load(environ={"KUBECONFIG": f"{tmp_path / 'missing'}:{there}"}).server == "https://one:6443"
    with pytest.raises(ConfigError, match=r"missing cannot be read: No such file"):
        load(tmp_path / "missing")
    with pytest.raises(ConfigError, match="is not among the contexts: x"):
        load(there, context="y")


def test_json_is_as_good_as_yaml(tmp_path: Path) -> None:
    path = complete(tmp_path / "config")
    path.write_text(json.dumps(yaml.safe_load(path.read_text())))

    assert load(path).server == "https://one:6443"
