"""Members that crash: what their exit codes and last words mean, and who sees it."""

from collections.abc import Iterator
from typing import Any

from pytest_gpucluster.diagnose.detect import endings, restarting
from pytest_gpucluster.diagnose.detect.runtime import START_ERRORS
from pytest_gpucluster.diagnose.detect.suspecting import fault, note
from pytest_gpucluster.diagnose.model import Stage, Suspect
from pytest_gpucluster.diagnose.situation import FINAL, GOING, Situation
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.judge import wording
from pytest_gpucluster.requirement import Cause


def ended_badly(pod: PodStory) -> list[tuple[str, int, str]]:
    """Return (container, exit code, reason) of the containers that ended badly, now or in their last run."""
    return [(end.container, end.code, end.reason) for end in endings.ends(pod)]


def restarts(pod: PodStory) -> int:
    """Return how often the containers of a pod were restarted in place."""
    return sum(
        fields.number(st, "restartCount") or 0 for st in fields.items(pod.last, "status", "containerStatuses")
    )


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
    end = endings.ends(worst)[0]
    container, code = end.container, end.code
    meaning, what = endings.meaning(s, worst, end)
    policy = fields.text(worst.last, "spec", "restartPolicy") or "Always"
    held = gpus_held(s)
    text = wording.listed(
        [f"{p.name} {restarts(p)} times" for p in sorted(again, key=restarts, reverse=True)], 4
    )
    cause = Cause(
        f"{worst.name} crashes and is restarted in place under restartPolicy {policy}: {meaning}; {_unseen(s)}",
        f"{what}; {_seen(s)}",
    )
    last = endings.last_words(s, worst, container)
    seen = f"restarted: {text}; {container} last ended with exit code {code}"
    seen += f"; last line: {last!r}" if last else ""
    seen += f"; {held} are held meanwhile" if held else ""
    yield fault(
        "restart-in-place", Stage.RUN, cause, seen, where=wording.places(again),
        rows=("LIFE-012", "LIFE-007", "LIFE-004"),
        evidence=tuple(p.keys.get("running") or p.keys["created"] for p in again[:4]),
        look=(f"kubectl logs{s.space} {worst.name} -c {container} --previous",), symptom=True,
    )  # fmt: skip


def _unseen(s: Situation) -> str:
    """Return who does not learn of a restart in place."""
    kind = restarting.maker(s)
    if kind == "vcjob":
        blind = [str(p.get("event") or p.get("exitCode")) for p in policies(s)]
        blind = [event for event in blind if event in ("PodFailed", "*") or event.isdigit()]
        policy = f"; the policy {wording.listed(blind, 2)} never applies" if blind else ""
        return f"the pod never becomes Failed, so neither a PodFailed policy nor maxRetry acts{policy}"
    if kind == "Job":
        return "the Job fails only after backoffLimit such restarts, and the other members wait meanwhile"
    return "nothing outside the pod learns of it, and the other members wait meanwhile"


def _seen(s: Situation) -> str:
    """Return how the restart would be one of the whole gang."""
    if restarting.maker(s) == "vcjob":
        return (
            "use restartPolicy Never with PodFailed -> RestartJob, or a policy for TaskFailed, so that the gang "
            "restarts as a whole and maxRetry limits it"
        )
    return restarting.then(s, "use restartPolicy Never, so that the whole gang restarts and its limit counts")


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
    end = endings.ends(pod)[0]
    meaning, what = endings.meaning(s, pod, end)
    last = endings.last_words(s, pod, end.container)
    seen = f"{pod.where}: container {end.container} exit code {end.code}" + (
        f"; last line: {last!r}" if last else ""
    )
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
    cause = Cause(f"{what}{policy if s.vcjob else ''}", restarting.then(s, fix))
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
