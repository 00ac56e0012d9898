"""Evidence of checkpoints that a broken volume or a broken program leaves: what it does not show is never a pass."""

import dataclasses

import pytest

from pytest_gpucluster.judge.checkpoint import killed_save, sharded_save, shared, storage_speed
from pytest_gpucluster.mutants import base
from pytest_gpucluster.mutants import checkpoint as changes
from pytest_gpucluster.report.decisions import decide
from pytest_gpucluster.requirement import REGISTRY
from tests import recordings

ROWS = {row.id: row for row in REGISTRY}


def found(row, act):
    """Return what becomes of a row after a change of the recording."""
    return decide(ROWS[row], act(recordings.embedded("checkpoint")))


def update(**parts):
    """Return the change that puts other parts into a fact."""
    return lambda told: told.update(parts)


def both(*acts):
    """Return one change after the other."""

    def act(evidence):
        for one in acts:
            evidence = one(evidence)
        return evidence

    return act


def on_rank_0(told):
    """Let rank 0 have the whole state as its own part."""
    first = told["rank"] == 0
    size = told["model"] if first else 0
    told.update(own=size, handed=size, files={"__0_0.distcp": size} if first else {})


def of_one_state(told):
    """Let every checkpoint have the same digests."""
    told["digests"] = ["0123456789abcdef"] * len(told["digests"])


def as_later(told):
    """Let the state not change while it is saved."""
    if told["how"] == "async":
        told["later"] = told["digests"]


def steps_of(told):
    """Return the two steps of a round of kills."""
    return sorted(told["digests"], key=int)


def over(told):
    """Report whether the second save of a round was over."""
    return bool(told["ended"]) or not told["killed"]


def pointer_behind(told):
    """Let `latest` stay on the older checkpoint although a newer save was over."""
    if over(told):
        told["look"]["latest"] = f"step-{steps_of(told)[0]}"


def not_kept(told):
    """Let the checkpoint whose save was over be unfinished on the volume."""
    if over(told):
        first, second = steps_of(told)
        told["look"]["latest"] = f"step-{first}"
        told["look"]["found"][f"step-{second}"] = {"marked": False, "problem": "x", "step": -1, "digests": []}


def without_digests(told):
    """Let nobody say what was saved or found."""
    told["digests"] = {step: [] for step in told["digests"]}
    for held in told["look"]["found"].values():
        held["digests"] = []


def both_alike(told):
    """Let both checkpoints of a round hold the same bits."""
    first, second = steps_of(told)
    told["digests"][second] = told["digests"][first]
    for held in told["look"]["found"].values():
        if held["marked"]:
            held["digests"] = told["digests"][first]


def met(**parts):
    """Return the change that puts other parts into each round with a kill."""
    return lambda told: told.update(parts) if told["killed"] else None


def mounted(**parts):
    """Return the change of what a rank's folder is on."""
    return lambda told: told["mount"].update(parts)


def on_one_node(evidence):
    """Let both pods that save be on one node."""

    def move(obj):
        if obj["spec"].get("nodeName"):
            obj["spec"]["nodeName"] = "gpu-0"

    return base.each(evidence, lambda line: line.kind == "Pod" and "checkpoint-save" in line.name, move)


