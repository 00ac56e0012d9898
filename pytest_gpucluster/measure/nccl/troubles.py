"""What went wrong, and who said so first: errors by class, and warnings whose meaning nobody knows.

An error of a class that follows from others (`faults.FOLLOWS`) decides only where no other is there. Times are compared
where both lines have one; else the order in which the log has them counts.
"""

import dataclasses
import datetime as dt
import re
from collections.abc import Callable, Iterable, Mapping

from pytest_gpucluster.measure.nccl import faults
from pytest_gpucluster.measure.nccl.observations import Process, Seen, Trouble

_SOONER = 5.0
"""Seconds by which an error must be later to be the consequence of one that it usually causes."""
_TIME = re.compile(r"(?:\d{4}-)?(?P<month>\d\d)-(?P<day>\d\d) (?P<clock>\d\d:\d\d:\d\d)(?P<part>\.\d{1,6})?")


@dataclasses.dataclass(frozen=True)
class Told:
    """An error or a warning, with who printed it.

    Attributes:
        fault: what it says; its class is "" where nobody knows what it means.
        rank: who printed it; -1 where that is not known.
        host: of that rank; "" where it is not known.
        where: file and line of NCCL's source.
        moment: when, as far as it has a time; without a year.
        order: its place in the log.
        fatal: whether nothing goes on after it.
        result: what the call of NCCL returned that failed with it; 0 where that is not seen.
    """

    fault: faults.Fault
    rank: int
    host: str
    where: str
    moment: dt.datetime | None
    order: int
    fatal: bool
    result: int = 0

    @property
    def kind(self) -> str:
        """Return its class."""
        return self.fault.kind

    @property
    def follows(self) -> bool:
        """Report whether it usually follows from another error."""
        return self.kind in faults.FOLLOWS or (self.kind == "ib_completion_error" and self.fault.status == 5)


def moment(stamp: str) -> dt.datetime | None:
    """Return a time that can be compared with others of the same job; None where there is none."""
    match = _TIME.match(stamp)
    if match is None:
        return None
    text = f"2000-{match['month']}-{match['day']} {match['clock']}{match['part'] or ''}"
    try:
        return dt.datetime.fromisoformat(text)
    except ValueError:
        return None


def known(
    seen: Seen, host: Callable[[str], str], ranks: Mapping[Process, int], hosts: Mapping[int, str]
) -> tuple[Told, ...]:
    """Return the errors of known classes, the one that decides first."""
    found = [
        _told(trouble, host, ranks, hosts, fatal=trouble.fault.kind in faults.FATAL)
        for trouble in seen.troubles.values()
    ]
    return tuple(_by_cause(found))


def unknown(
    seen: Seen, host: Callable[[str], str], ranks: Mapping[Process, int], hosts: Mapping[int, str]
) -> tuple[Told, ...]:
    """Return the warnings and errors that belong to no class, the first first.

    One is fatal where a call of NCCL in the same process failed, or its communicator was aborted.
    """
    aborted = {process for process, _ in seen.aborts}
    found = []
    for trouble in seen.warned.values():
        result = seen.traces.get(trouble.process, ("", 0))[1]
        fatal = trouble.process.pid >= 0 and (bool(result) or trouble.process in aborted)
        found.append(_told(trouble, host, ranks, hosts, fatal=fatal, result=result))
    ordered = sorted(found, key=lambda one: one.order)
    return tuple(one for n, one in enumerate(ordered) if not _is_head(one, ordered[n + 1 :]))


def _is_head(one: Told, later: Iterable[Told]) -> bool:
    """Report whether one is the head of a trace of Python whose last line, which tells the error, is there too."""
    return "Traceback (most recent call last)" in one.fault.detail and any(
        (other.rank, other.host) == (one.rank, one.host) and "Traceback" not in other.fault.detail
        for other in later
    )


def _told(
    trouble: Trouble, host: Callable[[str], str], ranks: Mapping[Process, int], hosts: Mapping[int, str],
    *, fatal: bool, result: int = 0,
) -> Told:  # fmt: skip
    rank = trouble.rank if trouble.rank >= 0 else ranks.get(trouble.process, -1)
    name = host(trouble.process.host) or trouble.pod or hosts.get(rank, "")
    return Told(
        trouble.fault,
        rank,
        name,
        trouble.where,
        moment(trouble.stamp),
        trouble.order,
        fatal=fatal,
        result=result,
    )


def _by_cause(found: Iterable[Told]) -> list[Told]:
    ordered = sorted(found, key=lambda one: (not one.fatal, one.follows, one.order))
    fatal = [one for one in ordered if one.fatal]
    roots = [one for one in fatal if not one.follows]
    timed = [one.moment for one in fatal if one.moment is not None]
    if timed and roots and all(one.moment is not None for one in roots):
        first = min(one.moment for one in roots if one.moment is not None)
        if (first - min(timed)).total_seconds() > _SOONER:
            # What usually follows was there before: it does not follow from these.
            return sorted(ordered, key=lambda one: (not one.fatal, one.moment or first, one.order))
        return sorted(ordered, key=lambda one: (not one.fatal, one.follows, one.moment or first, one.order))
    if fatal and not roots and len(timed) == len(fatal):
        return sorted(ordered, key=lambda one: (not one.fatal, one.moment or timed[0], one.order))
    return ordered
