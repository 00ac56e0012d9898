"""Judges of the gang family: whole or not at all."""

from pytest_gpucluster.evidence.log import payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.scheduling import capacity, gates
from pytest_gpucluster.evidence.scheduling.gangs import Gang, Generation
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.gang import barrier, stated_minimum
from pytest_gpucluster.judge.gang.half_placement import half_placed, halves, lasting
from pytest_gpucluster.plain import names, schedulers
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

WHOLE = "every member of the gang is bound, and all meet at a barrier; minMember equals minAvailable"
MISCOUNTED = Cause(
    "the scheduler's accounting refuses a gang that fits, for example because pods still use devices that their node "
    "no longer counts (an unhealthy GPU)",
    "drain or repair the node whose pods use more than it has allocatable, or raise the queue's limit meanwhile",
)
NOT_CARRIED = Cause(
    "the controllers did not copy minAvailable to the PodGroup, or the admission that defaults it is absent",
    "check the Volcano admission webhooks, and set minAvailable on the Job",
)
NATIVE_NOT_CARRIED = Cause(
    "the Job controller did not copy the gang policy of the Job to its PodGroup",
    "compare spec.scheduling of the Job with spec.schedulingPolicy of its PodGroup, and look at the log of "
    "kube-controller-manager",
)
NO_GROUP = Cause(
    "the controllers made no PodGroup, or its watch is not permitted or was cut off",
    "grant list and watch on podgroups, and look at the controllers' log (`kubectl get podgroups -A`)",
)
CONTRAST = "under a scheduler without the gang rule the gang is half placed, and the suite sees it"


