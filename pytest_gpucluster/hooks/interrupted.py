"""A run that is interrupted ends with its summary, wherever the interrupt arrived."""

from types import TracebackType

import pytest


def drop_places_without_line(traceback: TracebackType | None) -> None:
    """Take out of a traceback, in place, what has no line, but for its first entry.

    CPython 3.11 makes instructions that belong to no line. An interrupt that arrives at one gives an entry whose
    `tb_lineno` is None, with which pytest cannot calculate: it would end with a traceback of its own.
    """
    while traceback is not None and (following := traceback.tb_next) is not None:
        if following.tb_lineno is None:
            traceback.tb_next = following.tb_next
        else:
            traceback = following


@pytest.hookimpl(tryfirst=True)
def pytest_keyboard_interrupt(excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    """Let pytest show where a run was interrupted.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_keyboard_interrupt
    """
    drop_places_without_line(excinfo.tb)
