"""GANG-012 and KUE-007: what was once taken for a gang that stays in its domain, or for one that was scattered."""

import dataclasses

import pytest

from pytest_gpucluster.evidence import Evidence
from pytest_gpucluster.evidence.scheduling import kueue_workloads
from pytest_gpucluster.judge.gang import one_domain
from pytest_gpucluster.judge.kueue import topology
from pytest_gpucluster.mutants import base
from pytest_gpucluster.plain import names
from pytest_gpucluster.plain.copies import clone
from tests import recordings

RACK, BLOCK = "topology.gpucluster.dev/rack", "topology.gpucluster.dev/block"
BOTH = {
    "GANG-012": (one_domain.stays_in_one_domain, recordings.embedded("one-domain")),
    "KUE-007": (topology.keeps_domain, recordings.embedded("kueue-topology")),
}
KUEUE = BOTH["KUE-007"]
QUOTA = (
    "couldn't assign flavors to pod set main: insufficient unused quota for slots in flavor f, 2 more needed"
)


def first_bind(evidence):
    """Return when the first member of the gang that fits was seen on a node."""
    pods = evidence.of_kind("Pod")
    return min(line.t for line in pods if "-subject-" in line.name and line.object["spec"].get("nodeName"))


def relabelled(evidence, t, labels):
    """Let a node that is used have other labels from a time on."""

    def change(obj):
        obj["metadata"]["labels"].update(labels)

    mine = [line for line in evidence.of_kind("Node") if line.name == "gpu-1"]
    before = [line for line in mine if line.t <= t][-1]
    new = dataclasses.replace(base.edited(before, change), t=t, type="MODIFIED")
    later = base.each(
        evidence, lambda line: line.kind == "Node" and line.name == "gpu-1" and line.t > t, change
    )
    return base.with_lines(later, [*later.lines, new])


@pytest.mark.parametrize("row", BOTH)
@pytest.mark.parametrize("by", [-0.002, 0.2, 0.7])
def test_a_place_that_changes_meanwhile_is_nobodys_fault_and_no_pass(row, by):
    """What a scheduler read before the label changed is not known; what changed afterwards was not kept."""
    judge, evidence = BOTH[row]
    found = judge(relabelled(evidence, first_bind(evidence) + by, {RACK: "rack-9"}), evidence.given)
    assert found.verdict == "inconclusive"
    assert "domain changed meanwhile: gpu-1" in found.observed


@pytest.mark.parametrize("row", BOTH)
def test_racks_of_one_name_in_two_blocks_are_two(row):
    """All the time: the gang was scattered."""
    judge, evidence = BOTH[row]
    changed = base.each(
        evidence,
        lambda line: line.kind == "Node" and line.name == "gpu-1",
        lambda obj: obj["metadata"]["labels"].update({BLOCK: "block-7"}),
    )
    found = judge(changed, evidence.given)
    assert (found.verdict, found.violation) == ("fail", True)


def gone(evidence, kind):
    """Let what asks for the gang that fits nowhere, or its pods, be deleted when the window begins."""
    t = evidence.notes("window-begin")[0].t + 0.01

    def mine(line):
        return line.kind == kind and "-across" in line.name

    last = {line.uid: line for line in evidence.of_kind(kind) if mine(line) and line.t <= t}
    kept = [line for line in evidence.lines if not mine(line) or line.t <= t]
    ends = [dataclasses.replace(line, t=t, type="DELETED") for line in last.values()]
    return base.with_lines(evidence, [*kept, *ends])


@pytest.mark.parametrize(
    ("row", "kind"), [("KUE-007", names.BATCH_JOB), ("GANG-012", names.BATCH_JOB), ("GANG-012", "Pod")]
)
def test_what_is_gone_or_was_never_whole_is_not_held(row, kind):
    """It holds nothing, and nobody has kept it from anything."""
    judge, evidence = BOTH[row]
    assert judge(gone(evidence, kind), evidence.given).verdict == "inconclusive"


@pytest.mark.parametrize("count", [1, 5])
def test_members_that_nobody_made_are_not_held(count):
    """A gang that lacks pods waits for them, whatever its refusals say."""
    judge, evidence = BOTH["GANG-012"]
    pods = sorted({line.name for line in evidence.of_kind("Pod") if "-across-" in line.name})[:count]
    found = judge(
        base.without(evidence, lambda line: line.kind == "Pod" and line.name in pods), evidence.given
    )
    assert found.verdict == "inconclusive"


