"""Look-ups of names: when they were made, what became of them at last, and whom a pod asked."""

import json

import pytest

from pytest_gpucluster.judge.plugins import late_names, name_resolution
from pytest_gpucluster.judge.rendezvous.presuppositions import master_name_resolves
from pytest_gpucluster.report import decisions
from pytest_gpucluster.requirement import REGISTRY
from tests import recordings
from tests.defects import matrix

PASS, FAIL, NO, ENVIRONMENT = "pass", "fail", "inconclusive", "environment"
HOST = {"hostNetwork": True, "dnsPolicy": "ClusterFirst"}


def pod(name, *life, **spec):
    """Return the lines of a pod that was in these phases: (t, phase)."""
    found = []
    for n, (t, phase) in enumerate(life):
        body = {"containers": [{"name": "main"}], **spec, **({"nodeName": "n1"} if n else {})}
        status = {"phase": phase}
        if phase in ("Succeeded", "Failed"):
            code = 0 if phase == "Succeeded" else 1
            status["containerStatuses"] = [{"name": "main", "state": {"terminated": {"exitCode": code}}}]
        obj = {
            "kind": "Pod",
            "metadata": {"name": name, "uid": name, "namespace": "x"},
            "spec": body,
            "status": status,
        }
        found.append({"t": float(t), "type": "MODIFIED" if n else "ADDED", "object": obj})
    return found


def slices(*states):
    """Return the lines of an EndpointSlice: (t, names listed as ready)."""
    return [
        {
            "t": float(t), "type": "MODIFIED" if n else "ADDED",
            "object": {
                "kind": "EndpointSlice", "metadata": {"name": "s", "uid": "s", "namespace": "x"},
                "endpoints": [{"hostname": host, "conditions": {"ready": True}} for host in ready],
            },
        }
        for n, (t, ready) in enumerate(states)
    ]  # fmt: skip


def said(t, name, line):
    """Return a line of a pod's log."""
    return {"t": float(t), "type": "LOG", "pod": name, "uid": name, "container": "main", "line": line}


def unknown(t, name, host="w-1.train"):
    """Return the line in which a pod's log calls a name unknown."""
    return said(t, name, f"ssh: Could not resolve hostname {host}: Name or service not known")


def looked(t, name, host="w-1.train", *addresses, **more):
    """Return the line in which a payload tells what a look-up gave."""
    told = {
        "event": "resolved",
        "name": host,
        "addresses": list(addresses),
        "tries": 3,
        "ok": bool(addresses),
        **more,
    }
    return said(t, name, f"GPUCONF1 {json.dumps(told)}")


def evidence(*groups, end=100.0):
    """Return evidence of lines, ended."""
    flat = [line for group in groups for line in (group if isinstance(group, list) else [group])]
    return recordings.evidence_of([*flat, {"t": end, "type": "NOTE", "note": "end"}])


def decided(row, seen):
    """Return the verdict of a row, presuppositions included."""
    assert matrix.rows()
    return str(decisions.decide(REGISTRY.get(row), seen, {}).verdict)


MASTER = pod("w-1", (0, "Pending"), (1, "Running"))
ALIVE = pod("m", (0, "Pending"), (1, "Running"))


def ended(t, phase="Succeeded"):
    """Return the lines of a member that came to its end."""
    return pod("m", (0, "Pending"), (1, "Running"), (t, phase))


def found(seen):
    """Return what the judge of PLG-003 says by itself: these pods are of no Volcano Job."""
    return str(name_resolution.master_resolves(seen, {}).verdict)


