"""Writes the table and the diagram of phases into docs/engine.md, from the table that the engine moves units by.

Run by `make fix`; a test says when the text is out of date.
"""

from __future__ import annotations

from pathlib import Path

from usher.core.phases import FINISHED, HOLDING, TRANSITIONS, Cause, Phase

PAGE = Path(__file__).with_name("engine.md")
BEGIN = "<!-- phases: written by docs/phases.py from usher.core.phases.TRANSITIONS -->"
END = "<!-- phases: end -->"

WHEN = {
    Cause.NOT_ADMITTED: "the first attempt did not succeed",
    Cause.ADMITTED: "it fits, and no check applies",
    Cause.QUOTA_RESERVED: "it fits, and checks apply: the quota is held while they decide",
    Cause.CHECKS_READY: "every check is Ready",
    Cause.CHECK_RETRY: "a check says Retry",
    Cause.CHECK_TIMEOUT: "a check did not answer in time",
    Cause.CHECK_REJECTED: "a check says Rejected: it is set aside until its owner wants it again",
    Cause.PODS_READY: "ready and succeeded pods have reached the granted count",
    Cause.START_TIMEOUT: "it did not run in time",
    Cause.RECOVERY_TIMEOUT: "pods stayed unready for too long",
    Cause.BACKOFF_OVER: "the back-off is over",
    Cause.SUCCEEDED: "the job succeeded",
    Cause.FAILED: "the job failed",
    Cause.RECLAIMED: "another quota took back what it deserves",
    Cause.PREEMPTED: "a higher priority in the same quota took its place",
    Cause.DRAINED: "its queue is held and drained",
    Cause.DEACTIVATED: "its owner made it inactive",
    Cause.MAXIMUM_EXECUTION_TIME: "it ran for as long as it may: it is set aside",
    Cause.PAUSED: "its owner suspended the job: it is set aside",
    Cause.CHANGED: "the job changed between its admission and its start: it is asked for anew",
}


def shown(phase: Phase) -> str:
    return phase.value or "(none)"


def table() -> str:
    """One row for each cause and the phase it leads to."""
    rows: dict[tuple[Cause, Phase], list[Phase]] = {}
    for cause in Cause:
        for phase in Phase:
            if (phase, cause) in TRANSITIONS:
                rows.setdefault((cause, TRANSITIONS[phase, cause]), []).append(phase)
    lines = ["| from | cause | to | when |", "|---|---|---|---|"]
    for (cause, to), froms in rows.items():
        every = set(froms) == set(Phase) - FINISHED
        origin = "any that has not ended" if every else ", ".join(map(shown, froms))
        lines.append(f"| {origin} | `{cause.value}` | {shown(to)} | {WHEN[cause]} |")
    return "\n".join(lines)


def diagram() -> str:
    """The same as a Mermaid state diagram; phases in which quota is held are marked."""
    arrows: dict[tuple[Phase, Phase], list[str]] = {}
    for (phase, cause), to in sorted(TRANSITIONS.items(), key=lambda each: [*Cause].index(each[0][1])):
        arrows.setdefault((phase, to), []).append(cause.value)
    lines = ["```mermaid", "stateDiagram-v2", "    classDef holding stroke-width:3px"]
    for (phase, to), causes in sorted(arrows.items(), key=lambda each: [[*Phase].index(end) for end in each[0]]):
        lines.append(f"    {phase.value or '[*]'} --> {to.value}: {', '.join(causes)}")
    lines += [f"    {phase.value} --> [*]" for phase in Phase if phase in FINISHED]
    lines += [f"    class {phase.value} holding" for phase in Phase if phase in HOLDING]
    return "\n".join([*lines, "```"])


def renewed(page: str) -> str:
    """The page with what stands between the markers written anew."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{diagram()}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text()))
