"""FAB-014: every rank has a device of its own, on the node where it is expected.

A real device's UUID is unique in the world: two ranks that name the same share it, wherever they say they are. Ids that
a device plugin makes up are unique on their node only.
"""

import re
from collections import Counter

from pytest_gpucluster.evidence.hardware.collectives import Rank, Told
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.fabric import shared
from pytest_gpucluster.requirement import Cause, Finding, Number, Presupposed, Verdict

REQUIRED = "every rank has its own device, and every expected node holds its share of the ranks"

UUID = re.compile(
    r"^(?:GPU-|MIG-)?(?:GPU-)?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE
)
SHARED = Cause(
    "two ranks chose the same GPU: the program does not choose its device by LOCAL_RANK, or each rank sees one GPU "
    "only, or the device plugin hands one GPU to several pods (time slicing, MPS, two plugins)",
    "set the device by LOCAL_RANK, start one process per GPU, and look at the sharing section of the device plugin",
)
FOREIGN = Cause(
    "the container sees GPUs that its pod was not given: a privileged pod, NVIDIA_VISIBLE_DEVICES set in the image or "
    "the pod, or a runtime that accepts it from unprivileged containers",
    "leave NVIDIA_VISIBLE_DEVICES out of image and pod, and set accept-nvidia-visible-devices-envvar-when-unprivileged "
    "= false",
)
UNPLACED = Cause(
    "fewer nodes take part than expected: several members lie on one node, or a rank's world is smaller",
    "ask for all GPUs of a node in each member, or spread members over nodes (podAntiAffinity on "
    "kubernetes.io/hostname)",
)
LAID_OUT = Cause(
    "several pods share a node (fabric.pods_per_node), and nothing makes a scheduler put just so many on one",
    "let one pod have all GPUs of a node (pods_per_node: 1), or leave no GPUs free on other nodes",
)
NO_UUID = Cause(
    "neither the driver nor the device plugin reports which device a rank has",
    "use a torch version that reports UUIDs (2.4 and later), or a device plugin that sets NVIDIA_VISIBLE_DEVICES",
)


