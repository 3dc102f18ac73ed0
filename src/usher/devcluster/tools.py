"""Programs that tests need and a control plane does not, built like its parts: Helm, with which the chart is rendered.

A module of its own pins each (`<name>/go.mod` beside this file), so that `usher up` never waits for one.
`USHER_HELM` names a program that is used instead.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from usher.devcluster.errors import DevClusterError
from usher.devcluster.parts import Say, key_of, missing_in, pins, say_on_stderr, version_of
from usher.devcluster.places import cache_dir


@dataclass(frozen=True)
class Tool:
    """A program, the module that it is in, and its package."""

    name: str
    module: str
    package: str

    @property
    def override(self) -> str:
        """The environment variable that names another one."""
        return f"USHER_{self.name.upper()}"

    @property
    def directory(self) -> Path:
        """Where it is, or will be once it is built."""
        return (
            cache_dir() / "tools" / f"{self.name}-{version_of(self.module, self.name)}-{key_of(self.name, ['-s -w'])}"
        )


HELM = Tool("helm", "helm.sh/helm/v4", "helm.sh/helm/v4/cmd/helm")


def find_tool(tool: Tool, say: Say = say_on_stderr) -> str:
    """The path of a tool; builds it (minutes, the first time) if the cache lacks it."""
    if given := os.environ.get(tool.override):
        if not os.access(given, os.X_OK):
            raise DevClusterError(
                f"{tool.override} names {given}, which is no program. Unset it: Usher builds its own."
            )
        return given
    if missing_in(tool.directory, [tool.name]):
        from usher.devcluster.build import Recipe, build  # only a cold start needs it

        recipe = Recipe(tool.name, pins(tool.name), {tool.name: tool.package}, "-s -w", "3 to 4 minutes")
        build(recipe, tool.directory, say)
    return str(tool.directory / tool.name)
