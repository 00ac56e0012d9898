"""The fake clock, on which waits are tested without waiting."""

import threading

import pytest

from pytest_gpucluster.kube import clock


def test_fake_clock_runs_what_is_due_and_no_more():
    """A wait ends at the next planned action or at its timeout, whichever comes first."""
    fake, seen = clock.FakeClock(), []
    fake.at(2.0, lambda: seen.append(fake.monotonic()))
    condition = threading.Condition()
    assert not fake.wait(condition, 1.5)
    assert fake.monotonic() == 1.5
    assert fake.wait(condition, 1.0)
    assert seen == [2.0]
    assert not fake.pause(threading.Event(), 3.0)
    assert fake.monotonic() == 5.0


def test_fake_clock_refuses_to_wait_forever():
    """A wait without an end and without a plan is an error, not a hang."""
    with pytest.raises(RuntimeError, match="nothing is planned"):
        clock.FakeClock().wait(threading.Condition(), None)


def test_real_clock_wakes_on_notification():
    """The real clock waits on the condition itself."""
    condition, real = threading.Condition(), clock.RealClock()

    def notify() -> None:
        with condition:
            condition.notify_all()

    with condition:
        threading.Thread(target=notify).start()
        assert real.wait(condition, 10.0)
        assert not real.wait(condition, 0.0)