@subjects.judge
def own_devices(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge FAB-014."""
    heard = shared.heard(evidence, given, REQUIRED)
    if isinstance(heard, Finding):
        return heard
    gang, told, found = heard
    world = shared.expected(given, told) or len(told.ranks)
    seen = _seen(told, world)
    if seen is not None:
        text, ranks, cause = seen
        where = shared.places(ranks)
        return found.fail(text, cause, violation=True, where=where)
    absent = shared.missing(told, world)
    if absent:
        return _incomplete(evidence, told, gang, world, absent)
    short = _nodes(given, told)
    if short is not None and (subjects.count(given, "pods_per_node") or 1) > 1:
        return found.inconclusive(short, LAID_OUT)
    if short is not None:
        return found.fail(short, UNPLACED, violation=True)
    mute = [rank for rank in told.ranks if not rank.says("uuid")]
    if mute:
        text = f"{wording.count(len(mute), 'rank')} of {world} did not report a device id"
        return found.inconclusive(text, NO_UUID, where=shared.places(mute))
    nodes = sorted({rank.node for rank in told.ranks})
    by = "the driver" if all(r.says("uuid_by") == "driver" for r in told.ranks) else "the device plugin"
    text = f"{world} ranks on {wording.listed(nodes)}, each with its own device (ids by {by})"
    number = Number(
        "devices", float(len({_identity(r) for r in told.ranks})), "", float(world), "one per rank"
    )
    return found.passed(text, numbers=(number,), where=shared.places(list(told.ranks)))


def _identity(rank: Rank) -> tuple[str, str]:
    """Return what tells a device from all others."""
    uuid = rank.says("uuid")
    return ("", _bare(uuid)) if UUID.match(uuid) else (rank.node, uuid)


def _bare(uuid: str) -> str:
    """Return a UUID without the word for what it is of: torch calls a slice of a GPU as it calls a GPU."""
    return uuid.lower().removeprefix("gpu-").removeprefix("mig-")


def _seen(told: Told, world: int) -> tuple[str, list[Rank], Cause] | None:
    """Return what must not be and was seen, with the ranks that it is about."""
    failed = [
        rank for rank in told.ranks if rank.failed is not None and "no device of its own" in _error(rank)
    ]
    if failed:
        return f"{failed[0].where}: {_error(failed[0])}", failed, SHARED
    numbers = Counter(rank.rank for rank in told.ranks)
    twice = [rank for rank in told.ranks if numbers[rank.rank] > 1 or not 0 <= rank.rank < world]
    if twice:
        text = f"rank {twice[0].rank} of a world of {world} exists {numbers[twice[0].rank]} times"
        return text, twice, UNPLACED
    devices = Counter(_identity(rank) for rank in told.ranks if rank.says("uuid"))
    doubled = [r for r in told.ranks if r.says("uuid") and devices[_identity(r)] > 1]
    if doubled:
        same = [r for r in doubled if _identity(r) == _identity(doubled[0])]
        listed = wording.listed([r.where for r in same])
        return f"{listed} are on one device, {doubled[0].says('uuid')}", doubled, SHARED
    foreign = [rank for rank in told.ranks if _foreign(rank)]
    if foreign:
        text = f"{foreign[0].where} has {foreign[0].says('uuid')}, which was not allocated to its pod"
        return text, foreign, FOREIGN
    moved = [r for r in told.ranks if r.pod is not None and r.says("node") not in ("", r.pod.node)]
    if moved:
        return f"{moved[0].where} says that it is on {moved[0].says('node')}", moved, UNPLACED
    return None


def _error(rank: Rank) -> str:
    return "" if rank.failed is None else str(rank.failed.data.get("error") or "")


def _foreign(rank: Rank) -> bool:
    """Report whether the driver shows a device that is not among those that the kubelet handed out by UUID."""
    listed = rank.word.data.get("handed")
    handed = [_bare(str(one)) for one in listed] if isinstance(listed, list) else []
    if rank.says("uuid_by") != "driver" or (rank.word.number("handed_count") or 0) > len(handed):
        return False
    whole = bool(handed) and all(UUID.match(one) for one in handed)
    return whole and bool(rank.says("uuid")) and _bare(rank.says("uuid")) not in handed


def _incomplete(evidence: Evidence, told: Told, gang: Gang | None, world: int, absent: list[int]) -> Finding:
    """Say what ranks that said nothing make of the row."""
    expired = subjects.timed_out(evidence)
    text = f"rank {wording.listed([str(n) for n in absent])} of {world} reported nothing"
    if told.torn:
        text += f"; {wording.count(told.torn, 'line')} cut in the middle"
    verdict = Verdict.INCONCLUSIVE if told.torn or expired is None else Verdict.FAIL
    if expired is not None:
        text += f"; waited for {expired[0]}"
    return wording.finding(
        verdict, REQUIRED, text, gang, causes=(shared.NO_RANK,), evidence=shared.keys(told)
    )


def _nodes(given: subjects.Given, told: Told) -> str | None:
    """Return which node lacks ranks, None where all have theirs."""
    wanted, pods = subjects.count(given, "nodes"), subjects.count(given, "pods_per_node") or 1
    each = subjects.count(given, "nproc")
    held = Counter(rank.node for rank in told.ranks)
    listed = wording.listed([f"{node or 'an unknown node'} {n}" for node, n in sorted(held.items())])
    if wanted is not None and len(held) != wanted:
        return f"{wording.count(wanted, 'node')} expected, ranks are on {len(held)}: {listed}"
    if each is not None and any(n != each * pods for n in held.values()):
        return f"{wording.count(each * pods, 'rank')} per node expected: {listed}"
    return None


def apart(evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether every rank has a device of its own: what any figure stands on."""
    name = "every rank has its own device"
    finding = own_devices(evidence, given)
    held = {Verdict.PASS: True, Verdict.FAIL: False}.get(finding.verdict)
    return wording.presupposed(
        name, held=held, observed=finding.observed, causes=finding.causes, evidence=finding.evidence
    )
