"""Rows of checkpoints: which cause each departure gets, and what is told from what."""

import dataclasses
import json

import pytest

from pytest_gpucluster import mutants
from pytest_gpucluster.evidence.log import payload_lines
from pytest_gpucluster.judge.checkpoint import (
    async_pause,
    flush,
    killed_save,
    resharding,
    sharded_save,
    shared,
    storage_speed,
)
from pytest_gpucluster.mutants import base
from pytest_gpucluster.mutants import checkpoint as changes
from tests import recordings

ROWS = {
    "CKPT-001": sharded_save.writes_own_parts,
    "CKPT-002": resharding.loads_elsewhere,
    "CKPT-003": async_pause.pauses_little,
    "CKPT-004": storage_speed.reaches_floor,
    "CKPT-005": killed_save.last_complete_loads,
    "CKPT-006": flush.reaches_durable,
}


@pytest.fixture(scope="module")
def healthy():
    """Return the evidence of a run in which all is well."""
    return recordings.embedded("checkpoint")


def declared(evidence, **storage):
    """Return what judges are told, with something else declared of storage."""
    return {**evidence.given, "storage": {**evidence.given["storage"], **storage}}


def test_all_is_well(healthy):
    """Every row passes and says on what."""
    found = {row: judge(healthy) for row, judge in ROWS.items()}
    assert {row: str(finding.verdict) for row, finding in found.items()} == dict.fromkeys(ROWS, "pass")
    assert "ext4" in found["CKPT-004"].observed
    assert "cache cleared" in found["CKPT-004"].observed


CAUSES = {
    "gathers": ("CKPT-001", sharded_save.GATHERS),
    "writes-all": ("CKPT-001", sharded_save.GATHERS),
    "part-missing": ("CKPT-001", sharded_save.UNEVEN),
    "shard-missing": ("CKPT-002", resharding.MISSING),
    "cut": ("CKPT-002", resharding.CUT),
    "of-another-model": ("CKPT-002", resharding.OTHER_MODEL),
    "swapped": ("CKPT-002", resharding.SWAPPED),
    "other-bits": ("CKPT-002", resharding.CHANGED),
    "later-values": ("CKPT-002", resharding.LATER),
    "unseen": ("CKPT-002", resharding.UNSEEN),
    "pauses": ("CKPT-003", async_pause.BLOCKS),
    "cached": ("CKPT-004", storage_speed.NOT_CLEARED),
    "on-tmpfs": ("CKPT-004", shared.IN_MEMORY),
    "damaged": ("CKPT-004", storage_speed.WRONG),
    "slow-write": ("CKPT-004", storage_speed.SHARED_LIMIT),
    "pointer-first": ("CKPT-005", killed_save.EARLY_POINTER),
    "mark-first": ("CKPT-005", killed_save.EARLY_MARK),
    "overwritten": ("CKPT-005", killed_save.OVERWRITTEN),
    "no-pointer": ("CKPT-005", killed_save.LOST_POINTER),
    "flushed-late": ("CKPT-006", flush.SLOW),
    "flushed-in-part": ("CKPT-006", flush.PARTIAL),
    "volume-full": ("CKPT-003", shared.FULL),
}
"""Mutant -> a row that it turns, and the cause that is named first."""


@pytest.mark.parametrize("name", sorted(CAUSES))
def test_a_departure_gets_its_own_cause(healthy, name):
    """What is wrong is told from its neighbours."""
    row, cause = CAUSES[name]
    finding = ROWS[row](mutants.MUTANTS[f"checkpoint.{name}"].act(healthy))
    assert finding.causes[0] == cause, finding.observed


def test_of_what_a_volume_says_each_error_has_its_cause(healthy):
    """A full, a closed, a forbidden and a broken volume are violations; an error that nobody knows is none."""
    for error, cause, verdict in (
        ("OSError: [Errno 122] Disk quota exceeded", shared.FULL, "fail"),
        ("OSError: [Errno 30] Read-only file system: '/checkpoints/step-10'", shared.READ_ONLY, "fail"),
        ("PermissionError: [Errno 13] Permission denied: '/checkpoints'", shared.DENIED, "fail"),
        ("OSError: [Errno 116] Stale file handle", shared.STALE, "fail"),
        ("ValueError: something else", shared.NO_LINE, "inconclusive"),
    ):
        finding = ROWS["CKPT-001"](changes.failed("saving", error, changes.AFTER)(healthy))
        assert (str(finding.verdict), finding.causes[0]) == (verdict, cause)
        assert error[:20] in finding.observed


