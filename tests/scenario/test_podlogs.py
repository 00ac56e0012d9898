"""Following and fetching container logs: each line once, whichever way it came."""

import json
import queue
import threading

import pytest

from pytest_gpucluster.kube import errors
from pytest_gpucluster.scenario import podlogs
from tests.plain.canaries import PEM_LINES

from . import conftest

SPEC = {"containers": [{"name": "main"}, {"name": "side"}]}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": SPEC}


class FakeStream:
    """A log that the test writes; an exception breaks it, None ends it."""

    def __init__(self) -> None:
        """Start empty."""
        self.queue: queue.Queue[bytes | Exception | None] = queue.Queue()
        self.stopped = False

    def lines(self, *, text):
        """Yield what the test writes."""
        assert text
        while (item := self.queue.get(timeout=10)) is not None:
            if isinstance(item, Exception):
                raise item
            yield item

    def stop(self):
        """End."""
        self.stopped = True
        self.queue.put(None)


@pytest.fixture
def theatre(tmp_path):
    """Set a stage on the real clock whose API hands out logs that the test writes."""
    made = conftest.Theatre(tmp_path, real=True)
    made.streams = {}
    made.opened = threading.Condition()

    def follow_logs(pod, namespace, *, container=""):
        with made.opened:
            made.streams[container] = FakeStream()
            made.opened.notify_all()
            return made.streams[container]

    made.api.follow_logs = follow_logs
    yield made
    made.stage.close()
    made.log.close()


def status(**states):
    """Return a pod status with these containers, each of which waits, runs or has ended well."""
    shown = {"waiting": {}, "running": {}, "terminated": {"exitCode": 0}}
    each = [{"name": name, "state": {state: shown[state]}} for name, state in states.items()]
    return {"containerStatuses": each}


def log_lines(theatre):
    """Return container and text of the lines so far."""
    found = [json.loads(e.text) for e in theatre.log.entries() if e.type == "LOG"]
    return [(line["container"], line["line"]) for line in found]


def test_followers_begin_with_the_container_and_end_with_it(theatre):
    """Each container is followed from the line that shows it started; nothing is asked for twice."""
    handle = theatre.stage.submit(POD)
    theatre.stage.follow(handle)
    theatre.see("ADDED", "Pod", "p", spec=SPEC, status=status(main="waiting"))
    assert theatre.streams == {}
    theatre.see("MODIFIED", "Pod", "p", spec=SPEC, status=status(main="running", side="waiting"))
    theatre.see("MODIFIED", "Pod", "p", spec=SPEC, status=status(main="running", side="running"))
    with theatre.opened:
        assert theatre.opened.wait_for(lambda: len(theatre.streams) == 2, 10)
    for line in (b"one", b"", b"two"):
        theatre.streams["main"].queue.put(line)
    theatre.streams["main"].queue.put(None)
    theatre.streams["side"].queue.put(None)
    theatre.see("MODIFIED", "Pod", "p", spec=SPEC, status=status(main="terminated", side="terminated"))
    theatre.stage.logs(handle)
    theatre.stage.logs(handle)
    assert log_lines(theatre) == [("main", "one"), ("main", ""), ("main", "two")]
    assert not any(asked[0] == "log" for asked in theatre.api.asked)


def test_broken_follower_is_completed_by_a_fetch(theatre):
    """What a broken connection did not bring is fetched, without the lines that came before."""
    handle = theatre.stage.submit(POD)
    theatre.stage.follow(handle)
    theatre.see("ADDED", "Pod", "p", spec=SPEC, status=status(main="running"))
    with theatre.opened:
        assert theatre.opened.wait_for(lambda: "main" in theatre.streams, 10)
    theatre.streams["main"].queue.put(b"one")
    theatre.streams["main"].queue.put(errors.Unreachable("reset"))
    assert theatre.log.until(lambda: not theatre.stage._reader._followers, 10)
    ended = {"name": "p", "uid": "uid-p", "namespace": "ns"}
    pod = {"metadata": ended, "spec": SPEC, "status": status(main="terminated")}
    theatre.stage.logs(pod)
    assert log_lines(theatre) == [("main", "one"), ("main", "two")]


