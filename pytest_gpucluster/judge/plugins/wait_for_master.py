"""PLG-010 and PLG-013: the init container that holds a worker back until its master answers, or gives up in time.

Recorded with Volcano v1.14.4: `--wait-master-enabled` puts the init container `wait-for-master` into worker pods. It
tries the master's port every two seconds and ends with 1 after `--wait-master-timeout` (300 s where none is given).
"""

import dataclasses

from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects import containers
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.plugins import interception, pytorch_plan, volcano_jobs
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

HELD = "a worker's own containers start only after the master has begun to listen: the init container waits for it"
BOUNDED = (
    "if the master never listens, the init container fails at its time-out, not long before or after, and its "
    "log names the master"
)
INIT = "wait-for-master"
DEFAULT_LIMIT = 300
"""Seconds, where `--wait-master-timeout` is absent (Volcano v1.14.4)."""
EARLY, LATE = 1.0, 5.0
"""Seconds by which a time-out may seem short (the status is written after the start) or be long: a pause of two
seconds between tries, the last try, and the status that is written after the end."""
CLOCKS = 0.5
"""Seconds by which the clocks of two nodes may differ."""

NO_INIT = Cause(
    "the workers have no such init container: Volcano before 1.14 does not know the argument, and the plugin "
    "ignores everything after an unknown argument",
    "check the version of vc-controller-manager, and the order and spelling of the plugin's arguments",
)
LETS_GO = Cause(
    "something answered for the master: a service mesh's sidecar accepts connections even if nothing listens on "
    "the port",
    "exclude the port from the mesh, or switch injection off for the Job's pods",
)
NOT_COUNTED = Cause(
    "the script counts only its pauses: if packets are dropped, each try lasts as long as TCP's own limit",
    "open the port (NetworkPolicy, firewall); do not rely on the time-out if packets are dropped",
)
HOLDS_ON = Cause(
    "the init container does not notice that the master answers, or the node is slow to start the next container",
    "read the log of the init container, and the worker's events (`kubectl describe pod`)",
)
SILENT_LOG = Cause(
    "the init container's image has another shell or script, which does not name the host it waits for",
    "use an image with sh, nc and sleep (--wait-master-image), such as the default busybox:1.36.1",
)


@dataclasses.dataclass(frozen=True)
class Wait:
    """One run of the init container of one worker.

    Attributes:
        began, ended: seconds of the evidence, None where not seen.
        code: its exit code, None while it runs.
        main: when a regular container of the pod was first seen started, None for never.
    """

    pod: PodStory
    began: float | None
    ended: float | None
    code: int | None
    main: float | None
    key: str


def of_pod(evidence: Evidence, pod: PodStory) -> Wait | None:
    """Return what became of a pod's waiting init container in its first run, None where it has none."""
    if not any(c.get("name") == INIT for c in fields.items(pod.last, "spec", "initContainers")):
        return None
    began = ended = main = code = None
    key = pod.keys["created"]
    for line in evidence.history(pod.uid):
        waiters = fields.items(line.object, "status", "initContainerStatuses")
        status = next((s for s in waiters if s.get("name") == INIT), {})
        if began is None and containers.began(status):
            began, key = line.t, line.key
        if ended is None and (end := containers.end_of(status)):
            ended, key, code = line.t, line.key, fields.number(end, "exitCode")
        statuses = fields.items(line.object, "status", "containerStatuses")
        if main is None and any(containers.began(s) for s in statuses):
            main = line.t
    return Wait(pod, began, ended, code, main, key)


def _waiting(evidence: Evidence, given: subjects.Given, role: str) -> list[tuple[Gang, pytorch_plan.Plan]]:
    """Return the Jobs whose workers are to wait."""
    found = []
    for gang in volcano_jobs.of(evidence, given, role):
        plan = pytorch_plan.plan_of(gang)
        asked = volcano_jobs.flags(gang.job, "pytorch").get("wait-master-enabled", "") if gang.job else ""
        if plan is not None and asked.lower() in ("true", "1", "t") and plan.masters and plan.workers:
            found.append((gang, plan))
    return found


def _workers(gang: Gang, plan: pytorch_plan.Plan) -> list[PodStory]:
    return [pod for pod in gang.pods if pod.task == plan.worker]


def _without(evidence: Evidence, gang: Gang, plan: pytorch_plan.Plan, required: str) -> Finding | None:
    """Return the finding that workers have no init container, None where all have it."""
    bare = [pod for pod in _workers(gang, plan) if of_pod(evidence, pod) is None]
    if not bare:
        return None
    text = (
        f"{wording.listed([pod.name for pod in bare])}: no init container {INIT}, though --wait-master-enabled is "
        "given"
    )
    return wording.finding(
        Verdict.FAIL, required, text, gang, violation=True, where=wording.places(bare), causes=(NO_INIT,),
        evidence=tuple(pod.keys["created"] for pod in bare[:4]),
    )  # fmt: skip


