"""A promotion that is killed by SIGKILL while a queue is open on trial does not leave it open."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_gpucluster.promotion import guard, records, targets

from .conftest import KUEUE, MERGE, QUEUES, found, make_cluster_queue, make_queue, state_of, wait

ROOT = Path(__file__).resolve().parents[2]


def begin(folder, word, moment, **environment):
    """Begin a promotion that is killed at a moment."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.promotion.cut_off", str(folder), word, moment],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def held(queue):
    """Report whether a promotion has left a queue held."""
    return (queue["metadata"].get("annotations") or {}).get(records.STATE) == "held"


@pytest.mark.parametrize("moment", ["claimed", "commanded", "open", "green"])
def test_a_queue_of_volcano_is_closed_whenever_its_promotion_is_killed(raw, place, name, moment):
    """Also with a Command under way, and after a green trial that nobody has noted."""
    make_queue(raw, name)
    with begin(place(name, "conformance_queue: conformance"), f"queue/{name}", moment) as promotion:
        _, err = promotion.communicate(timeout=60)
        assert promotion.returncode == -signal.SIGKILL, err
    # Whoever waits for the errors waits for the guard.
    assert f"Queue/{name} is Closed: its promotion was killed while it was tried out" in err
    now = wait(raw, f"{QUEUES}/{name}", held)
    assert state_of(now) == "Closed"
    assert records.LAPSES not in now["metadata"]["annotations"]
    commands = raw.ok("GET", "/apis/bus.volcano.sh/v1alpha1/commands")["items"]
    assert not [each for each in commands if each["target"]["name"] == name]
    (event,) = [
        each
        for each in raw.ok("GET", "/api/v1/namespaces/default/events")["items"]
        if each["involvedObject"]["name"] == name
    ]
    assert (event["reason"], event["type"]) == ("Held", "Warning")


@pytest.mark.parametrize("moment", ["lifted", "green"])
def test_a_cluster_queue_is_stopped_whenever_its_promotion_is_killed(raw, place, name, moment):
    """Its stop policy is back."""
    make_cluster_queue(raw, name)
    folder = place("other", f"kueue: {{cluster_queue: {name}}}\nconformance_queue: conformance")
    with begin(folder, f"clusterqueue/{name}", moment) as promotion:
        _, err = promotion.communicate(timeout=60)
        assert promotion.returncode == -signal.SIGKILL, err
    now = wait(raw, f"{KUEUE}/clusterqueues/{name}", held)
    assert now["spec"]["stopPolicy"] == "Hold"
    # It is still the queue that the runs saw: they need not be made again.
    now = wait(
        raw,
        f"{KUEUE}/clusterqueues/{name}",
        lambda queue: records.UNCHANGED in queue["metadata"]["annotations"],
    )
    assert now["metadata"]["annotations"][records.UNCHANGED] == "1-3"


def test_the_trial_ends_with_its_promotion(raw, place, name, tmp_path):
    """Killed from outside: the guard closes the queue and ends the trial."""
    make_queue(raw, name)
    begun = tmp_path / "begun"
    os.mkfifo(begun)
    folder = place(name, "conformance_queue: conformance")
    with begin(folder, f"queue/{name}", "trial", BEGUN=str(begun)) as promotion:
        trial = os.pidfd_open(int(begun.read_text()))
        assert state_of(raw.ok("GET", f"{QUEUES}/{name}")) == "Open"
        promotion.kill()
        _, err = promotion.communicate(timeout=60)
    assert f"Queue/{name} is Closed" in err
    assert state_of(raw.ok("GET", f"{QUEUES}/{name}")) == "Closed"
    ended, _, _ = select.select([trial], [], [], 20)
    os.close(trial)
    assert ended


def test_a_guard_does_nothing_to_a_queue_of_others(raw, api, switch, name):
    """One that is open by its promotion, held by somebody, or tried out by another one."""
    make_queue(raw, name)
    ours = switch("ours")
    opened = ours.open(found(api, "Queue", name), records.TRIAL)
    ours.note(opened, records.OPENED)
    assert ours.close_after(opened) is None
    assert state_of(raw.ok("GET", f"{QUEUES}/{name}")) == "Open"
    others = switch("others").open(found(api, "Queue", name), records.TRIAL)
    assert ours.close_after(opened) is None
    assert switch("others").record.mark != ours.record.mark
    assert others.open
    raw.ok("DELETE", f"{QUEUES}/{name}")
    assert ours.close_after(opened) is None


def test_a_claim_is_renewed_while_it_is_ours(raw, api, switch, name):
    """So that a trial that goes on is not taken for one whose machine is gone."""
    make_queue(raw, name)
    ours = switch("ours")
    opened = ours.open(found(api, "Queue", name), records.TRIAL)
    old = {"metadata": {"annotations": {records.LAPSES: "2020-01-01T00:00:00Z"}}}
    raw.ok("PATCH", f"{QUEUES}/{name}", old, MERGE)
    assert records.cut_off(found(api, "Queue", name)).startswith("ours since 20")
    ours.renew(opened)
    assert records.cut_off(found(api, "Queue", name)) == ""
    ours.hold(found(api, "Queue", name))
    ours.renew(opened)
    assert records.LAPSES not in found(api, "Queue", name).annotations


def test_without_its_guard_a_queue_is_not_opened_on_trial(raw, api, switch, name):
    """Its kubeconfig is gone: one line, and nothing was made."""
    make_queue(raw, name)
    with (
        pytest.raises(targets.Refused, match=r"is not opened on trial: its guard did not start: .*nowhere"),
        guard.Guard(switch(), found(api, "Queue", name), "/nowhere/kubeconfig", None),
    ):
        raise AssertionError
    assert state_of(raw.ok("GET", f"{QUEUES}/{name}")) == "Closed"


def test_a_queue_that_is_not_as_it_was_after_its_trial_is_not_called_open(raw, api, switch, name):
    """It was closed by hand, or edited, while the rows ran."""
    make_queue(raw, name)
    ours = switch("ours")
    opened = ours.open(found(api, "Queue", name), records.TRIAL)
    raw.ok("PATCH", f"{QUEUES}/{name}", {"spec": {"weight": 7}}, MERGE)
    with pytest.raises(targets.Refused, match="its spec is another: weight"):
        ours.confirm(opened, ours.record)
    ours.hold(found(api, "Queue", name))
    with pytest.raises(targets.Refused, match=r"is being promoted by ours|was closed while"):
        ours.confirm(opened, ours.record)
