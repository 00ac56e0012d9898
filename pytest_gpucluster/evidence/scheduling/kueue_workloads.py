"""Workloads of Kueue: what was promised, the quota that they held, and what their conditions say.

A Workload's conditions explain; what counts is `status.admission` (the quota it holds) and its pods. Conditions stay
after they have ceased to be true: only their status is read, never that they are there.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from pytest_gpucluster.evidence.log import fields, order
from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.evidence.objects import owners
from pytest_gpucluster.evidence.objects.owners import Said

WORKLOAD = "Workload"
CLUSTER_QUEUE = "ClusterQueue"
LOCAL_QUEUE = "LocalQueue"
FLAVOR = "ResourceFlavor"
GROUP = "kueue.x-k8s.io"

JOB_UID = "kueue.x-k8s.io/job-uid"
"""Label of a Workload: the uid of its Job."""


@dataclasses.dataclass(frozen=True)
class Reserved:
    """A span in which a Workload held quota: `status.admission` was filled.

    Attributes:
        end: infinite where it holds it to the end of the evidence.
        count: pods that it was admitted with.
        least: pods that it had to be admitted with: all, or what its owner said will do.
        amounts: resource -> how much of it.
        admitted: when its condition Admitted was first True in it, None if never.
        seen: whether its beginning was seen: else it was held already when the Workload was seen first.
        ended: key of the line that shows its end, "" where there is none.
        version: of the line that shows its beginning, None if it tells none.
        ended_version: of the line that shows its end.
    """

    start: float
    end: float
    queue: str
    count: int
    least: int
    amounts: Mapping[str, Fraction]
    admitted: float | None
    key: str
    seen: bool = True
    ended: str = ""
    version: int | None = None
    ended_version: int | None = None


@dataclasses.dataclass(frozen=True)
class Workload:
    """The life of one Workload.

    Attributes:
        said: its conditions, one entry per change of status, reason or message, as things said (reason: the
            condition's reason, type: `QuotaReserved=False` and the like).
        reserved: when it held quota, in order.
        finished: when its condition Finished was first True.
        requeues: how often it was put back into its queue after a timeout.
        reclaims: when it first gave back quota of pods that had ended (`status.reclaimablePods`).
    """

    uid: str
    name: str
    namespace: str
    job_uid: str
    queue: str
    created: float
    deleted: float | None
    said: tuple[Said, ...]
    reserved: tuple[Reserved, ...]
    finished: float | None
    requeues: int
    reclaims: float | None
    last: fields.Object
    key: str

    @property
    def end(self) -> float:
        """Return when it ceased to count against quota for good: finished or gone; infinite if not seen."""
        return min((t for t in (self.finished, self.deleted) if t is not None), default=math.inf)

    def holding(self, t: float) -> Reserved | None:
        """Return the quota it held at a time, None where it held none; a finished one holds none."""
        if t >= self.end:
            return None
        return next((one for one in self.reserved if one.start <= t < one.end), None)

    def when(self, kind: str, status: str = "True", reason: str = "") -> list[Said]:
        """Return when a condition took a status (for a reason), in order."""
        mark = f"{kind}={status}"
        return [one for one in self.said if one.type == mark and reason in ("", one.reason)]

    @property
    def refusals(self) -> list[Said]:
        """Return why no quota was reserved, while none was."""
        return [one for one in self.when("QuotaReserved", "False") if self.holding(one.t) is None]


def workloads(evidence: Evidence) -> tuple[Workload, ...]:
    """Return every Workload of Kueue, in order of first appearance."""
    return evidence.derived(_workloads)


def _workloads(evidence: Evidence) -> tuple[Workload, ...]:
    found = [_workload(evidence.history(uid)) for uid in evidence.uids(WORKLOAD) if uid]
    return tuple(one for one in found if fields.group_of(fields.text(one.last, "apiVersion")) in ("", GROUP))


def _workload(lines: tuple[Line, ...]) -> Workload:
    last = lines[-1].object
    said = _said(lines)
    finished = [one.t for one in said if one.type == "Finished=True"]
    labels = fields.sub(last, "metadata", "labels")
    return Workload(
        uid=lines[-1].uid,
        name=lines[-1].name,
        namespace=fields.text(last, "metadata", "namespace"),
        job_uid=str(labels.get(JOB_UID) or fields.owner(last).get("uid") or ""),
        queue=fields.text(last, "spec", "queueName"),
        created=lines[0].t,
        deleted=lines[-1].t if lines[-1].type == "DELETED" else None,
        said=said,
        reserved=_reserved(lines),
        finished=finished[0] if finished else None,
        requeues=max(fields.number(line.object, "status", "requeueState", "count") or 0 for line in lines),
        reclaims=next(
            (line.t for line in lines if fields.items(line.object, "status", "reclaimablePods")), None
        ),
        last=last,
        key=lines[0].key,
    )


def _said(lines: Iterable[Line]) -> tuple[Said, ...]:
    found: list[Said] = []
    now: dict[str, tuple[str, str, str]] = {}
    for line in lines:
        for c in fields.items(line.object, "status", "conditions"):
            kind = str(c.get("type"))
            told = str(c.get("status")), str(c.get("reason") or ""), str(c.get("message") or "")
            if now.get(kind) != told:
                now[kind] = told
                where = f"{WORKLOAD}/{line.name}"
                found.append(Said(line.t, "kueue", where, f"{kind}={told[0]}", told[1], told[2], line.key))
    return tuple(found)


def _reserved(lines: Sequence[Line]) -> tuple[Reserved, ...]:
    found: list[Reserved] = []
    now: Reserved | None = None
    for number, line in enumerate(lines):
        admission = fields.sub(line.object, "status", "admission")
        gone = line.type == "DELETED" or not admission
        if now is not None and gone:
            found.append(
                dataclasses.replace(now, end=line.t, ended=line.key, ended_version=order.version(line))
            )
            now = None
        if gone:
            continue
        if now is None:
            parts = fields.items(admission, "podSetAssignments")
            queue = fields.text(admission, "clusterQueue")
            count = sum(fields.number(part, "count") or 0 for part in parts)
            now = Reserved(
                line.t,
                math.inf,
                queue,
                count,
                _least(line.object),
                _amounts(parts),
                None,
                line.key,
                number > 0,
                version=order.version(line),
            )
        if now.admitted is None and fields.condition(line.object, "Admitted").get("status") == "True":
            now = dataclasses.replace(now, admitted=line.t)
    return tuple(found) if now is None else (*found, now)


def _least(workload: fields.Object) -> int:
    sets = fields.items(workload, "spec", "podSets")
    return sum(fields.number(one, "minCount") or fields.number(one, "count") or 0 for one in sets)


def _amounts(parts: Iterable[fields.Object]) -> dict[str, Fraction]:
    total: dict[str, Fraction] = {}
    for part in parts:
        for resource, amount in fields.sub(part, "resourceUsage").items():
            total[resource] = total.get(resource, Fraction(0)) + fields.quantity(amount)
    return total


def events_about(evidence: Evidence, workload: Workload) -> tuple[Said, ...]:
    """Return what was said in events about a Workload."""
    return owners.said_about(evidence, WORKLOAD, workload.namespace, workload.name, workload.uid)
