"""What the structs of our kinds are made of: the base class, and what a field's type says to the CRD beyond its type.

Bounds are for the API server only: decoding does not look at them, so that an object which an older or newer server
let through never stops an informer. Who writes a struct here says bounds by `shape`, rules in CEL by `RULES`, and what
a field is for by the text below it; `usher.api.schema` turns all three into a structural schema. A field is required
if and only if it has no default; a default that is neither empty nor zero is the schema's default too.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final

from msgspec import Meta, Struct, field

INT32_MAX: Final = 2**31 - 1
INT32_MIN: Final = -(2**31)
RESOURCES_MAX: Final = 64
"""Resources in one list of quantities; rules look at each, and their cost is limited."""

QUANTITY: Final = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$"
RESOURCE: Final = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
DURATION: Final = (
    "^"
    + "".join(
        f"([0-9]{{1,{digits}}}([.][0-9]{{1,3}})?{unit})?"
        for digits, unit in ((4, "d"), (5, "h"), (6, "m"), (7, "s"), (9, "ms"))
    )
    + "$"
)
"""So few digits that it is never longer than what can be read."""
POLICY: Final = r"^[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?$"
LABEL_KEY: Final = RESOURCE
NAME: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
NAME_WORDS: Final = "this is not the name of an object: lower-case letters, digits, '-' and '.' make one"


class Rule(Struct, frozen=True):
    """A rule in CEL with what the API server says when it is broken."""

    rule: str
    message: str
    expression: str = ""
    """Makes the message with the values at hand; `message` is said where it cannot be evaluated."""
    field: str = ""
    """The field below that the error names, as a path: `.spec.parent`."""


def shape(**keywords: object) -> Meta:
    """What a CRD says about a value, in the words of OpenAPI; `x_kubernetes_…` stands for `x-kubernetes-…`."""
    renamed = {key.replace("_", "-") if key.startswith("x_") else key: value for key, value in keywords.items()}
    return Meta(extra_json_schema=renamed)


def keyed(*keys: str, most: int) -> Meta:
    """A list that is a map by these fields of its items: entries have their own owners in server-side apply."""
    return shape(x_kubernetes_list_type="map", x_kubernetes_list_map_keys=list(keys), maxItems=most)


def validations(*rules: Rule) -> list[dict[str, str]]:
    """Rules as they stand in a schema."""
    shown = []
    for each in rules:
        entry = {"rule": each.rule, "message": each.message}
        if each.expression:
            entry["messageExpression"] = each.expression
        if each.field:
            entry["fieldPath"] = each.field
        shown.append(entry)
    return shown


def worded(pattern: str, message: str, most: int) -> Meta:
    """A text with a pattern, and with words for who breaks it instead of the pattern."""
    return shape(maxLength=most, x_kubernetes_validations=validations(Rule(f"self.matches('{pattern}')", message)))


class Api(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What all our structs have in common: frozen, camelCase in JSON, unknown fields ignored, defaults left out."""

    RULES: ClassVar[tuple[Rule, ...]] = ()
    SHAPE: ClassVar[Mapping[str, Any]] = {}


def always(value: str) -> Any:
    """A default that is written out nevertheless: an object without its kind is none."""
    return field(default_factory=lambda: value)


_QUANTITY: Final = Rule("isQuantity(string(self))", "this is not a quantity: write it as in 500m, 2Gi or 3")
_NEGATIVE: Final = Rule(
    "!isQuantity(string(self)) || !quantity(string(self)).isLessThan(quantity('0'))", "a quantity must not be negative"
)
_NAMED: Final = Rule(
    f"self.all(r, size(r) <= 253 && r.matches('{RESOURCE}'))",
    "the name of a resource must be like cpu, memory or example.com/gpu",
)
Quantity = Annotated[str | int, shape(x_kubernetes_int_or_string=True, pattern=QUANTITY, maxLength=32)]
"""As Kubernetes writes amounts: 500m, 2Gi, 3."""

Quantities = Annotated[
    Mapping[str, Annotated[Quantity, shape(x_kubernetes_validations=validations(_QUANTITY, _NEGATIVE))]],
    shape(maxProperties=RESOURCES_MAX, x_kubernetes_validations=validations(_NAMED)),
]
"""Resources to amounts, as people write them."""

Reported = Annotated[Mapping[str, Quantity], shape(maxProperties=RESOURCES_MAX)]
"""Resources to amounts, as the manager writes them: no rule is run for these."""

Int32 = Annotated[int, shape(format="int32", minimum=INT32_MIN, maximum=INT32_MAX)]
Count = Annotated[int, shape(format="int32", minimum=0, maximum=INT32_MAX)]
Int64 = Annotated[int, shape(format="int64")]
Natural = Annotated[int, shape(format="int64", minimum=0)]
Name = Annotated[str, worded(NAME, NAME_WORDS, 253)]
OptionalName = Annotated[str, worded(f"^$|{NAME}", NAME_WORDS, 253)]
"""A name, or the empty text that clients in Go write for none."""
QuotaName = Annotated[
    str,
    worded(
        r"^$|^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
        "this is not the name of a quota: letters, digits, '-', '_' and '.' make one",
        253,
    ),
]
"""A quota, or none. In the trees of other systems quotas are not objects, and have names that objects cannot have."""
Time = Annotated[str, shape(format="date-time")]
Message = Annotated[str, shape(maxLength=32768)]
Duration = Annotated[
    str, shape(minLength=1), worded(DURATION, "this is not a duration: write it as in 90s, 1h30m, 500ms or 2d", 32)
]
"""As in 90s, 1h30m, 500ms, 2d."""

ATOMIC: Final = {"x-kubernetes-map-type": "atomic"}
"""A struct that has one owner in server-side apply, as a whole."""
