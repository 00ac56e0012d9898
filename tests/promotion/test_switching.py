"""A queue is opened by one promotion at a time, seen open, and left closed whatever goes wrong."""

import threading

import pytest

from pytest_gpucluster.kube import connection, errors, objects
from pytest_gpucluster.promotion import following, records, switching
from pytest_gpucluster.promotion.targets import Refused

from .conftest import (
    KUEUE,
    MERGE,
    QUEUES,
    close,
    command,
    found,
    make_cluster_queue,
    make_queue,
    state_of,
    wait,
)


def test_a_closed_queue_of_volcano_is_seen_open(raw, api, switch, name):
    """By a Command, which is gone afterwards; who opened it and on what stands on it."""
    make_queue(raw, name)
    opened = switch("alice").open(found(api, "Queue", name))
    assert opened.open
    queue = raw.ok("GET", f"{QUEUES}/{name}")
    assert state_of(queue) == "Open"
    told = queue["metadata"]["annotations"]
    assert told[records.STATE] == "open"
    assert told[records.BY] == "alice"
    assert told[records.POLICY] == "weekly"
    assert told[records.RUNS] == f"run-1=sha256:{'ab' * 32}"
    assert records.LAPSES not in told
    commands = raw.ok("GET", "/apis/bus.volcano.sh/v1alpha1/commands")["items"]
    assert not [each for each in commands if each["target"]["name"] == name]


def test_a_queue_that_is_open_already_needs_no_command(raw, api, switch, name):
    """The new record stands on it all the same."""
    make_queue(raw, name, closed=False)
    before = raw.ok("GET", f"{QUEUES}/{name}")["metadata"]["generation"]
    assert switch("bob").open(found(api, "Queue", name)).open
    now = raw.ok("GET", f"{QUEUES}/{name}")["metadata"]
    assert now["annotations"][records.BY] == "bob"
    assert now["generation"] == before


@pytest.mark.parametrize("levels", [1, 2])
def test_a_closed_parent_keeps_it_closed_and_is_named(raw, api, switch, name, levels):
    """Also one further up: no Command is made that could open it later."""
    make_queue(raw, f"{name}-top", closed=False)
    parent = f"{name}-top"
    for level in range(1, levels):
        make_queue(raw, f"{name}-{level}", closed=False, parent=parent)
        parent = f"{name}-{level}"
    make_queue(raw, name, closed=False, parent=parent)
    close(raw, f"{name}-top")
    wait(raw, f"{QUEUES}/{name}", lambda queue: state_of(queue) == "Closed")
    with pytest.raises(Refused, match=f"stays closed: its parent Queue/{parent} is Closed"):
        switch().open(found(api, "Queue", name))
    assert state_of(raw.ok("GET", f"{QUEUES}/{name}")) == "Closed"
    assert raw.ok("GET", f"{QUEUES}/{name}")["metadata"]["annotations"][records.STATE] == "not opened"
    assert not raw.ok("GET", "/apis/bus.volcano.sh/v1alpha1/commands")["items"]


def test_a_parent_that_closes_in_the_middle_is_named(raw, api, switch, name, monkeypatch):
    """The Command was taken and had no effect: what is above it is looked at again."""
    make_queue(raw, f"{name}-top", closed=False)
    make_queue(raw, name, closed=False, parent=f"{name}-top")
    close(raw, f"{name}-top")
    wait(raw, f"{QUEUES}/{name}", lambda queue: state_of(queue) == "Closed")
    looked = switching.Switch._closed_above
    seen: list[str] = []

    def open_at_first(self, target):
        seen.append(target.name)
        return "" if len(seen) == 1 else looked(self, target)

    monkeypatch.setattr(switching.Switch, "_closed_above", open_at_first)
    with pytest.raises(Refused, match=f"is still Closed: its parent Queue/{name}-top is Closed"):
        switch(seconds=0.5).open(found(api, "Queue", name))


def test_of_two_at_once_one_wins_and_the_other_says_so(raw, url, name, switch):
    """However the two fall together: exactly one opened it, and the other names it."""
    make_queue(raw, name)
    said: dict[str, str] = {}
    start = threading.Barrier(2)

    def promote(who: str) -> None:
        own = objects.Objects(connection.Connection.at(url))
        target = found(own, "Queue", name)
        record = switch(who).record
        start.wait()
        try:
            switching.Switch(own, record, 5.0).open(target)
            said[who] = "opened"
        except Refused as refused:
            said[who] = str(refused)

    both = [threading.Thread(target=promote, args=(who,)) for who in ("alice", "bob")]
    for each in both:
        each.start()
    for each in both:
        each.join(20)
    (winner,) = [who for who, text in said.items() if text == "opened"]
    (loser,) = {"alice", "bob"} - {winner}
    assert f"is being promoted by {winner}" in said[loser]
    assert raw.ok("GET", f"{QUEUES}/{name}")["metadata"]["annotations"][records.BY] == winner


