"""The stage on a fake clock: waits, windows, submitting, deleting, logs."""

import json

import pytest

from pytest_gpucluster.kube import errors, objects
from pytest_gpucluster.plain import names
from pytest_gpucluster.scenario import slots
from tests.scenario.conftest import Theatre

JOB = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "metadata": {"name": "g", "labels": {"mine": "1"}},
    "spec": {"tasks": [{"name": "w", "template": {"spec": {"containers": []}}}]},
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "main"}]},
}
VC = "Job.batch.volcano.sh"


def test_wait_wakes_on_the_line_that_makes_it_true(theatre):
    """A wait ends at the moment of the line that makes its predicate true."""
    theatre.later(3.0, "ADDED", "Pod", "a")
    theatre.later(4.0, "ADDED", "Pod", "b")
    theatre.later(5.0, "ADDED", "Pod", "c")
    assert theatre.stage.wait("two pods", lambda live: len(live.objects("Pod")) == 2, budget="bind")
    assert theatre.stage.now() == 4.0
    assert theatre.notes() == []


def test_wait_that_is_true_already_takes_no_time(theatre):
    """A predicate that holds is not waited for."""
    assert theatre.stage.wait("nothing", lambda _: True, budget="bind")
    assert theatre.stage.now() == 0.0


def test_expired_wait_notes_what_it_last_saw_and_returns_false(theatre):
    """A wait that expires writes what, how long and the last state, and does not raise."""
    handle = theatre.stage.submit(JOB)
    theatre.see("ADDED", VC, "g", status={"state": {"phase": "Pending"}})
    theatre.see("ADDED", "Pod", "g-0", owner=handle.uid, spec={"nodeName": "n"}, status={"phase": "Running"})
    theatre.see("ADDED", "Pod", "g-1", owner=handle.uid, spec={}, status={"phase": "Pending"})
    event = {"involvedObject": {"uid": "uid-g-1"}, "reason": "Unschedulable", "message": "no\nroom"}
    theatre.see("ADDED", "Event", "e", **event)
    assert not theatre.stage.wait("both bound", lambda _: False, budget="bind")
    assert theatre.stage.now() == 10.0
    note = theatre.notes()[-1]
    assert (note["note"], note["what"], note["seconds"], note["budget"]) == (
        "timed-out",
        "both bound",
        10.0,
        "bind",
    )
    assert note["last"] == (
        f"1 pods Pending, unbound; 1 pods Running, bound; {VC}/g Pending; Unschedulable: no room"
    )


def test_aborted_wait_says_why(theatre):
    """A wait that can no longer come true ends early with a note."""
    theatre.later(1.0, "ADDED", "Pod", "a", status={"phase": "Failed"})

    def failed(live):
        return "a pod failed" if live.get("Pod", "a") else False

    assert not theatre.stage.wait("success", lambda _: False, budget="run", unless=failed)
    assert theatre.notes() == [{"t": 1.0, "note": "aborted", "what": "success", "why": "a pod failed"}]


def test_unknown_budget_and_note_are_named_with_the_nearest(theatre):
    """A misspelled budget or note is an error of the scenario that names the nearest."""
    with pytest.raises(ValueError, match="did you mean 'bind'"):
        theatre.stage.wait("x", lambda _: True, budget="bnd")
    with pytest.raises(ValueError, match="did you mean 'room-made'"):
        theatre.stage.note("roommade")


@pytest.mark.parametrize(
    ("periods", "profile", "seconds"), [(3, 0.15, 0.15), (100, 0.15, 5.0), (3, 5.0, 5.0)]
)
def test_window_is_the_longer_of_periods_and_profile(theatre, periods, profile, seconds):
    """A window lasts the longer of the scheduler's periods and the profile's window, whatever happens in it."""
    theatre.declare(window=profile)
    theatre.later(0.1, "ADDED", "Pod", "a")
    assert theatre.stage.window("scarce", periods)
    begin, end = theatre.notes()
    assert (begin["note"], begin["window"]) == ("window-begin", "scarce")
    assert end["note"] == "window-end"
    assert end["t"] - begin["t"] == pytest.approx(seconds)


def test_window_may_end_early_and_says_so(theatre):
    """A window that loses its point ends with a note, and its end is marked."""
    theatre.later(0.1, "ADDED", "Pod", "a")
    assert not theatre.stage.window("w", unless=lambda live: bool(live.objects("Pod")))
    assert [n["note"] for n in theatre.notes()] == ["window-begin", "aborted", "window-end"]
    assert theatre.notes()[-1]["early"] is True


