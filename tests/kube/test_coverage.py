"""Coverage ends with the last proof; what was told late is a gap; what cannot be resumed counts to its last proof."""

import pytest

from pytest_gpucluster.kube import coverage, lateness


def spans(found):
    """Return the stretches as pairs."""
    return [(one.start, one.end) for one in found.stretches()]


def test_nothing_is_covered_without_a_proof():
    """A stream that was opened and never fell silent for long proves nothing."""
    one = coverage.Coverage()
    one.listed(1.0, "list")
    assert spans(one) == []
    one.proven(5.0, 5.5)
    assert spans(one) == [(1.0, 5.5)]


def test_a_resumed_stream_is_one_span_and_a_new_list_is_two():
    """Whoever resumes misses nothing; whoever lists again may, and what was not proven before is lost."""
    one = coverage.Coverage()
    one.listed(0.0, "list")
    one.proven(2.0, 2.0)
    one.lost(3.0)
    assert not one.up
    one.resumed()
    one.proven(4.0, 4.0)
    assert spans(one) == [(0.0, 4.0)]
    one.lost(5.0)
    one.listed(6.0, "relist")
    one.proven(7.0, 7.0)
    assert spans(one) == [(0.0, 4.0), (6.0, 7.0)]


def test_a_proof_that_came_while_the_stream_was_down_is_none():
    """What came back came from somewhere else."""
    one = coverage.Coverage()
    one.listed(0.0, "list")
    one.lost(1.0)
    one.proven(2.0, 2.0)
    assert spans(one) == []
    one.broken(2.0)
    one.proven(3.0, 3.0)
    assert spans(one) == []


def test_the_end_of_a_chain_is_never_beyond_what_was_heard():
    """A proof reaches a little beyond its return; not beyond a stream that broke in between."""
    one = coverage.Coverage()
    one.listed(0.0, "list")
    one.proven(2.0, 2.5)
    one.lost(2.2)
    one.listed(4.0, "relist")
    assert spans(one) == [(0.0, 2.2)]


def test_what_was_told_late_is_a_gap():
    """Nothing is missing, and yet times of receipt are not those of what happened."""
    one = coverage.Coverage()
    one.listed(0.0, "list")
    one.late(2.0, 5.0)
    one.late(3.0, 6.0)
    one.proven(9.0, 9.0)
    assert spans(one) == [(0.0, 2.0), (6.0, 9.0)]


def test_a_doubt_lasts_until_a_proof_comes_back():
    """A proof that did not come back in time leaves a gap even where a later one does."""
    one = coverage.Coverage()
    one.listed(0.0, "list")
    one.proven(1.0, 1.0)
    one.doubted(3.0)
    one.doubted(4.0)
    assert spans(one) == [(0.0, 1.0)]
    one.proven(8.0, 8.0)
    assert spans(one) == [(0.0, 3.0), (8.0, 8.0)][:1]
    one.proven(9.0, 9.0)
    assert spans(one) == [(0.0, 3.0), (8.0, 9.0)]


STAMP = "2026-01-01T00:00:{:02d}Z"
ZERO = 1767225600.0


def test_lateness_is_what_no_clock_can_explain():
    """The server is 1000 s ahead of our clock; a stamp of a whole second may be up to a second old."""
    skew = lateness.Skew()
    assert skew.contradicts(STAMP.format(0), 5.0) is None, "nothing is known of its clock yet"
    skew.learn(STAMP.format(10), 9.9, 10.1)  # the server's second 10 is our 9.9 to 10.1, or up to one less
    low, high = skew.bounds()
    assert (low, high) == (pytest.approx(ZERO - 0.1), pytest.approx(ZERO + 1.1))
    assert skew.contradicts(STAMP.format(12), 13.0) is None
    assert skew.contradicts(STAMP.format(12), 20.0) == pytest.approx(13.1)


def test_a_stamp_from_the_future_says_that_a_clock_moved():
    """Nothing can be said of how late it is then, so that everything since the stream was last heard is in doubt."""
    skew = lateness.Skew()
    skew.learn(STAMP.format(10), 9.9, 10.1)
    assert skew.contradicts(STAMP.format(59), 11.0) == float("-inf")


def test_servers_whose_clocks_differ_accuse_nobody():
    """Two API servers three seconds apart: only what is late by both is late."""
    skew = lateness.Skew()
    skew.learn(STAMP.format(10), 10.0, 10.0)
    skew.learn(STAMP.format(14), 11.0, 11.0)
    assert skew.contradicts(STAMP.format(20), 20.9) is None
    assert skew.contradicts(STAMP.format(20), 30.0) is not None


@pytest.mark.parametrize(
    ("obj", "stamp"),
    [
        ({"metadata": {"name": "x"}}, ""),
        ({"metadata": {"creationTimestamp": STAMP.format(1)}}, STAMP.format(1)),
        (
            {
                "metadata": {
                    "creationTimestamp": STAMP.format(1),
                    "managedFields": [{"time": STAMP.format(7)}, {}],
                }
            },
            STAMP.format(7),
        ),
        (
            {"metadata": {"deletionTimestamp": STAMP.format(40), "deletionGracePeriodSeconds": 30}},
            STAMP.format(10),
        ),
        (
            {
                "kind": "Pod",
                "metadata": {"creationTimestamp": STAMP.format(1)},
                "status": {
                    "conditions": [
                        {"type": "PodScheduled", "status": "True", "lastTransitionTime": STAMP.format(5)},
                        {"type": "Ready", "status": "True", "lastTransitionTime": STAMP.format(9)},
                    ]
                },
            },
            STAMP.format(5),
        ),
    ],
    ids=["nothing", "made", "written", "deleted", "bound"],
)
def test_only_what_the_server_stamps_counts(obj, stamp):
    """Conditions of kubelets and controllers are written late by right, and prove nothing."""
    assert lateness.stamp_of(obj)[0] == stamp


def test_a_bind_in_the_second_of_the_creation_is_something_new():
    """The newest stamp is as it was, and there is one more."""
    made = {"kind": "Pod", "metadata": {"creationTimestamp": STAMP.format(5)}}
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": STAMP.format(5)}
    assert lateness.stamp_of({**made, "status": {"conditions": [condition]}}) > lateness.stamp_of(made)
