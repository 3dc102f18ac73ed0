"""What one pod asks for: Kubernetes' effective request of a pod spec, as the scheduler will compute it.

The pod need not exist: this reads the template that it will be made from, and applies what the API server fills in
when a pod is created (a limit is the request where no request is given, in containers and in the pod). The rules are
those of `PodRequests` in component-helpers, in its order:

- containers, and init containers that restart (sidecars), add up;
- an ordinary init container needs itself and the sidecars before it; the largest such need counts if it is more;
- for cpu, memory and huge pages, a request of the whole pod replaces what its containers say;
- overhead comes on top.

LimitRange defaults and a RuntimeClass's overhead are written into the template before it comes here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from usher.core.amounts import add, amount_of_thousandths, parse_thousandths, quoted, raise_to, report


def effective_request(
    pod_spec: object, path: str = "spec.template.spec", errors: list[str] | None = None
) -> dict[str, int]:
    """The amounts that a pod of this spec takes, resources of zero included where they are named.

    Every bad field gives one text that begins with its path below `path`. They are added to `errors` if it is given
    (the answer then leaves them out); else AmountsError is raised with all of them.
    """
    found: list[str] = []
    spec = _mapping(pod_spec, path, found)
    total = _all_containers(spec, path, found)
    for resource, value in _pod_level(spec, path, found, total).items():
        total[resource] = value
    add(total, _resource_list(spec.get("overhead"), f"{path}.overhead", found))
    report(found, errors)
    return {resource: amount_of_thousandths(resource, value) for resource, value in total.items()}


def _all_containers(spec: Mapping[str, Any], path: str, found: list[str]) -> dict[str, int]:
    total: dict[str, int] = {}
    for container, where in _containers(spec, "containers", path, found):
        add(total, _own_request(container, where, found))
    sidecars: dict[str, int] = {}
    starting: dict[str, int] = {}
    for container, where in _containers(spec, "initContainers", path, found):
        request = _own_request(container, where, found)
        if container.get("restartPolicy") == "Always":
            add(total, request)
            add(sidecars, request)
            raise_to(starting, sidecars)
        else:
            add(request, sidecars)
            raise_to(starting, request)
    raise_to(total, starting)
    return total


def _own_request(container: Mapping[str, Any], path: str, found: list[str]) -> dict[str, int]:
    requests, limits = _requests_and_limits(container, path, found)
    return {**limits, **requests}


def _pod_level(spec: Mapping[str, Any], path: str, found: list[str], total: Mapping[str, int]) -> dict[str, int]:
    """What the pod as a whole asks for: its request, or its limit where neither it nor a container requests.

    Huge pages cannot be overcommitted: there a pod's limit is its request whatever the containers say.
    """
    requests, limits = _requests_and_limits(spec, path, found)
    asked = {name: value for name, value in limits.items() if name not in total or name.startswith("hugepages-")}
    asked.update(requests)
    return {name: value for name, value in asked.items() if _of_a_pod(name)}


def _of_a_pod(resource: str) -> bool:
    return resource in {"cpu", "memory"} or resource.startswith("hugepages-")


def _requests_and_limits(holder: Mapping[str, Any], path: str, found: list[str]) -> list[dict[str, int]]:
    where = f"{path}.resources"
    resources = _mapping(holder.get("resources"), where, found)
    return [_resource_list(resources.get(kind), f"{where}.{kind}", found) for kind in ("requests", "limits")]


def _resource_list(quantities: object, path: str, found: list[str]) -> dict[str, int]:
    """In thousandths; as the API server decodes a pod, where nothing is zero and spaces around do not matter."""
    if isinstance(quantities, Mapping):
        quantities = {
            resource: 0 if text is None else text.strip(" ") if isinstance(text, str) else text
            for resource, text in quantities.items()
        }
    return parse_thousandths(quantities, path, found)


def _containers(spec: Mapping[str, Any], kind: str, path: str, found: list[str]) -> list[tuple[Mapping[str, Any], str]]:
    containers = spec.get(kind)
    if containers is None:
        return []
    if not isinstance(containers, list):
        found.append(f"{path}.{kind}: {quoted(containers)} is not a list")
        return []
    paths = (f"{path}.{kind}[{index}]" for index in range(len(containers)))
    return [(_mapping(container, where, found), where) for container, where in zip(containers, paths, strict=True)]


def _mapping(value: object, path: str, found: list[str]) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    if value is not None:
        found.append(f"{path}: {quoted(value)} is not an object")
    return {}
