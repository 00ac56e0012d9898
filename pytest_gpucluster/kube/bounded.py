"""Answers that end: a body that never does takes neither the memory nor the time of a run."""

from collections.abc import Callable
from typing import Any

MOST = 256 * 1024 * 1024
"""Bytes of an answer: a page of 500 objects of half a megabyte each, the largest that etcd stores."""
MOST_OF_AN_ERROR = 1024 * 1024
"""Bytes of an answer that says why something was refused."""
LONGEST = 300.0
"""Seconds from the first byte of an answer to its last: its pieces may come slowly, but not without end."""
_PIECE = 256 * 1024


class Endless(Exception):  # noqa: N818 (says what happened)
    """An answer that did not end within its bounds; the text says which bound."""


def read(response: Any, now: Callable[[], float], *, most: int, cut: bool = False) -> bytes:
    """Return the body of a response that was not read yet, and give the connection back.

    Args:
        response: the response.
        now: the clock, in seconds.
        most: bytes that are read.
        cut: return the beginning of a longer body, as of a log, instead of raising.

    Raises:
        Endless: it is longer than `most`, or takes longer than `LONGEST`.
        Exception: what the transport raises.
    """
    end = now() + LONGEST
    pieces: list[bytes] = []
    size = 0
    whole = False
    try:
        while piece := response.read(_PIECE):
            size += len(piece)
            pieces.append(piece)
            late = now() > end
            if size > most or late:
                if cut:
                    return b"".join(pieces)[:most]
                why = f"took more than {LONGEST:.0f} s" if late else f"is longer than {most // 2**20} MiB"
                raise Endless(why)
        whole = True
    finally:
        if whole:
            response.release_conn()
        else:
            response.close()
    return b"".join(pieces)
