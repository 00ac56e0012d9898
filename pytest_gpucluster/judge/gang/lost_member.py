"""GANG-009 and 010: a gang that loses a member and its slot says so, and is whole again once the slot is back."""

from collections.abc import Sequence

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.evidence.scheduling.lost_members import SHORT_PHASES, Shortage, shortages
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REPORTED = "after a gang lost a member and its slot, its own object reports the shortage"
HEALED = (
    "a gang that lost a slot is whole again within the declared time after the slot returns, or its own object "
    "reports the shortage"
)

NATIVE = Cause(
    "a native PodGroup reports only that it was once placed whole: its condition PodGroupInitiallyScheduled "
    "never goes back to False, even when members are lost",
    "watch the pods themselves (status.ready of the Job), or use a gang scheduler whose PodGroup follows its members",
)
STALE = Cause(
    "the scheduler does not update the status of the PodGroup after a member is lost",
    "look at the log of the Volcano scheduler for failed updates of podgroups; alert on pods that are Pending while "
    "their siblings run",
)
NOT_HEALED = Cause(
    "the scheduler does not place the missing member although its slot is back: another pod took the slot, or "
    "the scheduler does not try the gang again",
    "see what holds the slot now; delete the Job's pods, or give it a policy PodEvicted -> RestartJob",
)

_ORDER = (Verdict.FAIL, Verdict.PASS, Verdict.NOT_APPLICABLE, Verdict.INCONCLUSIVE)


