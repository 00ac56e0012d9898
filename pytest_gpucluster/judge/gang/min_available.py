"""GANG-003, 005 and 006: minimums below the number of members, in all and role by role, and their default."""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.scheduling import half_placement, would_fit
from pytest_gpucluster.evidence.scheduling.gangs import Gang, Generation
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.gang import all_or_nothing, job_faults, stated_minimum
from pytest_gpucluster.judge.gang.half_placement import half_placed, lasting, retreats
from pytest_gpucluster.plain import names
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

IN_ALL = (
    "the number of bound members is never above zero and below minAvailable; surplus members come at any time"
)
BY_ROLE = (
    "if minAvailable covers the sum of the tasks' minimums, no member is bound while a task lacks its own; below "
    "that sum the tasks' minimums are ignored, and the diagnosis says so"
)
DEFAULTED = "a Job without minAvailable gets the sum over its tasks, and its PodGroup the same minMember"

ROLES_IGNORED = Cause(
    "the scheduler does not apply the minimums of tasks, or the PodGroup does not carry them (spec.minTaskMember)",
    "compare minTaskMember of the PodGroup with minAvailable of the tasks; put the gang plugin into the first tier of "
    "volcano-scheduler.conf",
)
NOT_DEFAULTED = Cause(
    "the mutating admission of Jobs is absent or out of reach: without it minAvailable stays 0, and the "
    "Job is no gang",
    "install the Volcano admission and check its MutatingWebhookConfiguration; until then set minAvailable on "
    "every Job",
)
NOT_CARRIED = Cause(
    "the controllers did not copy minAvailable to the PodGroup",
    "look at the log of vc-controller-manager; delete the Job and submit it again",
)

_ORDER = (Verdict.FAIL, Verdict.PASS, Verdict.INCONCLUSIVE)


def _subjects(evidence: Evidence, given: subjects.Given) -> tuple[Gang, ...]:
    named = subjects.cast(evidence, given, "subject")
    return named if named is not None else subjects.placed(evidence)


def _first(findings: Sequence[Finding]) -> Finding:
    return min(findings, key=lambda finding: _ORDER.index(finding.verdict))


