"""How a job ends: attempts used up, policies, what stays behind, what takes its grace period."""

import re
from collections.abc import Iterator
from typing import Any

from pytest_gpucluster.diagnose import words
from pytest_gpucluster.diagnose.detect.crashing import crash_words, culprits, ended_badly, gpus_held, policies
from pytest_gpucluster.diagnose.detect.suspecting import LIKELY, SURE, fault, note, refusal
from pytest_gpucluster.diagnose.model import Stage, Suspect
from pytest_gpucluster.diagnose.situation import FINAL, GOING, Situation
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.lifecycle import completion, job_cases
from pytest_gpucluster.requirement import Cause

KILLED = 137
"""Exit code of a process that was killed by SIGKILL, as containers tell it."""

ACTION = re.compile(r"execute action (?P<action>\w+)")


def retries_exhausted(s: Situation) -> Iterator[Suspect]:
    """The Job failed after all its attempts."""
    job = s.vcjob
    if job is None or s.phase not in ("Failed", "Restarting"):
        return
    retries = fields.number(job.last, "status", "retryCount") or 0
    allowed = fields.number(job.last, "spec", "maxRetry") or 3
    if s.phase != "Failed" or retries < allowed:
        return
    bad = culprits(s)
    what, fix, seen = (
        crash_words(s, bad[0]) if bad else ("its members failed", "read their logs", "no failed pod is left")
    )
    cause = Cause(
        f"maxRetry {allowed} is used up ({retries} attempts, all failed): {what}",
        f"{fix}; then submit the job again (maxRetry also counts attempts after a resume)",
    )
    yield fault(
        "retries-exhausted", Stage.END, cause, seen, where=wording.places(bad), rows=("LIFE-004",),
        evidence=tuple(p.keys["finished"] for p in bad[:4]),
        look=(f"kubectl logs{s.space} {bad[0].name}",) if bad else (), symptom=True,
    )  # fmt: skip


