"""A gang that requires one domain of the network is placed whole in one, or not at all; whoever schedules it."""

import dataclasses
import re
from collections.abc import Sequence

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects.network_places import Domain, Levels
from pytest_gpucluster.evidence.objects.owners import Said
from pytest_gpucluster.evidence.scheduling import gates, topology
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import declared_topology, subjects, wording
from pytest_gpucluster.plain import schedulers
from pytest_gpucluster.requirement import Cause, Finding, Number

SCATTERING = Cause(
    "the scheduler does not keep to the level: it was not asked in the way that it understands, its topology awareness "
    "is switched off, or its topology has other levels than the nodes",
    "look at what the gang asks for (the repeat lines show it), at the scheduler's feature gates, and at its topology",
)
SILENT = Cause(
    "the scheduler did not look at the gang, or keeps its reason to itself",
    "look at its log, and at the conditions and events of what asks for the gang (kubectl describe)",
)
HALF = Cause(
    "the room of the domain was counted at a time, and something else took it before all members were bound",
    "keep what does not ask for a topology off these nodes, or let it be counted by the same scheduler",
)


@dataclasses.dataclass(frozen=True)
class Trial:
    """What a row tried: the level, and who was submitted for it.

    Attributes:
        evidence: what was recorded.
        given: what judges are told.
        known: the declared levels.
        resource: the resource that is scarce in each domain.
    """

    evidence: Evidence
    given: subjects.Given
    known: Levels
    resource: str

    @property
    def required(self) -> str:
        """Return what must hold."""
        return (
            f"a gang that requires one domain of {self.known.required} is placed whole in one; one that fits only "
            "across domains holds nothing for the window, and the refusal names the topology"
        )

    def of(self, gang: Gang) -> wording.Findings:
        """Return what builds findings about a gang."""
        return wording.Findings(self.required, gang, currency="slots", start=f"{gang.title} ")


def declared(evidence: Evidence, given: subjects.Given) -> Trial | Finding:
    """Return what is tried, or why nothing can be."""
    known = declared_topology.levels(
        given, "a gang that requires one domain of the network is placed whole in one, or not at all"
    )
    if isinstance(known, Finding):
        return known
    return Trial(evidence, given, known, str(given.get("resource") or ""))


def decide(trial: Trial, inside: Sequence[Gang], across: Sequence[Gang]) -> Finding:
    """Return the finding on gangs that fit in one domain, and on gangs that fit only across several."""
    scattered = [one for gang in (*inside, *across) if (one := _scattered(trial, gang)) is not None]
    if scattered:
        return scattered[0]
    if not inside or not across:
        missing = "fits in one domain" if not inside else "fits only across domains"
        text = subjects.nothing(trial.evidence, f"gang that {missing}")
        return wording.Findings(trial.required).inconclusive(text)
    findings = [*(_inside(trial, gang) for gang in inside), *(_across(trial, gang) for gang in across)]
    violated = next((found for found in findings if found.violation), None)
    whole = violated or wording.together(findings)
    return dataclasses.replace(whole, refusal=whole.refusal or findings[-1].refusal)


def _shown(domain: Domain) -> str:
    return "/".join(domain)


def _scattered(trial: Trial, gang: Gang) -> Finding | None:
    """Return the violation: members of one attempt on nodes of several domains, which were so when they were bound."""
    last = max((pod.bound for pod in gang.pods if pod.bound is not None), default=0.0)
    if topology.relabelled(trial.evidence, gang, trial.known, last + subjects.LATE):
        return None
    for gen in gang.generations:
        placed = topology.placement(trial.evidence, gen, trial.known)
        if len(placed.domains) < 2:
            continue
        told = [f"{len(pods)} in {_shown(domain)}" for domain, pods in placed.domains.items()]
        return trial.of(gang).fail(
            f"was placed across {len(placed.domains)} domains of {trial.known.required}: {wording.listed(told, 4)}",
            SCATTERING,
            violation=True,
            evidence=tuple(pod.keys["bound"] for pod in placed.members)[: wording.MANY],
            numbers=(Number("domains", len(placed.domains), "domains", 1, "profile"),),
        )
    return None