@subjects.judge
def never_below_minimum(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge GANG-003."""
    gangs = [gang for gang in _subjects(evidence, given) if 1 < gang.minimum < gang.size]
    if not gangs:
        text = "no gang in the evidence may start with fewer than all its members"
        why = text if subjects.everyone(evidence) else subjects.nothing(evidence)
        return wording.finding(Verdict.INCONCLUSIVE, IN_ALL, why)
    bad = half_placed(evidence, given, gangs, IN_ALL)
    if bad is not None:
        return bad
    tried = [
        found
        for a in all_or_nothing.attempts(evidence, gangs)
        if a.reading.scheduler.whole and (found := _fewer_fit(evidence, given, a)) is not None
    ]
    if tried:
        return _first(tried)
    gang = gangs[0]
    last = gang.generations[-1]
    text = (
        f"{gang.title}: {wording.part(last.most_held, gang.minimum)} needed members bound{_surplus(gang, last)}; "
        "there was never room for some members but fewer than the minimum"
    )
    return wording.finding(Verdict.INCONCLUSIVE, IN_ALL, text, gang)


def _fewer_fit(evidence: Evidence, given: subjects.Given, a: all_or_nothing.Attempt) -> Finding | None:
    """Return the finding on an attempt of which some members, but too few, would have fitted; None if never."""
    shown = would_fit.longest(would_fit.outlooks(a.gen, a.reading), lambda o: 0 < o.total < a.gen.minimum)
    if shown is None:
        return None
    who = (
        f"{a.gang.title} of {a.gang.size}: 0 bound for {shown.seconds:.1f} s while {shown.most.total} would have "
        f"fitted and {a.gen.minimum} are needed"
    )
    return _held_long(evidence, given, a, shown, (IN_ALL, who))


def _held_long(
    evidence: Evidence,
    given: subjects.Given,
    a: all_or_nothing.Attempt,
    shown: would_fit.Stretch,
    texts: tuple[str, str],
) -> Finding | None:
    """Return the finding on an attempt that was rightly held: long enough, without a gap, and bound afterwards."""
    (required, who), seconds = texts, shown.seconds
    limits, whole = subjects.of(evidence, given), a.gen.whole
    number = Number(
        "held with nothing bound", seconds, "s", limits.window, "three scheduler periods or the window"
    )
    keys = (shown.most.key, *(step.key for step in a.gen.steps[:1]))
    gaps = evidence.gaps("Pod", shown.start, whole if whole is not None else evidence.end)
    verdict, text = Verdict.PASS, who
    if seconds < limits.window - all_or_nothing.EPSILON:
        if seconds <= limits.period and whole is not None:
            return None  # One session long: every gang waits so between its pods and its bind.
        verdict, text = Verdict.INCONCLUSIVE, f"{who}, shorter than the window of {limits.window:.2f} s"
    elif gaps:
        text = f"{who}, but pods were not watched from t={gaps[0][0]:.2f} s to {gaps[0][1]:.2f} s"
        verdict = Verdict.INCONCLUSIVE
    elif whole is None:
        return _never_whole(evidence, given, a, texts)
    elif (room := all_or_nothing.room_before(evidence, whole)) and whole - room > subjects.placed_within(
        given
    ):
        verdict, text = (
            Verdict.FAIL,
            f"{who}; room appeared at t={room:.2f} s, the minimum was bound {whole - room:.0f} s later",
        )
    else:
        text = f"{who}; the minimum was bound at t={whole:.2f} s within {a.gen.spread or 0.0:.2f} s"
        text += _surplus(a.gang, a.gen)
    return wording.finding(
        verdict, required, text, a.gang, numbers=(number,), evidence=keys,
        currency=subjects.currency(evidence, given, a.gang),
    )  # fmt: skip


def _never_whole(
    evidence: Evidence, given: subjects.Given, a: all_or_nothing.Attempt, texts: tuple[str, str]
) -> Finding:
    """Judge a gang that was held and never bound: an expired wait for it after its room appeared is a fail."""
    required, who = texts
    room = next(iter([*evidence.notes("slots-set")[-1:], *evidence.notes("room-made")]), None)
    expired = subjects.timed_out(evidence, room.t) if room is not None else None
    if expired is None:
        text = f"{who}; its minimum was never bound later: no room was seen to appear"
        return wording.finding(Verdict.INCONCLUSIVE, required, text, a.gang)
    cause = Cause(
        "the scheduler waits for more than the minimum, or did not use the room that appeared",
        "compare minMember and minTaskMember of the PodGroup with the Job, and look at the scheduler's log",
    )
    text = f"{who}; room for the minimum appeared and it was never bound (waited for {expired[0]})"
    return wording.finding(
        Verdict.FAIL, required, text, a.gang, causes=(cause,), evidence=(expired[1],),
        currency=subjects.currency(evidence, given, a.gang),
    )  # fmt: skip


def _surplus(gang: Gang, gen: Generation) -> str:
    whole = gen.whole
    if whole is None or gang.size <= gen.minimum:
        return ""
    extra = [step.t for step in gen.steps if step.held > gen.minimum]
    waiting = gang.size - gen.most_held
    came = f"; {gen.most_held - gen.minimum} surplus bound by t={extra[-1]:.2f} s" if extra else ""
    return f"{came}; {waiting} surplus not bound" if waiting > 0 else came


@subjects.judge
def roles_gated(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge GANG-005."""
    ignored = job_faults.roles_not_gated(evidence, given)
    said = "".join(f"; diagnosed: {fault.observed}" for fault in ignored[:2])
    below = {fault.uid for fault in ignored if fault.uid}
    judged = [
        (gang, least)
        for gang in _subjects(evidence, given)
        if (least := _role_minimums(gang, given)) and _roles_matter(gang, least) and gang.uid not in below
    ]
    if not judged:
        text = "no gang whose minAvailable covers its tasks' minimums without implying them"
        return wording.finding(
            Verdict.INCONCLUSIVE, BY_ROLE, text + said, causes=tuple(f.cause for f in ignored),
            evidence=tuple(f.key for f in ignored),
        )  # fmt: skip
    for gang, least in judged:
        bad = _role_short(evidence, given, gang, least)
        if bad is not None:
            return bad
    tried = [
        found
        for gang, least in judged
        for a in all_or_nothing.attempts(evidence, [gang])
        if a.reading.scheduler.whole and (found := _role_lacks(evidence, given, a, (least, said))) is not None
    ]
    if tried:
        return _first(tried)
    gang, least = judged[0]
    text = f"{gang.title}: whenever {gang.minimum} members would have fitted, every task had room for its minimum"
    return wording.finding(Verdict.INCONCLUSIVE, BY_ROLE, text + said, gang)


def _role_minimums(gang: Gang, given: subjects.Given) -> dict[str, int]:
    """Return the minimum of each task as declared, else as the Job or its PodGroup states it."""
    told = fields.sub(given, "role_minimums")
    stated: Mapping[str, object] = told
    if not stated and gang.job is not None and gang.job.kind == names.VC_JOB:
        stated = job_faults.role_minimums(fields.sub(gang.job.last, "spec"))
    if not stated and gang.groups:
        stated = fields.sub(gang.groups[-1].last, "spec", "minTaskMember")
    return {str(role): least for role in stated if (least := fields.number(stated, role)) is not None}


def _roles_matter(gang: Gang, least: Mapping[str, int]) -> bool:
    """Report whether as many members as the gang needs can be bound while a task lacks its minimum."""
    if len(least) < 2 or gang.minimum < sum(least.values()):
        return False
    sizes: dict[str, int] = {}
    if gang.job is not None:
        sizes = {str(t.get("name") or ""): fields.number(t, "replicas") or 0 for t in gang.job.tasks}
    for role in least:
        slots = {pod.slot for pod in gang.pods if pod.task == role}
        sizes.setdefault(role, len(slots))
    total = sum(sizes.values())
    return any(low > 0 and total - sizes[role] + low - 1 >= gang.minimum for role, low in least.items())


def _role_short(
    evidence: Evidence, given: subjects.Given, gang: Gang, least: Mapping[str, int]
) -> Finding | None:
    found = half_placement.short_role(evidence, gang, least)
    shown = [*lasting(evidence, given, found), *retreats(evidence, found)]
    if shown:
        worst = max(shown, key=lambda one: one.seconds)
        held = {role: sum(p.task == role for p in worst.members) for role in least}
        short = [f"{held[role]} of {low} {role}" for role, low in least.items() if held[role] < low]
        on = wording.listed([f"{pod.name} on {pod.node}" for pod in worst.members], 4)
        text = (
            f"{gang.title} had {worst.held} members bound for {worst.seconds:.1f} s from t={worst.start:.2f} s while a "
            f"task lacked its minimum ({', '.join(short) or 'for that time'}): {on}; not bound: "
            f"{wording.listed([pod.name for pod in worst.missing], 4)}"
        )
        limit = subjects.of(evidence, given).tolerance
        return wording.finding(
            Verdict.FAIL, BY_ROLE, text, gang, violation=True,
            causes=(ROLES_IGNORED, *wording.causes_of_half(worst)[:1]),
            where=wording.places_of_half(worst), evidence=(worst.key,),
            numbers=(Number("task short for", worst.seconds, "s", limit, "two scheduler periods or bind spread"),),
            currency=subjects.currency(evidence, given, gang),
        )  # fmt: skip
    unsure = next((one for one in found if one.open or one.gap), None)
    if unsure is None:
        return None
    why = "the watch of pods has a gap there" if unsure.gap else "the evidence ends too early to decide"
    text = f"{gang.title} had {unsure.held} members bound while a task lacked its minimum; {why}"
    return wording.finding(Verdict.INCONCLUSIVE, BY_ROLE, text, gang, evidence=(unsure.key,))


def _role_lacks(
    evidence: Evidence, given: subjects.Given, a: all_or_nothing.Attempt, what: tuple[Mapping[str, int], str]
) -> Finding | None:
    """Return the finding on an attempt of which enough members would have fitted, but too few of one task."""
    least, said = what

    def lacks(o: would_fit.Outlook) -> bool:
        return o.total >= a.gen.minimum and any(o.fits.get(role, 0) < low for role, low in least.items())

    def alone(o: would_fit.Outlook) -> bool:
        most = max((min(o.fits.get(role, 0), replicas[role]) for role in replicas), default=0)
        return most >= a.gen.minimum and any(o.fits.get(role, 0) < low for role, low in least.items())

    replicas = Counter(pod.task for pod in a.gen.members)
    said_so = would_fit.longest(would_fit.outlooks(a.gen, a.reading), lacks)
    shown = said_so or would_fit.longest(would_fit.reckoned(evidence, a.gen, a.reading), alone)
    if shown is None:
        return None
    fits = shown.most.fits
    short = [f"{fits.get(role, 0)} of {low} {role}" for role, low in least.items() if fits.get(role, 0) < low]
    total = shown.most.total if said_so else max(min(fits.get(role, 0), replicas[role]) for role in replicas)
    how = "" if said_so else ", computed from the nodes"
    who = (
        f"{a.gang.title}: 0 bound for {shown.seconds:.1f} s while {total} members would have fitted{how} "
        f"({a.gen.minimum} are needed), but only {', '.join(short)}"
    )
    found = _held_long(evidence, given, a, shown, (BY_ROLE, who))
    return None if found is None else dataclasses.replace(found, observed=found.observed + said)


@subjects.judge
def minimum_defaulted(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge GANG-006."""
    gangs = [g for g in _subjects(evidence, given) if g.job is not None and g.job.kind == names.VC_JOB]
    if not gangs:
        return wording.finding(Verdict.INCONCLUSIVE, DEFAULTED, subjects.nothing(evidence, "Volcano Job"))
    stated = given.get("omitted")
    omitted = isinstance(stated, list | tuple) and "minAvailable" in stated
    return _first([_defaulted(gang, given, omitted=omitted) for gang in gangs])


def _defaulted(gang: Gang, given: subjects.Given, *, omitted: bool) -> Finding:
    spec = fields.sub(gang.job.last, "spec") if gang.job is not None else {}
    got, total = fields.number(spec, "minAvailable") or 0, sum(job_faults.role_minimums(spec).values())
    wanted = (subjects.count(given, "min_member") or total) if omitted else total
    listed = " + ".join(f"{count} {role}" for role, count in job_faults.role_minimums(spec).items())
    keys = tuple(key for key in (gang.job.key if gang.job else "",) if key)
    found = wording.Findings(
        DEFAULTED, gang, where=(gang.title,), evidence=(*keys, *(group.key for group in gang.groups[:1])),
        numbers=(Number("minAvailable", got, "pods", wanted, "sum over the tasks"),),
    )  # fmt: skip

    if got == 0:
        return found.fail(
            f"{gang.title} was stored with minAvailable 0, its tasks add up to {wanted} ({listed}): the Job "
            "is no gang",
            NOT_DEFAULTED,
            violation=True,
        )
    if not omitted:
        return found.inconclusive(f"{gang.title} has minAvailable {got}; nothing shows that it was left out")
    first = gang.job.minimums[0].value if gang.job is not None and gang.job.minimums else got
    if wanted not in (got, first) or first == 0:
        text = f"{gang.title} left minAvailable out and got {first}, its tasks add up to {wanted} ({listed})"
        return found.fail(text, NOT_DEFAULTED, violation=True)
    if gang.job is not None and len(gang.job.minimums) > 1:
        text = f"{gang.title} got minAvailable {first}, and it was then changed to {got}: it is no longer left out"
        return found.inconclusive(text)
    if not gang.groups:
        text = f"{gang.title} got minAvailable {got} ({listed}); no PodGroup of it was seen"
        return found.inconclusive(text)
    left = stated_minimum.departed(gang, wanted)
    if left is not None:
        group, said = left
        verb = "has" if said is group.minimums[-1] else f"had, from t={said.t:.2f} s,"
        text = f"{gang.title} got minAvailable {got}, but its PodGroup {group.name} {verb} minMember {said.value}"
        return found.fail(text, NOT_CARRIED, violation=True)
    return found.passed(
        f"{gang.title} left minAvailable out: {got} ({listed}); minMember {wanted} of its PodGroup",
    )