def test_the_last_window_is_the_end_and_nothing_follows_it(theatre):
    """One proof shows both: what the scenario did is over, and what it might still do would not be judged."""
    assert theatre.stage.window("w", last=True)
    theatre.stage.finish()
    assert [n["note"] for n in theatre.notes()] == ["window-begin", "window-end", "end"]
    assert theatre.stage.horizon == pytest.approx(theatre.notes()[-1]["t"])
    for act in (lambda: theatre.stage.window("x"), lambda: theatre.stage.note("room-made")):
        with pytest.raises(ValueError, match="has ended with its last window"):
            act()


def test_forbidden_watch_ends_a_wait(theatre):
    """A kind that may not be watched is a problem of the environment, at once."""
    theatre.clock.at(101.0, lambda: theatre.log.ended("Pod", errors.EnvironmentProblem("not allowed")))
    with pytest.raises(errors.EnvironmentProblem, match="not allowed"):
        theatre.stage.wait("x", lambda _: False, budget="bind")
    assert theatre.stage.now() == 1.0


def test_server_that_is_gone_ends_a_wait_before_its_budget(theatre):
    """When no watch is in sync for long, the wait ends: the API server is gone, not the gang."""
    theatre.declare(budgets={"torch": 600.0})
    theatre.log.in_sync("Pod", 100.0, "list")
    theatre.clock.at(101.0, lambda: theatre.log.out_of_sync("Pod", 101.0, "cannot connect"))
    with pytest.raises(errors.EnvironmentProblem, match="the API server is gone: cannot connect"):
        theatre.stage.wait("x", lambda _: False, budget="torch")
    assert theatre.stage.now() < 45


def test_submit_labels_object_and_pods_and_applies_the_overlay(theatre):
    """Object and pods carry run, scenario and role, pods the overlay; the caller's manifest is not changed."""
    theatre.declare(overlay={"spec": {"tolerations": [{"key": "gpu"}]}})
    before = json.dumps(JOB)
    handle = theatre.stage.submit(JOB, role="blocker")
    assert (handle.kind, handle.name, handle.uid, handle.ok) == (VC, "g", "uid-g", True)
    made = theatre.api.created[0]
    labels = {
        "gpucluster.dev/run": "run-1",
        "gpucluster.dev/scenario": "play",
        "gpucluster.dev/role": "blocker",
    }
    assert made["metadata"]["labels"] == {"mine": "1", **labels}
    assert made["metadata"]["annotations"] == {"gpucluster.dev/expires": "2030-01-01T00:00:00Z"}
    assert made["metadata"]["namespace"] == "ns"
    template = made["spec"]["tasks"][0]["template"]
    assert template["metadata"]["labels"] == labels
    assert "name" not in template["metadata"]
    assert template["spec"]["tolerations"] == [{"key": "gpu"}]
    assert json.dumps(JOB) == before
    assert [n["note"] for n in theatre.notes()] == ["submitted"]


def test_refusal_is_an_answer_not_an_exception(theatre):
    """A refused create gives a handle that says so, an answer and a note, and nothing to clean up."""
    body = {"kind": "Status", "message": 'admission webhook "v" denied the request: no'}
    theatre.api.answer = errors.ApiError(403, "Forbidden", body["message"], body=body)
    handle = theatre.stage.submit(JOB, case="bad", expect_refusal=True)
    assert (handle.ok, handle.code, handle.uid) == (False, 403, "")
    assert theatre.notes()[0]["note"] == "refused"
    answer = next(json.loads(e.text) for e in theatre.log.entries() if e.type == "RESPONSE")
    assert (answer["case"], answer["code"], answer["status"]) == ("bad", 403, body)
    assert theatre.stage.stack.run(1.0) == []
    assert theatre.api.asked == [("create", "Job", "g")]


@pytest.mark.parametrize(
    ("code", "message", "environment"),
    [
        (403, "jobs is forbidden: User cannot create", True),
        (403, "exceeded quota: q", False),
        (401, "Unauthorized", True),
        (429, "too many", True),
        (500, "etcd is down", True),
        (500, 'failed calling webhook "v": connection refused', False),
        (422, "invalid", False),
        (404, "the server could not find the requested resource", False),
    ],
)
def test_who_refused_decides_whether_it_is_the_environment(theatre, code, message, environment):
    """Missing permission and a server in trouble are the environment's; all else is an answer for the judge."""
    theatre.api.answer = errors.ApiError(code, "R", message, body={"message": message})
    if environment:
        with pytest.raises(errors.EnvironmentProblem):
            theatre.stage.submit(JOB)
    else:
        assert theatre.stage.submit(JOB).code == code
    assert [e.type for e in theatre.log.entries()] == ["RESPONSE", "NOTE"]