every, speed = changes.all_of, changes.speed
NOT_SHOWN = {
    "CKPT-001": [
        changes.saved("sync", update(handed=0), 1),
        changes.one("saved", on_rank_0, lambda told: told["how"] == "sync"),
        every("saved", update(digests=[])),
    ],
    "CKPT-002": [
        both(every("saved", of_one_state), every("loaded", of_one_state)),
        every("saved", as_later),
        both(
            changes.gone("saved", lambda told: told["how"] == "async"),
            changes.gone("loaded", lambda told: told["name"] == "step-20"),
        ),
        every("loaded", update(complete=False)),
    ],
    "CKPT-003": [
        every("paused", update(usual=0)),
        every("paused", update(usual=9.0, call=10.0, longest=10.1, took=20.0)),
        every("paused", update(usual=60.0, usual_most=90.0, longest=64.0, took=64.0)),
        every("paused", update(steps=0)),
        every("paused", update(took=0.001)),
        every("paused", update(usual=-1)),
    ],
    "CKPT-004": [
        speed(update(bytes=1000, write=1e-6, read=1e-6, write_most=1e-7, read_most=1e-7)),
        speed(update(write_most=99.0)),
        speed(mounted(fs="devtmpfs", source="udev")),
        speed(mounted(source="/dev/ram0")),
        speed(mounted(source="/dev/zram1")),
        speed(mounted(fs="TMPFS")),
        speed(mounted(fs="fuse.fuse-overlayfs")),
        speed(mounted(fs="btrfs", source="/dev/vda", point="/")),
        on_one_node,
    ],
    "CKPT-005": [
        every("killed", update(look={})),
        every("killed", without_digests),
        every("killed", both_alike),
        every("killed", pointer_behind),
        every("killed", not_kept),
        every("killed", met(after=-1)),
        every("killed", met(after=None)),
        every("killed", met(usual=0)),
        every("killed", update(round=2)),
    ],
    "CKPT-006": [
        every("flushed", update(seconds=-5.0)),
        every("flushed", update(step=20)),
        every("flushed", mounted(fs="tmpfs")),
        both(every("saved", update(digests=[])), every("loaded", update(digests=[]))),
        changes.gone("saved", lambda told: told["how"] == "local" and told["rank"] == 1),
    ],
}
"""Row -> changes after which it must not pass."""


@pytest.mark.parametrize(
    ("row", "number"), [(row, n) for row, acts in NOT_SHOWN.items() for n in range(len(acts))]
)
def test_what_is_not_shown_is_no_pass(row, number):
    """Nothing loaded, nothing written, nothing measured, or not where and when it must be."""
    finding = found(row, NOT_SHOWN[row][number])
    assert str(finding.verdict) != "pass", finding.observed


def test_a_pause_is_never_less_than_the_call():
    """Slow steps before the save hide none of the time in which nothing was trained."""
    finding = found("CKPT-003", NOT_SHOWN["CKPT-003"][1])
    assert (str(finding.verdict), finding.numbers[0].value) == ("fail", 10.0)


def test_a_save_that_was_over_must_be_there_and_be_named():
    """A checkpoint that is lost and a pointer that stays behind are violations with causes of their own."""
    for act, cause in ((pointer_behind, killed_save.STALE_POINTER), (not_kept, killed_save.NOT_KEPT)):
        finding = found("CKPT-005", every("killed", act))
        assert (str(finding.verdict), finding.causes[:1]) == ("fail", (cause,)), finding.observed


def test_a_limit_is_named_only_as_far_as_others_show_it():
    """One node alone tells whether nodes share it; without that, and with one node slow of several, both remain."""
    slow = speed(changes.slower("write"))
    alone_gone = changes.gone("storage", lambda told: told["part"] == "alone")
    one_slow = changes.one(
        "storage", changes.slower("write"), lambda told: told["part"] == "together" and told["rank"] == 1
    )
    causes = {name: set(found("CKPT-004", act).causes) for name, act in (
        ("all", slow), ("nobody alone", both(slow, alone_gone)), ("one of two", one_slow),
    )}  # fmt: skip
    limits = {storage_speed.SHARED_LIMIT, storage_speed.NODE_LIMIT}
    assert causes == {"all": {storage_speed.SHARED_LIMIT}, "nobody alone": limits, "one of two": limits}


def test_a_state_that_is_not_split_is_not_called_small():
    """Rank 0 has all of it: the model is not too small to tell."""
    finding = found("CKPT-001", NOT_SHOWN["CKPT-001"][1])
    assert finding.causes == (sharded_save.UNSPLIT,)


def test_memory_under_another_name_is_memory():
    """A disk that the kernel keeps in memory has the file system of a disk."""
    finding = found("CKPT-004", speed(mounted(source="/dev/ram0")))
    assert finding.causes == (shared.IN_MEMORY,)


def test_a_round_that_was_read_twice_counts_once():
    """The number of kills is that of rounds."""
    evidence = recordings.embedded("checkpoint")
    more = [
        dataclasses.replace(line, t=line.t + 0.001)
        for line in evidence.lines
        if line.type == "LOG" and '"killed"' in str(line.data.get("line") or "")
    ]
    finding = decide(ROWS["CKPT-005"], base.with_lines(evidence, [*evidence.lines, *more]))
    assert [number.value for number in finding.numbers] == [3, 5]
