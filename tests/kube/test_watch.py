"""The watch loop against a server that misbehaves in each documented way."""

import random

import hypothesis
import hypothesis.strategies as st
import pytest

from pytest_gpucluster.kube import changes, errors, objects, watch
from tests import amount

from . import fake_api
from .conftest import Sink, _versions

RNG = random.Random(1)  # noqa: S311 (jitter)


@pytest.fixture
def follow(api, sink):
    """Start watches that end with the test."""
    running = []

    def start(**more):
        follower = watch.KindWatch(api, watch.Target(objects.POD, "ns"), sink, rng=RNG, **more)
        running.append(follower)
        follower.start()
        return follower

    yield start
    for follower in running:
        follower.stop()
        assert follower.join()


def caught_up(fake, sink) -> bool:
    """Wait until the sink's state is the server's."""
    return sink.until(lambda: _versions(sink.state) == _versions(fake.objects))


def test_first_list_and_changes_arrive(fake, sink, follow):
    """What is there comes as ADDED, changes come as they happen."""
    fake.page = 2
    for name in "abcde":
        fake.put(name)
    follow()
    assert sink.until(lambda: len(sink.state) == 5)
    assert sink.lines == [("ADDED", name) for name in "abcde"]
    fake.put("a", x=1)
    fake.remove("b")
    assert sink.until(lambda: len(sink.lines) == 7)
    assert sink.lines[5:] == [("MODIFIED", "a"), ("DELETED", "b")]
    assert [s[2] for s in sink.syncs] == ["list"]


@pytest.mark.parametrize("proper", [True, False])
def test_ended_stream_resumes_without_a_list_and_without_a_gap(fake, sink, follow, proper):
    """A watch that ends, properly or by a cut, goes on at the last version, and coverage has no gap."""
    fake.put("a")
    follower = follow()
    for number in range(6):
        fake.watched()
        fake.drop(proper=proper)
        fake.put("a", number=number)
        assert caught_up(fake, sink)
    assert sink.until(lambda: sink.syncs[-1][0] == "in")
    assert follower.relists == 1
    assert fake.count(fake_api.listing) == 1
    outs = [t for way, t, _ in sink.syncs if way == "out"]
    ins = [t for way, t, _ in sink.syncs if way == "in"][1:]
    assert outs == ins
    assert sink.lines == [("ADDED", "a")] + [("MODIFIED", "a")] * 6


def test_expired_version_lists_again_and_emits_the_differences(fake, sink, follow):
    """After 410 the differences come, a replaced object as deletion and addition, and coverage has a gap."""
    for name in ("kept", "changed", "replaced", "removed"):
        fake.put(name)
    follower = follow()
    fake.watched()
    before = len(sink.lines)
    fake.fail(fake_api.watching, 410)
    fake.put("changed", x=1)
    fake.put("replaced", same=False)
    fake.remove("removed")
    fake.put("new")
    fake.compact()
    fake.drop()
    assert caught_up(fake, sink)
    assert sink.until(lambda: sink.syncs[-1][0] == "in")
    assert follower.relists == 2
    after = sink.lines[before:]
    assert ("DELETED", "removed") in after
    assert ("MODIFIED", "changed") in after
    assert after.index(("DELETED", "replaced")) < after.index(("ADDED", "replaced"))
    assert ("ADDED", "new") in after
    assert not any(name == "kept" for _, name in after)
    out = next(t for way, t, _ in reversed(sink.syncs) if way == "out")
    assert sink.syncs[-1][1] > out


def test_error_event_with_410_lists_again(fake, sink, follow):
    """410 inside the stream means the same as 410 as its answer."""
    fake.put("a")
    fake.compact()
    follower = follow(version="1")
    assert caught_up(fake, sink)
    assert follower.relists == 1


def test_busy_server_is_asked_again_later(fake, sink, follow):
    """429 with Retry-After and 5xx on list and watch are waited out."""
    fake.fail(fake_api.listing, 500, times=2)
    fake.fail(fake_api.watching, 429, times=2, headers={"Retry-After": "0"})
    fake.fail(fake_api.watching, 503)
    fake.fail(fake_api.watching, 0)
    fake.put("a")
    follower = follow()
    assert caught_up(fake, sink)
    fake.put("b")
    assert caught_up(fake, sink)
    assert follower.relists == 1


def test_refused_version_is_listed_again_after_three_answers(fake, sink, follow):
    """A version that the server answers with errors is given up for a new list."""
    fake.fail(fake_api.watching, 504, times=3)
    fake.put("a")
    follower = follow()
    fake.put("b")
    assert caught_up(fake, sink)
    assert sink.until(lambda: sink.syncs[-1][2].startswith("relist"))
    assert follower.relists == 2


