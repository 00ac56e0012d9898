"""CKPT-001: every rank writes its own part of the state, and no rank gathers it."""

from pytest_gpucluster.evidence.hardware import checkpoints
from pytest_gpucluster.evidence.hardware.checkpoints import Told
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.checkpoint import shared
from pytest_gpucluster.requirement import Cause, Finding, Number

REQUIRED = (
    "every rank writes its own part of the state to its own file, and no rank gathers the state to write it"
)
SLACK = 0.02
"""Part of its own bytes that a rank may write less or more: headers, and small state that ranks share."""
SHARE = 1.5
"""How many times an equal share one rank's part may be: layers do not always split evenly."""
HEADERS = 1 << 20
"""Bytes of headers and of the list of tensors that a rank may write beside its part."""
LEAST = 16 << 20
"""Bytes of others' parts below which growth of memory is noise: 16 times what a healthy save was measured to take."""

GATHERS = Cause(
    "the state is gathered on one rank before it is written: a full state dict, or torch.save on rank 0",
    "save the sharded state with torch.distributed.checkpoint (get_state_dict without full_state_dict): every rank "
    "then writes its own part",
)
UNEVEN = Cause(
    "parts are missing: a rank did not take part in the save, or wrote to a folder that the others do not see",
    "call dcp.save on every rank with the same folder on a volume that all nodes share (ReadWriteMany)",
)
UNSPLIT = Cause(
    "the state is not split over the ranks: one of them has most of it, as in plain data parallel training",
    "shard the model (fully_shard, or a device mesh of the parallelism that you use) before it is saved",
)
OF_OTHERS = Cause(
    "somebody else wrote the file, or it was written through memory (mmap), which the kernel does not count",
    "look which process has the file open (lsof), and which storage writer is used",
)
SMALL = Cause("the model is too small to tell", "declare a larger model (storage.model)")
UNREAD = Cause(
    "the kernel did not report how much the process wrote, or how much memory it had",
    "allow the pods to read their own /proc/self/io and /proc/self/status",
)


