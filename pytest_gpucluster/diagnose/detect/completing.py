"""Gangs that cannot become whole, whatever room there is: members that nobody makes, minimums above what is left."""

import re
from collections.abc import Iterator

from pytest_gpucluster.diagnose.detect.scheduling import room_words
from pytest_gpucluster.diagnose.detect.suspecting import LIKELY, SURE, fault
from pytest_gpucluster.diagnose.model import Stage, Suspect
from pytest_gpucluster.diagnose.situation import GOING, Situation
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Line
from pytest_gpucluster.evidence.objects.pods import FINISHED
from pytest_gpucluster.judge import wording
from pytest_gpucluster.plain import names
from pytest_gpucluster.requirement import Cause

GATED = ("", "Pending")
"""Phases of a PodGroup of Volcano in which its pods are not made yet, by design."""

GROUP_OF_POD = (
    "pod-group-name", "scheduling.k8s.io/group-name", "scheduling.x-k8s.io/pod-group",
    "pod-group.scheduling.sigs.k8s.io",
)  # fmt: skip
"""Annotations and labels in which pods name their PodGroup: of KAI, of Volcano, of the coscheduling plugin."""

TOO_FEW = re.compile(
    r"(?:required|minimum|needs?|minMember)\D{0,40}?(?P<least>\d+)\D{1,40}?(?:only|has|have|are)\D{0,20}?(?P<has>\d+)",
    re.IGNORECASE,
)
"""How schedulers say that a gang has fewer pods than its minimum."""


def never_made(s: Situation) -> Iterator[Suspect]:
    """Fewer pods exist than must run together, and nobody makes the others."""
    if s.gang is None or s.ended or s.whole or s.was_whole or s.phase in GOING or not s.minimum_known:
        return
    have = len({p.slot for p in s.pods})
    phase = s.group.phases[-1][1] if s.group is not None and s.group.phases else ""
    if have >= s.minimum or (not have and (s.group is None or s.group.native or phase in GATED)):
        return
    since = max([p.created for p in s.pods] + ([s.group.phases[-1][0]] if s.group and s.group.phases else []))
    if s.now - since <= s.silent or any(x.reason == "FailedCreate" for x in s.said_of_job):
        return  # they are being made, or the API server says why not: another detector's
    if any(p.deleted is not None or p.deleting is not None for p in s.gang.pods):
        return  # they were made, and went
    lack = s.minimum - have
    stated = (
        f"{'minCount' if s.group.native else 'minMember'} {s.minimum}"
        if s.group
        else f"a minimum of {s.minimum}"
    )
    maker = _maker(s)
    room, _ = room_words(s)
    made = f"only {have}" if have else "none"
    count = (
        f"{wording.count(lack, 'member')} {'was' if lack == 1 else 'were'} never created"
        if have
        else "no pod was created"
    )
    cause = Cause(
        f"{count}: the gang needs {stated}, and {wording.count(have, 'pod')} exist{'s' if have == 1 else ''}",
        f"see why {maker} made {made}: its status, its events and its log; or set the minimum to the number "
        "of existing pods",
    )
    seen = f"nothing was created for {s.now - since:.0f} s" + (f"; {room}" if room else "")
    yield fault(
        "members-never-made", Stage.CREATE, cause, seen, SURE, where=wording.places(s.pods) or (s.title,),
        rows=("GANG-001",), evidence=tuple(p.keys["created"] for p in s.pods[:4]), look=wording.repeat(s.gang),
    )  # fmt: skip


def _maker(s: Situation) -> str:
    """Return who makes the pods, as far as the evidence tells."""
    if s.job is not None and s.gang is not None:
        return f"the controller of {s.title}"
    owner = next((o for p in s.pods if (o := fields.owner(p.last))), None)
    owner = owner or (fields.owner(s.group.last) if s.group else None)
    if owner:
        return f"{owner.get('kind')}/{owner.get('name')}"
    return "the creator of the pods (they name no owner)"


