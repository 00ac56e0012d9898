"""The cycle collector pauses while anybody reads, and goes on after the last one."""

import gc

import pytest

from pytest_gpucluster.plain import collector


def test_the_last_reader_lets_it_go_on():
    """Readers overlap: the first to end does not switch it on for the others."""
    assert gc.isenabled()
    first, second = collector.paused(), collector.paused()
    first.__enter__()
    second.__enter__()
    assert not gc.isenabled()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()


def test_who_had_switched_it_off_keeps_it_off():
    """It is as it was, also after an error."""
    gc.disable()
    try:
        with pytest.raises(ZeroDivisionError), collector.paused():
            raise ZeroDivisionError
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_what_somebody_else_froze_stays_so_and_is_counted_once(monkeypatch):
    """Counting takes as long as there are objects: where all tests froze theirs, each reading would go through them."""
    counted = []
    monkeypatch.setattr(collector._Pause, "others", False)
    monkeypatch.setattr(collector.gc, "get_freeze_count", lambda: counted.append(1) or 7)
    monkeypatch.setattr(collector.gc, "unfreeze", lambda: pytest.fail("theirs was thawed"))
    for _ in range(3):
        with collector.paused():
            pass
    assert counted == [1]
