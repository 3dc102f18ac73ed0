"""What admission checks said of a unit: their answers as the engine hears them, and what they add to its pods."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from usher.api.podset import PodSetUpdate
from usher.api.queueunit import AdmissionCheckState
from usher.core.events import CheckAnswered
from usher.core.model import CheckState
from usher.jobkinds.additions import PodAddition, Template, clashes, joined, own_maps
from usher.runtime.facts import JobFacts, UnitFacts


def heard(answer: AdmissionCheckState, unit: UnitFacts, job: JobFacts | None) -> CheckAnswered:
    """An answer; one that is Ready but adds what cannot be added counts as Rejected, and says why."""
    state, message = answer.state, answer.message
    if state is CheckState.READY and answer.pod_set_updates and job is not None:
        templates = {each.name: each.template for each in job.kind.pod_sets(job.decoded())}
        wrong = [problem for update in answer.pod_set_updates for problem in _problems(answer, update, unit, templates)]
        if wrong:
            state, message = CheckState.REJECTED, f"its podSetUpdates do not fit: {'; '.join(wrong)}"
    return CheckAnswered(unit.key, answer.name, state, message)


def added(unit: UnitFacts) -> Mapping[str, PodAddition]:
    """What all checks together add, by pod set."""
    found: dict[str, list[PodAddition]] = {}
    for answer in unit.status.admission_checks:
        for update in answer.pod_set_updates:
            found.setdefault(update.name, []).append(_addition(update))
    return {name: joined(each) for name, each in found.items()}


def with_labels(
    additions: Mapping[str, PodAddition], unit: UnitFacts, labels: Mapping[str, str]
) -> Mapping[str, PodAddition]:
    """The same, and these labels on the pods of every set; what a check says of them goes before."""
    if not labels:
        return additions
    own = PodAddition(labels=labels)
    sets = [each.name for each in unit.unit.pod_sets]
    return {**additions, **{name: joined([additions.get(name, PodAddition()), own]) for name in sets}}


def _addition(update: PodSetUpdate) -> PodAddition:
    tolerations = (msgspec.to_builtins(each) for each in update.tolerations)
    kept = tuple({key: value for key, value in each.items() if value not in ("", None)} for each in tolerations)
    return PodAddition(update.labels, update.annotations, update.node_selector, kept)


def _problems(
    answer: AdmissionCheckState, update: PodSetUpdate, unit: UnitFacts, templates: Mapping[str, Template]
) -> list[str]:
    template = templates.get(update.name)
    if template is None:
        return [f"there is no pod set {update.name} (there is {', '.join(templates)})"]
    addition = _addition(update)
    wrong = [f"{each} in the job" for each in clashes(own_maps(template), addition)]
    for other in unit.status.admission_checks:
        for theirs in other.pod_set_updates:
            if other.name != answer.name and other.state is CheckState.READY and theirs.name == update.name:
                maps = _addition(theirs).maps()
                wrong.extend(f"{each} by check {other.name}" for each in clashes(maps, addition))
    return wrong