def ended_by_policy(s: Situation) -> Iterator[Suspect]:
    """A policy, a command or the controller ended the Job, or a member failed and it ended with it."""
    job = s.vcjob
    if job is None or s.phase not in (
        "Failed",
        "Aborted",
        "Terminated",
        "Aborting",
        "Terminating",
        "Restarting",
    ):
        return
    retries = fields.number(job.last, "status", "retryCount") or 0
    if s.phase == "Failed" and retries >= (fields.number(job.last, "spec", "maxRetry") or 3):
        return
    acted = [(said, m["action"]) for said in s.said_of_job if (m := ACTION.search(said.message))]
    bad = culprits(s)
    keys = tuple(p.keys["finished"] for p in bad[:2]) + tuple(said.key for said, _ in acted[-1:])
    if bad and not ended_badly(bad[0]) and fields.text(bad[0].last, "status", "reason"):
        return  # its kubelet says why: that is another detector's
    if bad:
        what, fix, seen = crash_words(s, bad[0])
        action = f"; the policy's action {acted[-1][1]} followed" if acted else ""
        cause = Cause(f"{what}{action}: the job is {s.phase}", f"{fix}; then submit it again or resume it")
        yield fault(
            "member-failed", Stage.RUN, cause, seen, where=wording.places(bad), evidence=keys,
            rows=("LIFE-007", "LIFE-003"), look=(f"kubectl logs{s.space} {bad[0].name}",), symptom=True,
        )  # fmt: skip
        return
    commanded = [x for x in s.said_of_job if x.reason == "CommandIssued" and "Resume" not in x.message]
    if s.phase in ("Aborted", "Aborting") and (commanded or not acted):
        how = (
            "by a command"
            if commanded
            else "by a command, or by a policy -> AbortJob whose event is not kept"
        )
        cause = Cause(f"the job was suspended {how}", f"resume it: vcctl job resume --name {s.name}{s.space}")
        seen = (
            commanded[-1].message if commanded else f"phase {s.phase}, no member failed, and no policy acted"
        )
        certainty = SURE if commanded else LIKELY
        yield refusal("suspended", Stage.END, cause, seen, certainty, evidence=keys, rows=("LIFE-009",))
        return
    if s.phase == "Restarting" and acted:
        allowed = fields.number(job.last, "spec", "maxRetry") or 3
        cause = Cause(
            f"a policy restarts the gang ({acted[-1][1]}, attempt {retries + 1} of {allowed})",
            "nothing to do: it waits for the pods of the last attempt to end",
        )
        seen = f"{acted[-1][0].message.strip()}; {wording.count(len(s.pods), 'pod')} of the last attempt still exist"
        yield refusal("restarting", Stage.END, cause, seen, evidence=keys, rows=("LIFE-003",))
        return
    killed = [p for p in s.gang.pods if p.deleting is not None and p.phase == "Failed"] if s.gang else []
    policy = next((one for p in killed if (one := _policy(s, p)) is not None), None)
    if killed and (acted or policy is not None):
        action = (
            f"the policy's action {acted[-1][1]} followed" if acted else f"the policy {policy} ended the Job"
        )
        codes = killed[0].exit_codes
        ended = f"ended with {codes[0][1]}" if codes and codes[0][1] else "did not end with 0"
        how = f"{ended} when it got SIGTERM"
        if codes and codes[0][1] == KILLED:
            how = f"{ended} (SIGKILL: it did not end on SIGTERM in its grace period, or its memory ran out)"
        cause = Cause(
            f"{killed[0].name} was deleted and {how}, which counts as PodFailed: {action}",
            "make the program end with 0 on SIGTERM, or give PodFailed the same policy as PodEvicted",
        )
        seen = f"phase {s.phase}; {crash_words(s, killed[0])[2]}"
        yield fault(
            "deleted-member",
            Stage.END,
            cause,
            seen,
            where=wording.places(killed),
            evidence=keys,
            rows=("LIFE-003",),
        )
    elif acted:
        cause = Cause(
            f"a policy ended the job: {acted[-1][1]}",
            "look at spec.policies and at the history of its pods",
        )
        yield fault(
            "ended-by-policy", Stage.END, cause, words.short(acted[-1][0].message), LIKELY, evidence=keys
        )
    elif s.phase in ("Terminated", "Terminating"):
        yield _given_up(s)


PHASES = {
    "Terminated": "TerminateJob", "Terminating": "TerminateJob", "Aborted": "AbortJob", "Aborting": "AbortJob",
    "Restarting": "RestartJob",
}  # fmt: skip
"""Phase of a Volcano Job -> the action of a policy that leads there."""


def _policy(s: Situation, pod: PodStory) -> str | None:
    """Return the policy that a pod's end calls for and that leads to the Job's phase, as `PodFailed -> AbortJob`."""
    job = s.vcjob
    wanted = PHASES.get(s.phase)
    if job is None or wanted is None:
        return None
    task = next((t for t in job.tasks if t.get("name") == pod.task), {})
    codes = {code for _, code in pod.exit_codes}
    for one in (*fields.items(task, "policies"), *fields.items(job.last, "spec", "policies")):
        several = one.get("events")
        events = [one.get("event"), *(several if isinstance(several, list | tuple) else ())]
        code = fields.number(one, "exitCode")
        hit = next((str(e) for e in events if e in ("PodFailed", "*", "Any")), "")
        if code is not None and code in codes:
            hit = f"exitCode {code}"
        if hit and one.get("action") == wanted:
            return f"{hit} -> {wanted}"
    return None


