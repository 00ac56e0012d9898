"""CKPT-006: what is saved to the disk of a node is on the durable volume in time, and loads without that node."""

from typing import Any

from pytest_gpucluster.evidence.hardware import checkpoints
from pytest_gpucluster.evidence.hardware.checkpoints import Told
from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.log.payload_lines import Word
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.checkpoint import resharding, shared
from pytest_gpucluster.measure import samples
from pytest_gpucluster.requirement import Cause, Finding, Number

REQUIRED = (
    "a checkpoint on the disk of a node is whole on the durable volume within the declared time, and loads with the "
    "same bits on another node when the writer's is lost"
)
SLOW = Cause(
    "copying is slower than declared: the network to the storage, or the storage, is shared or throttled",
    "compare with the speed of the volume (CKPT-004); flush from all nodes at once, and before the next save",
)
PARTIAL = Cause(
    "not all nodes copied their files: a node without the flusher, or one that ended before",
    "run the flusher on every node (a DaemonSet with tolerations for GPU nodes), and let the pod wait for it",
)
STILL_THERE = Cause(
    "the writers were still there: whether the checkpoint outlives them was not tried",
    "look why the pods of the save were not removed in time (budgets.delete)",
)
TOO_EARLY = Cause(
    "the clocks of the two containers are not one, or what was copied is not what was saved",
    "let the flusher run on the node of the ranks, and copy what their manifest names",
)
SAME_NODE = Cause(
    "no other node was free: whether the checkpoint outlives its node was not tried",
    "run with more nodes than save together (storage.nodes)",
)


