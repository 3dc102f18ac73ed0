"""The command line of each component: pure functions from a layout (directory, ports, identities) to arguments.

Everything listens on loopback only. The rule about data: a temporary control plane may lose its data at a power cut
(etcd without fsync, several times faster); one on a directory that its owner named may not.
"""

import json
import socket
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from usher.devcluster.parts import Parts
from usher.devcluster.pki import Authority, Identity

LOOPBACK = "127.0.0.1"
SERVICES = "127.64.0.0/16"
"""Addresses of Services: loopback, too, so that whoever listens at one is reached, and nothing leaves the machine."""
CLIENTS = {
    "admin": ("kubernetes-admin", "system:masters"),
    "kube-controller-manager": ("system:kube-controller-manager", ""),
    "kube-scheduler": ("system:kube-scheduler", ""),
    "kwok": ("usher:kwok", "system:masters"),
}
"""Who gets a kubeconfig: its file name, and the user and group it authenticates as."""


@dataclass(frozen=True)
class Ports:
    """One free port for everything that listens."""

    etcd: int
    etcd_peer: int
    apiserver: int
    controller_manager: int
    scheduler: int


def free_ports() -> Ports:
    """Ports that nobody uses now. Somebody may take one before its component starts; then the start is tried again."""
    sockets = [socket.socket() for _ in range(5)]
    try:
        for each in sockets:
            each.bind((LOOPBACK, 0))
        return Ports(*(each.getsockname()[1] for each in sockets))
    finally:
        for each in sockets:
            each.close()


@dataclass(frozen=True)
class Layout:
    """One control plane on disk and on the network: what the arguments are made from."""

    directory: Path
    ports: Ports
    authority: Authority
    server: Identity
    keeps_data: bool

    @property
    def url(self) -> str:
        """Where the API server answers."""
        return f"https://{LOOPBACK}:{self.ports.apiserver}"

    def kubeconfig(self, name: str) -> Path:
        """The kubeconfig file of one of `CLIENTS`; the admin's is the one that people use."""
        return self.directory / ("kubeconfig" if name == "admin" else f"pki/{name}.kubeconfig")

    def log(self, name: str) -> Path:
        """Where a component's output goes."""
        return self.directory / "logs" / f"{name}.log"


def write_kubeconfigs(layout: Layout) -> None:
    """Give every client an identity and a kubeconfig (JSON, which is YAML) that names it."""
    for name, (user, group) in CLIENTS.items():
        identity = layout.authority.identity(name, user, group)
        files_of_user = {"client-certificate": str(identity.certificate), "client-key": str(identity.key)}
        cluster = {"server": layout.url, "certificate-authority": str(layout.authority.certificate)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "usher", "cluster": cluster}],
            "users": [{"name": name, "user": files_of_user}],
            "contexts": [{"name": "usher", "context": {"cluster": "usher", "user": name}}],
            "current-context": "usher",
        }
        path = layout.kubeconfig(name)
        path.touch(mode=0o600)
        path.write_text(json.dumps(config, indent=2) + "\n")


def command_lines(layout: Layout, parts: Parts) -> dict[str, list[str]]:
    """Every component that runs, by name, in starting order."""
    makers = {
        "etcd": _etcd,
        "kube-apiserver": _apiserver,
        "kube-controller-manager": _controller_manager,
        "kube-scheduler": _scheduler,
        "kwok": _kwok,
    }
    return {name: [parts.path(name), *maker(layout)] for name, maker in makers.items()}


def _etcd(layout: Layout) -> list[str]:
    client, peer = (f"https://{LOOPBACK}:{port}" for port in (layout.ports.etcd, layout.ports.etcd_peer))
    certificate, key, authority = layout.server.certificate, layout.server.key, layout.authority.certificate
    arguments = [
        "--name=default",
        f"--data-dir={layout.directory / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--log-level=warn",
        "--quota-backend-bytes=8589934592",
    ]
    for side in ("", "peer-"):
        arguments += [f"--{side}cert-file={certificate}", f"--{side}key-file={key}"]
        arguments += [f"--{side}trusted-ca-file={authority}", f"--{side}client-cert-auth"]
    return arguments if layout.keeps_data else [*arguments, "--unsafe-no-fsync"]


def _apiserver(layout: Layout) -> list[str]:
    certificate, key, authority = layout.server.certificate, layout.server.key, layout.authority.certificate
    accounts = layout.authority.service_account_key()
    return [
        f"--etcd-servers=https://{LOOPBACK}:{layout.ports.etcd}",
        f"--etcd-cafile={authority}",
        f"--etcd-certfile={certificate}",
        f"--etcd-keyfile={key}",
        f"--bind-address={LOOPBACK}",
        f"--advertise-address={LOOPBACK}",
        f"--secure-port={layout.ports.apiserver}",
        "--endpoint-reconciler-type=none",  # the Endpoints of `kubernetes` may not be a loopback address
        f"--client-ca-file={authority}",
        f"--tls-cert-file={certificate}",
        f"--tls-private-key-file={key}",
        "--authorization-mode=Node,RBAC",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={accounts}",
        f"--service-account-signing-key-file={accounts}",
        f"--service-cluster-ip-range={SERVICES}",
        "--allow-privileged=true",
    ]


def _controller_manager(layout: Layout) -> list[str]:
    config, authority = layout.kubeconfig("kube-controller-manager"), layout.authority
    return [
        f"--kubeconfig={config}",
        *_own_server(layout, config, layout.ports.controller_manager),
        "--leader-elect=false",
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={authority.service_account_key()}",
        f"--root-ca-file={authority.certificate}",
        f"--cluster-signing-cert-file={authority.certificate}",
        f"--cluster-signing-key-file={authority.key}",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
        "--concurrent-job-syncs=20",
    ]


def _scheduler(layout: Layout) -> list[str]:
    config = layout.kubeconfig("kube-scheduler")
    return [
        f"--kubeconfig={config}",
        *_own_server(layout, config, layout.ports.scheduler),
        "--leader-elect=false",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
    ]


def _own_server(layout: Layout, config: Path, port: int) -> list[str]:
    return [
        f"--authentication-kubeconfig={config}",
        f"--authorization-kubeconfig={config}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        f"--tls-cert-file={layout.server.certificate}",
        f"--tls-private-key-file={layout.server.key}",
    ]


def _kwok(layout: Layout) -> list[str]:
    stages = layout.directory / "pki" / "stages.yaml"
    stages.write_bytes((files("usher.devcluster") / "stages.yaml").read_bytes())
    return [
        f"--kubeconfig={layout.kubeconfig('kwok')}",
        f"--config={stages}",
        "--manage-all-nodes=true",
        "--node-port=0",  # it serves nothing: what it does is seen in the API
        "--node-lease-duration-seconds=40",
    ]
