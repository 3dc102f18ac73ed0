"""Where the API server is and who we are to it, as frozen data. What reads files and runs programs is elsewhere.

`kubeconfig.load` and `incluster.load` make these; `Client` takes one. A `Config` for a server that needs nothing is
`Config("http://127.0.0.1:8080")`.
"""

from pathlib import Path

from msgspec import Struct

from usher.kube.errors import ConfigError


class Pem(Struct, frozen=True):
    """A certificate or key: the data itself, or the file that has it (which may be replaced while we run).

    `field` says where it was configured, for messages.
    """

    data: bytes | None = None
    path: Path | None = None
    field: str = "certificate"

    def __repr__(self) -> str:
        return f"Pem({self.field})"

    def read(self) -> bytes:
        """What it is now."""
        if self.data is not None:
            return self.data
        assert self.path is not None, "a Pem has data or a path"
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise ConfigError(f"{self.field}: {self.path} cannot be read: {error.strerror}") from error


class ExecPlugin(Struct, frozen=True):
    """A program that gives credentials when asked."""

    command: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    api_version: str = "client.authentication.k8s.io/v1"
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive: str = "IfAvailable"
    cluster: "ClusterInfo | None" = None
    source: str = "exec"


class ClusterInfo(Struct, frozen=True):
    """What an exec plug-in that asks for it is told about the cluster."""

    server: str
    certificate_authority: Pem | None = None
    insecure: bool = False
    server_name: str = ""
    proxy_url: str = ""
    extension: object = None


class Impersonation(Struct, frozen=True):
    """Whom to act as."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class User(Struct, frozen=True):
    """Who we are: none, one or more of a client certificate, a token, a file with a token, a program that knows."""

    certificate: Pem | None = None
    key: Pem | None = None
    token: str = ""
    token_file: Path | None = None
    username: str = ""
    password: str = ""
    exec: ExecPlugin | None = None
    impersonate: Impersonation | None = None

    def __repr__(self) -> str:
        return f"User(certificate={self.certificate}, username={self.username!r}, impersonate={self.impersonate})"


class Config(Struct, frozen=True):
    """All that is needed to talk to one API server."""

    server: str
    namespace: str = "default"
    user: User = User()
    certificate_authority: Pem | None = None
    insecure: bool = False
    server_name: str = ""
    proxy_url: str = ""
    source: str = "the configuration"