@subjects.judge
def reaches_durable(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge CKPT-006."""
    if given.get("storage") and not fields.sub(given, "storage", "local"):
        return wording.Findings(REQUIRED).not_applicable("no volume of a node is declared (storage.local)")
    told, gang = shared.told(evidence, given, "saved", "save")
    say = wording.Findings(REQUIRED, gang)
    saved = tuple(one for one in told if one.data.get("how") == "local")
    if not saved:
        return shared.nobody(evidence, gang, say, "a save to the disk of a node")
    every = _flushed(evidence, gang)
    # A flusher that found none names no step; one that copied another checkpoint says nothing of this one.
    flushed = tuple(word for word in every if word.number("step") in (saved[0].step, None, -1))
    bound = samples.number(fields.sub(given, "storage").get("flush"))
    took = [value for word in flushed if (value := samples.number(word.data.get("seconds"))) is not None]
    slowest = max(took, default=None)
    numbers = (Number("from the node's disk to the durable volume", slowest, "s", bound, "storage.flush"),)
    more: dict[str, Any] = {
        "evidence": (*(word.key for word in flushed), *shared.keys(saved))[:12],
        "numbers": numbers,
    }
    bad = next((word for word in flushed if word.data.get("ok") is not True), None)
    if bad is not None:
        return _not_flushed(bad, say, more)
    if slowest is not None and bound is not None and slowest > bound:
        text = (
            f"step-{saved[0].step} was whole on the durable volume {slowest:.3g} s after it was saved, at most "
            f"{bound:g} s are declared"
        )
        return say.fail(text, SLOW, violation=True, **more)
    odd = _odd(saved, flushed, given)
    if odd is not None:
        return say.inconclusive(*odd, **more)
    if bound is None or slowest is None or not any(word.data.get("marked") is True for word in flushed):
        return say.inconclusive(
            "nobody reported that the checkpoint is whole on the durable volume", shared.NO_LINE, **more
        )
    loaded, loading = shared.told(evidence, given, "loaded", "load")
    of_step = checkpoints.by_step(loaded).get(saved[0].step or -1, ())
    if not of_step:
        return shared.nobody(
            evidence, loading, wording.Findings(REQUIRED, loading, **more), f"a load of step-{saved[0].step}"
        )
    return _loaded(saved, of_step, wording.Findings(REQUIRED, loading, **more), slowest, given)


def _odd(
    saved: tuple[Told, ...], flushed: tuple[Word, ...], given: subjects.Given
) -> tuple[str, Cause] | None:
    """Return what speaks against a copy that was in time, None for nothing."""
    missing = shared.absent(saved, subjects.count(given, "world") or saved[0].word.number("world"))
    if missing:
        return f"save to the disk of a node: {missing}", shared.NO_LINE
    if not saved[0].digests or any(one.digests != saved[0].digests for one in saved):
        return f"ranks report different states of step-{saved[0].step}, or none", shared.NO_LINE
    for word in flushed:
        seconds = samples.number(word.data.get("seconds"))
        if seconds is not None and seconds < 0:
            return f"Pod/{word.pod} copied before its checkpoint was saved, by {-seconds:.3g} s", TOO_EARLY
        if shared.in_memory(fields.sub(word.data, "mount")):
            return f"Pod/{word.pod} copied to memory, not to a disk", shared.IN_MEMORY
    return None


def _loaded(
    saved: tuple[Told, ...],
    loaded: tuple[Told, ...],
    say: wording.Findings,
    slowest: float,
    given: subjects.Given,
) -> Finding:
    """Return what loading on another node makes of the row."""
    step = saved[0].step
    broken = next((one for one in loaded if one.data.get("problem")), None)
    if broken is not None:
        problem = str(broken.data["problem"])
        text = (
            f"{broken.place} cannot load step-{step} from the durable volume: {wording.short(problem, 300)}"
        )
        return say.fail(text, resharding.of_error(problem), violation=True, where=shared.places([broken]))
    for one in loaded:
        odd = resharding.differs(saved[0], one)
        if odd:
            text = f"{one.place}: step-{step} on the durable volume holds other bits in {odd}"
            return say.fail(text, resharding.CHANGED, violation=True, where=shared.places([one]))
    begun = min(one.word.t for one in loaded)
    if any(one.pod is None or one.pod.deleted is None or one.pod.deleted > begun for one in saved):
        return say.inconclusive(
            f"a pod that wrote step-{step} was not seen gone before it was loaded", STILL_THERE
        )
    missing = shared.absent(loaded, subjects.count(given, "load_world") or loaded[0].word.number("world"))
    if missing:
        return say.inconclusive(f"load of step-{step}: {missing}", shared.NO_LINE)
    writers, readers = {one.node for one in saved}, {one.node for one in loaded}
    if writers & readers or not all(readers):
        return say.inconclusive(
            f"step-{step} was loaded on {wording.listed(sorted(readers))}, which wrote it", SAME_NODE
        )
    text = (
        f"step-{step}, saved to {shared.mount(saved[0])} of {wording.listed(sorted(writers))}, was whole on the "
        f"durable volume after {slowest:.3g} s and loaded with the same bits on {wording.listed(sorted(readers))}; the "
        "pods that wrote it were gone"
    )
    return say.passed(text)


def _flushed(evidence: Evidence, gang: Gang | None) -> tuple[Word, ...]:
    chosen = subjects.uids(gang)
    words = payload_lines.words(evidence).of("flushed")
    return tuple(word for word in words if chosen is None or word.uid in chosen)


def _not_flushed(word: Word, say: wording.Findings, more: dict[str, Any]) -> Finding:
    problem, missing = str(word.data.get("problem") or ""), word.data.get("missing")
    if problem:
        cause = shared.of_volume(problem)
        text = f"Pod/{word.pod} could not copy its part: {wording.short(problem, 300)}"
        return (
            say.fail(text, cause, violation=True, **more)
            if cause
            else say.inconclusive(text, shared.NO_LINE, **more)
        )
    names = wording.listed([str(name) for name in missing]) if isinstance(missing, list) else "files"
    return say.fail(
        f"on the durable volume {names} did not become whole in time", PARTIAL, SLOW, violation=True, **more
    )
