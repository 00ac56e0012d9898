"""How containers of members ended: which ended first, and what it and others say of why."""

import dataclasses
import re
from collections.abc import Callable
from datetime import UTC, datetime

from pytest_gpucluster.diagnose import words
from pytest_gpucluster.diagnose.detect import checkpointing, printed, runtime
from pytest_gpucluster.diagnose.history import when
from pytest_gpucluster.diagnose.situation import Situation
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.objects import containers
from pytest_gpucluster.evidence.objects.pods import PodStory

NEVER = datetime.max.replace(tzinfo=UTC)


@dataclasses.dataclass(frozen=True)
class End:
    """How one container ended badly, now or in its last run.

    Attributes:
        message: its termination message, or what its runtime said.
        at: when, as far as its status tells.
    """

    container: str
    code: int
    reason: str
    message: str = ""
    at: datetime | None = None


def ends(pod: PodStory) -> list[End]:
    """Return the containers of a pod that ended badly: its author's own before proxies, the earliest first."""
    found: list[tuple[bool, datetime, int, End]] = []
    boxes = {str(c.get("name")): c for part in containers.PARTS for c in fields.items(pod.last, "spec", part)}
    for part in ("initContainerStatuses", "containerStatuses"):
        for status in fields.items(pod.last, "status", part):
            name = str(status.get("name"))
            for state in ("state", "lastState"):
                ended = containers.end_of(status, state)
                if code := fields.number(ended, "exitCode"):
                    told = when(fields.text(ended, "finishedAt"))
                    proxy = containers.is_proxy(boxes.get(name, {"name": name}))
                    one = End(name, code, fields.text(ended, "reason"), fields.text(ended, "message"), told)
                    found.append((proxy, told or NEVER, len(found), one))
                    break
    return [one for *_, one in sorted(found, key=lambda each: each[:3])]


def last_words(s: Situation, pod: PodStory, container: str) -> str:
    """Return the last line that a container wrote which says something, shortened, or ""."""
    for text in reversed(printed.lines(s, pod, container)):
        if text.strip() and not text.strip().startswith("GPUCONF1"):
            return words.short(text.strip())
    return ""


Why = tuple[str, str]
"""What an end means, and what to do."""


def meaning(s: Situation, pod: PodStory, end: End) -> Why:
    """Return what the end of a container means, by what was said of it; several causes where nothing was."""
    if end.reason in runtime.START_ERRORS:
        text, fix = runtime.says(pod, end.message)
        return f"it never started: {text}" + (f"; {words.short(end.message)}" if end.message else ""), fix
    if end.reason == containers.UNKNOWN:
        text = f"its kubelet does not know how it ended ({words.short(end.message) or containers.UNKNOWN})"
        return (
            text,
            f"look at what happened to {pod.node or 'its node'}: a restart of it, its runtime or its kubelet",
        )
    if end.reason == "OOMKilled":
        return checkpointing.in_save(s, pod, end.container, _out_of_memory(pod, end))
    said = printed.meaning([*printed.lines(s, pod, end.container), *end.message.splitlines()], pod)
    ended = _ended_by(s, pod) if end.code in SIGNALS else None
    if said is not None and (said[2] or ended is None):
        told = f"{said[0]} (exit code {end.code})", said[1]
        return checkpointing.in_save(s, pod, end.container, told) if "memory" in said[0] else told
    if ended is not None:
        return f"{ended[0]} (exit code {end.code})", ended[1]
    if end.message.strip() and end.code not in CODES:
        text = f"it ended with exit code {end.code} with the message {words.short(end.message)!r}"
        return text, "follow its last message"
    return CODES[end.code](s, pod) if end.code in CODES else _by_number(end.code)


def _out_of_memory(pod: PodStory, end: End) -> Why:
    box = next((c for c in fields.containers(pod.last) if c.get("name") == end.container), {})
    limit = fields.text(box, "resources", "limits", "memory") or fields.text(
        pod.last, "spec", "resources", "limits", "memory"
    )
    node = pod.node or "its node"
    if limit:
        return (
            f"it used more memory than its limit of {limit} (OOMKilled)",
            "raise resources.limits.memory, or use less; files in an emptyDir of medium Memory (/dev/shm) count too",
        )
    return (
        f"it was killed for memory (OOMKilled), and it has no memory limit: {node} itself ran short",
        (
            f"give every pod on {node} a memory limit, this one too, so that the one that needs too much is "
            "the one that "
            "ends; kubectl describe node shows what the others ask for"
        ),
    )