def _asks(trial: Trial, gang: Gang) -> Finding | None:
    """Return why a gang proves nothing: it does not ask for the declared level."""
    level = topology.demanded(gang)
    if level == trial.known.required:
        return None
    text = f"asks for one domain of {level}" if level else "does not ask for one domain of a level"
    return trial.of(gang).inconclusive(f"{text}; declared is {trial.known.required}")


def _inside(trial: Trial, gang: Gang) -> Finding:
    """Return whether a gang that fits was placed whole in one domain, although it could have gone elsewhere."""
    of, unasked = trial.of(gang), _asks(trial, gang)
    if unasked is not None:
        return unasked
    moved = topology.relabelled(trial.evidence, gang, trial.known)
    if moved:
        return of.inconclusive(
            f"is on nodes whose domain changed meanwhile: {wording.listed(moved, 4)} (INV-004)"
        )
    gen = next((one for one in gang.generations if one.whole is not None), gang.generations[-1])
    expired = subjects.timed_out(trial.evidence, gang.created)
    if gen.whole is None or gen.first_bind is None:
        text = (
            f"was not placed whole: {wording.part(gen.most_held, gen.minimum)} bound{_reasons(trial, gang)}"
        )
        return (
            of.fail(f"{text}; waited for {expired[0]}", HALF)
            if expired is not None
            else of.inconclusive(text)
        )
    late = gen.whole - gang.created
    if late > subjects.placed_within(trial.given, "enqueue", "bind"):
        return of.fail(f"was placed whole only {late:.0f} s after it was made", HALF)
    placed = topology.placement(trial.evidence, gen, trial.known)
    if placed.unplaced or len(placed.domains) != 1:
        nodes = sorted({pod.node for pod in placed.unplaced})
        return of.inconclusive(
            f"is on nodes that do not tell their domain: {wording.listed(nodes, 4)} (INV-004)"
        )
    domain = next(iter(placed.domains))
    before = topology.free(trial.evidence, trial.resource, trial.known, gen.first_bind - subjects.EPSILON)
    elsewhere = sum(count for place, count in before.items() if place != domain)
    if elsewhere < 1:
        return of.inconclusive(
            f"is in {_shown(domain)}, but nothing was free elsewhere: it could not have gone anywhere else"
        )
    return of.passed(
        f"is whole in {_shown(domain)}, one domain of {trial.known.required}, while {elsewhere} {trial.resource} were "
        "free elsewhere",
        evidence=tuple(pod.keys["bound"] for pod in placed.members)[: wording.MANY],
        numbers=(Number("domains", 1, "domains", 1, "profile"),),
    )


def _across(trial: Trial, gang: Gang) -> Finding:
    """Return whether a gang that fits only across domains held nothing, and was told why."""
    of, unasked = trial.of(gang), _asks(trial, gang)
    if unasked is not None:
        return unasked
    bound = [pod for gen in gang.generations for pod in gen.bound_members]
    if bound:
        text = f"fits in no domain, yet {wording.part(len(bound), gang.size)} members were bound"
        scheduler = subjects.of(trial.evidence, trial.given).scheduler
        keys = tuple(pod.keys["bound"] for pod in bound)[: wording.MANY]
        return of.fail(
            text, wording.cause_of_one_by_one(gang, scheduler), HALF, violation=True, evidence=keys
        )
    said, expired = _said(trial, gang), subjects.timed_out(trial.evidence, gang.created)
    if not said and expired is not None:
        return of.fail(
            f"was held, and nothing says why; waited for {expired[0]}", SILENT, evidence=(expired[1],)
        )
    span = _room_across(trial, gang)
    if isinstance(span, str):
        return of.inconclusive(span)
    begin, end, room = span
    # What was said of an object last is its reason; an earlier one may have become another.
    last_of = {one.obj: one for one in sorted(said, key=lambda one: one.t) if one.t <= end}
    named = [one for one in last_of.values() if names_topology(one, trial.known)]
    shown = ", ".join(f"{count} in {_shown(domain)}" for domain, count in room.items())
    if not named:
        return of.inconclusive(f"was held, but nothing names the topology{_reasons(trial, gang)}")
    last = max(named, key=lambda one: one.t)
    return of.passed(
        f"held nothing for {end - begin:.1f} s while {shown} {trial.resource} were free; {last.reason}: "
        f"{wording.short(last.message)}",
        evidence=(last.key,),
        refusal=wording.refusal(*_held_at(trial, gang, last)),
        numbers=(Number("members bound across domains", 0, "pods", 0, "catalogue"),),
    )


