"""GANG-001 on a gang that was never placed: what it lacked is told only where a scheduler said so."""

import copy

from pytest_gpucluster.evidence.log import ingest
from pytest_gpucluster.judge import wording
from pytest_gpucluster.requirement import Verdict
from tests import recordings


def decided(*, refused: bool):
    """Return the finding on a gang that is too large and waited for in vain; with or without its refusals."""
    seen = recordings.embedded("over-large")
    last = max(line.t for line in seen.lines)
    lines = [copy.deepcopy(each) for each in ingest.lines_of(seen) if each["type"] not in ("HEADER", "SPAN")]
    if not refused:
        lines = [each for each in lines if (each.get("object") or {}).get("kind") != "Event"]
        for each in lines:
            (each.get("object") or {}).get("status", {}).pop("conditions", None)
    waited = {
        "type": "NOTE",
        "note": "timed-out",
        "what": "the gang to be bound",
        "seconds": 8,
        "t": last,
    }
    made = recordings.evidence_of([*lines, waited], header=seen.header)
    return recordings.JUDGES["GANG-001"](made, seen.header["given"])


def test_want_of_room_is_told_where_a_scheduler_refused():
    """Its fix is for whoever reads it: the suite's own gang is not theirs to change, nodes and a Job of theirs are."""
    found = decided(refused=True)
    assert (found.verdict, found.causes) == (Verdict.FAIL, (wording.NO_ROOM,))
    assert found.causes[0].fix.startswith("free what occupies the nodes or the queue")
    assert "minCount" in found.causes[0].fix


def test_want_of_room_is_not_told_where_nobody_said_why():
    """That a wait was over shows nothing about room."""
    found = decided(refused=False)
    assert found.verdict is Verdict.FAIL
    assert "no scheduler gave a reason" in found.observed
    assert wording.NO_ROOM not in found.causes