@subjects.judge
def runs_whole(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge GANG-001: a gang that fits runs whole."""
    named = subjects.cast(evidence, given, "subject")
    gangs = named if named is not None else [g for g in subjects.placed(evidence) if g.minimum > 1]
    if not gangs:
        return wording.finding(Verdict.INCONCLUSIVE, WHOLE, subjects.nothing(evidence))
    bad = half_placed(evidence, given, gangs, WHOLE)
    if bad is not None:
        return bad
    findings = [_runs(evidence, given, gang, arranged=named is not None) for gang in gangs]
    return wording.gravest(findings) if named is not None else wording.telling(findings)


def _runs(evidence: Evidence, given: subjects.Given, gang: Gang, *, arranged: bool) -> Finding:
    gen = next((g for g in gang.generations if g.whole is not None), gang.generations[-1])
    if gen.whole is None:
        return _never_whole(evidence, given, gang, gen, arranged=arranged)
    stated = _minimum_differs(gang)
    if stated is not None:
        return stated
    unseen = _minimum_unseen(evidence, given, gang, arranged=arranged)
    if unseen is not None:
        return unseen
    bound = (
        f"{gang.name}: {wording.part(gen.most_held, gen.minimum)} members bound by t={gen.whole:.2f} s "
        f"(spread {gen.spread or 0.0:.2f} s)"
    )
    met = barrier.met(
        evidence, given, gang, gen, needed=arranged or bool(payload_lines.words(evidence).words)
    )
    number = Number("bind spread", gen.spread, "s", origin="first to last needed bind")
    return wording.finding(
        met.verdict, WHOLE, f"{bound}; {met.text}{_explained(gen)}", gang, causes=met.causes, numbers=(number,),
        evidence=(gen.steps[0].key, *met.keys), currency=subjects.currency(evidence, given, gang),
        violation=met.violation,
    )  # fmt: skip


def _explained(gen: Generation) -> str:
    """Return why the PodGroup may read badly although the gang was whole: a member that ended is not missing."""
    phase = gen.group.phases[-1][1] if gen.group and gen.group.phases else ""
    ended = [pod for pod in gen.members if pod.finished is not None and pod.phase == "Succeeded"]
    if phase != "Unknown" or not ended:
        return ""
    return (
        f"; PodGroup phase Unknown only counts that {wording.listed([pod.name for pod in ended], 3)} ended with "
        "exit 0"
    )


def _minimum_unseen(
    evidence: Evidence, given: subjects.Given, gang: Gang, *, arranged: bool
) -> Finding | None:
    """Return the finding on a gang whose PodGroup was never seen, where one must be: by whom it is placed decides."""
    if gang.job is None and arranged:
        text = f"the Job of {gang.title} was not seen, so its minAvailable is not known"
        return wording.finding(Verdict.INCONCLUSIVE, WHOLE, text, gang)
    if gang.groups or gang.job is None:
        return None
    declared = subjects.of(evidence, given).scheduler
    volcano = gang.job.kind == names.VC_JOB
    native = bool(gang.job.gang_minimum) or (arranged and declared == schedulers.NATIVE)
    if not volcano and not native:
        return None
    kind = names.POD_GROUP if volcano else names.NATIVE_POD_GROUP
    text = (
        f"no {kind} of {gang.title} was seen, so whether its minimum is the Job's {gang.minimum} is not known"
    )
    return wording.finding(Verdict.INCONCLUSIVE, WHOLE, text, gang, causes=(NO_GROUP,))


def _minimum_differs(gang: Gang) -> Finding | None:
    """Return the finding on a PodGroup, of any attempt, that has or had another minimum than the Job."""
    job, left = gang.job, stated_minimum.departed(gang, gang.minimum)
    if left is None or job is None:
        return None
    group, said = left
    verb = "has" if said is group.minimums[-1] else f"had, from t={said.t:.2f} s,"
    if job.kind == names.VC_JOB and not group.native:
        text, cause = (
            f"{verb} minMember {said.value}, the Job's minAvailable is {gang.minimum}",
            NOT_CARRIED,
        )
    elif job.gang_minimum and group.native:
        had = f"minCount {said.value}" if said.value else "the basic policy"
        text, cause = f"{verb} {had}, the Job's minCount is {job.gang_minimum}", NATIVE_NOT_CARRIED
    else:
        return None
    return wording.finding(
        Verdict.FAIL,
        WHOLE,
        f"PodGroup {group.name} {text}",
        gang,
        violation=True,
        causes=(cause,),
        evidence=(said.key, job.key),
    )


def _never_whole(
    evidence: Evidence, given: subjects.Given, gang: Gang, gen: Generation, *, arranged: bool
) -> Finding:
    reading = gates.read(evidence, gang, gen)
    expired = subjects.timed_out(evidence, gen.start) if arranged else None
    unseen = reading.unseen is not None and subjects.silent(
        evidence, given, gen.start, gen.start + reading.unseen
    )
    text = f"{gang.title} was never whole: {wording.part(gen.most_held, gen.minimum)} members bound; "
    text += _why_not(reading, unseen=unseen)
    keys = tuple(said.key for said in reading.refusals[:4])
    fits = capacity.fits_on(evidence, gang) if reading.refusals and not expired else None
    if fits is not None:
        nodes, rooms = fits
        odd = [
            f"{r.node} has capacity {r.capacity}, allocatable {r.allocatable}, {r.used} in use"
            for r in rooms
            if r.free < 0
        ]
        text += f"; yet it fits on {wording.listed(nodes, 4)}{'; ' + wording.listed(odd, 2) if odd else ''}"
        return wording.finding(Verdict.FAIL, WHOLE, text, gang, causes=(MISCOUNTED,), evidence=keys)
    if expired is not None:
        refused = bool(reading.refusals or reading.enqueue or reading.held)
        # Without a word of a scheduler nothing shows that it was room that lacked.
        causes: tuple[Cause, ...] = (
            (wording.SCHEDULER_SILENT,) if unseen else (wording.NO_ROOM,) if refused else ()
        )
        text += f"; waited for: {expired[0]}"
        return wording.finding(Verdict.FAIL, WHOLE, text, gang, causes=causes, evidence=(*keys, expired[1]))
    causes = (wording.SCHEDULER_SILENT,) if unseen else ()
    return wording.finding(
        Verdict.INCONCLUSIVE, WHOLE, f"{text}; nothing shows that it fits", gang, evidence=keys, causes=causes
    )


def _why_not(reading: gates.Reading, *, unseen: bool) -> str:
    if unseen:
        return f"its PodGroup had no phase for {reading.unseen:.1f} s: not seen by the scheduler"
    if reading.held is not None and reading.held.said is not None:
        gate, said = reading.held.gate, reading.held.said
        return f"held at {gate} by {reading.scheduler.name} ({wording.short(said.message)})"
    if reading.enqueue:
        said = reading.enqueue[-1]
        return f"refused at enqueue by {said.reporter} ({wording.short(said.message)})"
    return "no scheduler gave a reason"


@subjects.judge
def half_placed_control(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge GANG-008: the contrast is half placed and the detector says so."""
    named = subjects.cast(evidence, given, "contrast")
    gangs = [
        gang
        for gang in (named if named is not None else subjects.everyone(evidence))
        if gang.minimum > 1 and not subjects.gang_scheduler(gang)
    ]
    if not gangs:
        return wording.finding(
            Verdict.INCONCLUSIVE,
            CONTRAST,
            "no gang in the evidence is placed by a scheduler without the gang rule",
        )
    found = lasting(evidence, given, halves(evidence, gangs))
    if not found:
        gang = gangs[0]
        text = f"{gang.title} was not half placed: {wording.part(gang.generations[-1].most_held, gang.minimum)} bound"
        return wording.finding(
            Verdict.INCONCLUSIVE, CONTRAST, f"{text}; the control does not show the failure", gang
        )
    worst = found[0]
    causes = wording.causes_of_half(worst, subjects.of(evidence, given).scheduler)
    return wording.finding(
        Verdict.PASS,
        CONTRAST,
        f"shown: {wording.describe_half(worst)}; fix: {causes[0].fix}",
        worst.gang,
        causes=causes,
        evidence=tuple(half.key for half in found[:8]),
        numbers=(Number("members bound", worst.held, "pods", worst.generation.minimum, "minAvailable"),),
        currency=subjects.currency(evidence, given, worst.gang),
    )