def test_who_comes_while_one_is_at_work_is_told(raw, api, switch, name):
    """A claim holds until it lapses; one whose promotion died holds nobody up for ever."""
    make_queue(raw, name)
    first = switch("alice", seconds=30.0)
    first._begin(found(api, "Queue", name), records.OPENING)
    with pytest.raises(Refused, match="is being promoted by alice since 20"):
        switch("bob").open(found(api, "Queue", name))
    lapsed = {"metadata": {"annotations": {records.LAPSES: "2020-01-01T00:00:00Z"}}}
    raw.ok("PATCH", f"{QUEUES}/{name}", lapsed, MERGE)
    assert switch("bob").open(found(api, "Queue", name)).open


def test_status_alone_holds_nobody_up(raw, api, switch, name):
    """A scheduler writes the status of a queue each second: the version is another, the queue is not."""
    make_queue(raw, name)
    target = found(api, "Queue", name)
    raw.ok("PATCH", f"{QUEUES}/{name}/status", {"status": {"allocated": {"cpu": "3"}}}, MERGE)
    assert switch().open(target).open


def test_a_queue_that_is_edited_in_between_stays_closed(raw, api, switch, name):
    """Its key is named."""
    make_queue(raw, name)
    target = found(api, "Queue", name)
    raw.ok("PATCH", f"{QUEUES}/{name}", {"spec": {"weight": 7}}, MERGE)
    with pytest.raises(Refused, match="was changed while it was being promoted: its spec is another: weight"):
        switch().open(target)
    assert state_of(raw.ok("GET", f"{QUEUES}/{name}")) == "Closed"


def test_a_queue_that_vanishes_before_or_while_it_opens_is_one_line(raw, api, switch, name):
    """Also one that was made anew under the same name: it is not the one that was decided about."""
    make_queue(raw, name)
    target = found(api, "Queue", name)
    raw.ok("DELETE", f"{QUEUES}/{name}")
    with pytest.raises(Refused, match="is gone: it was deleted while it was being promoted"):
        switch().open(target)
    make_queue(raw, name)
    with pytest.raises(Refused, match="made anew"):
        switch().open(target)
    assert state_of(raw.ok("GET", f"{QUEUES}/{name}")) == "Closed"


def test_a_queue_that_vanishes_under_its_command_is_one_line(raw, api, switch, name, monkeypatch):
    """It is deleted when the Command is made, and nobody waits for a state that cannot come."""
    make_queue(raw, name)
    give = switching.Switch._give

    def late(self, target, action):
        raw.ok("DELETE", f"{QUEUES}/{name}")
        return give(self, target, action)

    monkeypatch.setattr(switching.Switch, "_give", late)
    with pytest.raises(Refused, match="is gone"):
        switch(seconds=30.0).open(found(api, "Queue", name))


def test_a_command_that_nobody_takes_is_taken_back(raw, api, switch, name, monkeypatch):
    """Else the queue would open later, when nobody looks."""
    make_queue(raw, name)
    made = switching.volcano_commands.manifest

    def nobody_reads(action, target, labels):
        body = made(action, target, labels)
        body["target"] = {**body["target"], "kind": "Nothing"}  # the controller leaves it alone
        return body

    monkeypatch.setattr(switching.volcano_commands, "manifest", nobody_reads)
    with pytest.raises(Refused, match=r"no controller took the Command OpenQueue in .* does vc-controller"):
        switch(seconds=0.3).open(found(api, "Queue", name))
    assert not raw.ok("GET", "/apis/bus.volcano.sh/v1alpha1/commands")["items"]
    assert state_of(raw.ok("GET", f"{QUEUES}/{name}")) == "Closed"


@pytest.mark.parametrize("kind", ["Queue", "ClusterQueue"])
def test_an_interrupt_takes_back_what_was_begun(raw, api, switch, name, monkeypatch, kind):  # noqa: PLR0917 (fixtures)
    """Ctrl-C while the state is waited for: no Command that opens it later, the stop policy as it was, no claim."""
    if kind == "Queue":
        make_queue(raw, name)
    else:
        make_cluster_queue(raw, name)
    target = found(api, kind, name)
    until = following.Following.until

    def interrupted(self, check, seconds):
        if raw.ok("GET", path)["metadata"]["annotations"] and seconds == 4.0:
            asked.append(1)
            if len(asked) == (2 if kind == "Queue" else 1):
                raise KeyboardInterrupt
        return until(self, check, seconds)

    asked: list[int] = []
    path = f"{QUEUES}/{name}" if kind == "Queue" else f"{KUEUE}/clusterqueues/{name}"
    monkeypatch.setattr(following.Following, "until", interrupted)
    with pytest.raises(KeyboardInterrupt):
        switch(seconds=4.0).open(target)
    monkeypatch.undo()

    def closed(queue):
        return state_of(queue) == "Closed" if kind == "Queue" else queue["spec"]["stopPolicy"] == "Hold"

    now = wait(raw, path, closed)
    assert now["metadata"]["annotations"][records.STATE] == "not opened"
    assert switch("bob").open(found(api, kind, name)).open


