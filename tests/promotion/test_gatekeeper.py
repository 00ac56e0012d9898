"""The gatekeeper beside a Kueue: it lets work in only while evidence vouches, and never in advance."""

import itertools
import threading
from datetime import timedelta

import pytest

from pytest_gpucluster.kube import connection, errors, objects
from pytest_gpucluster.plain import times
from pytest_gpucluster.promotion.gatekeeper import forms, keeper, reading

from .conftest import KUEUE, MERGE, make_cluster_queue, wait

JOBS = "/apis/batch/v1/namespaces/default/jobs"
WORKLOADS = f"{KUEUE}/namespaces/default/workloads"
_numbers = itertools.count()


def accepted(seconds=3600.0):
    """Return a reading of an open gate."""
    until = times.now() + timedelta(seconds=seconds)
    return reading.Reading(open=True, until=until, reason=reading.ACCEPTED, message="run-1: accepted")


BY_TEST = {
    "status": {
        "conditions": [
            {
                "type": "Active",
                "status": "True",
                "reason": "ByTest",
                "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
        ]
    }
}
"""What another controller wrote to a check."""

CLOSED = reading.Reading(open=False, until=None, reason=reading.CLOSED, message="GANG-001: fail")


class Reader:
    """Stands for the gate: says what it is told to say, and counts how often it was read."""

    def __init__(self, says):
        """Say this."""
        self.says = says
        self.count = 0
        self.hold = threading.Event()
        self.hold.set()
        self.begun = threading.Event()

    def __call__(self):
        """Read the gate."""
        self.count += 1
        said = self.says
        self.begun.set()
        assert self.hold.wait(20)
        return said


class Stand:
    """A check, a ClusterQueue behind it, and a gatekeeper."""

    def __init__(self, raw, url, name, says):
        """Make all of a name; the gate says this at first."""
        self.raw, self.name = raw, name
        self.read = Reader(says)
        self.said: list[str] = []
        self.stamp = ["first"]
        raw.ok(
            "POST",
            f"{KUEUE}/admissionchecks",
            {"metadata": {"name": name}, "spec": {"controllerName": forms.CONTROLLER}},
        )
        rules = {"admissionChecks": [{"name": name}]}
        make_cluster_queue(raw, name, policy="None", admissionChecksStrategy=rules)
        local = {"metadata": {"name": name}, "spec": {"clusterQueue": name}}
        raw.ok("POST", f"{KUEUE}/namespaces/default/localqueues", local)
        self.api = objects.Objects(connection.Connection.at(url))
        self.keeper = keeper.Keeper(
            self.api, name, self.read, lambda: self.stamp[0], say=self.said.append, look=0.2
        )
        self.thread = threading.Thread(target=self.keeper.run, daemon=True)

    def start(self):
        """Let the gatekeeper work."""
        self.thread.start()
        return self

    def stop(self):
        """End the gatekeeper."""
        self.read.hold.set()
        self.keeper.stop()
        if self.thread.ident is not None:
            self.thread.join(20)
            assert not self.thread.is_alive()

    def active(self, status, reason=""):
        """Wait until the check's condition Active is so; return it."""

        def check(obj):
            found = forms.condition(obj, "Active")
            return found.get("status") == status and reason in found.get("reason", "")

        return forms.condition(wait(self.raw, f"{KUEUE}/admissionchecks/{self.name}", check), "Active")

    def queue(self, status):
        """Wait until the ClusterQueue's condition Active is so; return it."""
        path = f"{KUEUE}/clusterqueues/{self.name}"
        return forms.condition(
            wait(self.raw, path, lambda obj: forms.condition(obj, "Active").get("status") == status), "Active"
        )

    def until(self, check):
        """Wait until the gatekeeper has done something."""
        with self.keeper._woken:
            assert self.keeper._woken.wait_for(check, 10)

    def job(self):
        """Create a Job of one GPU and return its name."""
        name = f"job{next(_numbers)}"
        container = {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
        self.raw.ok(
            "POST",
            JOBS,
            {
                "metadata": {"name": name, "labels": {"kueue.x-k8s.io/queue-name": self.name}},
                "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
            },
        )
        return name

    def workload(self, job, check=lambda _: True):
        """Wait until a Job's Workload is as asked; return it."""
        version = self.raw.ok("GET", WORKLOADS)["metadata"]["resourceVersion"]
        for obj in self.raw.ok("GET", WORKLOADS)["items"]:
            if obj["metadata"]["name"].startswith(f"job-{job}-") and check(obj):
                return obj
        query = f"watch=true&resourceVersion={version}&timeoutSeconds=15"
        for event in self.raw.watch(f"{WORKLOADS}?{query}"):
            obj = event["object"]
            mine = event["type"] != "BOOKMARK" and obj["metadata"]["name"].startswith(f"job-{job}-")
            if mine and check(obj):
                return obj
        raise AssertionError(f"no such Workload: {self.raw.ok('GET', WORKLOADS)}")

    def admitted(self, job):
        """Wait until a Job is admitted."""
        return self.workload(job, lambda w: forms.is_true(w, "Admitted"))

    def asking(self, job):
        """Wait until a Job holds quota and its check is Pending."""
        return self.workload(job, lambda w: forms.asks(w, self.name))


@pytest.fixture
def stand(raw, url, name):
    """Make stands, each with a gatekeeper that is stopped at the end."""
    made = []

    def make(says):
        made.append(Stand(raw, url, name, says))
        return made[-1]

    yield make
    for each in made:
        each.stop()
        raw.ok("DELETE", f"{KUEUE}/clusterqueues/{each.name}")


def test_while_evidence_vouches_work_is_let_in(stand):
    """The check is Active with its reason; a Workload that holds quota gets Ready and is admitted."""
    on = stand(accepted()).start()
    told = on.active("True")
    assert (told["reason"], told["message"]) == ("EvidenceAccepted", "run-1: accepted")
    on.queue("True")
    (check,) = on.admitted(on.job())["status"]["admissionChecks"]
    assert (check["state"], check["message"]) == ("Ready", "run-1: accepted")


def test_each_workload_is_answered_by_a_reading_that_began_after_it_asked(stand):
    """A reading that was under way when it asked does not count."""
    on = stand(accepted()).start()
    on.active("True")
    on.queue("True")
    before = on.read.count
    on.admitted(on.job())
    assert on.read.count > before
    on.read.hold.clear()
    on.read.begun.clear()
    first = on.job()
    assert on.read.begun.wait(10)
    on.asking(first)
    second = on.job()
    on.asking(second)
    under_way = on.read.count
    on.read.says = CLOSED  # the reading under way says open still
    on.read.hold.set()
    on.admitted(first)
    on.workload(second, lambda w: "Retry" in str(w["status"]["admissionChecks"]))
    assert on.read.count == under_way + 1
    assert not forms.is_true(on.workload(second), "Admitted")


def test_without_a_gatekeeper_nothing_is_admitted(stand):
    """The check keeps its last condition, the Workload reserves quota and stays Pending; the next one lets it in."""
    on = stand(accepted()).start()
    on.active("True")
    on.queue("True")
    on.keeper.stop()
    on.thread.join(20)
    job = on.job()
    on.asking(job)
    assert on.queue("True")["reason"] == "Ready"
    assert not forms.is_true(on.workload(job), "Admitted")
    again = keeper.Keeper(on.api, on.name, on.read, say=on.said.append)
    thread = threading.Thread(target=again.run, daemon=True)
    thread.start()
    on.admitted(job)
    again.stop()
    thread.join(20)


def test_a_closed_gate_makes_its_queue_inactive_and_gives_quota_back(stand):
    """What runs stays; who holds quota and waits is sent back; who comes later is inadmissible."""
    on = stand(accepted()).start()
    on.queue("True")
    runs = on.job()
    on.admitted(runs)
    on.read.says = CLOSED
    waits = on.job()
    told = on.active("False")
    assert (told["reason"], told["message"]) == ("GateClosed", "GANG-001: fail")
    assert on.queue("False")["reason"] == "AdmissionCheckInactive"
    sent_back = on.workload(waits, lambda w: not forms.is_true(w, "QuotaReserved"))
    assert not forms.is_true(sent_back, "Admitted")
    later = on.job()
    why = on.workload(later, lambda w: forms.condition(w, "QuotaReserved").get("reason") == "Inadmissible")
    assert "inactive" in forms.condition(why, "QuotaReserved")["message"]
    assert forms.is_true(on.workload(runs), "Admitted")


def test_evidence_that_becomes_too_old_closes_within_two_seconds(stand):
    """At its expiry, without a reading; a newer run opens it again."""
    on = stand(accepted(1.5)).start()
    on.active("True")
    until = on.read.says.until
    on.read.says = reading.Reading(open=False, until=None, reason=reading.CLOSED, message="old: 15 d")
    on.read.hold.clear()  # whatever a reading takes, the condition does not wait for it
    told = on.active("False")
    late = (times.now() - until).total_seconds()
    assert told["reason"] == "EvidenceExpired"
    assert 0 <= late < 2.0
    on.read.says = accepted()
    on.read.hold.set()
    on.stamp[0] = "a newer run"
    on.active("True")


def test_a_replaced_node_is_read_anew(stand, raw):
    """Also one that is cordoned; a heartbeat is no change."""
    on = stand(accepted()).start()
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}
    status = {"capacity": {"nvidia.com/gpu": "8"}, "conditions": [ready]}
    node = {"metadata": {"name": f"node-{on.name}"}, "status": status}
    one = f"/api/v1/nodes/node-{on.name}"
    on.active("True")
    before = on.read.count
    raw.ok("POST", "/api/v1/nodes", node)
    on.until(lambda: on.read.count == before + 1)
    later = {"status": {"conditions": [{**ready, "lastHeartbeatTime": "2026-01-01T00:05:00Z"}]}}
    raw.ok("PATCH", f"{one}/status", later, MERGE)
    on.read.says = CLOSED
    raw.ok("PATCH", one, {"spec": {"unschedulable": True}}, MERGE)
    on.active("False")
    assert on.read.count == before + 2
    on.read.says = accepted()
    raw.ok("DELETE", one)
    on.active("True")
    on.read.says = CLOSED
    raw.ok("POST", "/api/v1/nodes", node)
    on.active("False")
    raw.ok("DELETE", one)


def test_a_ready_that_outlived_its_quota_is_taken_back(stand, raw):
    """Else it would be a Ready in advance: the next quota would admit it without a question."""
    on = stand(CLOSED)
    raw.ok("PATCH", f"{KUEUE}/admissionchecks/{on.name}/status", BY_TEST, MERGE)
    on.queue("True")
    hold = {"spec": {"stopPolicy": "Hold"}}
    raw.ok("PATCH", f"{KUEUE}/clusterqueues/{on.name}", hold, MERGE)
    on.queue("False")
    job = on.job()
    workload = on.workload(job, lambda w: forms.state_of(w, on.name) == "Pending")
    listed = [{**workload["status"]["admissionChecks"][0], "state": "Ready"}]
    raw.ok(
        "PATCH",
        f"{WORKLOADS}/{workload['metadata']['name']}/status",
        {"status": {"admissionChecks": listed}},
        MERGE,
    )
    on.start()
    on.workload(job, lambda w: forms.state_of(w, on.name) == "Pending")


def test_a_check_that_vanishes_and_comes_again_is_controlled_again(stand, raw):
    """Nothing is written meanwhile, and nothing ends."""
    on = stand(accepted()).start()
    on.active("True")
    check = {"metadata": {"name": on.name}, "spec": {"controllerName": forms.CONTROLLER}}
    place = f"{KUEUE}/admissionchecks/{on.name}"
    # Kueue keeps a check that a ClusterQueue names, until somebody takes its finalizer away.
    wait(raw, place, lambda obj: obj["metadata"].get("finalizers"))
    raw.ok("DELETE", place)
    raw.ok("PATCH", place, {"metadata": {"finalizers": None}}, MERGE)
    on.queue("False")
    raw.ok("POST", f"{KUEUE}/admissionchecks", check)
    on.active("True")
    on.queue("True")
    assert on.keeper.problem == ""


def test_a_gate_that_cannot_be_read_is_closed(stand):
    """An error of whatever kind: never open."""
    on = stand(accepted()).start()
    on.active("True")

    def broken():
        raise MemoryError("no room")

    on.keeper._read = broken
    on.stamp[0] = "other runs"
    told = on.active("False")
    assert (told["reason"], told["message"]) == ("EvidenceUnreadable", "MemoryError: no room")


def test_without_permission_it_ends_and_says_what_to_grant(stand):
    """It cannot vouch for anything: nothing is Active, nothing Ready."""
    on = stand(accepted())
    call = on.api.connection.call

    def forbidding(ask):
        if ask.method == "PATCH":
            raise errors.ApiError(403, "Forbidden", "no", request=ask.about)
        return call(ask)

    on.api.connection.call = forbidding
    on.start()
    on.thread.join(20)
    assert not on.thread.is_alive()
    assert "patch AdmissionCheck/" in on.keeper.problem
    assert "grant it" in on.keeper.problem
    assert not forms.condition(on.raw.ok("GET", f"{KUEUE}/admissionchecks/{on.name}"), "Active")


def test_checks_of_others_are_left_alone(stand, raw):
    """A Workload may have several; only the one is written, and the others stay as they are."""
    on = stand(accepted())
    other = f"{on.name}-other"
    raw.ok(
        "POST",
        f"{KUEUE}/admissionchecks",
        {"metadata": {"name": other}, "spec": {"controllerName": "x.io/y"}},
    )
    raw.ok("PATCH", f"{KUEUE}/admissionchecks/{other}/status", BY_TEST, MERGE)
    rules = {"admissionChecksStrategy": {"admissionChecks": [{"name": other}, {"name": on.name}]}}
    raw.ok("PATCH", f"{KUEUE}/clusterqueues/{on.name}", {"spec": rules}, MERGE)
    on.start()
    job = on.job()
    workload = on.workload(job, lambda w: forms.state_of(w, on.name) == "Ready")
    assert forms.state_of(workload, other) == "Pending"
    assert not forms.is_true(workload, "Admitted")


def test_a_check_of_another_controller_is_not_touched(raw, url, name):
    """The gatekeeper says so and writes nothing."""
    raw.ok(
        "POST", f"{KUEUE}/admissionchecks", {"metadata": {"name": name}, "spec": {"controllerName": "x.io/y"}}
    )
    said: list[str] = []
    heard = threading.Event()

    def say(line):
        said.append(line)
        heard.set()

    on = keeper.Keeper(objects.Objects(connection.Connection.at(url)), name, Reader(accepted()), say=say)
    thread = threading.Thread(target=on.run, daemon=True)
    thread.start()
    assert heard.wait(10)
    on.stop()
    thread.join(20)
    assert "is of the controller 'x.io/y'" in said[0]
    assert "conditions" not in (raw.ok("GET", f"{KUEUE}/admissionchecks/{name}").get("status") or {})


def test_a_gpu_that_can_no_longer_be_asked_for_is_a_change_and_a_heartbeat_is_none():
    """Its node keeps its capacity: the gate is read anew all the same."""

    def seen(free, beat):
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": beat}
        gpus = {"capacity": {"nvidia.com/gpu": "8"}, "allocatable": {"nvidia.com/gpu": free}}
        node = {"metadata": {"name": "gpu-0"}, "status": {**gpus, "conditions": [ready]}}
        return forms.lean(objects.NODE.key, node)["seen"]

    assert seen("8", "a") == seen("8", "b") != seen("7", "b")
