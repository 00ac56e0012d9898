"""Proofs against an embedded control plane: by a marker, by an annotation, by a second watch, and what is none."""

import contextlib
import dataclasses
import threading
import time

import pytest

from pytest_gpucluster.kube import connection, errors, kinds, objects
from pytest_gpucluster.plain import names
from pytest_gpucluster.scenario import comparing, live, log, proofs, watches

KINDS = ("Pod", "Event", "Service", "ConfigMap", "Node", "PodGroup", "Queue")


class Api(objects.Objects):
    """The verbs, of which some are refused."""

    refused: frozenset[str] = frozenset()

    def create(self, manifest, *, namespace=None, dry_run=False):
        """Create, where it is allowed."""
        self._check(f"create {manifest['kind']}")
        return super().create(manifest, namespace=namespace, dry_run=dry_run)

    def patch(self, info, name, change, namespace=None, *, how="merge", subresource=""):
        """Patch, where it is allowed."""
        self._check(f"patch {info.key}")
        return super().patch(info, name, change, namespace, how=how, subresource=subresource)

    def _check(self, what):
        if what in self.refused:
            raise errors.ApiError(403, "Forbidden", f"cannot {what}")


@dataclasses.dataclass
class Scene:
    """A namespace with watches and a prover."""

    api: Api
    log: log.SessionLog
    watches: watches.Watches
    prover: proofs.Prover
    namespace: str

    def prove(self, *wanted):
        """Prove and seal; returns the kinds that were proven, by the note."""
        before = self.log.mark()
        proof = self.prover.prove("play", wanted)
        proof.seal(self.log.now())
        told = [entry.text for entry in self.log.entries()[before:] if entry.type == "NOTE"]
        assert told[-1].startswith('{"type":"NOTE"')
        return [text for text in told if '"kinds":[]' not in text]

    def covered(self, kind):
        """Return to when a kind is covered, None for not at all."""
        return max((span.end for span in self.log.spans() if span.kind == kind), default=None)


@pytest.fixture
def scene(cluster, tmp_path):
    """Follow some kinds in a namespace of its own."""
    opened = connection.Connection.open(cluster.kubeconfig)
    api = Api(opened)
    space = f"proofs-{tmp_path.name.replace('_', '-')}"[-60:].strip("-")
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
    seen = log.SessionLog(tmp_path / "s.jsonl", opened.clock, scenario_label=names.LABEL_SCENARIO)
    followed = watches.Watches()
    followed.follow(api, seen, space, [kind for key in KINDS if (kind := kinds.by_key(key))])
    made = proofs.Prover(api, seen, followed, space, run_id="run-1", expires="2030-01-01T00:00:00Z")
    yield Scene(api, seen, followed, made, space)
    followed.end()
    seen.close()
    api.delete(objects.NAMESPACE, space)
    opened.close()


def test_nothing_is_covered_before_it_is_proven(scene):
    """A watch in sync for as long as you like covers nothing; a proof covers it from its list on."""
    assert scene.covered("Pod") is None
    (told,) = scene.prove("Pod", "Service")
    assert '"kinds":["Pod","Service"]' in told
    assert scene.covered("Pod") == pytest.approx(scene.log.now(), abs=1.0)
    assert scene.covered("ConfigMap") is None


def test_markers_are_made_once_changed_after_that_and_nobodys_business(scene):
    """One write a kind and proof; waits and cleanup do not see them; no scheduler takes the pod."""
    wanted = ("Pod", "Event", "Service", "ConfigMap")
    scene.prove(*wanted)
    asked = dict(scene.api.connection.counter.by)
    scene.prove(*wanted)
    new = {
        key: n - asked.get(key, 0)
        for key, n in scene.api.connection.counter.by.items()
        if n > asked.get(key, 0)
    }
    assert new == {("patch", kind): 1 for kind in wanted}
    assert not [obj for _, obj in scene.log.state.everything() if live.is_marker(obj)]
    pod = scene.api.get(objects.POD, scene.prover.name, scene.namespace)
    assert not pod["spec"].get("nodeName")
    scene.prover.remove()
    for kind in wanted:
        with pytest.raises(errors.ApiError, match="404"):
            scene.api.get(objects.table_row(kind), scene.prover.name, scene.namespace)