def test_a_queue_is_held_again(raw, api, switch, name):
    """By a Command too; a queue that is closed already needs none."""
    make_queue(raw, name, closed=False)
    held = switch("alice").hold(found(api, "Queue", name))
    assert not held.open
    assert raw.ok("GET", f"{QUEUES}/{name}")["metadata"]["annotations"][records.STATE] == "held"
    assert switch("bob").hold(found(api, "Queue", name)).state == "Closed"


@pytest.mark.parametrize("policy", ["Hold", "HoldAndDrain"])
def test_a_cluster_queue_is_seen_active(raw, api, switch, name, policy):
    """Its stopPolicy is None; it may be opened and held again and again on the same run."""
    make_cluster_queue(raw, name, policy=policy)
    at_first = found(api, "ClusterQueue", name)
    opened = switch("alice").open(at_first)
    assert opened.open
    queue = raw.ok("GET", f"{KUEUE}/clusterqueues/{name}")
    assert queue["spec"]["stopPolicy"] == "None"
    assert queue["metadata"]["annotations"][records.UNCHANGED] == "1-2"
    held = switch("alice").hold(found(api, "ClusterQueue", name))
    assert raw.ok("GET", f"{KUEUE}/clusterqueues/{name}")["spec"]["stopPolicy"] == "Hold"
    assert 1 in records.unchanged(held)
    assert switch("bob").open(found(api, "ClusterQueue", name)).open
    assert [*records.unchanged(found(api, "ClusterQueue", name))] == [1, 2, 3, 4]


def test_a_cluster_queue_that_does_not_become_active_is_stopped_again(raw, api, switch, name):
    """Kueue says why: its flavor is missing. It is as it was, and may be promoted once it is mended."""
    make_cluster_queue(raw, name, flavor=False, policy="HoldAndDrain")
    with pytest.raises(Refused, match=r"did not become Active in .* references missing ResourceFlavor"):
        switch(seconds=0.5).open(found(api, "ClusterQueue", name))
    queue = raw.ok("GET", f"{KUEUE}/clusterqueues/{name}")
    assert queue["spec"]["stopPolicy"] == "HoldAndDrain"
    assert queue["metadata"]["annotations"][records.STATE] == "not opened"
    raw.ok("POST", f"{KUEUE}/resourceflavors", {"metadata": {"name": name}})
    now = found(api, "ClusterQueue", name)
    assert {1, now.queue.generation} <= {*records.unchanged(now)}
    assert switch().open(now).open


def test_an_edit_between_two_promotions_is_no_promotion(raw, api, switch, name):
    """The generations that only promotions wrote end there, although the spec is as it was before."""
    make_cluster_queue(raw, name)
    switch().open(found(api, "ClusterQueue", name))
    for strategy in ("StrictFIFO", "BestEffortFIFO"):
        raw.ok("PATCH", f"{KUEUE}/clusterqueues/{name}", {"spec": {"queueingStrategy": strategy}}, MERGE)
    edited = found(api, "ClusterQueue", name)
    assert edited.queue.generation not in records.unchanged(edited)
    switch().hold(edited)
    assert 1 not in records.unchanged(found(api, "ClusterQueue", name))


def test_without_permission_nothing_is_opened(raw, api, switch, name, monkeypatch):
    """Whichever request is refused: one line that names it, and the queue is as it was."""
    make_queue(raw, name)
    target = found(api, "Queue", name)
    call = api.connection.call

    def forbidding(ask):
        if ask.method == "POST":
            raise errors.ApiError(403, "Forbidden", "commands is forbidden", request=ask.about)
        return call(ask)

    monkeypatch.setattr(api.connection, "call", forbidding)
    with pytest.raises(Refused, match=r"no Command can be made: create Command/.* 403 Forbidden"):
        switch().open(target)
    monkeypatch.undo()
    assert state_of(raw.ok("GET", f"{QUEUES}/{name}")) == "Closed"


def test_the_embedded_volcano_closes_and_opens_children_with_their_parent(raw, name):
    """What was closed by its parent opens with it; what somebody closed by hand stays closed."""
    make_queue(raw, name, closed=False)
    for child in ("with", "by-hand"):
        make_queue(raw, f"{name}-{child}", closed=child == "by-hand", parent=name)
    close(raw, name)
    shut = wait(raw, f"{QUEUES}/{name}-with", lambda queue: state_of(queue) == "Closed")
    assert shut["metadata"]["annotations"]["volcano.sh/closed-by-parent"] == "true"
    command(raw, name, "OpenQueue")
    wait(raw, f"{QUEUES}/{name}-with", lambda queue: state_of(queue) == "Open")
    assert state_of(raw.ok("GET", f"{QUEUES}/{name}-by-hand")) == "Closed"
