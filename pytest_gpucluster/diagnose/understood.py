"""What of a job could not be read or is not known here: it is never good news, whatever the rest says."""

import re
from collections.abc import Iterator, Mapping

from pytest_gpucluster.diagnose import clock, machines, words
from pytest_gpucluster.diagnose.owning import workloads_of
from pytest_gpucluster.diagnose.situation import FINAL, GOING, Situation
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import EVERY_KIND
from pytest_gpucluster.evidence.objects.pods import FINISHED, PodStory
from pytest_gpucluster.plain import names

QUIET = 60.0
"""Seconds after which a job that writes nothing is not called healthy: a step of training is shorter as a rule."""
TAIL = 60
"""Lines from the end of a log in which an error is looked for."""
ERROR = re.compile(
    r"^(?:\[?rank ?\d+\]?:? ?)?"
    r"(?:[\w.]*(?:Error|Exception)\b(?:: |$)|Traceback \(most recent call last|CUDA error)"
)
"""A line by which Python or CUDA says that something went wrong."""
POD_PHASES = ("Pending", "Running", *FINISHED)
JOB_PHASES = ("", "Pending", "Running", "Unknown", *GOING, *FINAL)
GROUP_PHASES = ("", "Pending", "Inqueue", "Running", "Unknown", "Completed")
CONDITIONS: Mapping[str, frozenset[str]] = {
    "Pod": frozenset({
        "PodScheduled", "Initialized", "Ready", "ContainersReady", "PodReadyToStartContainers", "DisruptionTarget",
        "PodResizePending", "PodResizeInProgress", "AllContainersRestarting",
    }),
    "PodGroup": frozenset({"Unschedulable", "Scheduled"}),
    names.BATCH_JOB: frozenset({"Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"}),
    names.JOBSET: frozenset({
        "Completed", "Failed", "Suspended", "StartupPolicyInProgress", "StartupPolicyCompleted",
    }),
}  # fmt: skip
"""Kind -> types of conditions whose meaning is known here."""


def strange(s: Situation) -> tuple[str, ...]:
    """Return what of the job's own objects is not known here, in words."""
    return (*_phases(s), *(text for pod in s.pods for text in _of_pod(pod, s.now - s.silent)), *_of_others(s))


def _phases(s: Situation) -> Iterator[str]:
    if s.vcjob is not None and s.phase not in JOB_PHASES:
        yield f"the Job's phase {s.phase!r}"
    group = s.group
    if group is not None and not group.native and group.phases and group.phases[-1][1] not in GROUP_PHASES:
        yield f"phase {group.phases[-1][1]!r} of PodGroup {group.name}"
    for pod in s.pods:
        if pod.phase not in POD_PHASES:
            yield f"phase {pod.phase or 'none'!r} of {pod.name}"


def _of_pod(pod: PodStory, before: float) -> Iterator[str]:
    """Yield the conditions of a pod that are not known, or say that it does not serve although it runs."""
    if pod.phase in FINISHED:
        return
    for told in fields.items(pod.last, "status", "conditions"):
        kind, status = fields.text(told, "type"), fields.text(told, "status")
        if kind not in CONDITIONS["Pod"] and not (status == "True" and kind in _gates(pod)):
            yield f"condition {kind}={status} of {pod.name}" + _because(told)
        elif status not in ("True", "False"):
            yield f"condition {kind}={status or 'none'} of {pod.name}" + _because(told)
        elif kind == "Ready" and status == "False" and _runs_since(pod, before):
            yield f"{pod.name} runs and is not Ready" + _because(told)


def _runs_since(pod: PodStory, before: float) -> bool:
    """Report whether a pod has run since before a time, and nothing else says what is wrong with it."""
    since = pod.running if pod.running is not None else pod.created
    return pod.phase == "Running" and since < before and not pod.blocked() and pod.deleting is None


def _gates(pod: PodStory) -> set[str]:
    return {fields.text(one, "conditionType") for one in fields.items(pod.last, "spec", "readinessGates")}