@subjects.judge
def writes_own_parts(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge CKPT-001."""
    told, gang = shared.told(evidence, given, "saved", "save")
    say = wording.Findings(REQUIRED, gang)
    saves = {
        step: lines
        for step, lines in checkpoints.by_step(told).items()
        if all(one.data.get("how") == "sync" for one in lines)
    }
    if not saves:
        return shared.nobody(evidence, gang, say, "a save")
    world = subjects.count(given, "world") or max((one.word.number("world") or 0) for one in told) or None
    if world == 1:
        return say.not_applicable("one rank saves alone: there are no parts")
    lines = next(iter(saves.values()))
    more = {"evidence": shared.keys(lines), "numbers": _numbers(lines)}
    gathering = [(one, text) for one in lines if (text := gathers(one))]
    if gathering:
        one, text = gathering[0]
        where = shared.places(one for one, _ in gathering)
        return say.fail(f"{one.place} {text}", GATHERS, violation=True, where=where, **more)
    missing = shared.absent(lines, world)
    if missing:
        return say.inconclusive(missing, shared.NO_LINE, **more)
    short = [(one, text) for one in lines if (text := lacks(one))]
    if short:
        one, text = short[0]
        where = shared.places(one for one, _ in short)
        return say.fail(f"{one.place} {text}", UNEVEN, violation=True, where=where, **more)
    doubt = _doubt(lines)
    if doubt is not None:
        return say.inconclusive(doubt[0], doubt[1], **more)
    return say.passed(_text(lines), **more)


def gathers(one: Told) -> str:
    """Return how a rank shows that it had or wrote more than its part, "" where it does not."""
    own, model = one.amount("own"), one.amount("model")
    if own is None or model is None:
        return ""
    half = (model - own) / 2
    handed, wrote = one.amount("handed"), written(one)
    for bytes_, text in ((handed, "handed"), (wrote, "has files of")):
        if bytes_ is not None and bytes_ > own * (1 + SLACK) + max(HEADERS, half):
            more = " to the file system" if text == "handed" else ""
            return f"{text} {shared.mb(bytes_)}{more}, its own part is {shared.mb(own)} of {shared.mb(model)}"
    if half * 2 < LEAST:
        return ""
    # What is on a GPU is copied to the host's memory on its way to the disk: one's own part, at most.
    staged = own if one.amount("memory", "device") else 0.0
    for key, what, free in (("growth", "memory", staged), ("device", "GPU memory", 0.0)):
        grown = one.amount("memory", key)
        if grown is not None and grown > free + half:
            part = f"{shared.mb(own)} of {shared.mb(model)}"
            return f"grew by {shared.mb(grown)} of {what} in the save, its own part is {part}"
    return ""


def lacks(one: Told) -> str:
    """Return what of its own part a rank did not write, "" where it wrote all."""
    own, wrote = one.amount("own") or 0.0, written(one)
    if one.data.get("complete") is not True:
        return "sees no commit mark (.metadata) after the save"
    if wrote < own * (1 - SLACK):
        return f"wrote {shared.mb(wrote)} in files of its own, its part is {shared.mb(own)}"
    return ""


def written(one: Told) -> float:
    """Return the bytes of the files that a rank has in a checkpoint."""
    sizes = fields.sub(one.data, "files").values()
    return float(sum(size for size in sizes if isinstance(size, int) and not isinstance(size, bool)))


def _doubt(lines: tuple[Told, ...]) -> tuple[str, Cause] | None:
    """Return why a save that looks right does not show what it must."""
    parts = [one.amount("own") for one in lines]
    models = {one.amount("model") for one in lines}
    if None in parts or None in models or len(models) != 1:
        return "ranks do not agree on the size of the state", shared.NO_LINE
    model, own = models.pop() or 0.0, [part or 0.0 for part in parts]
    if sum(own) != model:
        return (
            f"the parts of all ranks are {shared.mb(sum(own))} together, the state is {shared.mb(model)}",
            UNEVEN,
        )
    if max(own) > SHARE * model / len(own):
        text = (
            f"one rank has {shared.mb(max(own))} of {shared.mb(model)}: the state is not split over the ranks"
        )
        return text, UNSPLIT
    if model - max(own) < LEAST:
        return f"of {shared.mb(model)} only {shared.mb(model - max(own))} are not a rank's own", SMALL
    unread = [one for one in lines if one.amount("handed") is None or one.amount("memory", "growth") is None]
    if unread:
        return f"{unread[0].place}: what it wrote or how its memory grew is not known", UNREAD
    short = next(
        (one for one in lines if (one.amount("handed") or 0.0) < (one.amount("own") or 0.0) * (1 - SLACK)),
        None,
    )
    if short is not None:
        text = f"{short.place} handed {shared.mb(short.amount('handed') or 0.0)} to the file system"
        return f"{text}, and has files of {shared.mb(written(short))}", OF_OTHERS
    if len({one.digests for one in lines}) != 1 or not lines[0].digests:
        return "ranks report different states, or none", shared.NO_LINE
    return None


def _numbers(lines: tuple[Told, ...]) -> tuple[Number, ...]:
    grown = [value for one in lines if (value := one.amount("memory", "growth")) is not None]
    wrote = [written(one) for one in lines]
    took = [value for one in lines if (value := one.amount("seconds")) is not None]
    return (
        Number("largest file of a rank", max(wrote) / shared.MB, "MB"),
        Number("largest growth of a rank's memory", max(grown) / shared.MB if grown else None, "MB"),
        Number("save, slowest rank", max(took) if took else None, "s"),
    )


def _text(lines: tuple[Told, ...]) -> str:
    model = lines[0].amount("model") or 0.0
    grown = max(one.amount("memory", "growth") or 0.0 for one in lines)
    took = max(one.amount("seconds") or 0.0 for one in lines)
    wrote = [written(one) for one in lines]
    between = f"{shared.mb(min(wrote))} to {shared.mb(max(wrote))}"
    return (
        f"{wording.count(len(lines), 'rank')} wrote {between} each of {shared.mb(model)} in {took:.3g} s to "
        f"{shared.mount(lines[0])}; no rank's memory grew by more than {shared.mb(grown)}"
    )
