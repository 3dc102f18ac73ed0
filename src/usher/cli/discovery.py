"""Where the API server has a kind that we were not built with: asked of the server itself, as kubectl does it."""

from __future__ import annotations

import json

import click

from usher.cli.kinds import Object
from usher.kube.client import Client
from usher.kube.errors import NotFound
from usher.kube.resource import Resource, untyped


async def resource_for(client: Client, api_version: str, kind: str) -> Resource[Object]:
    """The resource of a kind; says so if the server has none."""
    group, _, version = api_version.rpartition("/")
    try:
        answer = await client.raw("GET", f"/apis/{group}/{version}" if group else f"/api/{version}")
    except NotFound:
        raise click.ClickException(f"The server has no {api_version}: is the operator of {kind} installed?") from None
    for each in json.loads(answer).get("resources", ()):
        if each.get("kind") == kind and "/" not in each["name"]:
            return untyped(group, version, each["name"], kind, namespaced=bool(each.get("namespaced")))
    raise click.ClickException(f"The server has no kind {kind} in {api_version}: look for a typing error.")