def groups_of(s: Situation) -> tuple[Line, ...]:
    """Return the PodGroups, of whatever scheduler, that the pods name."""
    named = {
        str(part[key])
        for p in s.pods for part in (p.annotations, p.labels) for key in GROUP_OF_POD if part.get(key)
    }  # fmt: skip
    return tuple(
        line for (kind, space, name), line in s.newest.items()
        if kind.partition(".")[0] == "PodGroup" and space == s.namespace and name in named
    )  # fmt: skip


def left(s: Situation) -> int | None:
    """Return how many pods have still to run to the end, None where that is not told."""
    if s.job is None or s.job.kind != names.BATCH_JOB:
        return None
    completions = fields.number(s.job.last, "spec", "completions")
    done = fields.number(s.job.last, "status", "succeeded")
    done = max(done or 0, sum(p.phase == "Succeeded" for p in s.pods))
    return None if completions is None else max(completions - done, 0)


def minimum_above_rest(s: Situation) -> Iterator[Suspect]:
    """The gang's minimum is larger than what is left to be run: it can never be met again."""
    rest = left(s)
    if rest is None or not s.unbound or s.ended or s.job is None:
        return
    for line in groups_of(s):
        least = fields.number(line.object, "spec", "minMember")
        least = least or fields.number(line.object, "spec", "schedulingPolicy", "gang", "minCount") or 0
        running = sum(p.bound is not None and p.phase not in FINISHED for p in s.pods)
        if least <= rest or running:
            continue
        said = [w for p in s.unbound for w in p.waiting[-1:]]
        told = next(((w, m) for w in said if (m := TOO_FEW.search(w.message))), None)
        sure = told is not None and int(told[1]["least"]) == least
        parallelism = fields.number(s.job.last, "spec", "parallelism")
        completions = fields.number(s.job.last, "spec", "completions")
        group = fields.group_of(fields.text(line.object, "apiVersion"))
        of = " (parallelism)" if parallelism == least else ""
        room, _ = room_words(s)
        cause = Cause(
            f"the gang's minimum is {least}{of} and {wording.count(rest, 'pod')} {'is' if rest == 1 else 'are'} "
            "left of "
            f"{completions} completions: it can never be placed",
            f"lower minMember of the PodGroup to {rest} (kubectl edit podgroups.{group}{s.space} {line.name}), or "
            "make completions a multiple of parallelism, and submit the Job again",
        )
        seen = f"the scheduler says: {said[-1].message}" if said else "the scheduler says nothing about it"
        yield fault(
            "minimum-above-rest", Stage.PLACE, cause, seen + (f"; {room}" if room else ""), SURE if sure else LIKELY,
            where=(*wording.places(s.unbound), f"PodGroup/{line.name}"),
            evidence=(line.key, *(w.key for w in said[-1:])),
            look=(f"kubectl describe podgroups.{group}{s.space} {line.name}",),
        )  # fmt: skip
        return


def rest_waits(s: Situation) -> Iterator[Suspect]:
    """Pods of a batch Job that are left to be run have no place, and none of it runs."""
    if s.job is None or s.job.kind != names.BATCH_JOB or s.ended or not s.unbound or s.bound or not s.whole:
        return
    if s.now - min(p.created for p in s.unbound) <= s.patience or any(minimum_above_rest(s)):
        return
    said = [w.message for p in s.unbound for w in p.waiting[-1:] if w.message]
    cause = Cause(
        f"{wording.count(len(s.unbound), 'pod')} of the Job {'waits' if len(s.unbound) == 1 else 'wait'} for a "
        "node, but no pod of it runs",
        "read the scheduler's message about them, and compare the gang's minimum with the remaining completions",
    )
    room, _ = room_words(s)
    seen = f"the scheduler says: {said[-1]}" if said else "the scheduler says nothing about them"
    yield fault(
        "rest-waits", Stage.PLACE, cause, seen + (f"; {room}" if room else ""), LIKELY, where=wording.places(s.unbound),
        look=wording.repeat(s.gang) if s.gang else (),
    )  # fmt: skip
