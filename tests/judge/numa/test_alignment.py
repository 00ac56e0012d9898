"""Rows about NUMA nodes on streams of real kubelets, on the suite's own evidence, and on made-up pods."""

import functools
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_gpucluster.evidence import read
from pytest_gpucluster.evidence.hardware import numa_trials, pod_devices
from pytest_gpucluster.judge.numa import alignment, kubelet_policy
from pytest_gpucluster.judge.numa import shared as terms
from pytest_gpucluster.report import decisions
from pytest_gpucluster.requirement import REGISTRY
from tests import recordings
from tests.defects import matrix

ROWS = ("NUMA-001", "NUMA-002", "NUMA-003", "NUMA-005", "NUMA-006")
PASS, FAIL, NO, ENVIRONMENT = "pass", "fail", "inconclusive", "environment"
LAYOUT = {f"GPU-fake-{i}": i // 4 for i in range(8)}
DECLARED = {"numa": {"policy": "single-numa-node", "scope": "pod", "nodes": 2}, "gpus_per_node": 8}


@functools.cache
def stream(name):
    """Return a recorded stream of a kubelet."""
    return read(recordings.KUBELET / name / "events.jsonl")


def verdicts(evidence, **told):
    """Return what each row says, presuppositions included."""
    assert matrix.rows()
    return {row: str(decisions.decide(REGISTRY.get(row), evidence, told).verdict) for row in ROWS}


SINGLE, RESTRICTED, BEST, ONE, NEWER = (
    "1.34/numa-two-nodes-single-numa-node",
    "1.34/numa-two-nodes-restricted",
    "1.34/numa-two-nodes-best-effort",
    "1.34/numa-one-node-ids-0-1",
    "1.37/numa-single-numa-node",
)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        # No kubelet was asked, and no pod shows the scope.
        (SINGLE, [NO, PASS, PASS, PASS, PASS]),
        # What the first pod left was split over both NUMA nodes.
        (RESTRICTED, [FAIL, FAIL, ENVIRONMENT, FAIL, PASS]),
        (BEST, [FAIL, FAIL, FAIL, FAIL, NO]),
        # Rejection works on a machine with one NUMA node; alignment, and telling policies apart, do not.
        (ONE, [NO, PASS, FAIL, ENVIRONMENT, PASS]),
    ],
)
def test_recorded_policies(name, wanted):
    """Each stream is judged by what its kubelet did, told which device lay where."""
    told = {**DECLARED, "numa": {**DECLARED["numa"], "layout": LAYOUT}}
    assert list(verdicts(stream(name), **told).values()) == wanted


@pytest.mark.parametrize("told", [{}, DECLARED])
@pytest.mark.parametrize("name", [SINGLE, RESTRICTED, ONE, NEWER])
def test_alignment_is_never_assumed(name, told):
    """Where nobody says which device lies where, no pod is called aligned; what was rejected still counts."""
    found = verdicts(stream(name), **told)
    assert found["NUMA-003"] != PASS
    assert found["NUMA-005"] != PASS
    assert found["NUMA-002"] == (FAIL if name == RESTRICTED else PASS)


def test_nothing_declared_and_nothing_rejected():
    """Under best-effort a kubelet rejects nothing: without a declaration there is no row to break."""
    assert set(verdicts(stream(BEST)).values()) == {NO}
    assert verdicts(stream(BEST), **DECLARED)["NUMA-002"] == FAIL


def test_a_newer_kubelet_names_the_devices_itself():
    """Kubernetes 1.37 has the ids in the pod's status; on one node each, nothing else is shown."""
    pods = {pod.uid: pod for pod in (t.pod for t in numa_trials.trials(stream(NEWER), {}))}
    holding = pod_devices.held(stream(NEWER))
    assert [(pods[uid].name, len(each[0].devices)) for uid, each in holding.items()] == [("fits-one-numa", 4)]
    assert verdicts(stream(NEWER)) == dict(zip(ROWS, [NO, PASS, NO, NO, NO], strict=True))


