"""LIFE-011 on the suite's own evidence and on what a kubelet on a kind node did."""

from pytest_gpucluster.judge.lifecycle import node_reboot
from tests import recordings

GPU = "nvidia.com/gpu"
GIVEN = {"roles": {"subject": [{"kind": "Job.batch", "name": "train", "uid": "job"}]}}


OWNER = {"kind": "Job", "apiVersion": "batch/v1", "name": "train", "uid": "job", "controller": True}


def pod(name, index, t, *states):
    """Return the watch lines of a member on the node n1: (seconds after its creation, phase, reason)."""
    base = {
        "kind": "Pod",
        "metadata": {
            "name": name, "uid": name, "namespace": "x",
            "annotations": {"batch.kubernetes.io/job-completion-index": str(index)},
            "ownerReferences": [OWNER],
        },
        "spec": {"containers": [{"name": "c", "resources": {"limits": {GPU: "1"}}}]},
        "status": {"phase": "Pending"},
    }  # fmt: skip
    lines = [{"type": "ADDED", "t": t, "kind": "Pod", "object": base}]
    for after, phase, reason in states:
        status = {"phase": phase, **({"reason": reason} if reason else {})}
        obj = {**base, "spec": {**base["spec"], "nodeName": "n1"}, "status": status}
        lines.append({"type": "MODIFIED", "t": t + after, "kind": "Pod", "object": obj})
    return lines


JOB = {
    "kind": "Job", "apiVersion": "batch/v1", "metadata": {"name": "train", "uid": "job", "namespace": "x"},
    "spec": {"parallelism": 1, "completions": 1}, "status": {},
}  # fmt: skip


def evidence(*groups, end=40.0, notes=()):
    """Return evidence of a Job whose node was restarted at 5 s."""
    lines = [{"type": "ADDED", "t": 0.0, "kind": "Job.batch", "object": JOB}]
    lines.append({"type": "NOTE", "t": 5.0, "note": "rebooted-by-us", "node": "n1"})
    lines += [line for group in groups for line in group]
    lines += [*notes, {"type": "NOTE", "t": end, "note": "end"}]
    return recordings.evidence_of(lines, header={"given": GIVEN})


LOST = pod(
    "train-0-a",
    0,
    1.0,
    (0.5, "Pending", ""),
    (1.0, "Running", ""),
    (9.0, "Failed", "UnexpectedAdmissionError"),
)


def decide(seen):
    """Return the finding."""
    return node_reboot.replaced_once(seen, seen.given)


def test_a_member_is_replaced_once():
    """As seen on a kind node: refused by the kubelet that came back, made again by the Job 23 s after the restart."""
    finding = decide(evidence(LOST, pod("train-0-b", 0, 28.0, (0.1, "Pending", ""), (1.0, "Running", ""))))
    assert finding.verdict == "pass"
    assert "(UnexpectedAdmissionError) and replaced once each, running again 24.0 s" in finding.observed


def test_a_rejected_replacement_is_the_late_plugins():
    """Each replacement that a kubelet rejects is one too many, whatever reason it gives."""
    for reason in ("UnexpectedAdmissionError", "TopologyAffinityError"):
        odd = pod("train-0-b", 0, 12.0, (0.1, "Pending", ""), (0.2, "Failed", reason))
        last = pod("train-0-c", 0, 32.0, (0.1, "Pending", ""), (1.0, "Running", ""))
        finding = decide(evidence(LOST, odd, last))
        assert (finding.verdict, finding.violation) == ("fail", True)
        assert finding.causes == (node_reboot.LATE_PLUGIN,)


def test_replaced_twice():
    """Two pods in one place, though both ran."""
    made = [
        pod(f"train-0-{n}", 0, t, (0.1, "Pending", ""), (1.0, "Running", ""))
        for n, t in (("b", 12.0), ("c", 14.0))
    ]
    assert decide(evidence(LOST, *made)).verdict == "fail"


def test_nobody_comes_back():
    """Not replaced is a violation only where it was waited for."""
    assert decide(evidence(LOST)).verdict == "inconclusive"
    vain = {
        "type": "NOTE",
        "t": 39.0,
        "note": "timed-out",
        "what": "every member was made again",
        "seconds": 30,
    }
    assert decide(evidence(LOST, notes=[vain])).verdict == "fail"


def test_what_the_api_server_refuses_is_named():
    """As seen where Kueue's manager lay on the restarted node: its webhook was gone, and no replacement was made."""
    why = 'Error creating: Internal error occurred: failed calling webhook "mpod.kb.io": connection refused'
    refused = {
        "kind": "Event", "metadata": {"name": "e", "uid": "e", "namespace": "x"},
        "reason": "FailedCreate", "message": why,
        "involvedObject": {"kind": "Job", "apiVersion": "batch/v1", "name": "train", "uid": "job", "namespace": "x"},
    }  # fmt: skip
    vain = {
        "type": "NOTE",
        "t": 39.0,
        "note": "timed-out",
        "what": "every member was made again",
        "seconds": 30,
    }
    finding = decide(
        evidence(LOST, [{"type": "ADDED", "t": 20.0, "kind": "Event", "object": refused}], notes=[vain])
    )
    assert finding.verdict == "fail"
    assert 'failed calling webhook "mpod.kb.io"' in finding.causes[0].text
    assert "Event/" in finding.evidence[0]


def test_containers_that_survive_show_nothing():
    """A restart that reached no member was no drill; nor is evidence without one."""
    alive = pod("train-0-a", 0, 1.0, (0.5, "Pending", ""), (1.0, "Running", ""))
    assert decide(evidence(alive)).verdict == "inconclusive"
    assert decide(recordings.stream("r1-real-kubelet-pytorch-gang")).verdict == "inconclusive"


def test_the_suites_own_evidence():
    """Both members were lost and replaced."""
    seen = recordings.embedded("reboot")
    finding = node_reboot.replaced_once(seen, seen.given)
    assert (finding.verdict, finding.facts["lost"]) == ("pass", 2)
