"""Pod templates in our kinds: kept whole and unread, but for what a pod's request is made of.

A template is raw JSON in our structs: ten thousand of them as dicts would fill the memory. To the server it is an open
object, of which the fields that decide the request are declared. It must know these: comparing two open objects, it
looks at what is declared in both, and takes an undeclared field that was renamed for an unchanged one. Without them, a
rule that the template of an admitted unit cannot change would let a changed request through.
"""

from typing import Annotated, Any, Final

from msgspec import Raw

from usher.api.shapes import QUANTITY, shape

NO_TEMPLATE: Final = Raw(b"{}")


def _open(description: str, **properties: object) -> dict[str, Any]:
    found: dict[str, Any] = {"description": description, "type": "object"}
    if properties:
        found["properties"] = properties
    return found | {"x-kubernetes-preserve-unknown-fields": True}


def _text(description: str) -> dict[str, Any]:
    return {"description": description, "type": "string"}


def _amounts(description: str) -> dict[str, Any]:
    quantity = {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": True,
        "pattern": QUANTITY,
    }
    return {"description": description, "type": "object", "additionalProperties": quantity}


def _resources(description: str) -> dict[str, Any]:
    return _open(
        description,
        requests=_amounts("What is requested, by resource."),
        limits=_amounts("What is allowed at most, by resource; the request where none is given."),
    )


def _containers(description: str) -> dict[str, Any]:
    container = _open(
        "A container.",
        name=_text("Of the container."),
        resources=_resources("Its resources."),
        restartPolicy=_text("Always makes an init container a sidecar."),
    )
    return {"description": description, "type": "array", "items": container, "x-kubernetes-list-type": "atomic"}


_POD: Final = _open(
    "The pod.",
    containers=_containers("Its containers."),
    initContainers=_containers("Containers that run before them."),
    resources=_resources("Resources of the pod as a whole."),
    overhead=_amounts("What running the pod costs besides."),
    runtimeClassName=_text("The RuntimeClass, which may add overhead."),
    priorityClassName=_text("The PriorityClass of the pod."),
    priority={"description": "The priority of the pod.", "type": "integer", "format": "int32"},
)
_SHAPE: Final = _open("A pod template.", metadata=_open("Labels and annotations of the pod."), spec=_POD)

Template = Annotated[Raw, shape(**{key.replace("-", "_"): value for key, value in _SHAPE.items()})]
"""A pod template as the JSON it came in; `usher.api.codec.template_of` decodes it."""
