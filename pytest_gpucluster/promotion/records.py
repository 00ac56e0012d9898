"""What a promotion writes beside the queue's state: annotations that say who opened it and on what, and an Event."""

import dataclasses
import getpass
import socket
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from pytest_gpucluster.kube import errors, objects
from pytest_gpucluster.plain import names, times
from pytest_gpucluster.promotion.targets import Target

Obj = dict[str, Any]

PREFIX = f"{names.DOMAIN}/promotion"
STATE, AT, BY, POLICY, RUNS, UNTIL, UNCHANGED, LAPSES = (
    PREFIX, f"{PREFIX}-at", f"{PREFIX}-by", f"{PREFIX}-policy", f"{PREFIX}-runs", f"{PREFIX}-until",
    f"{PREFIX}-unchanged", f"{PREFIX}-lapses",
)  # fmt: skip

OPENING, TRIAL, OPENED, HELD, FAILED = "opening", "on trial", "open", "held", "not opened"
CLAIMS = (OPENING, TRIAL)
"""States in which another promotion is at work."""
ALIVE = 120.0
"""Seconds after which a trial whose claim nobody renewed counts as cut off."""

NAMESPACE = "default"
"""Where Events of cluster-scoped objects are."""
_LONGEST = 1000
"""Characters of an Event's message; the API takes 1024."""
_PIPELINES = (
    ("GITHUB_ACTOR", ("GITHUB_REPOSITORY", "GITHUB_RUN_ID"), "GitHub run {0}/actions/runs/{1}"),
    ("GITLAB_USER_LOGIN", ("CI_JOB_URL",), "GitLab job {0}"),
)


@dataclasses.dataclass(frozen=True)
class Record:
    """On what a queue is opened.

    Attributes:
        by: who or what promotes.
        policy: name of the policy.
        runs: id of each run -> its digest.
        until: when the first evidence becomes too old; None if nobody knows.
        at: when it was decided.
    """

    by: str
    policy: str
    runs: Mapping[str, str]
    until: datetime | None
    at: datetime

    def annotations(self) -> dict[str, str | None]:
        """Return the annotations that say it; None takes one away."""
        return {
            AT: times.format_time(self.at),
            BY: self.by,
            POLICY: self.policy or None,
            RUNS: ", ".join(f"{run}=sha256:{digest}" for run, digest in self.runs.items()) or None,
            UNTIL: times.format_time(self.until) if self.until else None,
        }

    @property
    def mark(self) -> tuple[str | None, ...]:
        """Return the annotations by which a claim is known as this promotion's."""
        told = self.annotations()
        return told[AT], told[BY], told[RUNS]

    def claim(self, state: str, seconds: float) -> dict[str, str | None]:
        """Return the annotations that say that this promotion is at work, for at most some seconds."""
        lapses = times.now() + timedelta(seconds=seconds)
        return {STATE: state, LAPSES: times.format_time(lapses), **self.annotations()}

    def done(self, state: str) -> dict[str, str | None]:
        """Return the annotations that say how it ended."""
        return {STATE: state, LAPSES: None, **self.annotations()}


def another(target: Target) -> str:
    """Return who else is at work on a queue and since when, "" if nobody is."""
    claimed = target.annotations.get(STATE) in CLAIMS
    return _claimant(target) if claimed and not _lapsed(target) else ""


def cut_off(target: Target) -> str:
    """Return whose trial of a queue was cut off and when it began, "" if none was.

    The trial, and the guard that would have closed the queue after it, are gone: nobody has renewed the claim in time.
    """
    tried = target.annotations.get(STATE) == TRIAL
    return _claimant(target) if tried and _lapsed(target) else ""


def _lapsed(target: Target) -> bool:
    try:
        return times.parse_time(str(target.annotations.get(LAPSES))) < times.now()
    except ValueError:
        return True


def _claimant(target: Target) -> str:
    return f"{target.annotations.get(BY) or 'somebody'} since {target.annotations.get(AT) or '?'}"


def claimed_by(target: Target, record: Record) -> bool:
    """Report whether a queue bears the claim of a promotion."""
    told = target.annotations
    return told.get(STATE) in CLAIMS and (told.get(AT), told.get(BY), told.get(RUNS)) == record.mark


def last(target: Target) -> tuple[Any, ...]:
    """Return what the last promotion wrote: another value says that another promotion came in between."""
    return tuple(target.annotations.get(key) for key in (STATE, AT, BY, RUNS))


def unchanged(target: Target) -> range:
    """Return the generations of a queue between which only promotions wrote to it; none if nobody tells."""
    first, _, final = str(target.annotations.get(UNCHANGED) or "").partition("-")
    return range(int(first), int(final) + 1) if first.isdecimal() and final.isdecimal() else range(0)


def promoter(environment: Mapping[str, str]) -> str:
    """Return who or what promotes: of a pipeline its user and job, else the user and the machine."""
    for user, more, text in _PIPELINES:
        if environment.get(user):
            return f"{environment[user]}, {text.format(*(environment.get(each, '?') for each in more))}"
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = "somebody"
    return f"{name} on {socket.gethostname()}"


def event(api: objects.Objects, target: Target, reason: str, message: str, *, warning: bool = False) -> str:
    """Write an Event about a queue; return why it could not be written, "" if it was."""
    now = times.format_time(times.now())
    metadata = target.obj.get("metadata") or {}
    about = {
        "apiVersion": target.info.api_version,
        "kind": target.kind,
        "name": target.name,
        "uid": metadata.get("uid"),
        "resourceVersion": metadata.get("resourceVersion"),
    }
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{target.name}.", "namespace": NAMESPACE},
        "involvedObject": about,
        "reason": reason,
        "message": message if len(message) <= _LONGEST else f"{message[: _LONGEST - 4]} ...",
        "type": "Warning" if warning else "Normal",
        "source": {"component": "gpucluster"},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
    try:
        api.create(body, namespace=NAMESPACE)
    except errors.GpuClusterError as error:
        return " ".join(str(error).split())
    return ""
