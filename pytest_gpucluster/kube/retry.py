"""When a request is sent again: bounded, counted, and only where repeating cannot do harm."""

import dataclasses
import threading
from collections.abc import Callable
from typing import TypeVar

import tenacity

from pytest_gpucluster.kube import clock as clocks
from pytest_gpucluster.kube import counter as counters
from pytest_gpucluster.kube import errors

T = TypeVar("T")

BUSY = frozenset({429, 500, 502, 503, 504})
"""Answers after which an idempotent request may be repeated (the set client-go and the API conventions name)."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """How patient the driver is, in seconds.

    Attributes:
        connect: for a TCP and TLS connection.
        read: for an answer.
        attempts: sends of one request, the first included.
        total: from the first send to the last.
        first_pause: before the first repeat; doubles after each, with jitter.
        longest_pause: upper bound of one pause, whatever the server asks for.
    """

    connect: float = 5.0
    read: float = 15.0
    attempts: int = 5
    total: float = 30.0
    first_pause: float = 0.1
    longest_pause: float = 10.0


def cause(error: BaseException, *, idempotent: bool) -> str | None:
    """Return why a request that failed so may be repeated, None when it may not.

    429 is answered before anything is done, and a refused connection reached nobody: both are safe for every verb.
    """
    if isinstance(error, errors.ApiError):
        if error.code == 429:
            return "429"
        return str(error.code) if idempotent and error.code in BUSY else None
    if isinstance(error, errors.Unreachable) and error.brief:
        if not error.sent:
            return "refused"
        return "reset" if idempotent else None
    return None


def call(
    send: Callable[[], T],
    *,
    idempotent: bool,
    limits: Limits,
    clock: clocks.Clock,
    counter: counters.RequestCounter,
) -> T:
    """Return what `send` returns, repeating it after trouble that may pass.

    Raises:
        ApiError, Unreachable: the last one, when it may not be repeated or patience ended.
    """
    deadline = clock.monotonic() + limits.total
    back_off = tenacity.wait_random_exponential(multiplier=limits.first_pause, max=limits.longest_pause)
    never = threading.Event()

    def pause(state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked = error.retry_after if isinstance(error, errors.ApiError) else None
        return min(asked, limits.longest_pause) if asked is not None else back_off(state)

    def over(state: tenacity.RetryCallState) -> bool:
        return state.attempt_number >= limits.attempts or clock.monotonic() + state.upcoming_sleep > deadline

    def note(state: tenacity.RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        counter.retried((error and cause(error, idempotent=idempotent)) or "?")

    def rest(seconds: float) -> None:
        clock.pause(never, seconds)

    def may(error: BaseException) -> bool:
        return cause(error, idempotent=idempotent) is not None

    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(may),
        wait=pause,
        stop=over,
        sleep=rest,
        before_sleep=note,
        reraise=True,
    )(send)