def _room_across(trial: Trial, gang: Gang) -> tuple[float, float, dict[Domain, int]] | str:
    """Return a window in which the gang fitted across domains and in no single one, or why there is none."""
    limits = subjects.of(trial.evidence, trial.given)
    why = "was not watched for a window while there was room across domains"
    for begin, end in subjects.windows(trial.evidence):
        if begin < gang.created - subjects.LATE or end - begin < limits.window - subjects.EPSILON:
            continue
        lack = [one for t in (min(begin + subjects.LATE, end), end) if (one := _absent(trial, gang, t))]
        if lack:
            why = lack[0]
            continue
        at_both = [topology.free(trial.evidence, trial.resource, trial.known, t) for t in (begin, end)]
        if any(max(room.values(), default=0) >= gang.size for room in at_both):
            why = f"fitted into one domain: {max(max(room.values(), default=0) for room in at_both)} were free there"
        elif any(sum(room.values()) < gang.size for room in at_both):
            least = min(sum(room.values()) for room in at_both)
            why = f"did not fit across domains either: {least} {trial.resource} were free"
        else:
            return begin, end, at_both[-1]
    return why


def _absent(trial: Trial, gang: Gang, t: float) -> str:
    """Say that a gang, or a part of it, was not there to be placed at a time; "" where it was."""
    job = gang.job
    if job is not None and job.deleted is not None and job.deleted <= t:
        return f"was gone at t={job.deleted:.2f} s"
    if not gang.pods and gang.queue:
        return ""  # Kueue keeps a Job that it holds from making pods
    there = {pod.slot for pod in gang.pods if trial.evidence.at(pod.uid, t) is not None}
    if len(there) < gang.size:
        return f"had {wording.part(len(there), gang.size)} members at t={t:.2f} s: there was no gang to be placed"
    return ""


def _held_at(trial: Trial, gang: Gang, said: Said) -> tuple[str, Said, str]:
    """Return the gate at which a gang was held, what was said there, and by which scheduler."""
    for gen in gang.generations:
        reading = gates.read(trial.evidence, gang, gen)
        if said in reading.enqueue:
            return schedulers.ENQUEUE, said, said.reporter
        if reading.held is not None and said in reading.held.reasons:
            return reading.held.gate, said, reading.scheduler.name
    return schedulers.PLACEMENT, said, said.reporter


def _said(trial: Trial, gang: Gang) -> tuple[Said, ...]:
    return tuple(one for gen in gang.generations for one in gates.read(trial.evidence, gang, gen).refusals)


def _reasons(trial: Trial, gang: Gang) -> str:
    said = _said(trial, gang)
    return f" ({said[-1].reason}: {wording.short(said[-1].message)})" if said else ""


_WORDS = re.compile(
    r"(?<![\w./-])(?:topology|hypernodes?)(?![\w./-])|\bplacements are available\b", re.IGNORECASE
)
"""Words of a refusal for want of one domain; as a part of a name, such as that of a resource, they say nothing."""

_NONE_SUCH = re.compile(r"\bnot found\b|\binactive\b", re.IGNORECASE)
"""Words of a refusal for want of the topology itself, which nobody has looked at then."""


def names_topology(said: Said, known: Levels) -> bool:
    """Report whether a refusal speaks of the topology, or of the required level."""
    if _NONE_SUCH.search(said.message):
        return False
    return bool(_WORDS.search(said.message)) or known.required in said.message