@subjects.judge
def held_until_the_master_answers(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge PLG-010."""
    jobs = _waiting(evidence, given, "held")
    findings = [
        _without(evidence, gang, plan, HELD) or _held(evidence, given, gang, plan) for gang, plan in jobs
    ]
    if not findings:
        return wording.finding(
            Verdict.INCONCLUSIVE, HELD, "no Volcano Job whose workers wait for their master"
        )
    return wording.telling(findings)


def _listens(evidence: Evidence, gang: Gang, plan: pytorch_plan.Plan) -> payload_lines.Word | None:
    """Return the first word of a master that it listens."""
    masters = {pod.uid for pod in gang.pods if pod.task == plan.master}
    words = [word for word in payload_lines.words(evidence).of("listening") if word.uid in masters]
    return min(words, key=lambda word: word.t, default=None)


def _held(evidence: Evidence, given: subjects.Given, gang: Gang, plan: pytorch_plan.Plan) -> Finding:
    listens = _listens(evidence, gang, plan)
    waits = [wait for pod in _workers(gang, plan) if (wait := of_pod(evidence, pod)) is not None]
    keys = tuple([wait.key for wait in waits[:6]] + ([listens.key] if listens else []))
    if not waits:
        return wording.finding(Verdict.INCONCLUSIVE, HELD, f"no worker of {gang.title} was seen", gang)
    early = [w for w in waits if w.main is not None and (listens is None or w.main < listens.t - CLOCKS)]
    silent = _silent(evidence, gang, plan)
    if early and (listens is not None or silent):
        when = f"at t={listens.t:.2f} s" if listens is not None else "never"
        text = f"{early[0].pod.name} started at t={early[0].main:.2f} s, the master listens {when}"
        return wording.finding(
            Verdict.FAIL, HELD, text, gang, violation=True, where=wording.places(w.pod for w in early),
            causes=(LETS_GO,), evidence=keys,
        )  # fmt: skip
    if listens is None:
        text = f"the master of {gang.title} was not seen to begin to listen"
        return wording.finding(Verdict.INCONCLUSIVE, HELD, text, gang, evidence=keys)
    stuck = [w for w in waits if w.main is None]
    if stuck:
        return _stuck(evidence, gang, plan, stuck, listens)
    late = [w for w in waits if w.began is None or w.began > listens.t]
    if late:
        text = f"{late[0].pod.name} began to wait after the master listened, so it did not have to wait"
        return wording.finding(Verdict.INCONCLUSIVE, HELD, text, gang, evidence=keys)
    longest = max((w.ended or listens.t) - (w.began or listens.t) for w in waits)
    after = min((w.main or listens.t) - listens.t for w in waits)
    last = max(waits, key=lambda wait: wait.main or 0.0)
    delay = (last.main or listens.t) - listens.t
    if delay > subjects.placed_within(given, "start"):
        text = f"{last.pod.name} started only {delay:.0f} s after {plan.address}:{plan.port} listened"
        return wording.finding(
            Verdict.FAIL, HELD, text, gang, where=(last.pod.where,), evidence=keys, causes=(HOLDS_ON,)
        )
    number = Number("time held back", round(longest, 3), "s", origin="init container, by receipt")
    text = (
        f"{len(waits)} workers waited for {longest:.1f} s at most and started {after:.1f} s at least after "
        f"{plan.address}:{plan.port} listened"
    )
    return wording.finding(Verdict.PASS, HELD, text, gang, evidence=keys, numbers=(number,))


def _silent(evidence: Evidence, gang: Gang, plan: pytorch_plan.Plan) -> bool:
    """Report whether every master is a payload of ours that spoke, and so would have said that it listens."""
    masters = [pod for pod in gang.pods if pod.task == plan.master]
    words = payload_lines.words(evidence)
    return bool(masters) and all(words.of("env", pod.uid) for pod in masters)


def _stuck(
    evidence: Evidence, gang: Gang, plan: pytorch_plan.Plan, stuck: list[Wait], listens: payload_lines.Word
) -> Finding:
    """Judge workers that were not let go although the master listened."""
    one = stuck[0]
    keys = (one.key, listens.key)
    where = wording.places(w.pod for w in stuck)
    expired = subjects.timed_out(evidence, listens.t)
    if one.code is None and expired is None:
        since = evidence.end - listens.t
        text = f"{one.pod.name} still waits when the evidence ends, {since:.1f} s after the master listened"
        return wording.finding(Verdict.INCONCLUSIVE, HELD, text, gang, where=where, evidence=keys)
    master = next((pod for pod in gang.pods if pod.uid == listens.uid), None)
    causes = tuple(interception.causes(evidence, one.pod, master, plan.port, "timed out"))
    ended = (
        f"ended with {one.code}"
        if one.code is not None
        else f"was still waiting (waited for {expired and expired[0]})"
    )
    text = f"{one.pod.name} {ended}, although {plan.address}:{plan.port} listened from t={listens.t:.2f} s"
    return wording.finding(Verdict.FAIL, HELD, text, gang, where=where, causes=causes, evidence=keys)


@subjects.judge
def gives_up_in_time(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge PLG-013."""
    jobs = _waiting(evidence, given, "unanswered")
    findings = [
        _without(evidence, gang, plan, BOUNDED) or _gives_up(evidence, given, gang, plan)
        for gang, plan in jobs
    ]
    if not findings:
        return wording.finding(
            Verdict.INCONCLUSIVE, BOUNDED, "no Volcano Job whose workers wait for their master"
        )
    return wording.telling(findings)


def limit_of(gang: Gang) -> int:
    """Return the declared time-out in seconds."""
    stated = volcano_jobs.flags(gang.job, "pytorch").get("wait-master-timeout", "") if gang.job else ""
    return int(stated) if stated.isdigit() else DEFAULT_LIMIT


def _gives_up(evidence: Evidence, given: subjects.Given, gang: Gang, plan: pytorch_plan.Plan) -> Finding:
    limit = limit_of(gang)
    waits = [wait for pod in _workers(gang, plan) if (wait := of_pod(evidence, pod)) is not None]
    listens = _listens(evidence, gang, plan)
    keys = tuple(wait.key for wait in waits)[:8]
    if listens is not None or not waits:
        text = f"the master of {gang.title} listens" if listens else f"no worker of {gang.title} was seen"
        return wording.finding(
            Verdict.INCONCLUSIVE, BOUNDED, f"{text}: no worker had to give up", gang, evidence=keys
        )
    bad = [
        (wait, *found) for wait in waits if (found := _fault(evidence, given, gang, plan, wait)) is not None
    ]
    durations = [w.ended - w.began for w in waits if w.ended is not None and w.began is not None]
    longest = max(durations, default=None)
    number = Number(
        "time until the worker gave up", None if longest is None else round(longest, 3), "s",
        bound=float(limit), origin="--wait-master-timeout",
    )  # fmt: skip
    if bad:
        wait, text, cause = bad[0]
        return wording.finding(
            Verdict.FAIL, BOUNDED, text, gang, violation=True, where=wording.places(w.pod for w, *_ in bad),
            causes=(cause,), evidence=(wait.key,), numbers=(number,),
        )  # fmt: skip
    let_go = [w.pod.name for w in waits if w.code == 0]
    open_ = [w.pod.name for w in waits if w.code is None]
    unread = [w.pod.name for w in waits if w.code is not None and not _log(evidence, w.pod)]
    if let_go:
        text = f"{wording.listed(let_go)} went on (exit 0): no worker had to give up"
        return wording.finding(Verdict.INCONCLUSIVE, BOUNDED, text, gang, evidence=keys)
    unbegun = [w.pod.name for w in waits if w.began is None]
    if open_ or unread:
        text = (
            f"{INIT} of {wording.listed(unbegun)} never ran: {waits[0].pod.blocked() or 'its kubelet gives no reason'}"
            if unbegun
            else f"{wording.listed(open_)} still waits when the evidence ends"
            if open_
            else (
                f"the log of {INIT} in {wording.listed(unread)} was not read, so it is not known whether it "
                "names the master"
            )
        )
        return wording.finding(Verdict.INCONCLUSIVE, BOUNDED, text, gang, evidence=keys, numbers=(number,))
    said = _log(evidence, waits[0].pod)[-1]
    text = (
        f"{len(waits)} workers gave up {longest or 0.0:.1f} s after they began to wait; the log says {said!r}"
    )
    return wording.finding(Verdict.PASS, BOUNDED, text, gang, evidence=keys, numbers=(number,))


def _fault(
    evidence: Evidence, given: subjects.Given, gang: Gang, plan: pytorch_plan.Plan, wait: Wait
) -> tuple[str, Cause] | None:
    """Return what is wrong with how one worker waited, and why."""
    limit, grain = limit_of(gang), subjects.of(evidence, given).grain
    name = wait.pod.name
    if wait.code == 0:
        told = _silent(evidence, gang, plan)
        return (f"{name} went on (exit 0) although the master never listened", LETS_GO) if told else None
    end = evidence.end if wait.ended is None else wait.ended
    lasted = end - wait.began if wait.began is not None else 0.0
    if lasted > limit + LATE + grain:
        state = "still waits" if wait.ended is None else f"ended with {wait.code}"
        return f"{name} {state} after {lasted:.1f} s, the time-out is {limit} s", NOT_COUNTED
    if wait.code is not None and lasted < limit - EARLY - grain:
        return f"{name} gave up after {lasted:.1f} s, the time-out is {limit} s", SILENT_LOG
    log = _log(evidence, wait.pod)
    if wait.code is not None and log and not any(plan.address in line for line in log):
        return f"{name} gave up without naming the host it waited for: {log[-1]!r}", SILENT_LOG
    return None


def _log(evidence: Evidence, pod: PodStory) -> list[str]:
    """Return what the init container wrote: its log, else the message of its end."""
    lines = [
        str(line.data.get("line") or "")
        for line in evidence.logs(pod.uid)
        if line.data.get("container") == INIT
    ]
    if lines:
        return lines
    statuses = fields.items(pod.last, "status", "initContainerStatuses")
    messages = (fields.text(s, "state", "terminated", "message") for s in statuses if s.get("name") == INIT)
    return [message for message in messages if message]
