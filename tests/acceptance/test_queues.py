"""Whether a queue is the one that a run saw: uid, spec, generation; status alone does not count."""

import pytest

from pytest_gpucluster.acceptance import queues
from pytest_gpucluster.evidence import Evidence
from pytest_gpucluster.evidence.log.model import Line


def queue(generation=3, uid="u1", kind="Queue", **spec):
    """Return a queue of the API."""
    return {
        "metadata": {"name": "training", "uid": uid, "generation": generation},
        "spec": {"weight": 1, **spec},
        "status": {"state": "Open"},
    }


def of(*args, kind="Queue", **more):
    """Return a queue as it is compared."""
    return queues.of_object(kind, queue(*args, **more))


def test_status_alone_is_no_change():
    """A queue that was opened or filled is the same queue."""
    full = queue()
    full["status"] = {"state": "Closed", "allocated": {"cpu": "9"}}
    assert queues.changed(of(), queues.of_object("Queue", full)) == ""


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (of(weight=2), "its spec is another: weight"),
        (of(4, weight=2, reclaimable=False), "its spec is another: reclaimable, weight"),
        (of(4), "its spec was written since (generation 3, now 4)"),
        (of(uid="u2"), "it was made anew (uid u1, now u2)"),
        (of(None), "its spec was written since (generation 3, now None)"),
    ],
)
def test_what_was_written_to_its_spec_is_a_change(now, why):
    """Also what was written and written back, and a queue of the same name that is another."""
    assert queues.changed(of(), now) == why


def test_a_stop_policy_is_no_change_of_its_own_where_promotions_tell_of_it():
    """The generation is another since; only promotions wrote in between."""
    held, lifted = (
        of(3, kind="ClusterQueue", stopPolicy="Hold"),
        of(4, kind="ClusterQueue", stopPolicy="None"),
    )
    assert queues.changed(held, lifted) != ""
    assert queues.changed(held, lifted, range(3, 5)) == ""
    assert queues.changed(held, of(5, kind="ClusterQueue"), range(3, 5)) != ""
    assert queues.changed(of(2, kind="ClusterQueue"), lifted, range(3, 5)) != ""
    assert queues.changed(held, of(4, kind="ClusterQueue", weight=2), range(3, 5)) != ""


def test_the_last_line_of_a_file_counts():
    """One that was deleted is not shown by it; another file may show it again."""
    lines = [
        Line(0.0, "ADDED", "Queue", queue(1), {}, 0),
        Line(1.0, "MODIFIED", "Queue", queue(2), {}, 1),
        Line(1.5, "ADDED", "ClusterQueue", {"metadata": {"name": "c", "uid": "c", "generation": 1}}, {}, 2),
    ]
    found = queues.of_evidence(Evidence(lines, header={}))
    assert found["Queue", "training"].generation == 2
    assert ("ClusterQueue", "c") in found
    gone = queues.of_evidence(Evidence([*lines, Line(2.0, "DELETED", "Queue", queue(2), {}, 3)], header={}))
    assert ("Queue", "training") not in gone
    assert queues.together([gone, found])["Queue", "training"].generation == 2
