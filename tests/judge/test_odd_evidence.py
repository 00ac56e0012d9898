"""Evidence that nobody should have, and that somebody may: undecided, or a clear violation; never a pass."""

import copy

import pytest

from pytest_gpucluster.evidence.log import ingest
from pytest_gpucluster.report import decisions
from tests import recordings
from tests.defects import matrix

# One worker reads the recordings, once.
pytestmark = pytest.mark.xdist_group("recordings")

ROWS = {row.id: row for row in matrix.rows()}
GPU = "nvidia.com/gpu"


def decided(row, change):
    """Return the verdict of a row on its recorded evidence, each line of which was changed; None takes a line away."""
    seen = recordings.embedded(ROWS[row].scenario.name)
    lines = [copy.deepcopy(each) for each in ingest.lines_of(seen) if each["type"] not in ("HEADER", "SPAN")]
    changed = [each for each in map(change, lines) if each is not None]
    made = recordings.evidence_of(changed, header=seen.header, spans=seen.spans)
    return str(decisions.decide(ROWS[row], made).verdict)


def nodes(act):
    """Return the change of every node."""

    def change(line):
        obj = line.get("object") or {}
        if obj.get("kind") == "Node":
            act(obj)
        return line

    return change


@pytest.mark.parametrize("row", ["INV-002", "INV-008"])
def test_nodes_that_are_all_cordoned(row):
    """They offer what was declared, and nothing can be placed on them."""
    assert decided(row, lambda line: line) == "pass"
    assert decided(row, nodes(lambda obj: obj["spec"].update(unschedulable=True))) == "inconclusive"


@pytest.mark.parametrize(
    ("row", "amount"),
    [*((row, amount) for row in ("INV-002", "INV-008") for amount in ("0.5", "-8", "8m", "abc", "", None, [8], True)),
     # 8000 devices are a number, and alike: that there are too many is for the row that counts them.
     *(("INV-002", amount) for amount in ("8k", "1e1", "8Gi"))],
)  # fmt: skip
@pytest.mark.parametrize(
    "parts", [("allocatable",), ("allocatable", "capacity")], ids=["allocatable", "both"]
)
def test_amounts_that_are_no_number_of_devices(row, amount, parts):
    """Alike on every node, and of no use on any."""

    def act(obj):
        for part in parts:
            if GPU in obj.get("status", {}).get(part, {}):
                obj["status"][part][GPU] = amount

    assert decided(row, nodes(act)) in ("inconclusive", "fail")


@pytest.mark.parametrize("row", ["GANG-001", "PLG-001", "PLG-003", "LIFE-001", "GANG-002", "LIFE-003"])
@pytest.mark.parametrize("phases", [("Running",), ("Running", "Succeeded")], ids=["running", "all"])
def test_pods_whose_phase_is_unknown(row, phases):
    """Nobody knows whether they run; what their logs say until then is not what came of them."""

    def change(line):
        obj = line.get("object") or {}
        if obj.get("kind") == "Pod" and obj.get("status", {}).get("phase") in phases:
            obj["status"]["phase"] = "Unknown"
        return line

    assert decided(row, lambda line: line) == "pass"
    assert decided(row, change) in ("inconclusive", "fail")


@pytest.mark.parametrize("free", [16, 17, 100, 14, 3, 0, -1, "x", None, True])
def test_a_note_of_scarcity_that_contradicts_itself(free):
    """More than there is, another number than the nodes show, or nobody knows how many: that was no trial."""

    def change(line):
        if line.get("note") == "scarce":
            line["free"] = free
        return line

    assert decided("GANG-002", change) in ("inconclusive", "fail")
