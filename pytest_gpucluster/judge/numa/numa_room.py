"""Whether there was room for a pod on one NUMA node, by what others held there when it was bound."""

import re
from collections.abc import Sequence

from pytest_gpucluster.evidence.hardware import numa_trials as reading
from pytest_gpucluster.evidence.hardware.numa_trials import RAN, REJECTED, Trial
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.numa import shared
from pytest_gpucluster.requirement import Presupposed

_SHORT = re.compile(r"Requested: (?P<asked>\d+), Available: (?P<free>\d+)")


def free(told: shared.Terms, every: Sequence[Trial], trial: Trial) -> list[int] | None:
    """Return how many devices were free on each NUMA node when a pod was bound; None where it cannot be told."""
    if told.share is None:
        return None
    begun = trial.pod.bound or trial.since
    others = [
        t for t in every if t is not trial and t.node == trial.node and t.outcome == RAN and _there(t, begun)
    ]
    if not all(t.known for t in others) or sum(t.asked for t in others) < trial.beside:
        return None
    used = [sum(1 for t in others for at in t.devices.values() if at == node) for node in range(told.nodes)]
    return [max(told.share - taken, 0) for taken in used]


def _there(trial: Trial, t: float) -> bool:
    ends = [when for when in (trial.pod.finished, trial.pod.deleted) if when is not None]
    return trial.pod.bound is not None and trial.pod.bound <= t and (not ends or min(ends) > t)


def had_room(told: shared.Terms, every: Sequence[Trial], trial: Trial) -> bool:
    """Report whether some NUMA node could have served a pod that was rejected.

    So it is where nothing of ours lay on the node, and where what the others hold leaves one NUMA node enough: their
    number alone shows it only where all of them fit on the other NUMA nodes.
    """
    if trial.fitted is not True:
        return False
    if trial.beside == 0:
        return True
    left = free(told, every, trial)
    return left is not None and any(count >= trial.asked for count in left)


def split(told: shared.Terms, every: Sequence[Trial]) -> list[tuple[Trial, list[int]]]:
    """Return the pods that were rejected while enough devices were free, and no NUMA node had enough of them."""
    found = []
    for trial in shared.fitting(told, every):
        if not trial.topology or trial.fitted is not True or had_room(told, every, trial):
            continue
        left = free(told, every, trial)
        if left is not None:
            found.append((trial, left))
    return found


def told_split(trial: Trial, left: Sequence[int]) -> str:
    """Return how the devices that were free lay when a pod was rejected."""
    parts = [f"{count} on NUMA node {node}" for node, count in enumerate(left)]
    return (
        f"{trial.title} was rejected with {trial.reason}: {wording.count(sum(left), 'device')} were free, "
        f"{' and '.join(parts)}"
    )


def denied(trial: Trial, resource: str) -> bool:
    """Report whether a kubelet refused devices that were free, for another reason than topology.

    A kubelet that says that it has fewer free, while others hold some there, speaks of a shortage.
    """
    reasons = {"unexpectedadmissionerror", f"outof{resource}".lower()}
    if trial.outcome != REJECTED or reading.normal(trial.reason) not in reasons or trial.fitted is not True:
        return False
    short = _SHORT.search(trial.message)
    return short is None or trial.beside == 0 or int(short["free"]) >= int(short["asked"])


def room_on_one(evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether pods that fit a NUMA node found enough devices free on one."""
    name = "devices are free on one NUMA node"
    told = shared.of(evidence, given)
    found = split(told, reading.trials(evidence, given))
    if found:
        return wording.presupposed(
            name,
            held=False,
            observed=wording.listed([told_split(*one) for one in found], 4),
            causes=(shared.FRAGMENTED,),
            evidence=shared.keys(trial for trial, _ in found),
        )
    return wording.presupposed(name, held=True, observed="no pod was rejected while its devices were split")