BY_PROBE = re.compile(r"failed (?P<probe>liveness|startup) probe", re.IGNORECASE)
DISRUPTIONS = {
    "PreemptionByScheduler": ("it was preempted: the scheduler gave its place to another pod",
                              ("look at the priorities (PriorityClass) of both; a gang that may not be preempted needs "
                              "a higher one, or preemptable: false")),
    "EvictionByEvictionAPI": ("it was evicted over the API: a drain of its node, an autoscaler, a descheduler",
                              ("find who drains the node (kubectl get node, cordoned?); a PodDisruptionBudget "
                              "delays it")),
    "DeletionByTaintManager": ("its node was given a taint with effect NoExecute that the pod does not tolerate",
                               ("look at the node's taints and conditions (kubectl describe node): it was not "
                                "Ready, or "
                               "somebody drains it")),
    "DeletionByPodGC": ("its node is gone, and the pod was removed with it", "find out what happened to the node"),
    "TerminationByKubelet": ("its kubelet ended it", "read status.message of the pod: a shortage, or a shutdown"),
}  # fmt: skip
"""Reason of the condition DisruptionTarget -> what ended the pod, what to do."""
EVENTS = {
    "Preempting": "a critical pod took its place on the node",
    "Preempted": "it was preempted",
    "Evict": "its scheduler evicted it",
    "TaintManagerEviction": "its node was given a taint that the pod does not tolerate",
    "SystemOOM": "its node ran out of memory",
    "NodeNotReady": "its node was not Ready",
}
"""Reason of an event about a pod -> what ended it."""


def _ended_by(s: Situation, pod: PodStory) -> Why | None:
    """Return what ended a pod by a signal, where a condition or an event says so."""
    told = fields.condition(pod.last, "DisruptionTarget")
    if told.get("status") == "True":
        reason, message = str(told.get("reason") or ""), str(told.get("message") or "")
        text, fix = DISRUPTIONS.get(
            reason, (f"it was disrupted ({reason})", "look at what its condition names")
        )
        return f"{text}: {words.short(message)}" if message else text, fix
    for said in reversed(s.said_of_pod(pod)):
        probe = BY_PROBE.search(said.message)
        if said.reason == "Killing" and probe:
            return (
                f"its {probe['probe']} probe failed, and its kubelet killed it",
                (
                    "make the probe wait longer than the longest pause of the program (failureThreshold, "
                    "periodSeconds), or "
                    "leave it out of training pods"
                ),
            )
        if said.reason in EVENTS:
            text = f"{EVENTS[said.reason]} ({said.reason}: {words.short(said.message)})"
            return text, "look at what that event names"
    return None


def _look(s: Situation, pod: PodStory) -> str:
    return f"kubectl describe pod{s.space} {pod.name}"


def _killed(s: Situation, pod: PodStory) -> Why:
    node = pod.node or "NODE"
    return (
        (
            "it was killed (SIGKILL), by one of: its node's memory ran out, a process of it went over the "
            "memory limit, a "
            "liveness probe failed, its grace period ended, or somebody killed it"
        ),
        (
            f"to tell which: {_look(s, pod)} (probes, deletion), kubectl describe node {node} (SystemOOM), and "
            "dmesg on "
            f"{node} (oom-kill)"
        ),
    )


def _asked_to_end(s: Situation, pod: PodStory) -> Why:
    return (
        "it was ended (SIGTERM), by one of: a drain or eviction, a preemption, a policy of its job, or a person",
        f"to tell which: {_look(s, pod)} (conditions, events), and the audit log for a delete of the pod",
    )


def _bus(s: Situation, _pod: PodStory) -> Why:
    return (
        (
            "it crashed (SIGBUS), by one of: /dev/shm is too small, the disk of a mapped file is full, or a "
            "mapped file was "
            "cut while in use"
        ),
        (
            f"to tell which: df -h in the pod (kubectl exec{s.space}, while it runs) for /dev/shm and its "
            "volumes; mount an "
            "emptyDir of medium Memory at /dev/shm"
        ),
    )


def _fixed(text: str, fix: str) -> Callable[[Situation, PodStory], Why]:
    return lambda _s, _pod: (text, fix)


CODES: dict[int, Callable[[Situation, PodStory], Why]] = {
    126: _fixed("the command is not executable (exit code 126)", "correct the command, or its mode in the image"),
    127: _fixed("the command was not found (exit code 127): the image lacks it, or a script calls one that it lacks",
                "read its log: a shell names the command; correct it, or add it to the image"),
    130: _fixed("it was interrupted (SIGINT): a person, or a launcher that ends its processes", "read its log"),
    132: _fixed("it crashed (SIGILL): its program was built for another processor, or is damaged",
                "compare the processor of this node with those where it works (lscpu); use a build for the oldest"),
    134: _fixed("it aborted itself (SIGABRT)", "read its log: a failed assertion, or a watchdog of a collective"),
    135: _bus,
    136: _fixed("it crashed (SIGFPE): a division by zero in its program", "read its log"),
    137: _killed,
    139: _fixed("it crashed (SIGSEGV)", "read its log; try the image on one node alone"),
    143: _asked_to_end,
    255: _fixed("it ended with exit code 255: an error of ssh or mpirun, or a program that returns -1",
                "read its log from the end"),
}  # fmt: skip
"""Exit code -> what it means, what to do."""
SIGNALS = frozenset({130, 134, 137, 143})
"""Codes of ends that come from outside, or may."""


def _by_number(code: int) -> Why:
    if 128 < code < 160:
        return f"it was ended by signal {code - 128} (exit code {code})", "read its log"
    return f"it ended with exit code {code}", "read its log"
