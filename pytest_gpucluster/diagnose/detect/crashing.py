"""Members that crash: what their exit codes and last words mean, and who sees it."""

import re
from collections.abc import Iterator
from typing import Any

from pytest_gpucluster.diagnose import words
from pytest_gpucluster.diagnose.detect.starting import START_ERRORS, runtime_says
from pytest_gpucluster.diagnose.detect.suspecting import fault, note
from pytest_gpucluster.diagnose.model import Stage, Suspect
from pytest_gpucluster.diagnose.situation import FINAL, GOING, Situation
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.objects import containers
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.judge import wording
from pytest_gpucluster.requirement import Cause

EXIT_CODES: dict[int, tuple[str, str]] = {
    126: ("the command is not executable", "correct the command, or its mode in the image"),
    127: ("the command was not found", "correct the command: the image lacks it"),
    134: ("it aborted itself (SIGABRT)", "read its log: a failed assertion, or a watchdog of NCCL"),
    137: ("it was killed (SIGKILL)", "look for memory: the node's kernel log, the container's limit"),
    139: ("it crashed (SIGSEGV)", "read its log; try the image on one node alone"),
    143: ("it was ended (SIGTERM)", "find what ended it: eviction, preemption, a person"),
}
"""Exit code -> what it means, what to do."""

WORDS: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (re.compile(r"CUDA out of memory|torch\.OutOfMemoryError|CUDA_ERROR_OUT_OF_MEMORY"),
     "the GPU's memory was too small", "use smaller batches, shard the model more, or use larger GPUs"),
    (re.compile(r"[Ii]nsufficient shared memory|Bus error|/dev/shm|unable to (?:open|mmap) shared memory"),
     "shared memory was too small", "mount an emptyDir of medium Memory at /dev/shm in every task template"),
    (re.compile(r"No space left on device|Disk quota exceeded"),
     "a disk is full", "find the volume it writes to; give it more room, or write elsewhere"),
    (re.compile(r"ModuleNotFoundError: No module named '?([\w.]+)"),
     "the image lacks the module {0}", "add it to the image"),
    (re.compile(r"can't open file '?([^':]+)'?|(?<![\w./-])([\w./-]+): No such file or directory"),
     "a file is missing", "correct the path, or add the file to the image or a volume"),
    (re.compile(r"unrecognized arguments?: (.+)|error: argument (\S+)"),
     "the program does not know its arguments", "correct command and args of the task template"),
    (re.compile(r"[Pp]ermission denied|EACCES"),
     "it lacks a permission (permission denied)", "look at the image's user, fsGroup and the security context"),
    (re.compile(r"CUDA driver version is insufficient|forward compatibility|unsupported display driver"),
     "the node's GPU driver is too old for the image", "use an image with an older CUDA, or update the driver"),
    (re.compile(r"(Xid.*|uncorrectable ECC.*|(?:CUDA|HIP) error: (?!out of memory).*|GPU has fallen off the bus)"),
     "the GPU, or the program on it, failed: {0}",
     "look for Xid in the node's kernel log; drain the node if it occurs again"),
    (re.compile(r"RendezvousClosedError|Rendezvous for run_id=\S+ is closed"),
     "the rendezvous is closed in its store", "use a fresh run id"),
)  # fmt: skip
"""(what a program prints, what it means, what to do)."""

TAIL = 60
"""Lines from the end of a log in which an error is looked for."""


def ended_message(pod: PodStory) -> str:
    """Return what the first container that ended badly left as its termination message, or its runtime said."""
    for part in ("initContainerStatuses", "containerStatuses"):
        for status in fields.items(pod.last, "status", part):
            for state in ("state", "lastState"):
                ended = containers.end_of(status, state)
                if fields.number(ended, "exitCode"):
                    return fields.text(ended, "message")
    return ""


def ended_badly(pod: PodStory) -> list[tuple[str, int, str]]:
    """Return (container, exit code, reason) of the containers that ended badly, now or in their last run."""
    found = []
    for part in ("initContainerStatuses", "containerStatuses"):
        for status in fields.items(pod.last, "status", part):
            for state in ("state", "lastState"):
                ended = containers.end_of(status, state)
                code = fields.number(ended, "exitCode")
                if code:
                    found.append((str(status.get("name")), code, fields.text(ended, "reason")))
                    break
    return found


def restarts(pod: PodStory) -> int:
    """Return how often the containers of a pod were restarted in place."""
    return sum(
        fields.number(st, "restartCount") or 0 for st in fields.items(pod.last, "status", "containerStatuses")
    )


def _said(s: Situation, pod: PodStory) -> tuple[str, str] | None:
    """Return what the last words of a pod mean, None where they mean nothing in particular."""
    told = [str(line.data.get("line") or "") for line in s.logs.get(pod.name, ())[-TAIL:]]
    for text in reversed([*told, *ended_message(pod).splitlines()]):
        for pattern, meaning, fix in WORDS:
            found = pattern.search(text)
            if found:
                return meaning.format(*found.groups()), fix
    return None


def _meaning(s: Situation, pod: PodStory, code: int, reason: str) -> tuple[str, str]:
    message = ended_message(pod)
    if reason in START_ERRORS:
        meaning, fix = runtime_says(pod, message)
        return f"it never started: {meaning}" + (f"; {words.short(message)}" if message else ""), fix
    said = _said(s, pod)
    if reason == "OOMKilled":
        return "it used more memory than its limit (OOMKilled)", "raise resources.limits.memory, or use less"
    if said is not None:
        return f"{said[0]} (exit code {code})", said[1]
    if message.strip() and code not in EXIT_CODES:
        return (
            f"it ended with exit code {code} with the message {words.short(message)!r}",
            "follow its last message",
        )
    return EXIT_CODES.get(code, (f"it ended with exit code {code}", "read its log"))


