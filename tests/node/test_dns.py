"""The DNS zone and its answers. Pure."""

from typing import Any

from dnslib import QTYPE, RCODE, DNSRecord
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpucluster.node.dns import Zone, answer

DOMAIN = "cluster.local"


def pod(name: str, ip: str, *, ready: bool = True, phase: str = "Running", **spec: Any) -> dict[str, Any]:
    """Return a pod of the job."""
    return {
        "metadata": {"name": name, "namespace": "ns", "labels": {"job": "j"}},
        "spec": {"hostname": name, "subdomain": "job", **spec},
        "status": {"phase": phase, "podIP": ip, "conditions": [{"type": "Ready", "status": str(ready)}]},
    }


def zone(pods: list[dict[str, Any]], **service: Any) -> Zone:
    """Return a zone with one headless service over the job's pods."""
    spec = {"clusterIP": "None", "selector": {"job": "j"}, **service}
    services = {("ns", "job"): {"metadata": {"name": "job", "namespace": "ns"}, "spec": spec}}
    return Zone(DOMAIN, services, {("ns", p["metadata"]["name"]): p for p in pods})


def test_names_of_ready_pods() -> None:
    """A headless service has the addresses of its ready pods, and each has a name of its own."""
    found = zone([pod("job-0", "10.0.0.1"), pod("job-1", "10.0.0.2", ready=False)])
    assert found.lookup("job.ns.svc.cluster.local") == ["10.0.0.1"]
    assert found.lookup("JOB-0.job.ns.svc.cluster.local.") == ["10.0.0.1"]
    assert found.lookup("job-1.job.ns.svc.cluster.local") is None


def test_unready_pods_are_published_on_request() -> None:
    """With publishNotReadyAddresses unready pods have names too; ended ones never."""
    pods = [pod("job-0", "10.0.0.1", ready=False), pod("job-1", "10.0.0.2", phase="Failed")]
    found = zone(pods, publishNotReadyAddresses=True)
    assert found.lookup("job.ns.svc.cluster.local") == ["10.0.0.1"]
    assert found.lookup("job-1.job.ns.svc.cluster.local") is None


def test_deleted_pods_leave_the_service() -> None:
    """A pod that is being deleted is not ready for DNS."""
    leaving = pod("job-0", "10.0.0.1")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert zone([leaving]).lookup("job.ns.svc.cluster.local") is None


def test_changes_are_seen_after_notice() -> None:
    """A new pod has a name as soon as the zone was told of a change."""
    found = zone([])
    assert found.lookup("job.ns.svc.cluster.local") is None
    found.pods["ns", "job-0"] = pod("job-0", "10.0.0.1")
    found.changed()
    assert found.lookup("job-0.job.ns.svc.cluster.local") == ["10.0.0.1"]


def test_other_names() -> None:
    """A pod is found by its address; a ClusterIP service by its own; a pod without subdomain has no name."""
    found = zone([pod("job-0", "10.0.0.1", subdomain=None)])
    assert found.lookup("10-0-0-1.ns.pod.cluster.local") == ["10.0.0.1"]
    assert found.lookup("10-0-0-9.ns.pod.cluster.local") is None
    assert found.lookup("job-0.job.ns.svc.cluster.local") is None
    assert zone([], clusterIP="10.96.0.9").lookup("job.ns.svc.cluster.local") == ["10.96.0.9"]


def asked(name: str, kind: str, found: list[str] | None) -> DNSRecord:
    """Return the answer to one question."""
    reply = answer(DNSRecord.question(name, kind).pack(), lambda _name: found, DOMAIN)
    assert reply is not None
    return DNSRecord.parse(reply)


def test_answers() -> None:
    """A known name has A records and an empty success for AAAA; any other is NXDOMAIN at once."""
    good = asked("job.ns.svc.cluster.local", "A", ["10.0.0.1", "10.0.0.2"])
    assert [str(r.rdata) for r in good.rr] == ["10.0.0.1", "10.0.0.2"]
    empty = asked("job.ns.svc.cluster.local", "AAAA", ["10.0.0.1"])
    assert (empty.header.rcode, len(empty.rr)) == (RCODE.NOERROR, 0)
    assert asked("example.com", "A", None).header.rcode == RCODE.NXDOMAIN
    assert asked("1.0.0.10.in-addr.arpa", "PTR", None).header.rcode == RCODE.NXDOMAIN
    assert QTYPE[good.q.qtype] == "A"


@given(st.binary(max_size=80))
def test_garbage_is_survived(packet: bytes) -> None:
    """A packet that is no query is dropped or answered, never an exception."""
    answer(packet, lambda _name: None, DOMAIN)
