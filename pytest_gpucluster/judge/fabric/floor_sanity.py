"""FAB-015: a floor of bandwidth carries its shape and is one that its hardware can reach, and sockets cannot."""

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.fabric import shared
from pytest_gpucluster.measure import collective
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = (
    f"every floor states its nodes, GPUs, adapters and line rate, and lies between {collective.LEAST_SHARE:g} and "
    "1 of what these wires carry"
)
SHAPE = Cause(
    "a floor without its shape fails healthy clusters of another size and passes sick ones",
    "write nodes, gpus, nics and nic_gbps (on one node link_gbs) beside busbw, as they were when it was measured",
)
UNITS = Cause(
    "the figure has other units or comes from another run: Gbit/s for GB/s, all nodes for one, algorithm "
    "for bus bandwidth",
    "take busbw (GB/s, 1e9 bytes) of nccl-tests or of a report of this suite, of the stated shape",
)


@subjects.judge
def plausible(evidence: Evidence, given: subjects.Given) -> Finding:  # noqa: ARG001 (what is declared is in given)
    """Judge FAB-015."""
    if not shared.fabric(given):
        return wording.finding(
            Verdict.INCONCLUSIVE,
            REQUIRED,
            "the evidence does not say what the profile declares about the fabric",
        )
    listed = [floor for floor, _ in shared.floors(given)]
    if not listed:
        text = "the profile declares no floor of bandwidth (fabric.floors, fabric.floor_file)"
        return wording.finding(Verdict.NOT_APPLICABLE, REQUIRED, text)
    wrong = [(floor, why) for floor in listed if (why := floor.implausible())]
    numbers = tuple(_number(floor) for floor in listed[:24])
    if wrong:
        text = "; ".join(f"{floor.text()}: {why}" for floor, why in wrong[:4])
        more = f" and {len(wrong) - 4} more" if len(wrong) > 4 else ""
        lacks = any(floor.shape is None or floor.shape.lacking() for floor, _ in wrong)
        where = tuple(floor.origin or floor.collective for floor, _ in wrong[: wording.MANY])
        return wording.finding(
            Verdict.INCONCLUSIVE, REQUIRED, text + more, numbers=numbers, where=where,
            causes=(SHAPE, UNITS) if lacks else (UNITS, SHAPE),
        )  # fmt: skip
    text = f"{wording.count(len(listed), 'floor')}, each with its shape and within what its wires carry"
    return wording.finding(Verdict.PASS, REQUIRED, text, numbers=numbers)


def _number(floor: collective.Floor) -> Number:
    top = None if floor.shape is None else collective.ceiling(floor.collective, floor.shape)
    name = f"floor of {floor.collective} from {collective.size_text(floor.size)}"
    if floor.shape is not None:
        name += f", {floor.shape.text()}"
    # The bound is what the wires carry at most.
    return Number(name, floor.busbw, "GB/s", top, floor.origin)
