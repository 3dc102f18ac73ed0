"""`/livez` and `/readyz` as in Kubernetes: `ok`, or with `?verbose` a line for each check; `?exclude=` leaves one out.

`/livez/<check>` asks one check. A failing check gives status 500 and says why, whether asked verbosely or not.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from aiohttp import web

from usher.server.asked import Check


def outcome(name: str, checks: Mapping[str, Check], excluded: Collection[str], verbose: bool) -> tuple[int, str]:
    """Status and text of an endpoint called `name`."""
    lines: list[str] = []
    failed = False
    for each, check in checks.items():
        if each in excluded:
            lines.append(f"[+]{each} excluded: ok")
            continue
        why = ask(check)
        failed = failed or bool(why)
        lines.append(f"[-]{each} failed: {why}" if why else f"[+]{each} ok")
    unknown = [each for each in excluded if each not in checks]
    if unknown:
        lines.append(f"warn: some health checks cannot be excluded: no matches for {', '.join(unknown)}")
    if failed:
        return 500, "\n".join([*lines, f"{name} check failed"]) + "\n"
    return 200, "\n".join([*lines, f"{name} check passed"]) + "\n" if verbose else "ok"


def ask(check: Check) -> str:
    """Why a check fails."""
    try:
        return check()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


class Health:
    """The handlers of one endpoint."""

    def __init__(self, name: str, checks: Mapping[str, Check]) -> None:
        self.name = name
        self._checks = checks

    async def all(self, request: web.Request) -> web.Response:
        excluded = request.query.getall("exclude", [])
        status, text = outcome(self.name, self._checks, excluded, "verbose" in request.query)
        return web.Response(status=status, text=text)

    async def one(self, request: web.Request) -> web.Response:
        name = request.match_info["check"]
        if name not in self._checks:
            return web.Response(status=404, text=f"no check {name}; there are {', '.join(self._checks) or 'none'}\n")
        status, text = outcome(name, {name: self._checks[name]}, (), "verbose" in request.query)
        return web.Response(status=status, text=text)
