"""Recording events, and what becomes of a controller that crashes."""

from pytest_gpucluster.embedded.events import Recorder
from pytest_gpucluster.embedded.runtime import Runtime
from tests.embedded.support import empty_store, pod, run


def recorded(store):
    """Return reason, message and count of each event."""
    found = [(e["reason"], e["message"], e.get("count")) for e in store.list("Event")]
    return sorted(found, key=str)


def test_legacy_events_have_the_recorded_shape():
    """Volcano's events name their component twice, count from 1 and have whole-second times."""
    store = empty_store()
    about = store.create("Pod", pod("p"))
    event = Recorder(store, "volcano", legacy=True).event(about, "Warning", "FailedScheduling", "no room")
    assert event is not None
    assert event["metadata"]["name"].startswith("p.")
    assert len(event["metadata"]["name"]) == len("p.") + 16
    assert (event["source"], event["reportingComponent"]) == ({"component": "volcano"}, "volcano")
    assert (event["count"], event["eventTime"], event["reportingInstance"]) == (1, None, "")
    assert event["firstTimestamp"] == event["lastTimestamp"]
    assert event["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "p",
        "namespace": "default",
        "resourceVersion": about["metadata"]["resourceVersion"],
        "uid": about["metadata"]["uid"],
    }


def test_identical_events_are_counted_in_one_object():
    """Repeating an event changes its count and last time, in both shapes."""
    store = empty_store()
    about = store.create("Pod", pod("p"))
    old, new = Recorder(store, "volcano", legacy=True), Recorder(store, "default-scheduler", legacy=False)
    with store.subscribe(["Event"]) as changes:
        for recorder in (old, old, old, new, new):
            recorder.event(about, "Normal", "Waiting", f"told by {id(recorder)}")
        kinds = [kind for kind, _, _ in changes.pending()]
    assert kinds == ["ADDED", "MODIFIED", "MODIFIED", "ADDED", "MODIFIED"]
    first, second = sorted(store.list("Event"), key=lambda e: "series" in e)
    assert first["count"] == 3
    assert second["series"]["count"] == 2


def test_floods_are_combined_and_bursts_end():
    """The tenth differing message of a kind is combined with those after it; a burst limit drops the rest."""
    store = empty_store()
    about = store.create("Pod", pod("p"))
    recorder = Recorder(store, "job-controller", legacy=True, burst=12)
    for n in range(20):
        recorder.event(about, "Normal", "SuccessfulCreate", f"Created pod: {n}")
    found = store.list("Event")
    combined = [e for e in found if e["message"].startswith("(combined from similar events): ")]
    assert len(found) == 10
    assert [(e["count"], e["message"]) for e in combined] == [
        (3, "(combined from similar events): Created pod: 11")
    ]


def test_event_without_a_namespace_to_live_in_is_dropped():
    """An event about an object in a namespace on its way out is dropped without an error."""
    store = empty_store()
    store.create("Namespace", {"metadata": {"name": "going"}})
    body = pod("p")
    body["metadata"]["namespace"] = "going"
    about = store.create("Pod", body)
    store.delete("Namespace", None, "going")
    assert Recorder(store, "volcano", legacy=True).event(about, "Normal", "X", "y") is None
    assert recorded(store) == []


def test_crash_of_a_controller_is_told(capsys):
    """A controller that raises makes the runtime say which one and why, and marks it as crashed."""

    async def broken():
        raise RuntimeError("lost the plot")

    async def scene():
        runtime = Runtime(empty_store(), {"defects": ["a.b"]})
        assert (runtime.has("a.b"), runtime.has("c.d")) == (True, False)
        runtime.spawn(broken(), "broken controller")
        await runtime.crashed.wait()
        await runtime.stop()

    run(scene())
    told = capsys.readouterr().err
    assert "controller broken controller crashed" in told
    assert "lost the plot" in told