def test_dry_run_creates_nothing(theatre):
    """A dry run is answered and recorded; nothing is registered for cleanup."""
    handle = theatre.stage.submit(JOB, dry_run=True, case="dry-run")
    assert handle.ok
    assert handle.uid == ""
    assert len(theatre.stage.stack) == 0
    assert theatre.notes() == []


def test_note_of_a_deletion_comes_before_its_effects(theatre):
    """Room is noted before the request that makes it, and the wait lasts until object and pods are gone."""
    handle = theatre.stage.submit(JOB)
    theatre.see("ADDED", VC, "g")
    theatre.see("ADDED", "Pod", "g-0", owner="uid-g")
    theatre.later(1.0, "DELETED", VC, "g")
    theatre.later(2.0, "DELETED", "Pod", "g-0", owner="uid-g")
    assert theatre.stage.delete(handle, note="room-made")
    assert theatre.stage.now() == 2.0
    assert theatre.notes()[-1] == {
        "t": 0.0, "note": "room-made", "role": "subject", "kind": VC, "name": "g", "uid": "uid-g",
    }  # fmt: skip


def test_deletion_is_not_over_before_it_was_seen(theatre):
    """An object that the watch has not shown yet is not taken for gone."""
    handle = theatre.stage.submit(JOB)
    theatre.later(1.0, "ADDED", VC, "g")
    theatre.later(2.0, "DELETED", VC, "g")
    assert theatre.stage.delete(handle)
    assert theatre.stage.now() == 2.0


def test_logs_are_fetched_once_per_state(theatre):
    """Lines come once; a container that ended is not asked again; one that has not started is noted."""
    theatre.stage.submit(POD)
    theatre.see("ADDED", "Pod", "p", spec=POD["spec"], status={"phase": "Pending"})
    theatre.stage.logs("uid-p")
    assert theatre.notes()[-1]["error"] == "not started"
    running = {"name": "main", "state": {"running": {}}}
    theatre.see("MODIFIED", "Pod", "p", spec=POD["spec"], status={"containerStatuses": [running]})
    theatre.stage.logs(theatre.stage.handles[0])
    ended = {"name": "main", "state": {"terminated": {"exitCode": 0}}}
    theatre.see("MODIFIED", "Pod", "p", spec=POD["spec"], status={"containerStatuses": [ended]})
    theatre.stage.logs(theatre.stage.handles[0])
    theatre.stage.logs(theatre.stage.handles[0])
    assert [e.text for e in theatre.log.entries() if e.type == "LOG"] == [
        json.dumps(
            {
                "type": "LOG",
                "t": 0.0,
                "scenario": "play",
                "pod": "p",
                "uid": "uid-p",
                "container": "main",
                "line": x,
            },
            separators=(",", ":"),
        )
        for x in ("one", "two")
    ]
    assert sum(asked[0] == "log" for asked in theatre.api.asked) == 2


def test_cleanup_is_last_in_first_out_and_names_what_stays(theatre):
    """Objects go in reverse order; what is not gone at the deadline is a left-over with its reason."""
    for name in ("a", "b"):
        theatre.stage.submit({**POD, "metadata": {"name": name}})
        theatre.see("ADDED", "Pod", name)
    theatre.later(1.0, "DELETED", "Pod", "b")
    theatre.later(2.0, "MODIFIED", "Pod", "a", meta={"deletionTimestamp": "now", "finalizers": ["x/y"]})
    left = theatre.stage.stack.run(5.0)
    assert theatre.api.asked[2:] == [("delete", "Pod", "b"), ("delete", "Pod", "a")]
    assert [str(item) for item in left] == ["Pod/a in ns: deleting, held by x/y"]
    assert theatre.stage.now() == 5.0
    assert theatre.stage.stack.run(5.0) == []