@subjects.judge
def reported(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge GANG-009."""
    found = _judged(evidence, given)
    if isinstance(found, str):
        return wording.finding(Verdict.INCONCLUSIVE, REPORTED, found)
    return _first([_reported(evidence, given, shortage) for shortage in found])


@subjects.judge
def healed(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge GANG-010."""
    found = _judged(evidence, given)
    if isinstance(found, str):
        return wording.finding(Verdict.INCONCLUSIVE, HEALED, found)
    lost = [shortage for shortage in found if shortage.lost]
    if not lost:
        text = (
            f"no member of {found[0].gang.title} was lost: the members that ended had finished by themselves"
        )
        return wording.finding(Verdict.INCONCLUSIVE, HEALED, text, found[0].gang)
    return _first([_healed(evidence, given, shortage) for shortage in lost])


def _judged(evidence: Evidence, given: subjects.Given) -> list[Shortage] | str:
    """Return the shortages of the gangs under judgement, or why there are none."""
    named = subjects.cast(evidence, given, "subject")
    gangs = [gang for gang in (named if named is not None else subjects.placed(evidence)) if gang.minimum > 1]
    if not gangs:
        return subjects.nothing(evidence)
    found = [shortage for gang in gangs for shortage in shortages(evidence, gang)]
    if found:
        return found
    if all(gang.whole is None for gang in gangs):
        return f"{gangs[0].title} was never whole, so it lost nothing"
    return f"{gangs[0].title} lost no member while it was to run"


def _first(findings: Sequence[Finding]) -> Finding:
    return min(findings, key=lambda finding: _ORDER.index(finding.verdict))


def _who(shortage: Shortage) -> str:
    went = wording.listed([pod.where for pod in shortage.missing], 3) or "members"
    failed = any(pod.phase == "Failed" for pod in shortage.missing)
    how = "was lost" if shortage.lost else "failed" if failed else "finished"
    held = f"{shortage.held} of {shortage.generation.minimum}"
    when = f"at t={shortage.start:.2f} s, {held} members for {shortage.seconds:.1f} s"
    return f"{shortage.gang.title}: {went} {how} {when}"


def _keys(shortage: Shortage) -> tuple[str, ...]:
    lost = [
        pod.keys[word] for pod in shortage.missing[:4] for word in ("deleted", "finished") if word in pod.keys
    ]
    said = [key for _, _, key in shortage.reports[:2]]
    return tuple(dict.fromkeys([*lost, *said, *([shortage.returned[1]] if shortage.returned else [])]))


def _finding(
    evidence: Evidence,
    given: subjects.Given,
    shortage: Shortage,
    said: tuple[Verdict, str, str],
    *,
    causes: tuple[Cause, ...] = (),
    numbers: tuple[Number, ...] = (),
) -> Finding:
    verdict, required, text = said
    return wording.finding(
        verdict, required, text, shortage.gang, causes=causes, numbers=numbers, violation=verdict is Verdict.FAIL,
        where=wording.places(shortage.missing) or (shortage.gang.title,), evidence=_keys(shortage),
        currency=subjects.currency(evidence, given, shortage.gang),
    )  # fmt: skip


def _reported(evidence: Evidence, given: subjects.Given, shortage: Shortage) -> Finding:
    limits = subjects.of(evidence, given)
    group, who = shortage.generation.group, _who(shortage)
    if shortage.reports:
        t, what, _ = shortage.reports[0]
        after = max(t - shortage.start, 0.0)
        text = f"{who}; PodGroup {group.name if group else ''} reported it after {after:.2f} s: {what}"
        number = Number("reported after", after, "s", limits.window, "the window")
        if after > limits.window + limits.silent:
            text = f"{who}; its PodGroup reported it only {after:.0f} s later: {what}"
            causes = (NATIVE if group is not None and group.native else STALE,)
            return _finding(
                evidence,
                given,
                shortage,
                (Verdict.FAIL, REPORTED, wording.short(text, 600)),
                causes=causes,
                numbers=(number,),
            )
        return _finding(
            evidence, given, shortage, (Verdict.PASS, REPORTED, wording.short(text, 600)), numbers=(number,)
        )
    if group is None:
        text = f"{who}; no PodGroup of it is in the evidence"
    elif not shortage.lost:
        text = f"{who}; a member that succeeded is not missing, so the object need not report it"
    elif shortage.seconds < limits.window:
        text = f"{who}, shorter than the window of {limits.window:.2f} s; its object reported nothing in that time"
    elif evidence.gaps(group.kind, shortage.start, shortage.end):
        text = f"{who}; the watch of PodGroups has a gap there"
    else:
        now = shortage.at_end or ("PodGroupInitiallyScheduled=True" if group.native else "no phase")
        text = f"{who}, and PodGroup {group.name} never reported it ({now})"
        cause = NATIVE if group.native else STALE
        return _finding(evidence, given, shortage, (Verdict.FAIL, REPORTED, text), causes=(cause,))
    return _finding(evidence, given, shortage, (Verdict.INCONCLUSIVE, REPORTED, text))


def _healed(evidence: Evidence, given: subjects.Given, shortage: Shortage) -> Finding:
    bound, back = _bound(given), shortage.returned
    seconds = shortage.end - (back[0] if back is not None else shortage.start)
    since = "its slot was back" if back is not None else "the loss"
    origin = f"{'profile recovery' if bound is not None else 'no recovery declared'}; from {since}"
    name = "whole again after" if shortage.healed else "not whole again for"
    if evidence.gaps("Pod", shortage.start, shortage.end):
        verdict, text = Verdict.INCONCLUSIVE, "the watch of pods has a gap there"
    elif shortage.healed:
        verdict, text = _in_time(evidence, given, shortage, seconds)
        text = f"whole again {seconds:.2f} s after {since}{text}"
    else:
        verdict, text = _still_short(evidence, given, shortage, seconds)
        text = f"not whole again {seconds:.2f} s after {since}{text}"
    return _finding(
        evidence,
        given,
        shortage,
        (verdict, HEALED, f"{_who(shortage)}; {text}"),
        causes=(NOT_HEALED, NATIVE if _native(shortage.gang) else STALE) if verdict is Verdict.FAIL else (),
        numbers=(Number(name, seconds, "s", bound, origin),),
    )


def _in_time(
    evidence: Evidence, given: subjects.Given, shortage: Shortage, seconds: float
) -> tuple[Verdict, str]:
    """Judge a gang that is whole again: in time, or reported as short until then."""
    bound, grain = _bound(given), subjects.of(evidence, given).grain
    if bound is not None and seconds + grain <= bound:
        return Verdict.PASS, f" (declared: {bound:.2f} s)"
    if shortage.reports:
        return Verdict.PASS, "; until then its object reported the shortage"
    if bound is None:
        return Verdict.NOT_APPLICABLE, "; no time is declared"
    if shortage.returned is None or seconds - grain <= bound:
        return Verdict.INCONCLUSIVE, "; when the slot came back was not seen"
    return Verdict.FAIL, f" (declared: {bound:.2f} s), and its object did not report it"


def _still_short(
    evidence: Evidence, given: subjects.Given, shortage: Shortage, seconds: float
) -> tuple[Verdict, str]:
    """Judge a gang that is not whole again when the evidence or the gang ends."""
    limits = subjects.of(evidence, given)
    short = shortage.at_end in SHORT_PHASES
    saying = f"; its object reports it: phase {shortage.at_end}" if short else ""
    if shortage.returned is None:
        return Verdict.INCONCLUSIVE, f"; that its slot came back was not seen{saying}"
    if seconds <= max(_bound(given) or 0.0, limits.window) + limits.grain:
        return Verdict.INCONCLUSIVE, f", when the evidence ends{saying}"
    if short:
        return Verdict.PASS, saying
    return Verdict.FAIL, f", and its object says {shortage.at_end or 'nothing'}"


def _bound(given: subjects.Given) -> float | None:
    value = given.get("recovery")
    return (
        float(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
        else None
    )


def _native(gang: Gang) -> bool:
    return any(group.native for group in gang.groups)