def _because(told: fields.Object) -> str:
    why = ": ".join(fields.text(told, key) for key in ("reason", "message") if told.get(key))
    return f" ({words.short(why)})" if why else ""


def _of_others(s: Situation) -> Iterator[str]:
    about = [(names.POD_GROUP, s.group.last)] if s.group is not None and not s.group.native else []
    about += [(job.kind, job.last) for job in s.batch_jobs]
    about += [(names.JOBSET, s.job.last)] if s.job is not None and s.job.kind == names.JOBSET else []
    for kind, obj in about:
        for told in fields.items(obj, "status", "conditions"):
            if fields.text(told, "type") not in CONDITIONS[kind]:
                yield (
                    f"condition {fields.text(told, 'type')}={fields.text(told, 'status')} of the {kind}"
                    + _because(told)
                )


def unread(s: Situation, *, well: bool) -> tuple[str, ...]:
    """Return what is needed to say that nothing is broken and was not collected.

    Args:
        s: the situation.
        well: whether it is said of a job that runs; else of one that waits or ended as it should.
    """
    refused = [str(line.data.get("request")) for line in s.evidence.responses()
               if str(line.data.get("case") or "").startswith("collect:")]  # fmt: skip
    notes = s.evidence.header.get("reading")
    absent = [kind for kind in _needed(s) if not _collected(s, kind)]
    if well and not s.logs and any(p.phase == "Running" for p in s.pods):
        absent.append("logs")
    elif well:
        absent += [text for text in (_quiet(s), _complaint(s)) if text]
    return (*refused, *(map(str, notes) if isinstance(notes, list) else ()), *absent)


def _quiet(s: Situation) -> str:
    """Return that nobody has written for a while, or that nobody can tell: a job that hangs looks like one that trains.

    Of a job that has not run for so long, and of one that writes, "".
    """
    running = [p for p in s.pods if p.phase == "Running"]
    if not running or s.now - max(p.running or p.created for p in running) < QUIET:
        return ""
    last = [s.logs[p.name][-1] for p in running if s.logs.get(p.name)]
    times = [clock.written(s, str(line.data.get("line") or ""), line.t) for line in last]
    known = [time for time in times if time is not None]
    said = s.last_words(running[0])
    if known and s.now - max(known) >= QUIET:
        quiet = s.now - max(known)
        return f"any log line for {quiet:.0f} s: it may train without a word, or stand still (last: {said})"
    if not known:
        return f"when the last log line was written: it may train, or stand still since (last: {said}); see --follow"
    return ""


def _complaint(s: Situation) -> str:
    """Return that a running member has printed an error of which no rule says what it means, "" if none has."""
    for pod in s.pods:
        for line in s.logs.get(pod.name, ())[-TAIL:] if pod.phase == "Running" else ():
            text = str(line.data.get("line") or "").strip()
            if ERROR.search(text):
                return f"what an error means that {pod.name} printed and outlived: {words.short(text)}"
    return ""


def _needed(s: Situation) -> tuple[str, ...]:
    kinds = ["Pod", "Node", "Event"]
    if s.vcjob is not None or (s.group is not None and not s.group.native):
        kinds.append(names.QUEUE)
    if s.gang is not None and workloads_of(s.evidence, s.gang):
        kinds.append("ClusterQueue")
    return tuple(kinds)


def _collected(s: Situation, kind: str) -> bool:
    if isinstance(s.evidence.header.get("looked"), Mapping):
        return True  # what could not be listed is told by a refused request
    spans = any(span.kind in (kind, EVERY_KIND) for span in s.evidence.spans)
    return spans or any(one.partition(".")[0] == kind for one in s.evidence.kinds)


def ill_nodes(s: Situation) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield (node, key of its line, complaints) of the Ready nodes under members that report something ill."""
    for name in sorted({p.node for p in s.bound if p.node}):
        line = s.object("Node", name)
        if line is not None and (told := machines.complaints(line.object)):
            yield name, line.key, told
