"""Gangs: members, attempts, binds, and what gates said."""

import dataclasses
from typing import Any

import pytest

from pytest_gpucluster.evidence.log import payload_lines
from pytest_gpucluster.evidence.scheduling import capacity, gangs, gates, half_placement
from tests import recordings


def _only(name: str) -> gangs.Gang:
    (found,) = gangs.gangs(recordings.stream(name))
    return found


def test_a_volcano_job_is_a_gang():
    """Members come by owner, the minimum from minAvailable, the group by owner too."""
    gang = _only("a-gang-fits")
    assert (gang.name, gang.minimum, gang.size, gang.queue, gang.scheduler) == (
        "fits",
        4,
        4,
        "default",
        "volcano",
    )
    assert [pod.task for pod in sorted(gang.pods, key=lambda p: p.name)] == [
        "master",
        "worker",
        "worker",
        "worker",
    ]
    assert gang.groups[0].minimum == 4


def test_a_batch_job_is_a_gang():
    """The same questions serve the default scheduler: parallelism is the minimum."""
    gang = _only("h1-default-scheduler-over-capacity")
    assert (gang.minimum, gang.generations[0].most_held, gang.whole) == (17, 16, None)


@pytest.mark.parametrize(
    ("name", "attempts"),
    [
        ("a-gang-fits", 1),
        ("f1-podfailed-restartjob-maxretry", 4),
        ("f2-podevicted-restartjob", 2),
        ("f3-pod-deleted-no-policy", 1),
        ("f11-finished-member-deleted", 1),
        ("f11b-finished-member-deleted-podevicted-restartjob", 2),
    ],
)
def test_a_new_podgroup_starts_a_new_attempt(name: str, attempts: int):
    """A restart makes the PodGroup again and with it an attempt; a replaced member does not."""
    assert len(_only(name).generations) == attempts


def test_a_finished_member_is_not_a_missing_one():
    """Places stay held when a member ends by itself, also after its pod is removed."""
    gen = _only("f11-finished-member-deleted").generations[0]
    assert min(step.held for step in gen.steps if step.t > (gen.whole or 0)) == 3


def test_a_member_that_was_deleted_leaves_its_place():
    """A running member that is deleted is missing until its replacement is bound; the attempt stays whole."""
    gen = _only("f3-pod-deleted-no-policy").generations[0]
    assert [step.held for step in gen.steps] == [1, 2, 3, 4, 3, 4]


def test_a_gate_at_enqueue_makes_no_pods():
    """Refusals at enqueue are Normal events of the scheduler on the PodGroup while no pod exists."""
    evidence = recordings.stream("b1-over-capacity-by-one-gpu")
    gang = gangs.gangs(evidence)[0]
    reading = gates.read(evidence, gang, gang.generations[0])
    assert reading.enqueue
    assert reading.held is None
    assert {said.reporter for said in reading.enqueue} == {"volcano"}


def test_the_gang_gate_holds_all_members():
    """At the gang gate all pods exist, none is bound, and the scheduler says who would have fitted."""
    evidence = recordings.stream("b3-room-for-n-minus-one-then-room")
    (gang,) = gangs.gangs(evidence)
    held = gates.read(evidence, gang, gang.generations[0]).held
    assert held is not None
    assert held.bound_after
    assert held.seconds == pytest.approx(6.7, abs=0.1)
    assert held.would_fit


def test_the_warning_event_of_a_healthy_gang_decides_nothing():
    """Volcano warns `Unschedulable` about every gang; a healthy one is refused nowhere."""
    evidence = recordings.stream("a-gang-fits")
    (gang,) = gangs.gangs(evidence)
    assert gates.read(evidence, gang, gang.generations[0]).refusals == ()


def test_a_podgroup_without_a_phase_is_not_seen():
    """While no scheduler runs the PodGroup has no phase and no event: that is no refusal."""
    lines = [o for o in recordings.raw("l1-scheduler-not-running") if o["t"] < 14]
    evidence = recordings.evidence_of([*lines, {"t": 14.0, "type": "NOTE", "note": "end"}])
    (gang,) = gangs.gangs(evidence)
    reading = gates.read(evidence, gang, gang.generations[0])
    assert (reading.unseen or 0) > 8
    assert reading.refusals == ()


def test_binds_of_one_session_are_a_short_half():
    """The binds of a healthy gang are hundredths of a second apart: a half placement, but a short one."""
    evidence = recordings.stream("a-gang-fits")
    (half,) = half_placement.halves(evidence, gangs.gangs(evidence)[0])
    assert half.seconds < 0.1
    assert not half.open


def test_a_gap_splits_what_was_seen_of_a_half():
    """Only stretches in which pods were watched count for how long a gang was half placed."""
    base = recordings.stream("c3-two-gangs-without-gang-plugin-run1")
    left = gangs.gangs(base)[0]
    whole = max(half.seconds for half in half_placement.halves(base, left))
    span = dataclasses.replace(base.spans[0], end=4.0)
    rest = dataclasses.replace(base.spans[0], start=6.0)
    cut = type(base)(base.lines, spans=(span, rest))
    half = max(half_placement.halves(cut, left), key=lambda h: h.seconds)
    assert half.gap
    assert half.seconds < whole


