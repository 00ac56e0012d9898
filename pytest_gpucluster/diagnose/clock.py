"""When a log line was written, as far as it says so itself: dumps tell only when it was read."""

import re
from datetime import UTC, datetime, timedelta

from pytest_gpucluster.diagnose.history import is_snapshot, when
from pytest_gpucluster.diagnose.situation import Situation
from pytest_gpucluster.evidence.log import fields

FULL = re.compile(
    r"(?<!\d)(?P<day>\d{4}-\d\d-\d\d)[T ](?P<clock>\d\d:\d\d:\d\d)(?P<part>[.,]\d{1,9})?(?P<zone>Z|[+-]\d\d:?\d\d)?"
)
"""A date with its year, as loggers, NCCL and `kubectl logs --timestamps` write it."""
SHORT = re.compile(
    r"(?:^|[\[\s:])[IWEF](?P<month>\d\d)(?P<day>\d\d) (?P<clock>\d\d:\d\d:\d\d)(?P<part>\.\d{1,9})?"
)
"""The time that torch puts before its lines, without a year: `[E1005 09:33:21.103`."""
HEAD = 160
"""Characters from the beginning of a line in which its time stands."""
SLACK = 5.0
"""Seconds by which clocks of machines may differ."""


def base(s: Situation) -> datetime | None:
    """Return the time of day of second 0 of the evidence, None where no object tells it."""
    for pod in s.pods:
        made = when(fields.text(pod.last, "metadata", "creationTimestamp"))
        if made is not None:
            return made - timedelta(seconds=pod.created)
    return None


def printed(text: str, year: int) -> datetime | None:
    """Return the time that a line carries; one without a zone is taken for UTC.

    Args:
        text: the line.
        year: the year of a time that has none.
    """
    head = text[:HEAD]
    if (found := FULL.search(head)) is not None:
        zone = (found["zone"] or "Z").replace("Z", "+00:00")
        told = f"{found['day']}T{found['clock']}{_part(found['part'])}{zone}"
    elif (found := SHORT.search(head)) is not None:
        told = f"{year:04}-{found['month']}-{found['day']}T{found['clock']}{_part(found['part'])}+00:00"
    else:
        return None
    try:
        return datetime.fromisoformat(told).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _part(text: str | None) -> str:
    return f".{text[1:7]:0<6}" if text else ""


def written(s: Situation, text: str, read: float) -> float | None:
    """Return the second of the evidence at which a line was written; None where nothing tells it.

    Args:
        s: the situation.
        text: the line.
        read: the second at which it was read, which counts in a stream that follows logs.
    """
    start = base(s)
    told = printed(text, start.year) if start is not None else None
    if start is not None and told is not None:
        at = (told - start).total_seconds()
        if min((p.created for p in s.pods), default=0.0) - SLACK <= at <= s.now + SLACK:
            return at
    return None if is_snapshot(s.evidence) else read
