"""What figures of several GPUs stand on: each rank has a GPU of its own, and all of them measured at one time."""

from pytest_gpucluster.evidence.hardware import own_gpus
from pytest_gpucluster.evidence.hardware.throughput import Told
from pytest_gpucluster.judge.mfu.shared import Doubt
from pytest_gpucluster.requirement import Cause

SHARED = Cause(
    "two ranks work on one GPU: the device plugin hands it out twice (time-slicing, MPS, two plugins), the containers "
    "see more than they were given, or the program does not choose its device by LOCAL_RANK",
    "compare nvidia-smi -L in both containers with the devices that the kubelet allocated (HLT-004), and look at "
    "the sharing section of the device plugin (INV-002)",
)
NO_IDENTITY = Cause(
    "the program does not report its GPU",
    "use a torch version that reports UUIDs (2.4 and later), and the shipped payload",
)
NOT_AT_ONCE = Cause(
    "the ranks measured one after another, so they never loaded power and cooling as a training job does; or the "
    "nodes' clocks differ by this much",
    "synchronise all ranks before each measurement, as the shipped payload does; compare the nodes' clocks (chronyc "
    "tracking)",
)


def of_devices(told: Told) -> list[Doubt]:
    """Return which ranks share a GPU, or cannot say which one they have."""
    ranks = [rank for rank in told.measured if not rank.cpu]
    doubts = []
    for name, held in own_gpus.shared(ranks):
        places = ", ".join(rank.place for rank in held)
        doubts.append(
            Doubt(f"{len(held)} ranks are on one GPU, {name}: {places}", held[0], SHARED, others=held[1:])
        )
    mute = [rank for rank in ranks if not own_gpus.gpu(rank).known]
    if mute and len(ranks) > 1:
        text = f"{mute[0].place} does not report its GPU"
        more = f", nor {len(mute) - 1} more" if len(mute) > 1 else ""
        doubts.append(Doubt(text + more, mute[0], NO_IDENTITY, others=tuple(mute[1:])))
    return doubts


def of_times(told: Told) -> list[Doubt]:
    """Return which ranks did not measure while the others did."""
    ranks = [rank for rank in told.measured if not rank.cpu]
    spans = own_gpus.apart(ranks)
    if spans is not None:
        first, last = spans
        text = (
            f"{last.rank.place} began to measure {last.start - first.start:.0f} s after {first.rank.place}, which "
            f"measured for {first.end - first.start:.0f} s: not all GPUs worked at the same time"
        )
        return [Doubt(text, last.rank, NOT_AT_ONCE, others=(first.rank,))]
    lives = own_gpus.lives_apart(ranks)
    if lives is None:
        return []
    text = f"the pod of {lives[0].place} had ended before that of {lives[1].place} had a node"
    return [Doubt(text, lives[1], NOT_AT_ONCE, others=(lives[0],))]
