"""A streaming answer, read line by line, that another thread may end."""

from collections.abc import Callable, Iterator
from typing import Any

from pytest_gpucluster.kube import errors

LONGEST_LINE = 64 * 1024
"""Bytes of a line of a log; a longer one is cut into several."""
LONGEST_MESSAGE = 64 * 1024 * 1024
"""Bytes of a message of a watch, which has one object."""


def _check_end(rest: bytes) -> None:
    """Refuse to wait for the end of a message that is longer than any can be.

    Raises:
        ValueError: it is.
    """
    if len(rest) > LONGEST_MESSAGE:
        raise ValueError(f"a message of more than {LONGEST_MESSAGE // 2**20} MiB")


class Stream:
    """The lines of a streaming answer.

    `lines` belongs to one thread; `stop` may be called from any.
    """

    def __init__(self, response: Any, translate: Callable[[Exception], errors.Unreachable]) -> None:
        """Take a response whose body was not read, and what makes one-line errors of transport errors."""
        self._response = response
        self._translate = translate
        self._stopped = False

    def lines(self, *, text: bool = False) -> Iterator[bytes]:
        """Yield complete lines as they arrive.

        Args:
            text: yield empty lines and a last line without its end too, as a log has them, and one without end in
                pieces; in a stream of messages the one is a keep-alive and the other half a message.

        Raises:
            Unreachable: the connection broke or was silent for too long. A proper end just ends.
        """
        import urllib3  # noqa: PLC0415

        rest = b""
        try:
            for chunk in self._chunks():
                *whole, rest = (rest + chunk).split(b"\n")
                yield from (line for line in whole if text or line.strip())
                if text and len(rest) > LONGEST_LINE:
                    yield rest
                    rest = b""
                _check_end(rest)
            if text and rest:
                yield rest
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            # ValueError: reading a file that `stop` closed at the same moment.
            if not self._stopped:
                raise self._translate(error) from error
        finally:
            self._response.close()

    def stop(self) -> None:
        """End the stream: the reading thread sees its end."""
        self._stopped = True
        try:
            self._response.shutdown()
        except (AttributeError, RuntimeError, ValueError, OSError):
            # Already ended, or a client too old to shut down one side: the read timeout ends it then.
            self._stopped = True

    def close(self) -> None:
        """Give the connection up; for a stream that nobody reads."""
        self._response.close()

    def _chunks(self) -> Iterator[bytes]:
        if self._response.chunked:
            yield from self._response.read_chunked()
            return
        while data := self._response.read1(65536):
            yield data