def test_a_violation_is_explained():
    """The finding names pod, node and numbers, and the likeliest cause with its fix."""
    finding = alignment.misfit_rejected(stream(BEST), DECLARED)
    assert finding.violation
    assert finding.where == (
        "Pod/gpu-5-0 on node-b: " + ", ".join(f"GPU-fake-{n}@?" for n in (1, 2, 3, 4, 5)),
    )
    assert finding.numbers[0].value == 5
    assert finding.numbers[0].bound == 4
    assert "topologyManagerPolicy: single-numa-node" in finding.causes[0].fix
    assert "kubectl get --raw /api/v1/nodes/node-b/proxy/configz" in finding.repeat


# -- made-up pods ----------------------------------------------------------------------------------------------------

GPU = "nvidia.com/gpu"


def lines(name, gpus, *, t=0.0, phase="Running", reason="", node="n1", cpu="10m", spec=None, qos="Burstable"):
    """Return the watch lines of a pod that a scheduler binds and a kubelet decides."""
    asked = {"limits": {GPU: str(gpus)}, "requests": {GPU: str(gpus), "cpu": cpu}}
    base = {
        "kind": "Pod",
        "metadata": {"name": name, "uid": name, "namespace": "x"},
        "spec": {"containers": [{"name": "c", "resources": asked}], **(spec or {})},
        "status": {"phase": "Pending", "qosClass": qos},
    }
    bound = {**base, "spec": {**base["spec"], "nodeName": node}}
    end = {**bound, "status": {"phase": phase, "qosClass": qos, **({"reason": reason} if reason else {})}}
    found = [("ADDED", t, base), ("MODIFIED", t + 0.1, bound), ("MODIFIED", t + 0.3, end)]
    return [{"type": kind, "t": at, "kind": "Pod", "object": obj} for kind, at, obj in found]


