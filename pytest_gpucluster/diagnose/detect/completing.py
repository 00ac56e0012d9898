"""Gangs that cannot become whole, whatever room there is: members that nobody makes, minimums above what is left."""

import dataclasses
import re
from collections.abc import Iterator, Sequence

from pytest_gpucluster.diagnose.detect import restarting
from pytest_gpucluster.diagnose.detect.scheduling import room_words
from pytest_gpucluster.diagnose.detect.suspecting import LIKELY, SURE, fault
from pytest_gpucluster.diagnose.model import Stage, Suspect
from pytest_gpucluster.diagnose.situation import GOING, Situation
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Line
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.scheduling import jobsets
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
    named = {name for pod in s.pods for name in _names_group(pod)}
    return tuple(
        line for (kind, space, name), line in s.newest.items()
        if kind.partition(".")[0] == "PodGroup" and space == s.namespace and name in named
    )  # fmt: skip


def _names_group(pod: PodStory) -> set[str]:
    return {str(part[key]) for part in (pod.annotations, pod.labels) for key in GROUP_OF_POD if part.get(key)}


@dataclasses.dataclass(frozen=True)
class Rest:
    """What is left to be run of one PodGroup.

    Attributes:
        completions: how many pods of its Jobs have to run to the end in all.
        left: how many of these have not done so.
        parallelism: how many of them its Jobs run at a time.
    """

    completions: int
    left: int
    parallelism: int


def rest_of(s: Situation, members: Sequence[PodStory]) -> Rest | None:
    """Return what is left of the Jobs whose pods are members of one PodGroup, None if that is not told.

    A Job of a JobSet that made no pod yet may still join: it counts, and one that is still to be made makes the number
    unknown. A Job that is known to be in other PodGroups does not count.
    """
    mine = {fields.text(fields.owner(pod.last), "uid") for pod in members}
    others = {uid for pod in s.pods if (uid := fields.text(fields.owner(pod.last), "uid")) not in mine}
    found = [job for job in s.batch_jobs if job.uid not in others]
    if s.job is None or not found:
        return None
    if s.job.kind == names.JOBSET and set(jobsets.job_names(s.job)) - {job.name for job in s.batch_jobs}:
        return None
    completions = left = parallelism = 0
    for job in found:
        asked = fields.number(job.last, "spec", "completions")
        if asked is None:
            return None
        ended = [p for p in s.pods if p.phase == "Succeeded" and fields.owner(p.last).get("uid") == job.uid]
        completions += asked
        left += max(asked - max(fields.number(job.last, "status", "succeeded") or 0, len(ended)), 0)
        parallelism += fields.number(job.last, "spec", "parallelism") or 0
    return Rest(completions, left, parallelism)


def minimum_above_rest(s: Situation) -> Iterator[Suspect]:
    """The gang's minimum is larger than what is left to be run: it can never be met again."""
    if not s.batch_jobs or not s.unbound or s.ended:
        return
    for line in groups_of(s):
        least = fields.number(line.object, "spec", "minMember")
        least = least or fields.number(line.object, "spec", "schedulingPolicy", "gang", "minCount") or 0
        members = [pod for pod in s.pods if line.name in _names_group(pod)]
        waiting = [pod for pod in s.unbound if line.name in _names_group(pod)]
        rest = rest_of(s, members)
        if rest is None or not waiting or least <= rest.left:
            continue
        if any(line.name in _names_group(pod) for pod in s.bound):
            continue  # members still run: a scheduler may count them
        said = [w for p in waiting for w in p.waiting[-1:]]
        told = next(((w, m) for w in said if (m := TOO_FEW.search(w.message))), None)
        sure = told is not None and int(told[1]["least"]) == least
        group = fields.group_of(fields.text(line.object, "apiVersion"))
        of = " (parallelism)" if rest.parallelism == least else ""
        room, _ = room_words(s)
        cause = Cause(
            f"the gang's minimum is {least}{of} and {wording.count(rest.left, 'pod')} "
            f"{'is' if rest.left == 1 else 'are'} left of {rest.completions} completions: it can never be placed",
            f"lower minMember of the PodGroup to {rest.left} (kubectl edit podgroups.{group}{s.space} {line.name}), or "
            f"make completions a multiple of parallelism, and submit the {restarting.maker(s)} again",
        )
        seen = f"the scheduler says: {said[-1].message}" if said else "the scheduler says nothing about it"
        yield fault(
            "minimum-above-rest", Stage.PLACE, cause, seen + (f"; {room}" if room else ""), SURE if sure else LIKELY,
            where=(*wording.places(waiting), f"PodGroup/{line.name}"),
            evidence=(line.key, *(w.key for w in said[-1:])),
            look=(f"kubectl describe podgroups.{group}{s.space} {line.name}",),
        )  # fmt: skip
        return


def rest_waits(s: Situation) -> Iterator[Suspect]:
    """Pods of a batch Job, or a JobSet, that are left to be run have no place, and none of it runs."""
    if not s.batch_jobs or s.ended or not s.unbound or s.bound or not s.whole:
        return
    if s.now - min(p.created for p in s.unbound) <= s.patience or any(minimum_above_rest(s)):
        return
    said = [w.message for p in s.unbound for w in p.waiting[-1:] if w.message]
    cause = Cause(
        f"{wording.count(len(s.unbound), 'pod')} of the {restarting.maker(s)} "
        f"{'waits' if len(s.unbound) == 1 else 'wait'} for a node, but no pod of it runs",
        "read the scheduler's message about them, and compare the gang's minimum with the remaining completions",
    )
    room, _ = room_words(s)
    seen = f"the scheduler says: {said[-1]}" if said else "the scheduler says nothing about them"
    yield fault(
        "rest-waits", Stage.PLACE, cause, seen + (f"; {room}" if room else ""), LIKELY, where=wording.places(s.unbound),
        look=wording.repeat(s.gang) if s.gang else (),
    )  # fmt: skip