def test_slots_go_after_the_pods_that_hold_them(theatre):
    """Slots are set with one request a node, and given up only when the pods are gone."""
    gpu = {"nvidia.com/gpu": "8"}
    ready = [{"type": "Ready", "status": "True"}]
    for name in ("n2", "n1", "n0"):
        theatre.see("ADDED", "Node", name, namespace="", status={"allocatable": gpu, "conditions": ready})
    resource = "slots.gpucluster.dev/play.run-1"
    for name in ("n0", "n1"):
        status = {"allocatable": {**gpu, resource: "8"}, "conditions": ready}
        theatre.later(0.5, "MODIFIED", "Node", name, namespace="", status=status)
    pool = theatre.stage.slots(2, 8)
    assert (pool.resource, pool.total, pool.nodes) == (resource, 16, ("n0", "n1"))
    theatre.stage.submit(POD)
    theatre.see("ADDED", "Pod", "p")
    theatre.later(1.0, "DELETED", "Pod", "p")
    theatre.clock.at(101.4, lambda: given_up.append(theatre.site.stale.everything()))
    given_up = []
    assert theatre.stage.stack.run(5.0) == []
    assert given_up == [[]]
    assert theatre.site.stale.everything() == [("n0", [resource]), ("n1", [resource])]
    assert [a for a in theatre.api.asked if a[0] != "create"] == [
        ("patch", "Node", "n0"), ("patch", "Node", "n1"), ("delete", "Pod", "p"),
    ]  # fmt: skip


def test_slots_of_a_scenario_that_is_over_go_with_the_next_change_of_their_node(theatre):
    """One request sets the new and unsets the old; what no other scenario took along goes with the session."""
    ready = [{"type": "Ready", "status": "True"}]
    for name in ("n0", "n1"):
        theatre.see("ADDED", "Node", name, namespace="", status={"allocatable": {}, "conditions": ready})
    changes = []
    patch = theatre.api.patch

    def noted(info, name, change, *args, **more):
        changes.append((name, change["status"]))
        return patch(info, name, change, *args, **more)

    theatre.api.patch = noted
    old, new = "slots.gpucluster.dev/before.run-1", "slots.gpucluster.dev/play.run-1"
    theatre.site.stale.add("n0", old)
    theatre.site.stale.add("n1", old)
    status = {"allocatable": {new: "8"}, "conditions": ready}
    theatre.later(0.5, "MODIFIED", "Node", "n0", namespace="", status=status)
    theatre.stage.slots(1, 8)
    assert changes == [("n0", {"capacity": {new: "8", old: None}, "allocatable": {old: None}})]
    theatre.stage.stack.run(5.0)
    assert slots.remove_stale(theatre.site) == []
    assert [(name, sorted(status["capacity"])) for name, status in changes[1:]] == [
        ("n0", [new]),
        ("n1", [old]),
    ]
    assert theatre.site.stale.everything() == []


def test_slots_that_cannot_be_taken_off_are_left_over(theatre):
    """A refusal at the end of the session is named, with the node."""

    def refused(*_args, **_more):
        raise errors.ApiError(403, "Forbidden", "cannot patch nodes/status")

    theatre.api.patch = refused
    theatre.site.stale.add("n0", "slots.gpucluster.dev/before.run-1")
    (left,) = slots.remove_stale(theatre.site)
    assert (left.kind, left.name) == ("slots", "n0")
    assert "cannot patch" in left.why


TWO = ("a", "b")


def collected(theatre, **more):
    """Return what the cleanup of two pods of one role asks for, where deleting by labels is answered as said."""
    asked = []

    def delete_collection(info, namespace=None, *, labels, grace=None):
        asked.append((info.key, namespace, labels, grace))
        if "refused" in more:
            raise errors.ApiError(more["refused"], "Forbidden", "cannot deletecollection")
        return {}

    theatre.api.delete_collection = delete_collection
    for name in TWO:
        theatre.stage.submit({**POD, "metadata": {"name": name}}, role="filler")
        theatre.see("ADDED", "Pod", name)
        theatre.later(1.0, "DELETED", "Pod", name)
    before = len(theatre.api.asked)
    assert theatre.stage.stack.run(5.0) == []
    return asked, theatre.api.asked[before:]


def test_what_is_of_one_kind_is_deleted_with_one_request(theatre):
    """By the labels of the run, the scenario and the roles; pods get a second, as when each is deleted alone."""
    together, alone = collected(theatre)
    own = "gpucluster.dev/run=run-1,gpucluster.dev/scenario=play"
    assert together == [("Pod", "ns", f"{own},gpucluster.dev/role in (filler)", 1)]
    assert alone == []


