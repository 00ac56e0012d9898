"""Leases: one holder at a time, waited for by watch, free when the holder is dead."""

import threading
import time

import pytest

from pytest_gpucluster.kube import connection, errors, leases, objects
from tests.embedded.support import control_plane


@pytest.fixture(scope="module")
def url():
    """A control plane."""
    with control_plane({"volcano": False}) as ready:
        yield ready["url"]


@pytest.fixture
def lease(url):
    """Return a function that makes a taker's side; what is held is given back."""
    made, opened = [], []

    def make(holder, duration=30):
        opened.append(connection.Connection.at(url))
        one = leases.Lease(
            objects.Objects(opened[-1]), leases.Terms("default", "turn", holder, duration=duration)
        )
        made.append(one)
        return one

    yield make
    for one in made:
        if one.uid:
            one.give_back()
    for each in opened:
        each.close()


def present(url):
    """Return the Leases that are there."""
    opened = connection.Connection.at(url)
    found = objects.Objects(opened).list(leases.LEASE, "default")
    opened.close()
    return found


def requests(one):
    """Return how many requests a taker made."""
    return one._api.connection.counter.total


def test_a_free_lease_costs_two_requests_and_leaves_nothing(url, lease):
    """Take and give back."""
    one = lease("a")
    one.take(1.0)
    spec = present(url)[0]["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("a", 30)
    assert one.renew()
    assert present(url)[0]["spec"]["renewTime"] > spec["renewTime"]
    one.give_back()
    assert present(url) == []
    assert requests(one) == 3


def test_the_next_takes_it_when_it_is_given_back(lease):
    """Who waits wakes by the watch, is told once for whom it waits, and asks little."""
    first, second = lease("first"), lease("second")
    first.take(1.0)
    told, taken = [], threading.Event()

    def wait():
        second.take(20.0, told.append)
        taken.set()

    thread = threading.Thread(target=wait)
    thread.start()
    while not told:
        time.sleep(0.01)  # until it waits
    assert not taken.wait(0.2)
    began = time.monotonic()
    first.give_back()
    assert taken.wait(5)
    assert time.monotonic() - began < 2
    thread.join()
    assert len(told) == 1
    assert "first (since 20" in told[0]
    assert "the Lease default/turn; waiting for at most 20 s" in told[0]
    assert requests(second) == 4  # create, list, watch, create


def test_who_does_not_get_it_in_time_is_told_who_has_it(lease):
    """The budget bounds the wait; the holder keeps it."""
    first, second = lease("first"), lease("second")
    first.take(1.0)
    with pytest.raises(leases.Held, match=r"another run is on this cluster: first \(since .* waited 0\.3 s"):
        second.take(0.3)
    assert first.renew()


def test_a_dead_holder_is_replaced_after_its_duration(lease):
    """No renewal is seen for the duration: the lease is taken; a holder that comes back sees that it lost it."""
    dead, heir = lease("dead", duration=1), lease("heir")
    dead.take(1.0)
    began = time.monotonic()
    heir.take(20.0)
    assert 0.9 < time.monotonic() - began < 10
    assert not dead.renew()
    dead.give_back()  # not its own any more
    assert heir.renew()


def test_a_living_holder_is_not_replaced(lease):
    """A renewal begins the time anew."""
    alive, other = lease("alive", duration=1), lease("other")
    alive.take(1.0)
    stop = threading.Event()

    def renew():
        while not stop.wait(0.3):
            assert alive.renew()

    thread = threading.Thread(target=renew)
    thread.start()
    try:
        with pytest.raises(leases.Held):
            other.take(2.5)
    finally:
        stop.set()
        thread.join()


def test_a_holder_that_was_killed_and_comes_again_waits_for_nobody(lease):
    """The same run does not wait for itself."""
    killed, again = lease("run-1", duration=600), lease("run-1", duration=600)
    killed.take(1.0)
    killed.uid = ""
    began = time.monotonic()
    again.take(30.0)
    assert time.monotonic() - began < 5


def test_a_lease_that_may_not_be_taken_is_an_error(lease):
    """Trouble with the request is passed on."""
    one = lease("a")
    one.terms = leases.Terms("nowhere", "turn", "a")
    with pytest.raises(errors.ApiError, match="404"):
        one.take(1.0)