def assigned(change):
    """Change what the Workload of the Job that fits was given."""

    def edit(obj):
        for part in (obj.get("status") or {}).get("admission", {}).get("podSetAssignments", []):
            change(part["topologyAssignment"])

    return lambda evidence: base.each(
        evidence, lambda line: line.kind == kueue_workloads.WORKLOAD and "-subject-" in line.name, edit
    )


def _another_rack(assignment):
    extra = clone(assignment["slices"][0])
    extra["valuesPerLevel"][-1] = {"universal": "rack-1"}
    assignment["slices"].append(extra)


def _only_the_block(assignment):
    assignment["levels"] = assignment["levels"][:1]
    for one in assignment["slices"]:
        one["valuesPerLevel"] = one["valuesPerLevel"][:1]


@pytest.mark.parametrize(
    ("change", "verdict", "told"),
    [
        (_another_rack, "fail", "block-0/rack-0, block-0/rack-1"),
        (_only_the_block, "inconclusive", "may be luck"),
    ],
)
def test_a_workload_must_be_given_one_domain(change, verdict, told):
    """Several racks, or a block that has several, leave it to luck that the pods are in one."""
    judge, evidence = KUEUE
    found = judge(assigned(change)(evidence), evidence.given)
    assert found.verdict == verdict
    assert told in found.observed


def refused(message, after=0.0):
    """Let Kueue say something else of the Job that fits nowhere, at once or some time after it first spoke."""

    def act(evidence):
        def mine(line):
            return line.kind == kueue_workloads.WORKLOAD and "-across-" in line.name and _waits(line)

        def say(obj):
            for condition in obj["status"]["conditions"]:
                if condition["type"] == "QuotaReserved":
                    condition["message"] = message

        first = next(line for line in evidence.lines if mine(line))
        t = first.t + after
        silent = base.without(evidence, lambda line: line.kind == "Event" and "-across-" in line.name)
        new = [dataclasses.replace(base.edited(first, say), t=t)] if after else []
        lines = [base.edited(line, say) if mine(line) and line.t >= t else line for line in silent.lines]
        return base.with_lines(silent, [*lines, *new])

    return act


def _waits(line):
    conditions = (line.object.get("status") or {}).get("conditions") or []
    return any(one["type"] == "QuotaReserved" for one in conditions)


@pytest.mark.parametrize(
    ("message", "after"),
    [
        (QUOTA, 0.0),
        (QUOTA, 0.001),
        ('ClusterQueue is inactive: topology "net" not found', 0.0),
    ],
)  # fmt: skip
def test_a_refusal_for_another_reason_is_none_for_the_topology(message, after):
    """What Kueue says last is its reason; a topology that is not there was not looked at."""
    judge, evidence = KUEUE
    found = judge(refused(message, after)(evidence), evidence.given)
    assert found.verdict == "inconclusive"
    assert "nothing names the topology" in found.observed


def test_a_job_that_fits_nowhere_is_given_no_quota():
    """Its pods may come later than the evidence ends."""
    judge, evidence = KUEUE
    admission = next(
        line.object["status"]["admission"]
        for line in evidence.of_kind(kueue_workloads.WORKLOAD)
        if (line.object.get("status") or {}).get("admission")
    )
    late = evidence.notes("window-end")[0].t + 0.3
    line = [one for one in evidence.of_kind(kueue_workloads.WORKLOAD) if "-across-" in one.name][-1]
    given = base.edited(line, lambda obj: obj["status"].update(admission=clone(dict(admission))))
    lines = [*evidence.lines, dataclasses.replace(given, t=late)]
    found = judge(base.with_lines(evidence, lines), evidence.given)
    assert (found.verdict, found.violation) == ("fail", True), found.observed
    assert "quota was reserved" in found.observed


@pytest.mark.parametrize("row", BOTH)
def test_the_recorded_gangs_stay_in_their_domain(row):
    """As they are."""
    judge, evidence = BOTH[row]
    assert judge(Evidence(evidence.lines, header=evidence.header, spans=evidence.spans)).verdict == "pass"


@pytest.mark.parametrize("row", BOTH)
@pytest.mark.parametrize(
    ("effect", "verdict"), [("PreferNoSchedule", "pass"), ("NoSchedule", "inconclusive")]
)
def test_a_taint_that_only_asks_takes_no_room(row, effect, verdict):
    """Pods may still go there, so that the gang could have gone elsewhere."""
    judge, evidence = BOTH[row]
    tainted = base.each(
        evidence,
        lambda line: line.kind == "Node",
        lambda obj: obj.setdefault("spec", {}).update(
            taints=[{"key": "example.com/reserved", "effect": effect}]
        ),
    )
    assert judge(tainted, evidence.given).verdict == verdict
