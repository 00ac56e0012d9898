"""The errors of the driver: facts as fields, one line of text each."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from pytest_gpucluster.plain import shortening


class GpuClusterError(Exception):
    """The root of all errors that a user is meant to read."""


class EnvironmentProblem(GpuClusterError):  # noqa: N818 (a verdict, not a fault of ours)
    """Something outside the requirement under test is missing or refused: the verdict is `environment`.

    Attributes:
        fix: what mends it, "" where that is not known.
    """

    def __init__(self, text: str, *, fix: str = "") -> None:
        """Say what is missing, and what mends it."""
        super().__init__(text)
        self.fix = fix


class Unreachable(EnvironmentProblem):
    """The API server did not answer: refused, reset, TLS, no name, or silent for too long.

    Attributes:
        sent: whether the request may have reached the server, so that only idempotent ones can be repeated.
        brief: whether trying again at once may help (refused or reset), as against a time that ran out.
    """

    def __init__(self, text: str, *, sent: bool = True, brief: bool = False) -> None:
        """Say what happened, whether the server may have acted, whether repeating makes sense."""
        super().__init__(text)
        self.sent = sent
        self.brief = brief


SHOWN = 1000
"""Characters of a server's words that the text of an error has; `message` has them all."""


class ApiError(GpuClusterError):
    """The API server answered with an error status.

    Attributes:
        code: HTTP status code.
        reason: reason of the Status object such as `NotFound`, or the HTTP reason.
        message: the server's own words.
        body: the whole answer; a Status object where the server sent one.
        request: what was asked, such as `create Pod/x in ns`.
        retry_after: seconds of the Retry-After header, None without one.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        body: Mapping[str, Any] | None = None,
        request: str = "",
        retry_after: float | None = None,
    ) -> None:
        """Take the facts; the text is made of them."""
        self.code = code
        self.reason = reason
        self.message = message
        self.body: Mapping[str, Any] = dict(body or {})
        self.request = request
        self.retry_after = retry_after
        said = message if len(message) <= SHOWN else shortening.shown(message, SHOWN)
        super().__init__(f"{request or 'request'}: {code} {reason}: {said}".rstrip(": "))

    @property
    def denied(self) -> bool:
        """Report whether credentials or permissions are what is missing (401; 403 that is no quota or webhook)."""
        if self.code == 403:
            words = ("exceeded quota", "admission webhook", "is being terminated", "violates PodSecurity")
            return not any(word in self.message for word in words)
        return self.code == 401


@dataclasses.dataclass(frozen=True)
class LeftOver:
    """Something of ours that cleanup could not remove.

    Attributes:
        kind: kind key, or `slots` for a slot resource on a node.
        namespace: its namespace, "" for cluster-scoped objects.
        name: its name.
        why: why it is still there.
    """

    kind: str
    namespace: str
    name: str
    why: str

    def __str__(self) -> str:
        """Return one line."""
        place = f" in {self.namespace}" if self.namespace else ""
        return f"{self.kind}/{self.name}{place}: {self.why}"


class CleanupFailed(GpuClusterError):  # noqa: N818 (says what happened)
    """Objects of ours are still in the cluster.

    Attributes:
        left: what was left.
        run_id: the run, for `gpucluster cleanup --run`.
    """

    def __init__(self, left: tuple[LeftOver, ...], run_id: str) -> None:
        """Name what is left and the command that removes it."""
        self.left = left
        self.run_id = run_id
        listed = "; ".join(str(item) for item in left)
        super().__init__(f"left in the cluster: {listed}; remove with: gpucluster cleanup --run {run_id}")
