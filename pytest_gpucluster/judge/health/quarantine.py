"""HLT-005: a node that is kept back for its health has an open fault that is named, and an end."""

from collections.abc import Sequence

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects import node_status, quarantines
from pytest_gpucluster.evidence.objects.quarantines import Quarantine
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.requirement import Cause, Finding, Number

REQUIRED = "every node that is kept back for its health has an open fault that is named, and an end"

FORGOTTEN = Cause(
    "the fault is gone, or there was none, and the quarantine stayed behind: it was set by hand, or its system was "
    "restarted or removed before it lifted it",
    "check the devices of the node; if they are well, lift the quarantine (kubectl uncordon NODE, and take off the "
    "labels and taints named here), else write down the fault where the health system keeps it",
)
STUCK = Cause(
    "the repair that the health system started has failed: it tries no further, so the quarantine has no end",
    "finish the repair by hand (reset or reboot the node, replace the GPU or the host), then lift the quarantine",
)
UNKNOWN = Cause(
    "the taint speaks of health, and is of no system whose faults are known here",
    "find who sets it (kubectl get node NODE -o yaml --show-managed-fields), and look there for the fault and its end",
)
LIFTING = Cause(
    "the fault ended during the run and the quarantine had not been lifted yet",
    "repeat: a quarantine that is still there then has been forgotten",
)


@subjects.judge
def named_and_ending(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge HLT-005."""
    declared = str(given.get("gpu_resource") or "nvidia.com/gpu")
    machines = node_status.machines(evidence)
    found = [
        kept
        for machine in machines
        if (kept := quarantines.of(machine)) is not None and _is_of_health(kept, declared)
    ]
    of = wording.Findings(
        REQUIRED,
        where=wording.shown([_where(kept) for kept in found]),
        evidence=tuple(kept.machine.line.key for kept in found[: wording.MANY]),
        repeat=tuple(f"kubectl get node {kept.machine.name} -o yaml" for kept in found[:2]),
        facts={"quarantines": {kept.machine.name: _told(kept) for kept in found[:100]}},
    )
    if not machines:
        return of.inconclusive("no node was seen")
    stuck = [kept for kept in found if kept.stuck]
    bare = [kept for kept in found if _is_bare(kept)]
    lifting = [kept for kept in bare if _had_fault(evidence, kept)]
    forgotten = [kept for kept in bare if kept not in lifting and not kept.unknown]
    if stuck or forgotten:
        parts = [_told(kept) for kept in (*forgotten, *stuck)]
        causes = (*([FORGOTTEN] if forgotten else []), *([STUCK] if stuck else []))
        text = f"{len(forgotten) + len(stuck)} of {wording.count(len(found), 'quarantine')}: {wording.listed(parts, 4)}"
        return of.fail(text, violation=True, causes=causes, numbers=_numbers(forgotten, found))
    foreign = [kept for kept in found if kept.unknown and not kept.work]
    if lifting or foreign:
        text = wording.listed([_told(kept) for kept in found if kept in lifting or kept in foreign], 4)
        causes = (*([LIFTING] if lifting else []), *([UNKNOWN] if foreign else []))
        return of.inconclusive(text, causes=causes)
    if not found:
        text = (
            f"none of {wording.count(len(machines), 'node')} is cordoned or carries a mark of a health system"
        )
        return of.passed(
            text,
            numbers=_numbers([], found),
            evidence=tuple(machine.line.key for machine in machines[: wording.MANY]),
        )
    return of.passed(wording.listed([_told(kept) for kept in found], 4), numbers=_numbers([], found))


def _is_of_health(kept: Quarantine, declared: str) -> bool:
    """Report whether a node is kept back for its health: a node without GPUs may be cordoned for anything."""
    return bool(
        kept.systems or kept.unknown or kept.faults or kept.checks or kept.stuck
    ) or kept.machine.has_gpus(declared)


def _is_bare(kept: Quarantine) -> bool:
    """Report whether nothing explains why a node is kept back."""
    planned = bool(kept.work) and not kept.systems
    return not (kept.faults or kept.checks or kept.stuck or planned)


def _had_fault(evidence: Evidence, kept: Quarantine) -> bool:
    """Report whether the fault was open, or a check under way, at an earlier time of the evidence."""
    earlier = (quarantines.of(state) for state in node_status.states(evidence, kept.machine.name))
    return any(one is not None and (one.faults or one.checks) for one in earlier)


def _told(kept: Quarantine) -> str:
    """Return a quarantine in a few words: by whom, for what, since when, and how it ends."""
    name = kept.machine.name
    by = wording.listed(kept.systems) or "nobody who says so"
    text = f"{name} is kept back by {by} ({_marks(kept)})"
    since = f" since {kept.since}" if kept.since else ", since when is not said"
    if kept.stuck:
        return f"{text}{since}, and its repair failed ({kept.stuck[0].shown})"
    if kept.faults:
        faults = [f"{fault.text} ({fault.system})" for fault in kept.faults]
        return f"{text} for {wording.listed(faults, 2)}{since}; {_end(kept)}"
    if kept.checks:
        return f"{text} for a check under way ({kept.checks[0].shown}){since}; {_end(kept)}"
    if kept.work and not kept.systems:
        return f"{name} is out for planned work: {kept.work[0]}"
    return f"{text}{since}, and no fault is open"


def _end(kept: Quarantine) -> str:
    if kept.systems:
        return kept.ends[kept.systems[0]]
    return kept.faults[0].ends if kept.faults else "how it ends is not known"


def _where(kept: Quarantine) -> str:
    return f"Node/{kept.machine.name}: {_marks(kept)}"


def _marks(kept: Quarantine) -> str:
    return wording.listed([mark.shown for found in kept.marks.values() for mark in found], 3)


def _numbers(forgotten: Sequence[Quarantine], found: Sequence[Quarantine]) -> tuple[Number, ...]:
    origin = f"quarantines seen: {len(found)}"
    return (Number("quarantines without an open fault", len(forgotten), "nodes", 0, origin),)
