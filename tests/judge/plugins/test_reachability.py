"""The judge of connections to the master: what stops them is told apart."""

import copy
import functools
from typing import Any

import pytest

from pytest_gpucluster.evidence import Evidence
from pytest_gpucluster.evidence.log import ingest
from pytest_gpucluster.evidence.scheduling.gangs import gangs
from pytest_gpucluster.judge.plugins import reachability
from pytest_gpucluster.judge.rendezvous.presuppositions import master_port_open
from tests import recordings

R1 = "r1-real-kubelet-pytorch-gang"
WORKERS = ("torch-worker-0", "torch-worker-1", "torch-worker-2")


@functools.cache
def stream() -> Evidence:
    """Return the recorded gang on real kubelets."""
    return recordings.stream(R1)


def tried(how: dict[str, dict[str, Any]], *more: dict[str, Any], master: str = "") -> Evidence:
    """Return the recorded gang, whose members say how they got on with the master's port."""
    (gang,) = gangs(stream())
    pods = {pod.name: pod for pod in gang.pods}
    to = f"{pods['torch-master-0'].ip}:23456"
    lines = [recordings.word(9.0, pods[name], "connected", to=to, **said) for name, said in how.items()]
    if master:
        lines.append(recordings.word(7.0, pods["torch-master-0"], "env", env={}, pid=1))
    if master == "listens":
        lines.append(recordings.word(7.1, pods["torch-master-0"], "listening", port=23456))
    return recordings.added(R1, [*lines, *more])


def policy(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the line of a NetworkPolicy in the gang's namespace."""
    meta = {"name": "closed", "namespace": "case-r1-real-kubelet-pytorch-gang", "uid": "np"}
    body = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": meta, "spec": spec}
    return {"t": 0.5, "type": "ADDED", "kind": "NetworkPolicy", "object": body}


def without_policies(lines: list[dict[str, Any]]) -> Evidence:
    """Return the evidence without the policy that the svc plugin makes."""
    return recordings.evidence_of([copy.deepcopy(o) for o in lines if o.get("kind") != "NetworkPolicy"])


OPEN = {"ok": True, "tries": 2}


def test_all_members_that_connect_pass():
    """The number of tries of the worst member is reported."""
    finding = reachability.master_answers(tried(dict.fromkeys(WORKERS, OPEN)), {})
    assert finding.verdict == "pass"
    assert [number.value for number in finding.numbers] == [2]


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("timed out", "timed out"),
        ("ECONNRESET", "[Errno 104] Connection reset by peer"),
        ("EHOSTUNREACH", "[Errno 113] No route to host"),
        ("ECONNREFUSED", "[Errno 111] Connection refused"),
    ],
)
def test_one_member_that_is_stopped_fails(kind: str, error: str):
    """Whatever the way: a master that listens and cannot be reached is a fail, which names member, port and causes."""
    how = {**dict.fromkeys(WORKERS, OPEN), "torch-worker-1": {"ok": False, "kind": kind, "error": error}}
    evidence = tried(how, master="listens")
    finding = reachability.master_answers(evidence, {})
    assert (finding.verdict, finding.violation) == ("fail", True)
    assert "torch-worker-1" in finding.observed
    assert "23456" in finding.observed
    assert "torch-worker-0" not in finding.observed
    causes = " ".join(cause.text for cause in finding.causes)
    assert "NetworkPolicy" in causes
    assert "service mesh" in causes
    assert master_port_open(evidence, {}).held is False


def test_refused_by_a_master_that_does_not_listen_is_no_blocked_port():
    """A master of ours that never said that it listens has not come so far: nothing stands between."""
    how = {name: {"ok": False, "kind": "ECONNREFUSED"} for name in WORKERS}
    evidence = tried(how, master="silent")
    finding = reachability.master_answers(evidence, {})
    assert finding.verdict == "inconclusive"
    assert "not seen to listen" in finding.observed
    assert master_port_open(evidence, {}).held is None


def test_a_member_that_says_nothing_leaves_the_row_open():
    """Not seen is not passed."""
    named = {"subject": {"kind": "Job.batch.volcano.sh", "name": "torch"}}
    finding = reachability.master_answers(tried({"torch-worker-0": OPEN}), named)
    assert finding.verdict == "inconclusive"
    assert "torch-worker-1" in finding.observed


def test_a_name_that_does_not_resolve_is_another_row():
    """Nothing could be tried, and the cause points at names."""
    (gang,) = gangs(stream())
    said = recordings.word(8.0, gang.pods[0], "resolved", name="torch-master-0.torch", addresses=[], ok=False)
    finding = reachability.master_answers(recordings.added(R1, [said]), {})
    assert finding.verdict == "inconclusive"
    assert "PLG-003" in finding.causes[0].fix


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ({"podSelector": {}, "policyTypes": ["Ingress"]}, True),
        ({"podSelector": {}, "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "web"}}}]}]}, True),
        ({"podSelector": {}, "ingress": [{"ports": [{"protocol": "TCP", "port": 22}]}]}, True),
        ({"podSelector": {}, "ingress": [{"ports": [{"protocol": "UDP", "port": 23456}]}]}, True),
        ({"podSelector": {}, "ingress": [{"ports": [{"port": 20000, "endPort": 30000}]}]}, False),
        ({"podSelector": {}, "ingress": [{}]}, False),
        ({"podSelector": {"matchLabels": {"app": "web"}}, "policyTypes": ["Ingress"]}, False),
        ({"podSelector": {}, "policyTypes": ["Egress"]}, False),
        (
            {"podSelector": {"matchExpressions": [{"key": "volcano.sh/job-name", "operator": "Exists"}]},
             "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]},
            False,
        ),
    ],
)  # fmt: skip
def test_the_policy_that_isolates_the_master_is_named(spec: dict[str, Any], named: bool):
    """A policy is the cause only where it selects the master and no rule lets the member in to the port."""
    how = {"torch-worker-0": {"ok": False, "kind": "timed out"}}
    lines = [o for o in ingest.lines_of(tried(how)) if o["type"] not in ("HEADER", "SPAN")]
    base = [o for o in ingest.lines_of(without_policies(lines)) if o["type"] not in ("HEADER", "SPAN")]
    finding = reachability.master_answers(recordings.evidence_of([*base, policy(spec)]), {})
    assert finding.verdict == "fail"
    assert ("NetworkPolicy closed isolates Pod/torch-master-0" in finding.causes[0].text) is named


def test_the_policy_of_the_svc_plugin_is_not_accused():
    """It lets the Job's own pods in."""
    finding = reachability.master_answers(tried({"torch-worker-0": {"ok": False, "kind": "timed out"}}), {})
    assert not [cause for cause in finding.causes if "isolates" in cause.text]