def machine(gpus=8, name="n1"):
    """Return the line of a node with so many devices."""
    amounts = {GPU: str(gpus)}
    obj = {
        "kind": "Node",
        "metadata": {"name": name, "uid": name},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    return {"type": "ADDED", "t": 0.0, "kind": "Node", "object": obj}


def says(pod, devices, t):
    """Return the line in which a pod tells its devices."""
    told = [{"id": name, "numa": at} for name, at in devices.items()]
    return {
        "type": "LOG", "t": t, "pod": pod, "uid": pod, "container": "c",
        "line": "GPUCONF1 " + json.dumps({"event": "devices", "devices": told, "by": "GPUCLUSTER_DEVICES"}),
    }  # fmt: skip


def evidence(*groups, header=None):
    """Return evidence of lines, ended."""
    flat = [line for group in groups for line in (group if isinstance(group, list) else [group])]
    last = max(line["t"] for line in flat)
    return recordings.evidence_of([*flat, {"type": "NOTE", "t": last + 1, "note": "end"}], header=header)


REJECTED = {"phase": "Failed", "reason": "TopologyAffinityError"}


@pytest.mark.parametrize(
    "reason", ["TopologyAffinityError", "Topology Affinity Error", "topologyaffinityerror"]
)
def test_the_reason_as_any_version_wrote_it(reason):
    """Kubernetes 1.16 wrote it with spaces."""
    seen = evidence(machine(), lines("p", 5, phase="Failed", reason=reason))
    assert alignment.misfit_rejected(seen, DECLARED).verdict == PASS


@pytest.mark.parametrize(
    "reason", ["UnexpectedAdmissionError", "SMTAlignmentError", "OutOfnvidia.com/gpu", "OutOfcpu", "Evicted"]
)
def test_neighbouring_reasons_are_not_it(reason):
    """Other refusals look similar and say nothing about topology."""
    seen = evidence(machine(), lines("p", 5, phase="Failed", reason=reason))
    finding = alignment.misfit_rejected(seen, DECLARED)
    assert finding.verdict == NO
    assert reason in finding.observed


def test_a_shortage_passes_for_a_topology_error():
    """Under a strict policy a kubelet that lacks devices says TopologyAffinityError too: numbers decide."""
    seen = evidence(machine(), lines("holder", 4), lines("p", 5, t=1.0, **REJECTED))
    finding = alignment.misfit_rejected(seen, DECLARED)
    assert finding.verdict == NO
    assert "only 4 devices were free" in finding.observed


def test_whole_cpus_may_be_to_blame():
    """A Guaranteed pod with whole CPUs may have been rejected for these."""
    pod = lines("p", 5, cpu="2", qos="Guaranteed", **REJECTED)
    assert alignment.misfit_rejected(evidence(machine(), pod), DECLARED).verdict == NO


def test_a_pod_that_ran_before_it_was_rejected():
    """That a container ran outweighs what the status says later."""
    first, bound, end = lines("p", 5, **REJECTED)
    ran = {**bound, "t": 0.2, "object": {**bound["object"], "status": {"phase": "Running"}}}
    finding = alignment.misfit_rejected(evidence(machine(), [first, bound, ran, end]), DECLARED)
    assert (finding.verdict, finding.violation) == (FAIL, True)


def test_a_fitting_pod_is_wronged_only_where_there_was_room():
    """Fragments are no fault of the kubelet; one empty NUMA node is."""
    half = {f"g{i}": i // 4 for i in (0, 1, 2)}
    both = {"g0": 0, "g1": 0, "g4": 1, "g5": 1}
    for devices, wanted in ((half, FAIL), (both, NO)):
        count = len(devices)
        seen = evidence(
            machine(), lines("a", count), says("a", devices, 0.5), lines("b", 3, t=1.0, **REJECTED)
        )
        if devices is both:
            assert alignment.on_one_numa_node(seen, DECLARED).where[0].startswith("Pod/a")
        else:
            assert alignment.on_one_numa_node(seen, DECLARED).verdict == wanted
    alone = evidence(machine(), lines("b", 3, **REJECTED))
    assert alignment.on_one_numa_node(alone, DECLARED).violation


def test_one_numa_node_alone_shows_no_alignment():
    """Pods on one NUMA node look the same on a machine that has one."""
    seen = evidence(machine(), lines("a", 3), says("a", dict.fromkeys(("g0", "g1", "g2"), 0), 0.5))
    finding = alignment.on_one_numa_node(seen, DECLARED)
    assert finding.verdict == NO
    assert "the other one" in finding.observed


def test_a_policy_that_differs_makes_the_rejection_not_applicable():
    """Who declares restricted does not promise that a pod which spans NUMA nodes is rejected."""
    told = {**DECLARED, "numa": {"policy": "restricted"}}
    assert alignment.misfit_rejected(stream(RESTRICTED), told).verdict == "not_applicable"
    assert kubelet_policy.told_apart(stream(RESTRICTED), told).verdict == PASS


def configz(node, code=200, **settings):
    """Return a kubelet's answer."""
    told = {"object": {"kubeletconfig": settings}} if code == 200 else {"status": {"code": code}}
    return {"type": "RESPONSE", "t": 0.0, "case": f"configz:{node}", "code": code, "request": "get", **told}


RIGHT = {"topologyManagerPolicy": "single-numa-node", "topologyManagerScope": "pod"}


@pytest.mark.parametrize(
    ("answers", "wanted", "part"),
    [
        ([configz("n1", **RIGHT)], PASS, "says single-numa-node, pod"),
        ([configz("n1", **{**RIGHT, "topologyManagerPolicy": "restricted"})], FAIL, "policy restricted"),
        ([configz("n1", **{**RIGHT, "topologyManagerScope": "container"})], FAIL, "scope container"),
        ([configz("n1", maxPods=110)], FAIL, "policy none"),
        ([configz("n1", 403)], NO, "HTTP 403"),
        ([], NO, "was not asked"),
    ],
)
def test_what_a_kubelet_says(answers, wanted, part):
    """A kubelet that may not be asked is unknown, never assumed; defaults of Kubernetes are none and container."""
    finding = kubelet_policy.policy_set(evidence(machine(), *answers), DECLARED)
    assert finding.verdict == wanted
    assert part in finding.observed


def exporter(node, policy, scope=""):
    """Return the answer to the question for NodeResourceTopologies."""
    told = {"attributes": [{"name": "topologyManagerPolicy", "value": policy}]}
    if scope:
        told = {"topologyPolicies": [policy]}
    items = [{"metadata": {"name": node}, **told}]
    return {
        "type": "RESPONSE",
        "t": 0.0,
        "case": "numa-topologies",
        "code": 200,
        "request": "list",
        "items": items,
    }


def test_an_exporter_is_no_proof():
    """A NodeResourceTopology does not change the kubelet: alone it leaves the row open; disagreeing is a finding."""
    alone = kubelet_policy.policy_set(evidence(machine(), exporter("n1", "single-numa-node")), DECLARED)
    assert alone.verdict == NO
    both = evidence(machine(), exporter("n1", "none"), configz("n1", **RIGHT))
    finding = kubelet_policy.policy_set(both, DECLARED)
    assert finding.verdict == FAIL
    assert finding.causes[0] is kubelet_policy.DISAGREE
    old = evidence(machine(), exporter("n1", "SingleNUMANodePodLevel", "old"), configz("n1", **RIGHT))
    assert kubelet_policy.policy_set(old, DECLARED).verdict == PASS


def test_pods_prove_policy_and_scope_where_nobody_may_ask():
    """Five GPUs rejected, three admitted, four and one in two containers rejected: single-numa-node, scope pod."""
    two = {
        "containers": [{"name": n, "resources": {"limits": {GPU: g}}} for n, g in (("a", "4"), ("b", "1"))]
    }
    pods = [
        lines("big", 5, **REJECTED),
        lines("small", 3, t=1.0),
        lines("split", 0, t=2.0, spec=two, **REJECTED),
    ]
    finding = kubelet_policy.policy_set(evidence(machine(), configz("n1", 403), *pods), DECLARED)
    assert finding.verdict == PASS
    assert "behaves as single-numa-node, pod (HTTP 403" in finding.observed
    ran = [*pods[:2], lines("split", 0, t=2.0, spec=two)]
    assert (
        kubelet_policy.policy_set(evidence(machine(), configz("n1", **RIGHT), *ran), DECLARED).verdict == FAIL
    )
    assert kubelet_policy.policy_set(evidence(machine(), *pods[:2]), DECLARED).verdict == NO


def test_what_a_kubelet_does_outweighs_what_it_says():
    """A kubelet that was configured and not restarted."""
    seen = evidence(machine(), configz("n1", **RIGHT), lines("big", 5), lines("small", 3, t=1.0))
    finding = kubelet_policy.policy_set(seen, DECLARED)
    assert (finding.verdict, finding.violation) == (FAIL, True)
    assert finding.causes[0] is terms.NOT_RESTARTED


def test_devices_without_numa_nodes():
    """No id carries a NUMA node: the plugin is at fault, not the policy; some without are worse than none told."""
    plain = says("big", dict.fromkeys(("g0", "g1", "g2", "g3", "g4")), 0.5)
    seen = evidence(machine(), configz("n1", **RIGHT), lines("big", 5), plain, lines("small", 3, t=1.0))
    assert alignment.topology_reported(seen, DECLARED).verdict == FAIL
    assert alignment.misfit_rejected(seen, DECLARED).causes[0] is terms.NO_TOPOLOGY
    assert kubelet_policy.policy_set(seen, DECLARED).verdict == PASS
    untold = evidence(machine(), lines("small", 3))
    assert alignment.topology_reported(untold, DECLARED).verdict == NO


@given(st.text(max_size=40), st.text(max_size=10))
@example("", "@")
@example("", "a@1,@0")
@example("", "a@\N{SUPERSCRIPT TWO}")
def test_notes_of_any_shape_are_read_without_a_word(text, listed):
    """Whatever a recording's driver noted, reading devices from it does not raise."""
    note = {"type": "NOTE", "t": 3.0, "text": f"log of p: 200 devices {listed}\n{text}"}
    other = {"type": "NOTE", "t": 3.1, "text": f"log of {text}: 200 {listed}"}
    seen = evidence(machine(), lines("p", 3), note, other)
    for each in pod_devices.held(seen).values():
        assert all(name for one in each for name in one.devices)
    assert {str(f(seen, DECLARED).verdict) for f in (alignment.on_one_numa_node, alignment.topology_reported)} <= {
        PASS, FAIL, NO,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("listed", "count"), [("0-3", 4), ("0", 1), ("0-1,8-9", 4), ("", 0), ("x", 0), ("3-", 0)]
)
def test_width_of_a_list(listed, count):
    """`0-3,8` names five; what is no list names none."""
    assert pod_devices.width(listed) == count