def _given_up(s: Situation) -> Suspect:
    """Return why a Job was terminated of which no failed member is left: as far as its events say."""
    said = [x for x in s.said_of_job if x.type == "Warning"]
    if said:
        cause = Cause(
            f"the job was terminated after errors: {words.short(said[-1].message)}",
            "correct what the Warning events of the Job name, and submit it again",
        )
        keys = tuple(x.key for x in said[-1:])
        return fault(
            "given-up",
            Stage.END,
            cause,
            f"{wording.count(len(said), 'warning')} about the Job",
            LIKELY,
            evidence=keys,
        )
    mine = [
        f"{p.get('event') or p.get('events') or p.get('exitCode')} -> {p.get('action')}" for p in policies(s)
    ]
    able = [text for text in mine if text.endswith("TerminateJob")]
    cause = Cause(
        f"the job is {s.phase}, and nothing in the evidence shows what ended it: "
        + (f"the policy {wording.listed(able, 2)}, " if able else "")
        + "a command, or the controller after repeated errors (quota, volumes, API)",
        f"look at the events of the Job and of its pods (kubectl get events{s.space}), and at the log of "
        "vc-controller-manager",
    )
    failed = [p.name for p in s.gang.pods if p.phase == "Failed"] if s.gang else []
    member = (
        f"{wording.listed(failed, 4)} Failed, and no policy that is seen acts on it"
        if failed
        else "no failed member"
    )
    return fault(
        "given-up",
        Stage.END,
        cause,
        f"phase {s.phase}; {member}{';' if failed else ' and'} no event is in the evidence",
        LIKELY,
    )


def left_running(s: Situation) -> Iterator[Suspect]:
    """The Job is over and pods of it still run."""
    job = s.vcjob
    if job is None or not s.ended:
        return
    since = s.now - (job.phases[-1][0] if job.phases else s.now)
    left = [p for p in s.bound if p.deleting is None and p.phase == "Running"]
    if not left or since <= completion.ACT_WITHIN:
        return
    cause = Cause(
        f"the job is {s.phase} but its controller did not end {wording.listed([p.name for p in left], 4)}",
        f"delete the pods (kubectl delete pod{s.space} {' '.join(p.name for p in left[:4])}) or the job; then look at "
        "vc-controller-manager and its version",
    )
    seen = f"{s.phase} for {since:.0f} s; still running: {wording.listed([p.where for p in left], 4)}"
    held = gpus_held(s)
    yield fault(
        "left-running", Stage.END, cause, seen + (f"; they hold {held}" if held else ""), where=wording.places(left),
        evidence=tuple(p.keys.get("running") or p.keys["created"] for p in left[:4]), rows=("LIFE-004", "LIFE-001"),
    )  # fmt: skip


def stuck_between(s: Situation) -> Iterator[Suspect]:
    """The Job has been on its way between two phases for long, and none of its pods is still ending."""
    job = s.vcjob
    if job is None or s.phase not in GOING or not job.phases:
        return
    since = s.now - job.phases[-1][0]
    grace = max((p.grace for p in s.pods), default=0.0)
    if since <= grace + job_cases.GONE_SLACK or any(p.deleting is not None for p in s.bound):
        return
    cause = Cause(
        f"the job has been {s.phase} for {since:.0f} s, and its controller does not finish this",
        "look at vc-controller-manager, its log and version; delete the job and submit it again",
    )
    left = wording.count(len(s.pods), "pod")
    seen = f"no pod is being deleted, {left} remain, PodGroup {s.group.name if s.group else 'gone'}"
    yield fault(
        "stuck-between", Stage.END, cause, seen, LIKELY, evidence=(job.key,), rows=("LIFE-003", "LIFE-008")
    )


def lingers(s: Situation) -> Iterator[Suspect]:
    """The master ended and nothing tells Volcano that the Job is over."""
    if s.gang is None or s.vcjob is None or s.phase in FINAL + GOING:
        return
    window = subjects.of(s.evidence, {}).window
    ended = [one for one in completion.ended_tasks(s.gang) if one.policy is not None]
    for one in ended:
        left = [p for p in one.others if p.deleted is None and p.deleting is None and p.phase == "Running"]
        stay = s.now - one.t
        if not left or stay < window:
            continue
        master = wording.listed([p.name for p in one.pods], 2)
        seen = f"{master} ended with 0 {stay:.0f} s ago; {wording.listed([p.name for p in left], 4)} still running"
        more: dict[str, Any] = {
            "where": wording.places(left), "rows": ("LIFE-002", "LIFE-001"),
            "evidence": tuple(p.keys["finished"] for p in one.pods[:2]),
        }  # fmt: skip
        if one.policy:
            yield fault("policy-not-acted", Stage.END, completion.CONTROLLERS, seen, **more)
        else:
            yield fault("no-complete-policy", Stage.END, completion.POLICY, seen, LIKELY, **more)
        return
    if (
        not ended
        and len(s.vcjob.tasks) > 1
        and not any(completion.policy_of(s.gang, str(t.get("name"))) for t in s.vcjob.tasks)
    ):
        seen = f"{len(s.vcjob.tasks)} tasks, but none with TaskCompleted -> CompleteJob"
        yield note("no-complete-policy", Stage.END, completion.POLICY, seen, rows=("LIFE-002",))


