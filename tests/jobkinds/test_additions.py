"""What is added to pod templates comes off again, and never replaces what their owner said."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from usher.jobkinds.additions import (
    ADDED_ANNOTATION,
    Additions,
    PodAddition,
    clashes,
    joined,
    own_maps,
    template_patch,
    without_added,
)

TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "own", "operator": "Exists"}]},
}
SPOT = {"key": "spot", "operator": "Exists"}


def merged(target: Any, patch: Any) -> Any:
    """A merge patch, as in RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    found = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = merged(found.get(key), value)
    return found


def released(template: dict[str, Any], addition: PodAddition, marks: dict[str, str] | None = None) -> dict[str, Any]:
    additions = Additions(marks or {}, pods={"main": addition})
    result = merged(template, template_patch(template, additions, "main"))
    assert isinstance(result, dict)
    return result


def test_all_of_it_is_added_beside_what_is_there() -> None:
    zone = PodAddition({"team": "b"}, {"note": "n"}, {"zone": "z1"}, (SPOT,))

    pods = released(TEMPLATE, zone, {"unit": "u"})

    assert pods["metadata"]["labels"] == {"app": "a", "team": "b"}
    assert pods["metadata"]["annotations"] | {ADDED_ANNOTATION: ""} == {"unit": "u", "note": "n", ADDED_ANNOTATION: ""}
    assert pods["spec"] == {
        "nodeSelector": {"disk": "ssd", "zone": "z1"},
        "tolerations": [{"key": "own", "operator": "Exists"}, SPOT],
    }


def test_the_next_release_takes_off_what_the_last_one_added() -> None:
    first = released(TEMPLATE, PodAddition(node_selector={"zone": "z1", "fast": "yes"}, tolerations=(SPOT,)))

    second = released(first, PodAddition(node_selector={"zone": "z2"}))
    third = released(second, PodAddition())

    assert second["spec"]["nodeSelector"] == {"disk": "ssd", "zone": "z2"}
    assert second["spec"]["tolerations"] == TEMPLATE["spec"]["tolerations"]
    assert third["spec"] == TEMPLATE["spec"]
    assert ADDED_ANNOTATION not in third["metadata"].get("annotations", {})


def test_what_the_owner_says_stays_also_where_it_is_said_twice() -> None:
    same = PodAddition(node_selector={"disk": "ssd"}, tolerations=({"key": "own", "operator": "Exists"},))

    pods = released(TEMPLATE, same)

    assert pods == {**TEMPLATE, "metadata": {**TEMPLATE["metadata"], "annotations": {}}}, "nothing was added"
    assert released(pods, PodAddition())["spec"] == TEMPLATE["spec"]


def test_an_addition_that_says_otherwise_is_a_clash() -> None:
    hdd = PodAddition({"app": "a"}, {}, {"disk": "hdd", "zone": "z"})

    assert clashes(own_maps(TEMPLATE), hdd) == ["nodeSelector[disk] cannot be 'hdd': it is 'ssd'"]
    after = released(TEMPLATE, PodAddition(node_selector={"zone": "z1"}))
    assert clashes(own_maps(after), PodAddition(node_selector={"zone": "z2"})) == [], "z1 is not the owner's"


def test_several_checks_add_together() -> None:
    both = joined(
        [PodAddition({"a": "1"}, tolerations=(SPOT,)), PodAddition({"b": "2", "a": "3"}, tolerations=(SPOT,))]
    )

    assert both.labels == {"a": "1", "b": "2"}
    assert both.tolerations == (SPOT,)


def test_a_mark_that_somebody_broke_adds_nothing_and_removes_nothing() -> None:
    broken = {**TEMPLATE, "metadata": {"annotations": {ADDED_ANNOTATION: "{"}}}

    assert without_added(broken) == broken


_texts = st.dictionaries(st.sampled_from("abcd"), st.sampled_from("xy"), max_size=4)
_tolerations = st.lists(st.sampled_from([SPOT, {"key": "t"}, {"key": "u"}]), max_size=2, unique_by=str).map(tuple)
_additions = st.builds(PodAddition, _texts, _texts, _texts, _tolerations)


@given(labels=_texts, selector=_texts, tolerations=_tolerations, course=st.lists(_additions, max_size=4))
def test_whatever_was_added_and_how_often_the_owners_template_comes_back(
    labels: dict[str, str], selector: dict[str, str], tolerations: tuple[Any, ...], course: list[PodAddition]
) -> None:
    own: dict[str, Any] = {"metadata": {"labels": labels}, "spec": {"nodeSelector": selector}}
    own["spec"]["tolerations"] = list(tolerations)
    template = own

    for addition in course:
        template = released(template, addition)
        assert own_maps(template) == own_maps(own)
        for key, value in addition.node_selector.items():
            assert template["spec"]["nodeSelector"][key] == selector.get(key, value)

    clean = without_added(template)
    assert clean["spec"].get("nodeSelector", {}) == selector
    assert clean["metadata"].get("labels", {}) == labels
    assert clean["spec"].get("tolerations", []) == list(tolerations)
