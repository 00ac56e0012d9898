"""Trouble while a checkpoint is saved: memory that runs out on one rank or on all, and ranks that wait for a saver."""

import re
from collections.abc import Iterator, Sequence

from pytest_gpucluster.diagnose import words
from pytest_gpucluster.diagnose.detect import printed
from pytest_gpucluster.diagnose.detect.suspecting import SURE, fault
from pytest_gpucluster.diagnose.model import Stage, Suspect
from pytest_gpucluster.diagnose.situation import Situation
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.judge import wording
from pytest_gpucluster.requirement import Cause

TAIL = 40
"""Lines from the end of a log in which a save is looked for."""

_THING = r"(?:checkpoint|ckpt|state[_ ]?dict|model state|optimizer state|snapshot)"
SAVING = re.compile(
    rf"\b(?:sav(?:e|ing)|writ(?:e|ing)|dump(?:ing)?|persist(?:ing)?|stag(?:e|ing)|upload(?:ing)?|gather(?:ing)?|"
    rf"consolidat(?:e|ing)|flush(?:ing)?)\b.{{0,60}}{_THING}|\b(?:save_checkpoint|dcp\.save|torch\.save|async_save|"
    rf"save_state_dict|save_16bit_model|_save_zero_checkpoint)\b|\b{_THING}\b.{{0,40}}\bsav(?:e|ing)\b",
    re.IGNORECASE,
)
"""What programs print when they begin to save."""
SAVED = re.compile(
    rf"\b{_THING}\b.{{0,120}}\b(?:saved|written|done|finished|complete[d]?|took)\b|"
    rf"\b(?:saved|wrote|written|finished)\b.{{0,60}}{_THING}",
    re.IGNORECASE,
)
"""What they print when they have saved."""
PLANNED = re.compile(
    r"\b(?:every|will|disabled|enabled|interval|frequency)\b|(?:save|saving|checkpoint|ckpt|async)\w*\s*=\s*"
    r"(?:true|false|none|\d+)\b|\b(?:load|restor|resum)(?:e|ed|ing)?\b",
    re.IGNORECASE,
)
"""What tells of saves in general, of a setting of them, or of reading a checkpoint: no save begins with it."""
STEPPED = re.compile(r"\b(?:step|iter|iteration)\b[ =:#]*\d+", re.IGNORECASE)
"""What programs print of a step of training."""
FIGURES = re.compile(r"metric|\bloss|\bstat(?:s|istics)\b|\blogits?\b", re.IGNORECASE)
"""What is gathered of all ranks and is small."""
GATHERS = re.compile(
    r"full[_ ]state[_ ]dict|FULL_STATE_DICT|\b(?:gather|consolidat)\w*\b.{0,60}(?:state|model|weight|param|rank ?0)|"
    r"save_16bit_model|rank0_only|offload_to_cpu.{0,20}full",
    re.IGNORECASE,
)
"""What tells that one rank takes in the state of all."""
ASYNC = re.compile(r"async(?:hronous)?[_ ]?(?:ly )?(?:sav|checkpoint|snapshot|stag)|async_save|background (?:sav|writ|"
                   r"checkpoint)|AsyncCheckpoint|staging (?:state|checkpoint)", re.IGNORECASE)  # fmt: skip
"""What tells that a copy of the state is kept until it is written."""
RANK = re.compile(r"\[rank(?P<tag>\d+)\]|\brank[ =:]+(?P<said>\d+)\b", re.IGNORECASE)
WAITS = re.compile(
    r"(?:monitored)?[_ ]?barrier\b.{0,200}(?:time|timed)[ -]?out|(?:time|timed)[ -]?out.{0,200}\bbarrier\b|"
    r"Watchdog caught collective operation timeout|Timed out waiting \d+ ?ms for (?:recv|send) operation|"
    r"Timed out after \d+ ?m?s waiting for|Rank \d+ failed to pass monitoredBarrier",
    re.IGNORECASE,
)
"""What ranks print that waited for another in vain."""

Why = tuple[str, str]

COPY: Why = (
    "an asynchronous save keeps a copy of the rank's part of the state until it is written",
    "give the pod memory for one more copy of its part, or wait for one save before the next begins",
)
SHARDED = (
    "save the sharded state with torch.distributed.checkpoint, where every rank writes its own part: no rank then "
    "needs memory for the whole"
)
RANK_0: Why = (
    "only rank 0 did: either it gathers the state of all ranks, or it alone has more to hold",
    (
        "look at what it saves: a full state dict, or torch.save on rank 0, needs memory for the whole model; with "
        "torch.distributed.checkpoint every rank writes its own part"
    ),
)