def test_of_gangs_one_of_ours_is_annotated(scene):
    """A PodGroup of the run shows it; its spec stays as it was, and one that is not ours stays untouched."""
    group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "spec": {"minMember": 1}}
    scene.api.create({**group, "metadata": {"name": "theirs"}}, namespace=scene.namespace)
    scene.api.create(
        {**group, "metadata": {"name": "ours", "labels": {names.LABEL_RUN: "run-1"}}},
        namespace=scene.namespace,
    )
    assert scene.log.until(lambda: len(scene.log.state.shelf("PodGroup", scene.namespace)) == 2, 5)
    (told,) = scene.prove("PodGroup")
    assert '"kinds":["PodGroup"]' in told
    info = objects.table_row("PodGroup")
    assert names.ANNOTATION_MARKER in scene.api.get(info, "ours", scene.namespace)["metadata"]["annotations"]
    theirs = scene.api.get(info, "theirs", scene.namespace)["metadata"].get("annotations") or {}
    assert names.ANNOTATION_MARKER not in theirs


@pytest.mark.parametrize("kind", ["Node", "Queue", "PodGroup"])
def test_where_nothing_of_ours_may_be_written_a_second_watch_is_read(scene, kind):
    """A kind of the cluster, or one of which nothing is ours: list and watch, no write."""
    asked = dict(scene.api.connection.counter.by)
    (told,) = scene.prove(kind)
    assert f'"kinds":["{kind}"]' in told
    new = {
        verb for (verb, key), n in scene.api.connection.counter.by.items() if n > asked.get((verb, key), 0)
    }
    assert new <= {"list", "watch"}


@pytest.mark.parametrize("refused", ["create Pod", "patch Pod"])
def test_without_the_right_to_write_a_second_watch_is_read(scene, refused):
    """A user who may not create or patch pods gets the same answer, a little later, and is not asked again."""
    scene.api.refused = frozenset({refused})
    for _ in range(2):
        told = scene.prove("Pod")
    assert '"kinds":["Pod"]' in told[0]
    scene.api.refused = frozenset()
    asked = scene.api.connection.counter.by.get(("patch", "Pod"), 0)
    scene.prove("Pod")
    if refused == "create Pod":
        assert scene.api.connection.counter.by.get(("patch", "Pod"), 0) == asked


def test_a_kind_that_is_not_watched_is_left_out(scene):
    """Nothing is asked of it, and nothing is said."""
    assert scene.prove("Workload") == []


@contextlib.contextmanager
def held(scene, kind):
    """Hold a watch back: its thread waits with the first line that it gets."""
    go, caught = threading.Event(), threading.Event()
    follower = scene.watches.of(kind)
    take = follower._take

    def slow(line, t):
        caught.set()
        go.wait(30)
        take(line, time.monotonic())

    follower._take = slow
    yield go
    go.set()
    assert caught.is_set()


def test_a_watch_that_is_held_back_is_told_and_not_covered(scene, monkeypatch):
    """What was written does not come back: a note says which, since when and why; a later proof leaves the gap."""
    scene.prove("Pod")
    proven = scene.covered("Pod")
    monkeypatch.setattr(proofs, "SECONDS", 0.3)
    with held(scene, "Pod") as go:
        (told,) = scene.prove("Pod")
        assert '"note":"unproven","kind":"Pod"' in told
        assert "did not come back within 0.3 s" in told
        assert scene.covered("Pod") == proven
        monkeypatch.setattr(proofs, "SECONDS", 10.0)
        go.set()
        (told,) = scene.prove("Pod")
    assert '"kinds":["Pod"]' in told
    spans = [span for span in scene.log.spans() if span.kind == "Pod"]
    assert spans[0].end <= proven
    scene.prove("Pod")
    one, other = [span for span in scene.log.spans() if span.kind == "Pod"]
    assert one.end <= proven < other.start
    assert "held back" in other.how