@pytest.mark.parametrize("code", [403, 405, 500])
def test_who_may_not_delete_by_labels_deletes_each_alone(theatre, code):
    """A refusal is remembered for the kind and is nothing left over; trouble is not."""
    together, alone = collected(theatre, refused=code)
    assert len(together) == 1
    assert alone == [("delete", "Pod", "b"), ("delete", "Pod", "a")]
    assert theatre.site.together.may(objects.POD) is (code == 500)


def test_pods_of_a_role_that_a_job_has_too_are_deleted_alone(theatre):
    """Labels of ours are on the Job's pods as well: these go with their Job."""
    theatre.stage.submit(JOB, role="filler")
    theatre.see("ADDED", VC, "g")
    theatre.later(1.0, "DELETED", VC, "g")
    together, alone = collected(theatre)
    assert together == []
    assert {name for _, _, name in alone} == {"a", "b", "g"}


def test_slots_are_changed_with_a_note_before_each_request(theatre):
    """Only what differs is asked for; the note of a change stands before anything that can follow from it."""
    ready = [{"type": "Ready", "status": "True"}]
    resource = "slots.gpucluster.dev/play.run-1"

    def see(t, **slots):
        for name, count in slots.items():
            status = {"allocatable": {resource: str(count)} if count else {}, "conditions": ready}
            theatre.later(t, "MODIFIED", "Node", name, namespace="", status=status)

    for name in ("n0", "n1"):
        theatre.see("ADDED", "Node", name, namespace="", status={"allocatable": {}, "conditions": ready})
    see(0.5, n0=7, n1=3)
    pool = theatre.stage.slots(2, (7, 3))
    assert (pool.counts, pool.total) == ({"n0": 7, "n1": 3}, 10)
    see(1.0, n0=5)
    changed = theatre.stage.resize_slots(pool, {"n0": 5, "n1": 3})
    assert changed.counts == {"n0": 5, "n1": 3}
    assert theatre.notes() == [
        {"t": 0.5, "note": "slots-set", "resource": resource, "node": "n0", "slots": 5, "was": 7}
    ]
    assert theatre.api.asked[2:] == [("patch", "Node", "n0")]
    with pytest.raises(errors.EnvironmentProblem, match="do not offer"):
        theatre.stage.resize_slots(changed, {"n1": 4})


def test_what_shrinks_has_shrunk_before_anything_grows(theatre):
    """There is never more room on the way than before and after, whichever node is named first."""
    ready = [{"type": "Ready", "status": "True"}]
    resource = "slots.gpucluster.dev/play.run-1"

    def see(t, name, slots):
        status = {"allocatable": {resource: str(slots)} if slots else {}, "conditions": ready}
        theatre.later(t, "MODIFIED", "Node", name, namespace="", status=status)

    for name in ("n0", "n1"):
        theatre.see("ADDED", "Node", name, namespace="", status={"allocatable": {}, "conditions": ready})
    see(0.5, "n0", 7)
    see(0.5, "n1", 3)
    pool = theatre.stage.slots(2, (7, 3))
    see(1.0, "n0", 5)
    see(1.5, "n1", 5)
    changed = theatre.stage.resize_slots(pool, {"n1": 5, "n0": 5})
    assert changed.counts == {"n0": 5, "n1": 5}
    assert theatre.api.asked[2:] == [("patch", "Node", "n0"), ("patch", "Node", "n1")]
    with pytest.raises(errors.EnvironmentProblem, match="do not offer"):
        theatre.stage.resize_slots(changed, {"n1": 8, "n0": 4})
    assert theatre.api.asked[4:] == [("patch", "Node", "n0")], "n1 grew although n0 had not shrunk"


def test_slots_need_nodes_and_permission_of_the_profile(theatre):
    """Too few usable nodes, or a profile without slots, is a problem of the environment in one line."""
    with pytest.raises(errors.EnvironmentProblem, match="2 Ready and schedulable nodes are needed; 0 of 0"):
        theatre.stage.slots(2, 8)
    theatre.declare(slots=False)
    with pytest.raises(errors.EnvironmentProblem, match="does not permit slots"):
        theatre.stage.slots(2, 8)


def _see_queue(theatre, name, state):
    theatre.see("MODIFIED", "Queue", name, namespace="", status={"state": state})


