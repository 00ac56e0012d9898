"""One way to decide a row from evidence, shared by the running suite, `gpucluster judge` and `verify`."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from pytest_gpucluster.evidence import Evidence
from pytest_gpucluster.evidence.scheduling import timeline
from pytest_gpucluster.judge import needs, needs_of_judges
from pytest_gpucluster.judge.gang import placing_scheduler
from pytest_gpucluster.requirement import Cause, Finding, Requirement, Verdict

MEMBER_FAILED = Cause(
    "a member failed, was evicted or restarted during the run",
    "read the log and `kubectl describe pod` of the member named, and run the row again",
)


def decide(requirement: Requirement, evidence: Evidence, given: Mapping[str, Any] | None = None) -> Finding:
    """Return the finding of a requirement on evidence.

    A scenario that could not be run to its end says so in the header (`problem`: verdict and text). That
    outranks what the judge makes of the rest, except for a violation that was seen. A pass counts only where all was
    seen that the row needs.

    Args:
        requirement: the declaration.
        evidence: what was seen.
        given: what the judge is told; None for what the evidence's own header says.
    """
    told = evidence.given if given is None else given
    decided = requirement.decide(evidence, told)
    finding = _trusted(_with_what_it_needs(requirement, evidence, told, decided), evidence)
    finding = _with_timeline(requirement, evidence, finding)
    problem = evidence.header.get("problem")
    if not isinstance(problem, Mapping) or finding.violation or requirement.elsewhere(told) is not None:
        return finding
    text = str(problem.get("text", "the scenario was not run to its end"))
    return dataclasses.replace(
        finding,
        verdict=Verdict(str(problem.get("verdict", Verdict.INCONCLUSIVE.value))),
        observed=text,
        causes=(Cause(text, str(problem["fix"])),) if problem.get("fix") else (),
        violation=False,
    )


_IN_TIME = frozenset({"gang", "refusal", "lifecycle", "kueue", "trainer", "elastic"})
"""Areas whose rows are about what came before what."""


def _with_timeline(requirement: Requirement, evidence: Evidence, finding: Finding) -> Finding:
    """Return a finding with the timeline of the gangs that it is about, for whoever wants to follow it."""
    if requirement.area not in _IN_TIME or finding.verdict is Verdict.NOT_APPLICABLE:
        return finding
    told = timeline.timeline(evidence)
    return dataclasses.replace(finding, facts={**finding.facts, "timeline": told}) if told else finding


_OF_MEMBERS = (
    (needs.broken_off, "a member did not end as this row needs: ", MEMBER_FAILED),
    (placing_scheduler.elsewhere, "", placing_scheduler.CHANGED),
)
"""What must not be so of any member on which a row rests: question, how its answer is told, and the cause."""


def _with_what_it_needs(
    requirement: Requirement, evidence: Evidence, told: Mapping[str, Any], finding: Finding
) -> Finding:
    """Return a pass as undecided where something that the row needs was not seen, and any other finding as it is.

    So is one that rests on a member which did not come to the end that the row expects, or which another scheduler
    placed than the one that its Job names.
    """
    if finding.verdict is not Verdict.PASS:
        return finding
    wants = needs_of_judges.of(requirement.judge)
    for question, words, cause in _OF_MEMBERS:
        found = question(evidence, told, wants)
        if found is not None:
            text, key = found
            return dataclasses.replace(
                finding,
                verdict=Verdict.INCONCLUSIVE,
                observed=f"{words}{text}; else: {finding.observed}",
                causes=(cause,),
                evidence=(key, *finding.evidence),
            )
    lack = needs.lacking(evidence, told, wants)
    if not lack:
        return finding
    return dataclasses.replace(
        finding, verdict=Verdict.INCONCLUSIVE, observed=f"the evidence is incomplete: {lack}", causes=()
    )


def _trusted(finding: Finding, evidence: Evidence) -> Finding:
    """Return a finding as far as the evidence can be trusted.

    Nothing passes on evidence that is damaged; and where nothing could be decided, watches that did not show that they
    were current are named.
    """
    damage = str(evidence.header.get("damage") or "")
    if damage and finding.verdict is Verdict.PASS:
        return dataclasses.replace(
            finding, verdict=Verdict.INCONCLUSIVE, observed=f"the evidence is damaged: {damage}", causes=()
        )
    if finding.verdict is not Verdict.INCONCLUSIVE:
        return finding
    blind = {
        str(note.data.get("kind")): f"the watch of {note.data.get('kind')} did not prove to be current from "
        f"t={float(note.data.get('since') or 0.0):.2f} s: {note.data.get('why')}"
        for note in evidence.notes("unproven")
    }
    observed = "; ".join([finding.observed, *([damage] if damage else []), *blind.values()])
    return dataclasses.replace(finding, observed=observed)


def presupposed(
    requirement: Requirement, evidence: Evidence, given: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Return what became of each presupposition of a requirement, as plain data for the record."""
    told = evidence.given if given is None else given
    return [dataclasses.asdict(check(evidence, told)) for check in requirement.presupposes]
