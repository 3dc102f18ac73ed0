"""Every kind of credentials against the real API server, which says whom it sees."""

import asyncio
import base64
import json
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from usher.devcluster import Kubectl
from usher.devcluster.clusters import Cluster
from usher.kube import Client, Config, load
from usher.kube.config import Pem
from usher.kube.credentials import REREAD_S, Credentials
from usher.kube.errors import ConfigError, ConnectionLost, Forbidden, Unauthorized
from usher.kube.incluster import load as load_incluster

REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


@asynccontextmanager
async def using(config: Config) -> AsyncIterator[Client]:
    async with Client(config, user_agent="usher-tests", field_manager="tests") as client:
        yield client


async def seen_by(client: Client) -> dict[str, Any]:
    """Whom the server takes us for."""
    answer = await client.raw("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=REVIEW)
    info: dict[str, Any] = json.loads(answer)["status"]["userInfo"]
    return info


async def user_of(config: Config) -> dict[str, Any]:
    async with using(config) as client:
        return await seen_by(client)


class Writer:
    """Writes kubeconfigs for the run's server, with other users."""

    def __init__(self, cluster: Cluster, home: Path) -> None:
        self.cluster, self.home = cluster, home
        self._made = json.loads(cluster.kubeconfig.read_text())

    def config(self, user: dict[str, Any], **of_cluster: Any) -> Config:
        made = json.loads(json.dumps(self._made))
        made["users"][0]["user"] = user
        made["clusters"][0]["cluster"] |= of_cluster
        path = self.home / "kubeconfig"
        path.write_text(json.dumps({**made, "clusters": [_without_nulls(made["clusters"][0])]}))
        return load(path)

    def certificate(self, user: str, group: str = "") -> dict[str, str]:
        made = self.cluster.authority.identity(f"test-{user}-{self.home.name}", user, group)
        return {"client-certificate": str(made.certificate), "client-key": str(made.key)}

    def pems(self, user: str) -> dict[str, bytes]:
        return {key: Path(name).read_bytes() for key, name in self.certificate(user).items()}

    def plugin(self, script: str, **more: Any) -> dict[str, Any]:
        """An exec plug-in: a Python script in which `info` is what it was told."""
        path = self.home / "plugin"
        head = f"#!{sys.executable}\nimport json, os, sys\ninfo = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        path.write_text(head + script)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin", **more}}


def _without_nulls(named: dict[str, Any]) -> dict[str, Any]:
    return {**named, "cluster": {key: value for key, value in named["cluster"].items() if value is not None}}


GIVE = "print(json.dumps({'apiVersion': info['apiVersion'], 'kind': 'ExecCredential', 'status': STATUS}))\n"


@pytest.fixture
def writer(control_plane: Cluster, tmp_path: Path) -> Writer:
    return Writer(control_plane, tmp_path)


@pytest.fixture
async def token(kubectl: Kubectl) -> str:
    await kubectl("create", "serviceaccount", "robot")
    return (await kubectl("create", "token", "robot")).strip()


def robot(kubectl: Kubectl) -> str:
    return f"system:serviceaccount:{kubectl.namespace}:robot"


async def test_a_client_certificate_from_files_says_who_we_are(writer: Writer) -> None:
    info = await user_of(writer.config(writer.certificate("jane", "team")))

    assert info["username"] == "jane"
    assert info["groups"] == ["team", "system:authenticated"]


async def test_a_client_certificate_from_data_says_who_we_are(writer: Writer) -> None:
    data = {f"{key}-data": base64.b64encode(pem).decode() for key, pem in writer.pems("joe").items()}

    assert (await user_of(writer.config(data)))["username"] == "joe"


async def test_a_certificate_that_was_replaced_is_taken_up(writer: Writer, tmp_path: Path) -> None:
    files = {"client-certificate": str(tmp_path / "me.crt"), "client-key": str(tmp_path / "me.key")}

    def become(user: str) -> None:
        made = writer.certificate(user)
        for key, path in files.items():
            Path(path).write_bytes(Path(made[key]).read_bytes())

    become("first")
    now = 0.0
    credentials = Credentials(writer.config(files), clock=lambda: now)
    first = await credentials.current()
    become("second")
    assert await credentials.current() is first, "files are not read for every request"
    now = REREAD_S
    second = await credentials.current()

    assert second.tls is not first.tls
    now = 2 * REREAD_S
    assert (await credentials.current()).tls is second.tls, "connections are kept while nothing changes"


async def test_a_token_says_who_we_are(writer: Writer, kubectl: Kubectl, token: str) -> None:
    assert (await user_of(writer.config({"token": token})))["username"] == robot(kubectl)