def test_a_kubelet_that_cannot_follow_is_no_word_of_the_program(theatre):
    """A kubelet short of inotify instances says so in the log itself; the rest is fetched when the container ended."""
    handle = theatre.stage.submit(POD)
    theatre.stage.follow(handle)
    theatre.see("ADDED", "Pod", "p", spec=SPEC, status=status(main="running"))
    with theatre.opened:
        assert theatre.opened.wait_for(lambda: "main" in theatre.streams, 10)
    theatre.streams["main"].queue.put(b"one")
    theatre.streams["main"].queue.put(b"failed to create fsnotify watcher: too many open files")
    assert theatre.log.until(lambda: not theatre.stage._reader._followers, 10)
    assert theatre.streams["main"].stopped
    notes = [json.loads(e.text) for e in theatre.log.entries() if e.type == "NOTE"]
    (note,) = [each for each in notes if each.get("note") == "logs"]
    assert note["ok"] is False
    assert "raise fs.inotify.max_user_instances" in note["error"]
    ended = {"name": "p", "uid": "uid-p", "namespace": "ns"}
    theatre.stage.logs({"metadata": ended, "spec": SPEC, "status": status(main="terminated")})
    assert log_lines(theatre) == [("main", "one"), ("main", "two")]


def test_pods_of_a_controller_are_followed_and_strangers_are_not(theatre):
    """Pods that a followed object owns are followed, also those that come later; others are not."""
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {}}
    theatre.stage.follow(theatre.stage.submit(job))
    theatre.see("ADDED", "Pod", "stranger", owner="uid-x", spec=SPEC, status=status(side="running"))
    theatre.see("ADDED", "Pod", "j-0", owner="uid-j", spec=SPEC, status=status(main="running"))
    with theatre.opened:
        assert theatre.opened.wait_for(lambda: bool(theatre.streams), 10)
    theatre.stage.close()
    assert list(theatre.streams) == ["main"]
    assert theatre.streams["main"].stopped


def test_an_agent_that_admission_put_beside_ours_is_not_followed(theatre):
    """Its log has no end, and is not ours to keep; a container that Volcano's plugins add is part of the Job."""
    marked = {"name": "main", "env": [{"name": "GPUCLUSTER_CONTAINER", "value": "main"}]}
    spec = {"initContainers": [{"name": "wait-for-master"}, {"name": "agent-init"}],
            "containers": [{"name": "istio-proxy"}, marked, {"name": "agent"}]}  # fmt: skip
    theatre.stage.follow(theatre.stage.submit({**POD, "spec": spec}))
    waits = {"name": "wait-for-master", "state": {"running": {}}}
    shown = {
        **status(main="running", agent="running", **{"istio-proxy": "running"}),
        "initContainerStatuses": [waits],
    }
    theatre.see("ADDED", "Pod", "p", spec=spec, status=shown)
    with theatre.opened:
        assert theatre.opened.wait_for(lambda: len(theatre.streams) == 2, 10)
    theatre.stage.close()
    assert sorted(theatre.streams) == ["main", "wait-for-master"]


def test_a_log_without_end_is_left_at_some_point(theatre, monkeypatch):
    """A program may write without ever ending: what was taken down is kept, and the note says that there was more."""
    monkeypatch.setattr(podlogs, "MOST", 100)
    handle = theatre.stage.submit(POD)
    theatre.stage.follow(handle)
    theatre.see("ADDED", "Pod", "p", spec=SPEC, status=status(main="running"))
    with theatre.opened:
        assert theatre.opened.wait_for(lambda: "main" in theatre.streams, 10)
    for _ in range(9):
        theatre.streams["main"].queue.put(b"x" * 30)
    assert theatre.log.until(lambda: not theatre.stage._reader._followers, 10)
    assert theatre.streams["main"].stopped
    assert log_lines(theatre) == [("main", "x" * 30)] * 4
    notes = [json.loads(e.text) for e in theatre.log.entries() if e.type == "NOTE"]
    (note,) = [each for each in notes if each.get("note") == "logs"]
    assert note["ok"] is False
    assert "left out" in note["error"]


def test_a_key_that_a_container_prints_is_not_taken_down(theatre):
    """It comes line by line, and beside it another container says ordinary things."""
    handle = theatre.stage.submit(POD)
    theatre.stage.follow(handle)
    theatre.see("ADDED", "Pod", "p", spec=SPEC, status=status(main="running", side="running"))
    with theatre.opened:
        assert theatre.opened.wait_for(lambda: len(theatre.streams) == 2, 10)
    for line in ("-----BEGIN PRIVATE KEY-----", PEM_LINES[0], "short", "-----END PRIVATE KEY-----", "after"):
        theatre.streams["main"].queue.put(line.encode())
    theatre.streams["side"].queue.put(b"short")
    for name in ("main", "side"):
        theatre.streams[name].queue.put(None)
    assert theatre.log.until(lambda: not theatre.stage._reader._followers, 10)
    said = log_lines(theatre)
    assert [line for name, line in said if name == "side"] == ["short"]
    assert [line for name, line in said if name == "main"] == [*["[redacted]"] * 4, "after"]