def policies(s: Situation) -> list[fields.Object]:
    """Return the policies of the Job and of its tasks."""
    if s.vcjob is None:
        return []
    found = fields.items(s.vcjob.last, "spec", "policies")
    for task in s.vcjob.tasks:
        found = [*found, *fields.items(task, "policies")]
    return found


def gpus_held(s: Situation) -> str:
    """Return what the running members hold, in words."""
    held: dict[str, int] = {}
    for pod in s.bound:
        for resource in fields.scarce_resources(pod.last):
            held[resource] = held.get(resource, 0) + int(fields.requested(pod.last, resource))
    return wording.listed([f"{n} {r}" for r, n in held.items()], 3)


def restart_in_place(s: Situation) -> Iterator[Suspect]:
    """Containers crash and are restarted inside their pod: no policy and no maxRetry ever sees it."""
    again = [p for p in s.pods if restarts(p) and p.phase != "Succeeded" and ended_badly(p)]
    if not again:
        return
    worst = max(again, key=restarts)
    container, code, reason = ended_badly(worst)[0]
    meaning, what = _meaning(s, worst, code, reason)
    policy = fields.text(worst.last, "spec", "restartPolicy") or "Always"
    blind = [str(p.get("event") or p.get("exitCode")) for p in policies(s)]
    blind = [event for event in blind if event in ("PodFailed", "*") or event.isdigit()]
    unseen = f"; the policy {wording.listed(blind, 2)} never applies" if blind else ""
    held = gpus_held(s)
    text = wording.listed(
        [f"{p.name} {restarts(p)} times" for p in sorted(again, key=restarts, reverse=True)], 4
    )
    cause = Cause(
        f"{worst.name} crashes and is restarted in place under restartPolicy {policy}: {meaning}; the pod never "
        f"becomes Failed, so neither a PodFailed policy nor maxRetry acts{unseen}",
        f"{what}; use restartPolicy Never with PodFailed -> RestartJob, or a policy for TaskFailed, so that the "
        "gang restarts as a whole and maxRetry limits it",
    )
    last = s.last_words(worst)
    seen = f"restarted: {text}; {container} last ended with exit code {code}"
    seen += f"; last line: {last!r}" if last else ""
    seen += f"; {held} are held meanwhile" if held else ""
    yield fault(
        "restart-in-place", Stage.RUN, cause, seen, where=wording.places(again),
        rows=("LIFE-012", "LIFE-007", "LIFE-004"),
        evidence=tuple(p.keys.get("running") or p.keys["created"] for p in again[:4]),
        look=(f"kubectl logs{s.space} {worst.name} -c {container} --previous",), symptom=True,
    )  # fmt: skip


def culprits(s: Situation) -> list[PodStory]:
    """Return the pods whose end was not asked for and not good, earliest first, of the last attempt that has some."""
    if s.gang is None:
        every = list(s.loose)
    else:
        attempts = [[p for p in gen.members if p.phase == "Failed"] for gen in s.gang.generations]
        every = next(
            (found for found in reversed(attempts) if any(p.finished is not None for p in found)), []
        )
    bad = [p for p in every if p.phase == "Failed" and p.finished is not None]
    return sorted(bad, key=lambda p: p.finished or 0.0)


def crash_words(s: Situation, pod: PodStory) -> tuple[str, str, str]:
    """Return (what happened, what to do, what was seen) for a pod that failed."""
    ended = ended_badly(pod)
    reason = fields.text(pod.last, "status", "reason")
    if not ended:
        return (
            f"{pod.name} failed ({reason or 'no container gives a reason'})",
            "see kubectl describe of the pod",
            pod.where,
        )
    container, code, why = ended[0]
    meaning, what = _meaning(s, pod, code, why)
    last = s.last_words(pod)
    seen = f"{pod.where}: container {container} exit code {code}" + (f"; last line: {last!r}" if last else "")
    return f"{pod.name} failed: {meaning}", what, seen


def member_failed(s: Situation) -> Iterator[Suspect]:
    """A member failed while the job goes on without it."""
    if s.phase in FINAL + GOING or not s.failed:
        return
    crashed = [p for p in s.failed if ended_badly(p) and ended_badly(p)[0][2] not in START_ERRORS]
    succeeded = [p for p in s.pods if p.phase == "Succeeded"]
    if not crashed:
        return
    what, fix, seen = crash_words(s, crashed[0])
    policy = (
        ""
        if any(p.get("event") in ("PodFailed", "*") for p in policies(s))
        else "; no policy acts on PodFailed"
    )
    cause = Cause(
        f"{what}{policy if s.vcjob else ''}", f"{fix}; PodFailed -> RestartJob would restart the gang"
    )
    where = wording.places(crashed)
    more: dict[str, Any] = {
        "where": where,
        "evidence": tuple(p.keys["finished"] for p in crashed[:4] if "finished" in p.keys),
    }
    later = [p for p in succeeded if p.created > max(c.created for c in crashed)]
    if later:
        cause = Cause(f"{what}; a later attempt ({later[-1].name}) ended with 0", "nothing to do")
        yield note("failed-before", Stage.RUN, cause, seen, **more)
        return
    look = (f"kubectl logs{s.space} {crashed[0].name}",)
    yield fault("member-failed", Stage.RUN, cause, seen, rows=("LIFE-007",), look=look, symptom=True, **more)