def test_who_is_slow_alone_too_has_a_limit_of_its_own(healthy):
    """A node that misses its floor alone is told from nodes that only share one."""
    both = changes.one("storage", changes.slower("write"), lambda told: bool(told["bytes"]))(healthy)
    assert ROWS["CKPT-004"](both).causes[0] == storage_speed.NODE_LIMIT


def test_floor_and_tail_count_only_if_they_are_declared(healthy):
    """Without a floor the figures are told; a slow block fails where a tail is declared."""
    judge = ROWS["CKPT-004"]
    none = judge(healthy, declared(healthy, floor=None))
    assert str(none.verdict) == "not_applicable"
    assert "GB/s" in none.observed
    floor = {"write": None, "read": None, "tail": 1e-6, "origin": "a test"}
    slow = judge(healthy, declared(healthy, floor=floor))
    assert (str(slow.verdict), slow.causes[0]) == ("fail", storage_speed.TAIL)


def test_one_rank_has_no_parts(healthy):
    """A world of one is not judged by what ranks share."""
    alone = {**healthy.given, "world": 1}
    assert str(ROWS["CKPT-001"](healthy, alone).verdict) == "not_applicable"


def test_a_copy_to_the_host_is_no_gathering_and_the_whole_state_is(healthy):
    """On a GPU a rank's own part goes through the host's memory; more than that is others' parts."""
    for growth, verdict in ((55e6, "pass"), (100e6, "fail")):
        grown = changes.saved("sync", lambda told, g=growth: told["memory"].update(growth=int(g), device=1))
        assert str(ROWS["CKPT-001"](grown(healthy)).verdict) == verdict


def test_kills_that_are_not_all_told_decide_nothing(healthy):
    """A round that is missing, or an error in one, leaves the row open."""
    judge = ROWS["CKPT-005"]
    fewer = changes.gone("killed", lambda told: told["round"] == 3)(healthy)
    assert str(judge(fewer).verdict) == "inconclusive"
    error = changes.one("killed", lambda told: told.update(error="a rank said nothing"), changes.met)(healthy)
    assert str(judge(error).verdict) == "inconclusive"


def test_lines_with_wrong_types_get_a_finding(healthy):
    """Whatever a line holds in place of what it should, the judge says what it makes of it."""
    for event, row in (
        ("saved", "CKPT-001"), ("loaded", "CKPT-002"), ("paused", "CKPT-003"), ("storage", "CKPT-004"),
        ("killed", "CKPT-005"), ("flushed", "CKPT-006"),
    ):  # fmt: skip
        keys = {key for word in payload_lines.words(healthy).of(event) for key in word.data}
        for wrong in (None, "x", [1, {}], {"a": []}, -1, 1e400, True):
            for key in keys - {
                "event",
                "pod",
                "run",
                "attempt",
                "container",
                "t",
                "host",
                "local_rank",
                "torch",
            }:
                spoiled = changes.all_of(event, lambda told, k=key, w=wrong: told.update({k: w}))(healthy)
                finding = ROWS[row](spoiled)
                assert finding.observed, (event, key, wrong)


def test_clocks_that_jump_change_nothing(healthy):
    """Times of day of all lines an hour back: durations come from clocks that do not jump."""
    lines = []
    for line in healthy.lines:
        found, _ = payload_lines.find(str(line.data.get("line") or "")) if line.type == "LOG" else ([], 0)
        if found and "t" in found[0]:
            text = f"{payload_lines.MARKER} {json.dumps({**found[0], 't': found[0]['t'] - 3600})}"
            lines.append(dataclasses.replace(line, data={**line.data, "line": text}))
        else:
            lines.append(line)
    jumped = base.with_lines(healthy, lines)
    assert {row: str(judge(jumped).verdict) for row, judge in ROWS.items()} == dict.fromkeys(ROWS, "pass")