def fresh():
    """Return a change that was never made before: one that changes nothing is not told."""
    return {"metadata": {"annotations": {"a": f"{time.monotonic():.9f}"}}}


def test_what_is_compared_is_shown_up_to_the_list_and_no_further(scene):
    """What is written goes on to the end of the round; a list stands for what happened before it was asked for."""
    proof = scene.prover.prove("play", ("Pod", "Queue"))
    asked = scene.log.now()
    proof.seal(asked + 5.0)
    assert scene.covered("Queue") <= asked
    assert scene.covered("Pod") == pytest.approx(asked + 5.0, abs=0.01)


def test_a_list_that_is_older_than_the_round_is_taken_again(scene, monkeypatch):
    """Where what was written is slow to come back, the list is not what stands for the end."""
    monkeypatch.setattr(comparing, "SOON", 0.0)
    scene.prove("Pod", "Queue")
    assert scene.api.connection.counter.by["list", "Queue"] == 3, "to watch it, and twice in the round"


def test_what_is_compared_has_told_all_by_the_end_of_the_round_or_there_is_a_gap(scene):
    """It happened before the list, and was told while the second watch was read: nobody saw it in its time."""
    queue, follower = objects.table_row("Queue"), scene.watches.of("Queue")

    def change():
        return scene.api.patch(queue, "default", fresh())

    version = change()["metadata"]["resourceVersion"]
    assert scene.log.until(lambda: follower.receipts.when(version) is not None, 5)
    scene.prove("Queue")
    heard = follower.heard - scene.log.origin
    with held(scene, "Queue") as go:
        change()
        proof = scene.prover.prove("play", ("Queue",))
        end = scene.log.now()
        threading.Timer(0.2, go.set).start()
        proof.seal(end)
    assert scene.covered("Queue") == pytest.approx(heard)
    scene.prove("Queue")
    assert [span.start > end for span in scene.log.spans() if span.kind == "Queue"] == [False, True]


def test_one_change_that_a_watch_loses_is_no_proof(scene, monkeypatch):
    """The second watch tells it, the first never does, whatever version it has reached since."""
    follower, queue = scene.watches.of("Queue"), objects.table_row("Queue")
    take, lost = follower._take, threading.Event()

    def without_the_first(line, t):
        if lost.is_set():
            take(line, t)
        lost.set()

    scene.prove("Queue")
    proven = scene.covered("Queue")
    monkeypatch.setattr(follower, "_take", without_the_first)
    monkeypatch.setattr(comparing, "SECONDS", 0.5)
    list_one = comparing._list

    def listed_before(api, one):
        list_one(api, one)
        for _ in ("lost", "told"):
            api.patch(queue, "default", fresh())
        since, one.present = one.present, api.present_version(queue)
        assert since != one.present

    monkeypatch.setattr(comparing, "_list", listed_before)
    told = scene.prove("Queue")
    assert '"note":"unproven","kind":"Queue"' in told[0]
    assert scene.covered("Queue") == proven


def test_two_watches_of_one_kind_do_not_prove_each_other(scene):
    """What comes back through another watch of the kind says nothing of the one that is held back."""
    other = watches.Watches()
    other.follow(scene.api, scene.log, scene.namespace, [objects.POD])
    # The log covers what the newest says; the older one, which is no longer asked, covers nothing more.
    scene.prove("Pod")
    assert scene.covered("Pod") is None
    other.end()


def test_a_kind_whose_watch_has_ended_is_covered_no_further(scene):
    """A dead watch is not current, whatever comes back."""
    scene.prove("Service")
    proven = scene.covered("Service")
    scene.watches.of("Service").stop()
    assert scene.watches.of("Service").join()
    scene.prover.prove("play", ()).seal(scene.log.now())
    assert scene.covered("Service") <= proven