def in_save(s: Situation, pod: PodStory, container: str, why: Why) -> Why:
    """Return why a member ran out of memory, with what its log tells of a save that it was in; as it is for none."""
    told = printed.lines(s, pod, container)[-TAIL:]
    line = unfinished(told)
    if not line:
        return why
    text, fix = why
    shown = f"in the middle of a save (its log: {words.short(line)!r})"
    rank = rank_of(s, pod, told)
    if any(ASYNC.search(one) and not PLANNED.search(one) for one in told):
        meant, act = COPY
    elif any(GATHERS.search(one) and not FIGURES.search(one) for one in told):
        meant, act = f"{'it' if rank is None else f'rank {rank}'} gathers the state of all ranks", SHARDED
    elif rank == 0 and _alone(s, pod):
        meant, act = RANK_0
    else:
        return f"{text}, {shown}", fix
    return f"{text}, {shown}: {meant}", f"{act}; else {fix}"


def unfinished(told: Sequence[str]) -> str:
    """Return the line that tells of a save that did not end, "" for none.

    Steps go on beside an asynchronous save alone: with a step any other save was over, whether it said so or not.
    """
    stepped = False
    for line in reversed(told):
        if SAVED.search(line):
            return ""
        if SAVING.search(line) and not PLANNED.search(line):
            return "" if stepped and not ASYNC.search(line) else line.strip()
        stepped = stepped or STEPPED.search(line) is not None
    return ""


def _alone(s: Situation, pod: PodStory) -> bool:
    """Report whether no other member of the gang was killed for memory."""
    return not any(
        "OOMKilled" in str(fields.sub(other.last, "status")) for other in s.pods if other.uid != pod.uid
    )


def rank_of(s: Situation, pod: PodStory, told: Sequence[str]) -> int | None:
    """Return the rank of a member: what its log or its variables say, else that of the first member of its gang."""
    for line in reversed(told):
        found = RANK.search(line)
        if found:
            return int(found["tag"] or found["said"])
    for box in fields.containers(pod.last):
        for one in fields.items(box, "env"):
            if one.get("name") in ("RANK", "NODE_RANK") and str(one.get("value") or "").isdigit():
                return int(str(one["value"]))
    return (
        0 if s.pods and pod.uid == min(s.pods, key=lambda one: (one.task != "master", one.name)).uid else None
    )


def holds_barrier(s: Situation) -> Iterator[Suspect]:
    """Ranks wait in a barrier or collective for one that is in the middle of a save."""
    waiting = [
        (pod, lines[-1])
        for pod in s.pods
        if not unfinished(told := printed.lines(s, pod)[-TAIL:])
        and (lines := [line for line in told if WAITS.search(line)])
    ]
    if not waiting:
        return
    saving = [(pod, line) for pod in s.pods if (line := unfinished(printed.lines(s, pod)[-TAIL:]))]
    if not saving or len(saving) == len(s.pods):
        return
    pod, line = saving[0]
    rank = rank_of(s, pod, printed.lines(s, pod)[-TAIL:])
    who = f"rank {rank} ({pod.name})" if rank is not None else pod.name
    others = len(waiting)
    cause = Cause(
        f"{who} is in the middle of a save, and {wording.count(others, 'other member')} waited for it in a barrier or "
        f"collective until the time-out",
        "let every rank take part in the save (torch.distributed.checkpoint), or give the group that waits a longer "
        "time-out than the save takes; if the save itself hangs, look at its volume (df, the node's dmesg)",
    )
    seen = f"{pod.name}: {words.short(line)!r}; {waiting[0][0].name}: {words.short(waiting[0][1].strip())!r}"
    where = wording.places([pod, *(one for one, _ in waiting)][:4])
    yield fault(
        "checkpoint-holds-barrier", Stage.RUN, cause, seen, SURE, where=where, rows=("CKPT-003", "CKPT-004"),
        evidence=(pod.keys.get("running") or pod.keys["created"],), look=(f"kubectl logs{s.space} {pod.name}",),
    )  # fmt: skip