async def test_a_made_up_token_is_unauthorized(writer: Writer) -> None:
    with pytest.raises(Unauthorized) as raised:
        await user_of(writer.config({"token": "made-up"}))

    assert (raised.value.status, raised.value.reason) == (401, "Unauthorized")


async def test_a_token_file_is_read_again_after_401(
    writer: Writer, kubectl: Kubectl, token: str, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text("expired\n")
    async with using(writer.config({"tokenFile": "token"})) as client:
        with pytest.raises(Unauthorized):
            await seen_by(client)
        file.write_text(f"{token}\n")

        assert (await seen_by(client))["username"] == robot(kubectl)


async def test_a_token_file_is_read_again_after_a_minute_and_missed_for_a_while(writer: Writer, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    now = 0.0
    credentials = Credentials(writer.config({"tokenFile": "token"}), clock=lambda: now)
    assert ("Authorization", "Bearer one") in (await credentials.current()).headers
    file.write_text("two")
    assert ("Authorization", "Bearer one") in (await credentials.current()).headers
    now = REREAD_S
    assert ("Authorization", "Bearer two") in (await credentials.current()).headers
    file.unlink()
    now = 2 * REREAD_S
    assert ("Authorization", "Bearer two") in (await credentials.current()).headers


async def test_a_token_file_that_never_was_is_named(writer: Writer, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"tokenFile {tmp_path}/no-token cannot be read: No such file"):
        await user_of(writer.config({"tokenFile": "no-token"}))


async def test_a_pod_finds_its_own_credentials(
    writer: Writer, kubectl: Kubectl, token: str, control_plane: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text(token)
    (tmp_path / "ca.crt").write_bytes(control_plane.authority.certificate.read_bytes())
    (tmp_path / "namespace").write_text(kubectl.namespace or "")
    host, port = writer.config({}).server.removeprefix("https://").split(":")
    environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
    config = load_incluster(environ, tmp_path)

    assert config.namespace == kubectl.namespace
    assert (await user_of(config))["username"] == robot(kubectl)


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_a_plug_in_gives_a_token(writer: Writer, kubectl: Kubectl, token: str, version: str) -> None:
    api = f"client.authentication.k8s.io/{version}"
    script = "STATUS = {'token': sys.argv[1] + os.environ['REST']}\nassert info['spec'] == {'interactive': False}\n"
    env = [{"name": "REST", "value": token[10:]}]
    user = writer.plugin(script + GIVE, apiVersion=api, args=[token[:10]], env=env)

    assert (await user_of(writer.config(user)))["username"] == robot(kubectl)


async def test_a_plug_in_gives_a_client_certificate(writer: Writer) -> None:
    pems = writer.pems("by-plugin")
    texts = {
        "clientCertificateData": pems["client-certificate"].decode(),
        "clientKeyData": pems["client-key"].decode(),
    }

    user = writer.plugin(f"STATUS = {texts!r}\n" + GIVE)
    assert (await user_of(writer.config(user)))["username"] == "by-plugin"


async def test_a_plug_in_that_asks_is_told_about_the_cluster(
    writer: Writer, kubectl: Kubectl, token: str, tmp_path: Path
) -> None:
    script = f"open({str(tmp_path / 'told')!r}, 'w').write(json.dumps(info))\nSTATUS = {{'token': {token!r}}}\n"
    config = writer.config(writer.plugin(script + GIVE, provideClusterInfo=True))
    assert (await user_of(config))["username"] == robot(kubectl)
    cluster = json.loads((tmp_path / "told").read_text())["spec"]["cluster"]

    assert cluster["server"] == config.server
    assert b"BEGIN CERTIFICATE" in base64.b64decode(cluster["certificate-authority-data"])


async def test_a_plug_in_runs_again_only_when_its_token_expires_or_is_refused(
    writer: Writer, kubectl: Kubectl, token: str, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    script = f"""
import pathlib
runs = pathlib.Path({str(runs)!r})
n = len(runs.read_text()) + 1 if runs.exists() else 1
runs.write_text("x" * n)
STATUS = {{"token": "refused" if n == 1 else {token!r}}}
if n == 2:
    STATUS["expirationTimestamp"] = "2000-01-01T00:00:00Z"
"""

    async with using(writer.config(writer.plugin(script + GIVE))) as client:
        assert (await seen_by(client))["username"] == robot(kubectl)
        assert runs.read_text() == "xxx", "refused, then good but expired, then good"
        await asyncio.gather(*(seen_by(client) for _ in range(5)))
        assert runs.read_text() == "xxx", "what is good is kept"


BAD_PLUGINS = {
    "it fails": ("sys.exit('log in first')\n", r"plugin ended with 1: log in first\nrun: login"),
    "it prints nonsense": ("print('hello')\n", r"plugin printed no ExecCredential"),
    "it gives nothing": ("STATUS = {}\n" + GIVE, r"gave neither a token nor a client certificate"),
    "it gives half a pair": ("STATUS = {'clientKeyData': 'x'}\n" + GIVE, r"without its key, or a key alone"),
    "it speaks another version": ("info['apiVersion'] = 'v9'\nSTATUS = {'token': 'x'}\n" + GIVE, r" v9, wanted"),
}


@pytest.mark.parametrize("case", BAD_PLUGINS)
async def test_a_plug_in_that_does_not_work_is_named_with_its_hint(writer: Writer, case: str) -> None:
    script, message = BAD_PLUGINS[case]
    config = writer.config(writer.plugin(script, installHint="run: login"))

    with pytest.raises(ConfigError, match=message) as raised:
        await user_of(config)
    assert str(raised.value).startswith(f"{config.source}: users[admin].user.exec: ")
    assert str(raised.value).endswith("\nrun: login")


async def test_a_plug_in_that_is_not_installed_gives_the_hint(writer: Writer) -> None:
    user = {
        "exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-thing", "installHint": "Get X."}
    }

    with pytest.raises(ConfigError, match=r"no-such-thing cannot be run: No such file or directory\nGet X\.$"):
        await user_of(writer.config(user))


async def test_the_admin_can_act_as_somebody_else(control_plane: Cluster, writer: Writer) -> None:
    admin = json.loads(control_plane.kubeconfig.read_text())["users"][0]["user"]
    extra = {"as": "jane", "as-groups": ["a", "b"], "as-user-extra": {"scopes": ["x", "y"]}}
    async with using(writer.config(admin | extra)) as client:
        info = await seen_by(client)
        with pytest.raises(Forbidden, match='User "jane" cannot list resource "nodes"'):
            await client.raw("GET", "/api/v1/nodes")

    assert info["username"] == "jane"
    assert info["groups"][:2] == ["a", "b"]
    assert sorted(info["extra"]["scopes"]) == ["x", "y"]


async def test_the_servers_certificate_must_be_signed_by_the_authority(writer: Writer, control_plane: Cluster) -> None:
    user = writer.certificate("jane")
    for trusting in ({"certificate-authority": None}, {"certificate-authority": user["client-certificate"]}):
        with pytest.raises(ConnectionLost, match=r"(?i)certificate verify failed|certificate") as raised:
            await user_of(writer.config(user, **trusting))
        assert not raised.value.sent


async def test_a_server_may_be_trusted_blindly(writer: Writer) -> None:
    config = writer.config(
        writer.certificate("jane"), **{"certificate-authority": None, "insecure-skip-tls-verify": True}
    )

    assert (await user_of(config))["username"] == "jane"


async def test_the_name_in_the_servers_certificate_can_be_said(writer: Writer) -> None:
    user = writer.certificate("jane")

    assert (await user_of(writer.config(user, **{"tls-server-name": "kubernetes.default"})))["username"] == "jane"
    with pytest.raises(ConnectionLost, match=r"(?i)hostname mismatch|certificate"):
        await user_of(writer.config(user, **{"tls-server-name": "another.example"}))


async def test_a_certificate_or_key_that_is_none_is_named(writer: Writer) -> None:
    config = writer.config(writer.certificate("jane"))
    junk = Pem(data=b"junk", field="the-field")

    with pytest.raises(ConfigError, match="the-field: not a PEM certificate"):
        await user_of(structs.replace(config, certificate_authority=junk))
    with pytest.raises(
        ConfigError, match=r"client-certificate and the-field: not a PEM certificate and its unencrypted key"
    ):
        await user_of(structs.replace(config, user=structs.replace(config.user, key=junk)))


async def test_a_proxy_is_used_when_it_is_said(writer: Writer) -> None:
    asked: list[str] = []

    async def serve(reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        request = (await reader.readuntil(b"\r\n\r\n")).split()[:2]
        asked.append(b" ".join(request).decode())
        host, port = request[1].decode().split(":")
        there_in, there_out = await asyncio.open_connection(host, int(port))
        out.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(pump(reader, there_out), pump(there_in, out))

    async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            sink.write(data)
        sink.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    config = writer.config(writer.certificate("jane"), **{"proxy-url": f"http://127.0.0.1:{port}"})

    assert (await user_of(config))["username"] == "jane"
    assert asked == [f"CONNECT {config.server.removeprefix('https://')}"]
    server.close()
    await server.wait_closed()
