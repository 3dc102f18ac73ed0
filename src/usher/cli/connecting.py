"""How a command reaches the cluster: kubectl's flags, one client, and errors that say what to do.

    @click.command()
    @connected
    def get(connection: Connection, ...) -> None:
        run(connection, lambda session: ...)

The rule: whatever goes wrong between us and the API server ends in one sentence on standard error and exit code 1,
Ctrl-C in exit code 130 and silence. Every command that talks to a cluster goes through `run`.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from msgspec import Struct, field, structs

from usher import __version__
from usher.api.names import GROUP
from usher.cli.main import INTERRUPTED
from usher.kube import errors as e
from usher.kube import kubeconfig
from usher.kube.carrying import Transport
from usher.kube.client import Client
from usher.kube.config import Config, Impersonation
from usher.kube.resource import BadNameError

FIELD_MANAGER: Final = "usher-cli"
REQUEST_TIMEOUT_S: Final = 30.0
NO_LIMIT_S: Final = 365 * 86_400.0
NO_OBJECT: Final = '" not found'
"""How the API server ends what it says of an object that is not there; of a kind that is not, it speaks otherwise."""

UNTRUSTED: Final = ("its certificate cannot be trusted", "CERTIFICATE_VERIFY_FAILED")
"""How the transports say it."""

T = TypeVar("T")
Command = Callable[..., Any]


class Connection(Struct, frozen=True):
    """What the flags say about the cluster, and as whom to talk to it."""

    kubeconfig: Path | None = None
    context: str | None = None
    cluster: str | None = None
    user: str | None = None
    namespace: str | None = None
    as_user: str | None = None
    as_groups: tuple[str, ...] = ()
    as_uid: str | None = None
    timeout_s: float = REQUEST_TIMEOUT_S

    def config(self) -> Config:
        """Where the server is and who we are; raises ConfigError."""
        found = kubeconfig.load(self.kubeconfig, context=self.context, cluster=self.cluster, user=self.user)
        if self.as_user:
            whom = Impersonation(self.as_user, uid=self.as_uid or "", groups=self.as_groups)
            found = structs.replace(found, user=structs.replace(found.user, impersonate=whom))
        elif self.as_groups or self.as_uid:
            raise e.ConfigError("--as-group and --as-uid need --as: say whose groups these are")
        return structs.replace(found, namespace=self.namespace) if self.namespace else found


class Session(Struct, frozen=True):
    """A client, and the namespace that is meant where none is said."""

    client: Client
    config: Config
    connection: Connection
    told: set[str] = field(default_factory=set)
    """Warnings of the server that need not be shown: they were, or something better was said."""

    @property
    def namespace(self) -> str:
        return self.config.namespace


class Seconds(click.ParamType[float]):
    """A duration in seconds; 0 is for ever, as kubectl has it."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        from usher.core.durations import DurationError, parse_ms  # takes longer to import than most commands need

        try:
            return parse_ms(value) / 1000 or NO_LIMIT_S
        except DurationError as error:
            self.fail(str(error), param, ctx)


_OPTIONS: Final = (
    click.option("--kubeconfig", "kubeconfig_file", type=click.Path(path_type=Path), help="Which kubeconfig to use."),
    click.option("--context", help="Which context of it."),
    click.option("--cluster", help="Another cluster of the kubeconfig than the context's."),
    click.option("--user", help="Another user of the kubeconfig than the context's."),
    click.option("-n", "--namespace", help="The namespace; without it, that of the context."),
    click.option("--as", "as_user", metavar="USER", help="Act as this user."),
    click.option("--as-group", "as_groups", multiple=True, metavar="GROUP", help="And as member of this group."),
    click.option("--as-uid", metavar="UID", help="And with this uid."),
    click.option(
        "--request-timeout",
        type=Seconds(),
        default=REQUEST_TIMEOUT_S,
        help="How long one request may take; 0: for ever.  [default: 30s]",
    ),
)