@pytest.mark.parametrize(("match", "verb"), [(fake_api.listing, "list"), (fake_api.watching, "watch")])
def test_forbidden_names_verb_and_kind(fake, sink, follow, match, verb):
    """403 ends the watch with one line that names verb, resource, namespace and what to grant."""
    fake.fail(match, 403, times=99, message="pods is forbidden")
    follow()
    assert sink.until(lambda: sink.problem is not None)
    assert isinstance(sink.problem, errors.EnvironmentProblem)
    assert str(sink.problem) == (
        f"not allowed to {verb} pods (Pod) in namespace ns: pods is forbidden "
        "(the run needs get, list and watch on pods of group core)"
    )


def test_kind_that_is_not_served_ends_the_watch(fake, sink, follow):
    """404 ends the watch: the API does not know the kind."""
    fake.fail(fake_api.listing, 404)
    follow()
    assert sink.until(lambda: sink.problem is not None)
    assert isinstance(sink.problem, errors.ApiError)
    assert sink.problem.code == 404


def test_garbage_in_the_stream_is_no_event(fake, sink, follow):
    """A line that is no event costs the connection, not the watch."""
    fake.fail(fake_api.watching, 200, body=b'{"no": "event"}\n')
    fake.fail(fake_api.watching, 200, body=b"half a li")
    fake.put("a")
    follower = follow()
    assert sink.until(lambda: sink.syncs[-1:] and sink.syncs[-1][2].startswith("resumed"))
    fake.put("b")
    assert caught_up(fake, sink)
    assert follower.relists == 1


def test_watches_are_counted(fake, api, sink, follow):
    """Lists and watches are requests like others."""
    fake.put("a")
    follow()
    fake.watched()
    fake.drop()
    assert sink.until(lambda: len(sink.syncs) == 3)
    assert api.connection.counter.by == {("list", "Pod"): 1, ("watch", "Pod"): 2}


def test_stop_ends_a_silent_watch_at_once(fake, sink, follow):
    """Stopping does not wait for the server to say something."""
    follower = follow()
    sink.until(lambda: sink.syncs)
    follower.stop()
    assert follower.join(5)


OBJECTS = st.dictionaries(st.sampled_from("abcdef"), st.tuples(st.integers(0, 2), st.integers(0, 3)))


@hypothesis.given(OBJECTS, OBJECTS)
def test_differences_lead_from_one_state_to_the_other(before, after):
    """Applied to the old state, the differences make the new one; an unchanged object is no change."""

    def state(raw):
        return {
            ("ns", name): {
                "metadata": {"name": name, "uid": f"{name}{uid}", "resourceVersion": f"{uid}.{version}"}
            }
            for name, (uid, version) in raw.items()
        }

    sink = Sink()
    for obj in state(before).values():
        sink.line("ADDED", "Pod", obj, 0.0)
    for change, obj in changes.differences(state(before), state(after)):
        sink.line(change, "Pod", obj, 0.0)
    assert sink.versions() == _versions({n: o for (_, n), o in state(after).items()})
    assert changes.differences(state(after), state(after)) == []


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["put", "replace", "remove"]), st.sampled_from("abcd")),
        st.tuples(st.sampled_from(["drop", "end", "compact", "busy"]), st.just("")),
    ),
    max_size=25,
)


@hypothesis.given(STEPS)
@amount.examples(15)
def test_sink_follows_any_history(steps):
    """Whatever happens on the way, the state that the sink was told of comes to equal the server's."""
    from pytest_gpucluster.kube import connection

    from .conftest import QUICK

    with fake_api.serving() as fake:
        sink = Sink()
        opened = connection.Connection.at(fake.url, limits=QUICK)
        follower = watch.KindWatch(objects.Objects(opened), watch.Target(objects.POD, "ns"), sink, rng=RNG)
        follower.start()
        for what, name in steps:
            match what:
                case "put":
                    fake.put(name)
                case "replace":
                    fake.put(name, same=False)
                case "remove":
                    fake.remove(name)
                case "drop" | "end":
                    fake.watched()
                    fake.drop(proper=what == "end")
                case "compact":
                    fake.compact()
                    fake.drop()
                case "busy":
                    fake.fail(fake_api.watching, 429, headers={"Retry-After": "0"})
        try:
            assert caught_up(fake, sink), (sink.versions(), sink.syncs)
        finally:
            follower.stop()
            assert follower.join()
            opened.close()


def prove(follower) -> None:
    """Let a proof come back now."""
    now = follower.api.connection.clock.monotonic()
    follower.coverage.proven(now, now)


MALFORMED = {
    "metadata-is-text": b'{"type":"MODIFIED","object":{"kind":"X","metadata":"oops"}}\n',
    "no-metadata": b'{"type":"MODIFIED","object":{"kind":"Pod"}}\n',
    "no-name": b'{"type":"ADDED","object":{"kind":"Pod","metadata":{}}}\n',
    "object-is-text": b'{"type":"ADDED","object":"x"}\n',
    "bookmark-is-a-number": b'{"type":"BOOKMARK","object":{"metadata":7}}\n',
    "unknown-change": b'{"type":"WEIRD","object":{"metadata":{"name":"a"}}}\n',
    "a-list": b"[]\n",
    "deep": b"[" * 100_000 + b"\n",
}


