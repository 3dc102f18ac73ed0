"""The credentials that Kubernetes gives to a pod: its service account's token, which changes, and the authority."""

from collections.abc import Mapping
from pathlib import Path

from usher.kube.config import Config, Pem, User
from usher.kube.errors import ConfigError

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HOST, PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


def inside(environ: Mapping[str, str]) -> bool:
    """Whether this is a pod."""
    return bool(environ.get(HOST)) and bool(environ.get(PORT))


def load(environ: Mapping[str, str], account: Path = ACCOUNT) -> Config:
    """The configuration of the pod we run in."""
    if not inside(environ):
        raise ConfigError(f"This is not a pod: {HOST} and {PORT} are not set.")
    for name in ("token", "ca.crt"):
        if not (account / name).is_file():
            raise ConfigError(f"{account / name} is missing: is automountServiceAccountToken off for this pod?")
    host = environ[HOST]
    namespace = account / "namespace"
    return Config(
        server=f"https://{f'[{host}]' if ':' in host else host}:{environ[PORT]}",
        namespace=namespace.read_text().strip() if namespace.is_file() else "default",
        user=User(token_file=account / "token"),
        certificate_authority=Pem(path=account / "ca.crt", field="the pod's service account"),
        source=str(account),
    )
