"""kubeconfig files: found, merged and read as kubectl does it, into a `Config`.

`load()` is what a command line calls: the file it was given, else the files that KUBECONFIG lists, else the one in the
home directory, else the credentials of the pod we run in. Of several files, the first that says something wins;
relative paths are relative to the file that says them. Every error names the file and the field.
"""

import base64
import binascii
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct, structs

from usher.kube import incluster
from usher.kube.config import ClusterInfo, Config, ExecPlugin, Impersonation, Pem, User
from usher.kube.errors import ConfigError
from usher.kube.exec import VERSIONS

KINDS = ("clusters", "users", "contexts")
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""In C where it is there: files with many clusters hold long certificates."""
EXTENSION = "client.authentication.k8s.io/exec"


def load(
    path: Path | str | None = None,
    *,
    context: str | None = None,
    cluster: str | None = None,
    user: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> Config:
    """The configuration to use, of a context or of the current one, with another cluster or user if these are named."""
    environ = os.environ if environ is None else environ
    paths = [Path(path)] if path else _listed(environ)
    files = [_read(each) for each in paths if path or each.exists()]
    if not files:
        if incluster.inside(environ):
            return incluster.load(environ)
        looked = ", ".join(str(each) for each in paths) or "nor a home directory to look in"
        raise ConfigError(f"There is no kubeconfig ({looked}), and this is not a pod. Set KUBECONFIG, or name a file.")
    return _config(files, context, cluster, user)


def _listed(environ: Mapping[str, str]) -> list[Path]:
    listed = [Path(each) for each in environ.get("KUBECONFIG", "").split(os.pathsep) if each]
    if listed:
        return listed
    try:
        return [Path(environ.get("HOME") or Path.home()) / ".kube" / "config"]
    except RuntimeError:  # no HOME, and nobody knows this user: a container may run as any number
        return []


class _Part(Struct, frozen=True):
    """A mapping in a file, which knows where it is."""

    file: Path
    where: str
    data: Mapping[str, Any]

    def at(self, key: str) -> str:
        return f"{self.file}: {self.where}.{key}" if self.where else f"{self.file}: {key}"

    def text(self, key: str) -> str:
        value = self.data.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise ConfigError(f"{self.at(key)} must be a text, not {value!r}")
        return value

    def flag(self, key: str) -> bool:
        value = self.data.get(key) or False
        if not isinstance(value, bool):
            raise ConfigError(f"{self.at(key)} must be true or false, not {value!r}")
        return value

    def list(self, key: str) -> list[Any]:
        value = self.data.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise ConfigError(f"{self.at(key)} must be a list, not {value!r}")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        values = self.list(key)
        for number, value in enumerate(values):
            if not isinstance(value, str):
                raise ConfigError(f"{self.at(key)}[{number}] must be a text, not {value!r}")
        return tuple(values)

    def part(self, key: str) -> "_Part | None":
        value = self.data.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise ConfigError(f"{self.at(key)} must have fields, not be {value!r}")
        return _Part(self.file, f"{self.where}.{key}" if self.where else key, value)

    def path(self, key: str) -> Path | None:
        """A file named here; kubectl takes relative ones from the directory of the kubeconfig."""
        name = self.text(key)
        return self.file.parent / name if name else None

    def pem(self, key: str) -> Pem | None:
        """`key` as a file, or `key`-data, which wins."""
        data = self.text(f"{key}-data")
        if data:
            try:
                return Pem(data=base64.b64decode(data, validate=True), field=self.at(f"{key}-data"))
            except binascii.Error as error:
                raise ConfigError(f"{self.at(f'{key}-data')} is not base64: {error}") from error
        path = self.path(key)
        if path is not None and not path.is_file():
            raise ConfigError(f"{self.at(key)}: there is no file {path}")
        return Pem(path=path, field=self.at(key)) if path else None


def _read(path: Path) -> _Part:
    path = path.absolute()
    try:
        data = yaml.load(path.read_text(), Loader=LOADER)  # noqa: S506 - both loaders are safe ones
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not YAML: {error}") from error
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise ConfigError(f"{path} is not a kubeconfig: it must have fields")
    kind = data.get("kind", "Config")
    if kind != "Config":
        raise ConfigError(f"{path}: kind is {kind!r}, not Config")
    return _Part(path, "", data)


def _config(files: list[_Part], context_name: str | None, cluster_name: str | None, user_name: str | None) -> Config:
    named = {kind: _named(files, kind) for kind in KINDS}
    current = context_name or next((text for file in files if (text := file.text("current-context"))), "")
    where = ", ".join(str(file.file) for file in files)
    if not current:
        have = ", ".join(sorted(named["contexts"])) or "none"
        raise ConfigError(f"{where}: current-context is not set. Contexts there are: {have}")
    context = _find(named["contexts"], current, "contexts", f"{where}: context")
    at = f"{where}: cluster" if cluster_name else context.at("cluster")
    cluster = _find(named["clusters"], cluster_name or context.text("cluster"), "clusters", at)
    at = f"{where}: user" if user_name else context.at("user")
    user_name = user_name or context.text("user")
    user = _find(named["users"], user_name, "users", at) if user_name else None
    server = cluster.text("server")
    if not server.startswith(("https://", "http://")):
        raise ConfigError(f"{cluster.at('server')} must begin with https:// or http://, not be {server!r}")
    config = Config(
        server=server.rstrip("/"),
        namespace=context.text("namespace") or "default",
        certificate_authority=cluster.pem("certificate-authority"),
        insecure=cluster.flag("insecure-skip-tls-verify"),
        server_name=cluster.text("tls-server-name"),
        proxy_url=_proxy(cluster),
        source=where,
    )
    if config.insecure and config.certificate_authority:
        raise ConfigError(f"{cluster.at('insecure-skip-tls-verify')} cannot be true beside a certificate-authority")
    return structs.replace(config, user=_user(user, config, cluster)) if user else config


def _named(files: list[_Part], kind: str) -> dict[str, _Part]:
    """Every named entry; the first file that has a name decides what it is."""
    found: dict[str, _Part] = {}
    for file in files:
        for number, entry in enumerate(file.list(kind)):
            name = entry.get("name") if isinstance(entry, dict) else None
            if not isinstance(name, str):
                raise ConfigError(f"{file.file}: {kind}[{number}].name is missing")
            part = _Part(file.file, f"{kind}[{name}]", entry)
            found.setdefault(name, part.part(kind[:-1]) or structs.replace(part, data={}))
    return found


def _find(named: dict[str, _Part], name: str, kind: str, where: str) -> _Part:
    if name not in named:
        have = ", ".join(sorted(named)) or "none"
        raise ConfigError(f"{where} {name!r} is not among the {kind}: {have}")
    return named[name]


def _proxy(cluster: _Part) -> str:
    url = cluster.text("proxy-url")
    if url and not url.startswith(("http://", "https://")):
        raise ConfigError(f"{cluster.at('proxy-url')}: only http and https proxies are supported, not {url!r}")
    return url


def _user(user: _Part, config: Config, cluster: _Part) -> User:
    if user.data.get("auth-provider"):
        raise ConfigError(f"{user.at('auth-provider')} is no longer a part of Kubernetes; use an exec plug-in")
    certificate, key = user.pem("client-certificate"), user.pem("client-key")
    if (certificate is None) != (key is None):
        missing = "client-key" if certificate else "client-certificate"
        raise ConfigError(f"{user.at(missing)} is missing: a client certificate needs its key")
    exec_ = user.part("exec")
    return User(
        certificate=certificate,
        key=key,
        token=user.text("token"),
        token_file=user.path("tokenFile"),
        username=user.text("username"),
        password=user.text("password"),
        exec=_exec(exec_, config, cluster) if exec_ else None,
        impersonate=_impersonation(user),
    )


def _impersonation(user: _Part) -> Impersonation | None:
    name, uid, groups, extra = user.text("as"), user.text("as-uid"), user.texts("as-groups"), user.part("as-user-extra")
    if not name:
        if uid or groups or extra:
            raise ConfigError(f"{user.at('as')} is missing: whose groups shall be used?")
        return None
    pairs = tuple((key, extra.texts(key)) for key in extra.data) if extra else ()
    return Impersonation(name, uid, groups, pairs)


def _exec(part: _Part, config: Config, cluster: _Part) -> ExecPlugin:
    command, version = part.text("command"), part.text("apiVersion")
    if not command:
        raise ConfigError(f"{part.at('command')} is missing")
    if version not in VERSIONS:
        raise ConfigError(f"{part.at('apiVersion')} must be {' or '.join(VERSIONS)}, not {version!r}")
    interactive = part.text("interactiveMode")
    if interactive == "Always":
        raise ConfigError(f"{part.at('interactiveMode')} is Always, but there is nobody to ask")
    if "/" in command and not command.startswith("/"):
        command = str(part.file.parent / command)
    return ExecPlugin(
        command=command,
        args=part.texts("args"),
        env=tuple(_variable(part, number, entry) for number, entry in enumerate(part.list("env"))),
        api_version=version,
        install_hint=part.text("installHint"),
        provide_cluster_info=part.flag("provideClusterInfo"),
        cluster=_cluster_info(config, cluster),
        source=f"{part.file}: {part.where}",
    )


def _variable(part: _Part, number: int, entry: Any) -> tuple[str, str]:
    match entry:
        case {"name": str(name), "value": str(value)}:
            return name, value
    raise ConfigError(f"{part.at('env')}[{number}] must have a name and a value")


def _cluster_info(config: Config, cluster: _Part) -> ClusterInfo:
    extensions: list[Any] = cluster.list("extensions")
    wanted: Callable[[Any], bool] = lambda each: isinstance(each, dict) and each.get("name") == EXTENSION  # noqa: E731
    extension = next((each.get("extension") for each in extensions if wanted(each)), None)
    return ClusterInfo(
        server=config.server,
        certificate_authority=config.certificate_authority,
        insecure=config.insecure,
        server_name=config.server_name,
        proxy_url=config.proxy_url,
        extension=extension,
    )
