"""CKPT-003: an asynchronous save keeps training from its next step for no more than the declared time."""

from pytest_gpucluster.evidence.hardware.checkpoints import Told
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.checkpoint import shared
from pytest_gpucluster.measure import samples
from pytest_gpucluster.requirement import Cause, Finding, Number

REQUIRED = "an asynchronous save keeps training from its next step for no more than the declared time"
BLOCKS = Cause(
    "the call does not return before most is written: it is a synchronous save, or it waits for an earlier one",
    "call dcp.async_save, keep its future, and wait for it before the next save, not before the next step",
)
COPY = Cause(
    "copying the state takes long: to pageable memory, over a slow PCIe link, or while other ranks copy too",
    "keep the copy pinned between saves (an async_stager with pinned memory), and look at the NUMA nodes of GPUs and "
    "pods",
)
STARVED = Cause(
    "the steps beside the save are slow: writing takes the CPUs, the memory or the network that training needs",
    "give pods more CPUs, write in a process of its own (async_checkpointer_type), or over another network",
)
NOISY = Cause(
    "steps without a save differ by more than the pause that is allowed: other work takes turns with training",
    "run it on quiet nodes, or declare a larger model or a longer pause (storage.model, storage.pause)",
)
OVER = Cause(
    "the state is too small, or the storage too fast, to see the save go on beside training",
    "declare a larger model (storage.model)",
)


@subjects.judge
def pauses_little(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge CKPT-003."""
    told, gang = shared.told(evidence, given, "paused", "save")
    say = wording.Findings(REQUIRED, gang)
    if not told:
        return shared.nobody(evidence, gang, say, "an asynchronous save")
    bound = samples.number(fields.sub(given, "storage").get("pause"))
    slowest = max(told, key=lambda one: pause(one) or 0.0)
    longest = pause(slowest)
    sync = _synchronous(evidence, given)
    numbers = (
        Number("pause of training, slowest rank", longest, "s", bound, "storage.pause"),
        Number("asynchronous save, slowest rank", _most(told, "took"), "s"),
        Number("synchronous save of the same state, slowest rank", sync, "s"),
    )
    more = {"evidence": shared.keys(told), "numbers": numbers, "where": shared.places([slowest])}
    if bound is None:
        return say.not_applicable("no bound is declared (storage.pause)", **more)
    if longest is not None and longest > bound:
        text = f"{slowest.place} stood still for {longest:.3g} s beside its save; at most {bound:g} s are declared"
        return say.fail(text, *_causes(slowest, bound), violation=True, **more)
    doubt = _doubt(told, given, bound)
    if doubt is not None:
        return say.inconclusive(doubt[0], doubt[1], **more)
    usual = slowest.amount("usual") or 0.0
    share = "" if not sync else f", {(longest or 0.0) / sync:.0%} of a synchronous save"
    text = (
        f"training stood still for at most {longest:.3g} s{share}; the call returned after "
        f"{_most(told, 'call'):.3g} s, all was written after {_most(told, 'took'):.3g} s; a step takes {usual:.3g} s"
    )
    return say.passed(text, **{**more, "where": ()})


def pause(one: Told) -> float | None:
    """Return the seconds by which a save kept a rank from its next step; None where it is not told.

    That is what the longest step took more than a usual one, and never less than the call: until it returns nothing is
    trained, however slow the steps before were.
    """
    longest, usual, call = one.amount("longest"), one.amount("usual"), one.amount("call")
    return None if longest is None or not usual or call is None else max(call, longest - usual)


def _causes(one: Told, bound: float) -> tuple[Cause, ...]:
    call, took = one.amount("call") or 0.0, one.amount("took") or 0.0
    if call <= bound:
        return (STARVED,)
    return (BLOCKS, COPY) if one.data.get("early") is not True or call > took / 2 else (COPY,)


def _doubt(told: tuple[Told, ...], given: subjects.Given, bound: float) -> tuple[str, Cause] | None:
    """Return why a pause that is short enough does not show what it must."""
    missing = shared.absent(told, subjects.count(given, "world") or told[0].word.number("world"))
    if missing:
        return missing, shared.NO_LINE
    for one in told:
        if None in (pause(one), one.amount("call"), one.amount("took")):
            return f"{one.place} reports no times", shared.NO_LINE
        if (one.amount("longest") or 0.0) < (one.amount("call") or 0.0):
            return f"{one.place}: its longest step is shorter than the call in it", shared.NO_LINE
        if not one.amount("steps"):
            return f"{one.place} took no step beside its save", shared.NO_LINE
        if (one.amount("took") or 0.0) < (one.amount("call") or 0.0):
            return f"{one.place}: its save took less time than the call that began it", shared.NO_LINE
        noise = (one.amount("usual_most") or 0.0) - (one.amount("usual") or 0.0)
        if noise > bound:
            return (
                f"{one.place}: steps without a save differ by {noise:.3g} s, the bound is {bound:g} s",
                NOISY,
            )
        if one.data.get("early") is not True:
            return (
                f"{one.place}: all was written when the call returned: nothing went on beside training",
                OVER,
            )
    return None


def _most(told: tuple[Told, ...], name: str) -> float | None:
    return max((value for one in told if (value := one.amount(name)) is not None), default=None)


def _synchronous(evidence: Evidence, given: subjects.Given) -> float | None:
    saved, _ = shared.told(evidence, given, "saved", "save")
    return _most(tuple(one for one in saved if one.data.get("how") == "sync"), "seconds")