def connected(command: Command) -> Command:
    """Give a command kubectl's flags; it gets them as `connection`."""

    @functools.wraps(command)
    def with_connection(
        *args: Any,
        kubeconfig_file: Path | None,
        context: str | None,
        cluster: str | None,
        user: str | None,
        namespace: str | None,
        as_user: str | None,
        as_groups: tuple[str, ...],
        as_uid: str | None,
        request_timeout: float,
        **rest: Any,
    ) -> Any:
        connection = Connection(
            kubeconfig_file, context, cluster, user, namespace, as_user, as_groups, as_uid, request_timeout
        )
        return command(*args, connection=connection, **rest)

    wrapped: Command = with_connection
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


def run(connection: Connection, work: Callable[[Session], Awaitable[T]], *, waits: bool = False) -> T:
    """Do something with a client, from nothing to the end; errors become messages.

    `waits`: for more than answers (a watch, a time, several things at once), which needs an event loop. Importing one
    takes longer than most commands.
    """

    def act(config: Config) -> T:
        if not (waits or config.proxy_url or config.user.exec is not None):
            from usher.kube.blocking import BlockingTransport, drive

            transport = BlockingTransport(config.server, server_name=config.server_name)
            return drive(_with_client(config, connection, transport, work))
        import asyncio

        from usher.kube.plain import for_commands

        return asyncio.run(_with_client(config, connection, for_commands(config), work))

    try:
        return guarded(connection, act)
    except KeyboardInterrupt:
        raise click.exceptions.Exit(INTERRUPTED) from None


def guarded(connection: Connection, act: Callable[[Config], T]) -> T:
    """Act with the configuration that the flags mean; errors become messages."""
    config: Config | None = None
    try:
        config = connection.config()
        return act(config)
    except e.KubeError as error:
        raise click.ClickException(told(error, config)) from None
    except BadNameError as error:
        raise click.UsageError(f"{error}.") from None


async def _with_client(
    config: Config, connection: Connection, transport: Transport, work: Callable[[Session], Awaitable[T]]
) -> T:
    told = set[str]()

    def warn(text: str) -> None:
        from usher.cli.printing import plain

        if text not in told:
            told.add(text)
            click.echo(f"Warning: {plain(text)}", err=True)

    client = Client(
        config,
        user_agent=f"usher/{__version__}",
        field_manager=FIELD_MANAGER,
        timeout_s=connection.timeout_s,
        transport=transport,
        on_warning=warn,
    )
    async with client:
        return await work(Session(client, config, connection, told))


def is_missing(error: object) -> bool:
    """Whether an object of that name is not there; a kind that the server does not have is another matter."""
    return isinstance(error, e.NotFound) and error.message.endswith(NO_OBJECT)


def told(error: e.KubeError, config: Config | None) -> str:
    """What went wrong and what to do about it."""
    text = error.message.rstrip(". \n") + "."
    server, source = (config.server, config.source) if config is not None else ("", "")
    match error:
        case e.ConfigError():
            return error.message
        case e.ConnectionLost(sent=False):
            why = error.message.split(": ", 1)[-1].rstrip(".")
            if any(each in why for each in UNTRUSTED):
                why = why.replace(f"{UNTRUSTED[0]}: ", "")
                return (
                    f"The certificate of the API server cannot be trusted: {why}. Name the authority of {server} in "
                    f"{source}, as certificate-authority-data of the cluster."
                )
            return f"The API server cannot be reached: {why}. Is it up? Its address, {server}, is from {source}."
        case e.ConnectionLost():
            return f"{text} Whether it was carried out is not known: look before you try again."
        case e.Timeout():
            return f"{text} Give it more time with --request-timeout."
        case e.Unauthorized():
            return f"The API server does not know who you are ({error.message}). Renew your credentials in {source}."
        case e.Forbidden() if "denied the request" in error.message or "denied request" in error.message:
            return text
        case e.Forbidden() if GROUP in error.message:
            return (
                f"{text} Ask an administrator for a role that may (view reads what Usher has, usher-admin changes it)."
            )
        case e.Forbidden():
            return f"{text} Ask an administrator for a role that may."
        case e.NotFound() if not is_missing(error):
            return f"{server} does not have Usher's kinds. Install them with: usher install"
        case e.Conflict():
            return f"{text} Somebody changed it meanwhile: try again."
        case e.Throttled() | e.ServerError():
            return f"{text} Try again in a while."
        case _:
            return text