@pytest.mark.parametrize(
    ("groups", "verdict"),
    [
        # Looked up before the name was there, found later: however long the pod ran on.
        ((ended(90), unknown(8, "m"), slices((14, ["w-1"]))), PASS),
        ((ended(90), unknown(8, "m"), unknown(13, "m"), slices((14, ["w-1"]))), PASS),
        # Still unknown a while after it was there, and found in the end.
        ((ended(90), unknown(8, "m"), unknown(30, "m"), slices((14, ["w-1"]))), PASS),
        # It failed, but its only look-up was before the name was there.
        ((ended(90, "Failed"), unknown(8, "m"), slices((14, ["w-1"]))), NO),
        # A log that was read when the pod was over: somewhen in its life.
        ((ended(30, "Failed"), unknown(95, "m"), slices((14, ["w-1"]))), NO),
        # The answer was given while the server could not have known better.
        ((ended(90, "Failed"), unknown(15, "m"), slices((14, ["w-1"]))), NO),
        # The pod behind the name was not ready any more.
        ((ended(90, "Failed"), unknown(40, "m"), slices((14, ["w-1"]), (30, []), (50, ["w-1"]))), NO),
        # The name was there, and unknown.
        ((ended(90, "Failed"), unknown(40, "m"), slices((14, ["w-1"]))), FAIL),
        ((ALIVE, unknown(40, "m"), slices((14, ["w-1"]))), FAIL),
        (
            (
                pod("m", (50, "Pending"), (51, "Running"), (60, "Failed")),
                unknown(95, "m"),
                slices((14, ["w-1"])),
            ),
            FAIL,
        ),
    ],
)
def test_when_a_name_was_looked_up(groups, verdict):
    """The end of a pod is not the time of its look-up, and what it found later counts."""
    assert found(evidence(MASTER, *groups)) == verdict


IP = pod("w-1", (0, "Pending"), (1, "Running"))
for _line in IP:
    _line["object"]["status"]["podIP"] = "10.0.0.7"


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        ([looked(5, "m"), looked(20, "m", "w-1.train", "10.0.0.7")], PASS),
        ([looked(20, "m", "w-1.train", "10.0.0.7"), looked(30, "m")], FAIL),
        ([looked(20, "m", "w-1.train", "10.9.9.9")], FAIL),
        # Before anybody had published it.
        ([looked(5, "m")], NO),
        ([looked(20, "m")], FAIL),
    ],
)
def test_the_last_look_up_counts(lines, verdict):
    """Tries that failed before one that did not are no violation; one before the name was published shows nothing."""
    seen = evidence(IP, ALIVE, slices((14, ["w-1"])), lines)
    assert found(seen) == verdict
    held = master_name_resolves(seen, {}).held
    assert held is bool(lines[-1]["line"].count("10."))


@pytest.mark.parametrize(
    "spec",
    [
        HOST,
        {"hostNetwork": True},
        {"dnsPolicy": "Default"},
        {"hostNetwork": True, "dnsPolicy": "Default"},
        {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["1.1.1.1"]}},
    ],
)
@pytest.mark.parametrize("lines", [[looked(40, "m")], [unknown(40, "m")]])
def test_a_pod_that_asks_another_resolver(spec, lines):
    """It cannot know the cluster's names: the environment, and no fault of the cluster's DNS."""
    member = pod("m", (0, "Pending"), (1, "Running"), **spec)
    seen = evidence(IP, member, slices((14, ["w-1"])), lines)
    assert [decided(row, seen) for row in ("PLG-003", "RDZV-003")] == [ENVIRONMENT] * 2
    state = name_resolution.cluster_dns_asked(seen, {})
    assert "m asks " in state.observed
    assert "ClusterFirstWithHostNet" in state.causes[0].fix
    policy = spec.get("dnsPolicy", "ClusterFirst")
    means = f"the DNS policy {policy} means"
    assert means in state.causes[0].text
    assert ("hostNetwork" in state.observed) is ("hostNetwork" in spec)


@pytest.mark.parametrize(
    "spec", [{}, {"dnsPolicy": "ClusterFirst"}, {**HOST, "dnsPolicy": "ClusterFirstWithHostNet"}]
)
def test_a_pod_that_asks_the_cluster(spec):
    """It must be given the name."""
    member = pod("m", (0, "Pending"), (1, "Running"), **spec)
    seen = evidence(IP, member, slices((14, ["w-1"])), looked(40, "m"))
    assert found(seen) == FAIL


def test_another_resolver_that_knows_the_name():
    """Whoever answers: the name was found."""
    member = pod("m", (0, "Pending"), (1, "Running"), **HOST)
    seen = evidence(IP, member, slices((14, ["w-1"])), looked(40, "m", "w-1.train", "10.0.0.7"))
    assert found(seen) == PASS


def test_lines_without_a_pod_keep_their_time():
    """Of a pod that was not seen nothing else is known."""
    (one,) = late_names.unknown_names(evidence(unknown(7, "stranger")))
    assert (one.early, one.late) == (7.0, 7.0)