def ending_pods(s: Situation) -> Iterator[Suspect]:
    """Pods are being deleted: within their grace period that is a wait, beyond it they are stuck."""
    going = [p for p in s.pods if p.deleting is not None and p.phase not in ("Succeeded", "Failed")]
    if not going:
        return
    over = {p.name: s.now - (p.deleting or s.now) - p.grace for p in going}
    stuck = [p for p in going if over[p.name] > job_cases.GONE_SLACK]
    if stuck:
        holds = [x for p in stuck for x in fields.sub(p.last, "metadata").get("finalizers") or ()]
        why = (
            f"finalizers {wording.listed(sorted(set(map(str, holds))), 3)} hold them"
            if holds
            else "their kubelet does not end them"
        )
        cause = Cause(
            f"deleted pods do not go away: {why}",
            f"look at the nodes {wording.listed(sorted({p.node for p in stuck if p.node}), 4) or '-'}: the "
            "kubelet, hanging storage, a process in uninterruptible sleep",
        )
        seen = wording.listed(
            [f"{p.name} {over[p.name]:.0f} s beyond its grace period of {p.grace:.0f} s" for p in stuck], 4
        )
        keys = tuple(p.keys["deleting"] for p in stuck[:4])
        yield fault("stuck-terminating", Stage.END, cause, seen, where=wording.places(stuck), evidence=keys)
        return
    grace = max(p.grace for p in going)
    left = max(-over[p.name] for p in going)
    cause = Cause(
        f"it waits for {wording.listed([p.name for p in going], 4)} to end: grace period {grace:.0f} s",
        "nothing to do; to end faster, make the program react to SIGTERM (a shell as first process does not), or "
        "lower terminationGracePeriodSeconds",
    )
    seen = (
        f"phase {s.phase or '-'}; deletion was requested {s.now - min(p.deleting or s.now for p in going):.0f} "
        "s ago, "
    )
    seen += f"at most {max(left, 0.0):.0f} s are left"
    keys = tuple(p.keys["deleting"] for p in going[:4])
    yield refusal(
        "grace",
        Stage.END,
        cause,
        seen,
        where=wording.places(going),
        evidence=keys,
        rows=("LIFE-001",),
        symptom=True,
    )


def grace_was_used(s: Situation) -> Iterator[Suspect]:
    """The job ended late because its pods used their grace period."""
    if s.gang is None or not s.ended:
        return
    slow = [
        p for p in s.gang.pods
        if p.deleted is not None and p.deleting is not None and p.grace >= SLOW_END
        and p.deleted - p.deleting >= 0.8 * p.grace
    ]  # fmt: skip
    if slow:
        took = max((p.deleted or 0.0) - (p.deleting or 0.0) for p in slow)
        cause = Cause(
            f"the job ended {took:.0f} s late: {wording.listed([p.name for p in slow], 4)} used their grace period of "
            f"{slow[0].grace:.0f} s",
            "make the program react to SIGTERM (a shell as first process does not), or lower "
            "terminationGracePeriodSeconds",
        )
        keys = tuple(p.keys["deleted"] for p in slow[:4])
        yield note("grace", Stage.END, cause, f"phase {s.phase}", where=wording.places(slow), evidence=keys)


SLOW_END = 20.0
"""Seconds of grace that are worth a word once they were used."""