@pytest.mark.parametrize("line", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_event_ends_no_watch(fake, sink, follow, line):
    """What nobody can read costs the connection: the watch goes on from before it, and misses nothing."""
    fake.fail(fake_api.watching, 200, body=line)
    fake.put("a")
    follower = follow()
    assert sink.until(lambda: sink.syncs[-1:] and sink.syncs[-1][2].startswith("resumed"))
    fake.put("b")
    assert caught_up(fake, sink)
    assert follower.relists == 1
    assert "no watch event" in next(why for way, _, why in sink.syncs if way == "out")


class Surprise(BaseException):
    """What nobody expects."""


@pytest.mark.parametrize(
    "error", [TypeError("odd"), RecursionError("deep"), MemoryError(), KeyError("x")], ids=repr
)
@pytest.mark.parametrize("where", ["line", "lean"])
def test_an_error_of_our_own_is_a_gap_with_a_reason(fake, api, sink, where, error):
    """Whatever our own code raises, what was told before it counts to its last proof, and a new list tells the rest."""
    raising = []

    def lean(_kind, obj):
        if where == "lean" and raising:
            raise raising.pop()
        return obj

    class Frail(type(sink)):
        def line(self, change, kind, obj, t):
            if where == "line" and raising:
                raise raising.pop()
            super().line(change, kind, obj, t)

    frail = Frail()
    follower = watch.KindWatch(api, watch.Target(objects.POD, "ns"), frail, rng=RNG, lean=lean)
    follower.start()
    try:
        assert frail.until(lambda: frail.syncs)
        fake.watched()
        fake.put("a")
        assert caught_up(fake, frail)
        prove(follower)
        raising.append(error)
        fake.put("b")
        assert caught_up(fake, frail)
        assert frail.until(lambda: frail.syncs[-1][2].startswith("relist"))
        prove(follower)
        one, other = follower.coverage.stretches()
        assert one.end < other.start
        why = next(why for way, _, why in frail.syncs if way == "out")
        assert why.startswith("the watch of pods in namespace ns failed by itself: ")
        assert type(error).__name__ in why
        assert "\n" not in why
    finally:
        follower.stop()
        assert follower.join()


def test_what_ends_the_thread_ends_the_coverage(fake, api, sink):
    """Even what is no error ends in a reason, in one line, and leaves no span open."""

    def lean(_kind, _obj):
        raise Surprise("gone")

    follower = watch.KindWatch(api, watch.Target(objects.POD, "ns"), sink, rng=RNG, lean=lean)
    fake.put("a")
    follower.start()
    assert sink.until(lambda: sink.problem is not None)
    assert follower.join()
    assert "failed by itself: Surprise: gone" in str(sink.problem)
    prove(follower)
    assert follower.coverage.stretches() == []


def test_items_of_a_list_that_are_no_objects_are_no_state(fake, sink, follow):
    """A list that nobody can read is asked for again; nothing is in sync meanwhile."""
    body = b'{"kind":"PodList","metadata":{"resourceVersion":"100"},"items":["x",null]}'
    fake.fail(fake_api.listing, 200, times=2, body=body)
    fake.put("a")
    follow()
    assert caught_up(fake, sink)
    assert sink.syncs[-1][2].startswith(("list", "relist"))


def stamped(fake, name, stamp):
    """Create a pod that says when it was made."""
    with fake.lock:
        fake.version += 1
        metadata = {
            "name": name,
            "namespace": "ns",
            "uid": f"uid-{name}",
            "resourceVersion": str(fake.version),
        }
        obj = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**metadata, "creationTimestamp": stamp},
            "spec": {},
        }
        fake.objects[name] = obj
        fake._append("ADDED", obj)


def test_what_was_told_long_after_it_happened_is_a_gap(fake, api, sink, follow):
    """An object that was made nine seconds before it was told: the stream was held back meanwhile."""
    import datetime as dt

    def text(seconds):
        return dt.datetime.fromtimestamp(1_800_000_000 + seconds, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    follower = follow()
    assert sink.until(lambda: sink.syncs)
    fake.watched()
    now = api.connection.clock.monotonic()
    api.skew.learn(text(100), now, now)
    stamped(fake, "prompt", text(100))
    assert sink.until(lambda: len(sink.lines) == 1)
    prove(follower)
    assert len(follower.coverage.stretches()) == 1
    stamped(fake, "late", text(101 - 10))
    assert sink.until(lambda: len(sink.lines) == 2)
    prove(follower)
    last = follower.coverage.stretches()[-1]
    assert last.how.endswith("held back until then")