def test_pods_of_their_own_groups_are_scattered():
    """Pods that each carry a PodGroup of one are found by their job label, and called scattered."""
    evidence = recordings.public_evidence(recordings.public_cases()["gang-every-pod-its-own-group"])
    found = {gang.name: gang for gang in gangs.gangs(evidence)}
    assert found["ddp-b"].scattered
    assert (found["ddp-b"].minimum, found["ddp-b"].generations[0].most_held) == (4, 1)


def test_free_room_is_known_where_nodes_are():
    """With Node objects, free places are allocatable less what bound pods ask for."""
    evidence = recordings.public_evidence(
        recordings.public_cases()["ref-refused-because-old-pods-outlive-a-broken-gpu"]
    )
    free = {room.node: int(room.free) for room in capacity.rooms(evidence, "nvidia.com/gpu")}
    assert free == {"gpu-a": -1, "gpu-b": 0, "gpu-c": 0, "gpu-d": 8, "gpu-e": 8, "gpu-f": 8}


@pytest.mark.parametrize(
    ("taints", "there"),
    [
        ([], True),
        ([{"key": "a", "effect": "PreferNoSchedule"}], True),
        ([{"key": "a", "effect": "PreferNoSchedule"}, {"key": "b", "effect": "NoSchedule"}], False),
        ([{"key": "a", "effect": "NoExecute"}], False),
        ([{"key": "a"}], False),
        (["a"], False),
        ("a", False),
    ],
)
def test_a_taint_that_only_asks_takes_no_room(taints: object, there: bool):
    """PreferNoSchedule keeps no pod off a node; any other taint may, and one that cannot be read."""
    node = {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "uid": "a"}, "spec": {"taints": taints},
        "status": {part: {"nvidia.com/gpu": "8"} for part in ("capacity", "allocatable")},
    }  # fmt: skip
    evidence = recordings.evidence_of([{"t": 0.0, "type": "ADDED", "kind": "Node", "object": node}])
    assert bool(capacity.rooms(evidence, "nvidia.com/gpu")) is there


MARKED = [
    ('GPUCONF1 {"event":"env"}', 1, 0),
    ('2026-03-02T08:00:00Z stdout F [rank0]: GPUCONF1 {"event":"rank","rank":0} trailing', 1, 0),
    ('GPUCONF1 {"event":"rank"}GPUCONF1 {"event":"sum"}', 2, 0),
    ('GPUCONF1 {"event":"ra', 0, 1),
    ('GPUCONF1 {"event":"GPUCONF1 {"event":"sum"}', 1, 1),
    ("GPUCONF1", 0, 1),
    ("GPUCONF1 [1]", 0, 1),
    ("nothing here", 0, 0),
]


@pytest.mark.parametrize(("text", "whole", "torn"), MARKED)
def test_markers_are_found_anywhere(text: str, whole: int, torn: int):
    """Prefixes, two markers in a line and cut lines are read for what they hold."""
    found, lost = payload_lines.find(text)
    assert (len(found), lost) == (whole, torn)


def test_a_gang_of_a_thousand_is_read_once_through():
    """The work on a large gang grows with its lines, not with their square: it is done in one pass of a few seconds."""
    lines: list[dict[str, Any]] = []
    count = 1024
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
        "metadata": {"name": "big", "namespace": "n", "uid": "J"},
        "spec": {"minAvailable": count, "schedulerName": "volcano", "tasks": [{"name": "w", "replicas": count}]},
    }  # fmt: skip
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
        "metadata": {"name": "big-J", "namespace": "n", "uid": "G", "ownerReferences": [{"kind": "Job", "uid": "J"}]},
        "spec": {"minMember": count},
    }  # fmt: skip
    lines += [{"t": t, "type": "ADDED", "object": obj} for t, obj in ((0, job), (0.5, group))]
    for index in range(count):
        for step, (node, phase) in enumerate((("", "Pending"), ("x", "Pending"), ("x", "Running"))):
            meta = {
                "name": f"big-w-{index}", "namespace": "n", "uid": f"P{index}",
                "ownerReferences": [{"kind": "Job", "name": "big", "uid": "J", "controller": True}],
            }  # fmt: skip
            spec = {"schedulerName": "volcano", "containers": [], **({"nodeName": node} if node else {})}
            obj = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": meta,
                "spec": spec,
                "status": {"phase": phase},
            }
            lines.append({"t": 1.0 + step, "type": "MODIFIED" if step else "ADDED", "object": obj})
    evidence = recordings.evidence_of(lines)
    (gang,) = gangs.gangs(evidence)
    assert gang.generations[0].most_held == count
    assert recordings.JUDGES["GANG-001"](evidence, {}).verdict == "pass"