def test_a_queue_of_ours_is_open_closed_by_command_and_removed(theatre):
    """A queue is named after the run and becomes context; a Command closes it; cleanup deletes it."""
    name = "gpucluster-play-run-1"
    theatre.clock.at(theatre.clock.monotonic() + 1.0, lambda: _see_queue(theatre, name, "Open"))
    queue = theatre.stage.queue(capability={"example.com/x": 8})
    assert (queue.ok, queue.name, theatre.stage.now()) == (True, name, 1.0)
    assert ("Queue", name) in theatre.stage.context
    assert not theatre.stage.wait("what never comes", lambda _: False, budget="bind")
    assert theatre.notes()[-1]["last"] == f"Queue/{name} Open"
    assert theatre.api.created[0]["spec"]["capability"] == {"example.com/x": "8"}
    theatre.clock.at(theatre.clock.monotonic() + 1.0, lambda: _see_queue(theatre, name, "Closing"))
    assert theatre.stage.close_queue(queue)
    command = theatre.api.created[1]
    assert (command["kind"], command["action"], command["target"]["name"]) == ("Command", "CloseQueue", name)
    assert command["target"]["uid"] == queue.uid
    assert theatre.notes()[-1]["note"] == "commanded"
    theatre.later(0.5, "DELETED", "Queue", name, namespace="")
    assert theatre.stage.stack.run(5.0) == []
    assert theatre.api.asked[-1] == ("delete", "Queue", name)


def test_a_queue_is_closed_by_its_status_where_the_bus_is_not_served(theatre):
    """Without the API of Commands the state is written."""
    name = "gpucluster-play-a-run-1"
    theatre.clock.at(theatre.clock.monotonic() + 1.0, lambda: _see_queue(theatre, name, "Open"))
    queue = theatre.stage.queue("a")
    theatre.api.answer = errors.ApiError(404, "NotFound", "not served")
    theatre.clock.at(theatre.clock.monotonic() + 1.0, lambda: _see_queue(theatre, name, "Closed"))
    assert theatre.stage.close_queue(queue)
    assert theatre.api.asked[-1] == ("patch", "Queue", name)


def test_a_queue_that_must_be_closed_first_is_closed_and_deleted(theatre, monkeypatch):
    """Where admission deletes only closed queues, cleanup closes it, waits for that, and deletes it then."""
    name = "gpucluster-play-run-1"
    theatre.clock.at(theatre.clock.monotonic() + 1.0, lambda: _see_queue(theatre, name, "Open"))
    theatre.stage.queue()
    answers = [errors.ApiError(403, "Forbidden", 'admission webhook "x" denied the request: only closed')]
    plain = theatre.api.delete

    def delete(info, name, namespace=None, *, uid=None, grace=None):
        if answers:
            raise answers.pop()
        theatre.later(0.1, "DELETED", "Queue", name, namespace="")
        return plain(info, name, namespace, uid=uid, grace=grace)

    monkeypatch.setattr(theatre.api, "delete", delete)
    theatre.clock.at(theatre.clock.monotonic() + 1.0, lambda: _see_queue(theatre, name, "Closed"))
    assert theatre.stage.stack.run(5.0) == []
    assert [asked[:2] for asked in theatre.api.asked] == [
        ("create", "Queue"), ("create", "Command"), ("delete", "Queue"),
    ]  # fmt: skip


def test_a_priority_class_is_ours_and_goes_with_the_scenario(theatre):
    """Its name says whose it is, it is nobody's default, and cleanup deletes it."""
    made = theatre.stage.priority(1000)
    assert made.name == "gpucluster-play-1000-run-1"
    (body,) = theatre.api.created
    assert (body["value"], body["globalDefault"]) == (1000, False)
    assert names.LABEL_RUN in body["metadata"]["labels"]
    theatre.later(0.1, "DELETED", "PriorityClass", made.name, namespace="")
    theatre.stage.stack.run(5.0)
    assert theatre.api.asked[-1] == ("delete", "PriorityClass", made.name)


def test_while_the_training_queue_is_held_gangs_go_to_the_other_one(tmp_path):
    """Both belong to the evidence: the one is judged, the other one has the gangs."""
    (tmp_path / "held").mkdir()
    theatre = Theatre(tmp_path / "held", queue="training", conformance_queue="conformance")
    assert theatre.stage.dialect.queue == "conformance"
    assert theatre.stage.speaks("volcano").queue == "conformance"
    assert {("Queue", "training"), ("Queue", "conformance")} <= theatre.stage.context
    theatre.log.close()
