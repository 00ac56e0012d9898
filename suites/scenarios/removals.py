"""Small Jobs that lose a pod, or are suspended: deletion, eviction, a command, a finished member taken away.

They run side by side and ask for no GPU: what is judged is what the controllers make of it.
"""

from collections.abc import Callable, Mapping
from typing import Any

from pytest_gpucluster.scenario import Handle, Live, Needs, Scenario, Stage
from pytest_gpucluster.scenario.predicates import phase
from pytest_gpucluster.scenario.programs import image, speaking
from pytest_gpucluster.workload import GangSpec, Role

from .common import HOLD, begun, job_phase, past_enqueue, told
from .endings import ended

Pod = Mapping[str, Any]

FIRST_ATTEMPT_HOLDS = ("sh", "-c", '[ "$ATTEMPT" = 0 ] || exit 0; trap "exit 0" TERM; sleep 3600 & wait')
"""Holds in the first attempt and ends with 0 on TERM: a member that ended otherwise would be Failed before it is
gone, and Volcano would see PodFailed. Every later attempt ends well at once."""

FIRST_INDEX_ENDS = (
    "sh",
    "-c",
    '[ "$JOB_COMPLETION_INDEX" = 0 ] && exit 0; trap "exit 0" TERM; sleep 3600 & wait',
)

ANNOTATION = "volcano.sh/job-retry-count"
"""Where Volcano tells a pod which attempt it belongs to."""

RETRY_COUNT = f"metadata.annotations['{ANNOTATION}']"


def _restarting(stage: Stage, role: str, *, evicted_restarts: bool) -> Handle:
    """Submit a Job of two members that completes in its second attempt."""
    spec = GangSpec(
        f"{stage.name}-{role}",
        roles=(Role("worker", 2, FIRST_ATTEMPT_HOLDS, field_env={"ATTEMPT": RETRY_COUNT}),),
        image=image(stage, "python"),
        policies=(("PodEvicted", "RestartJob"),) if evicted_restarts else (),
        max_retry=3,
    )
    handle: Handle = stage.submit(stage.dialect.write(spec), role=role)
    return handle


def _finishing(stage: Stage, *, own: bool) -> tuple[Handle, ...]:
    """Submit the Jobs whose first member ends while the second goes on: a batch Job, and a Volcano Job.

    Without Volcano the batch Job alone, as the declared scheduler wants it.
    """
    batch = GangSpec(
        f"{stage.name}-batch", roles=(Role("worker", 2, FIRST_INDEX_ENDS),), image=image(stage, "python")
    )
    if not own:
        return (stage.gang(batch, role="subject", dialect=speaking(stage)),)
    gang = GangSpec(
        f"{stage.name}-volcano",
        roles=(Role("first", 1, HOLD), Role("second", 1, ("sh", "-c", "exit 0"))),
        image=image(stage, "python"),
    )
    return (
        stage.submit(stage.contrast.write(batch), role="subject"),
        stage.submit(stage.dialect.write(gang), role="contrast"),
    )


def _in_phase(live: Live, handle: Handle, wanted: str) -> list[Pod]:
    return [pod for pod in live.pods_of(handle) if phase(pod) == wanted]


def _running(handle: Handle, count: int) -> Callable[[Live], bool]:
    return lambda live: len(_in_phase(live, handle, "Running")) >= count


def _ended_early(handle: Handle) -> Callable[[Live], str]:
    """Tell when a Job is over before anything was done to it: its members did not hold."""
    over = ended(handle)
    return lambda live: "it ended before anything was done to it" if over(live) else ""


def _one_finished(handle: Handle) -> Callable[[Live], bool]:
    """Report whether one member has succeeded, the Job knows it, and the other one runs."""

    def check(live: Live) -> bool:
        status = (live.get(handle.kind, handle.name) or {}).get("status") or {}
        seen = all(_in_phase(live, handle, wanted) for wanted in ("Succeeded", "Running"))
        return bool(status.get("succeeded")) and seen

    return check


def _suspended(handle: Handle) -> Callable[[Live], bool]:
    return lambda live: job_phase(live, handle) == "Aborted" and not live.pods_of(handle)


def _remove(stage: Stage, job: Handle) -> None:
    """Take the finished member of a Job away; the window that follows begins when it is gone."""
    pod = _in_phase(stage.live, job, "Succeeded")[0]
    uid = pod["metadata"]["uid"]
    stage.remove_pod(pod)
    stage.wait(f"{job.name} has lost it", lambda live: live.by_uid(uid) is None, budget="finish")


def _made_again_alone(handle: Handle) -> Callable[[Live], str]:
    """Tell when the lost member runs again in the first attempt, which holds for ever: nothing was restarted."""

    def check(live: Live) -> str:
        attempts = [
            pod["metadata"].get("annotations", {}).get(ANNOTATION)
            for pod in _in_phase(live, handle, "Running")
        ]
        return "the lost member runs again in the same attempt" if attempts == ["0", "0"] else ""

    return check


def run(stage: Stage) -> None:
    """Take a member from each Job, suspend one and resume it, and wait for the ends."""
    told(stage)
    # A finished member of a batch Job can be taken away anywhere; policies and commands need an API of its own.
    own = stage.dialect.own_api
    deleted = _restarting(stage, "deleted", evicted_restarts=True) if own else None
    evicted = _restarting(stage, "evicted", evicted_restarts=True) if own else None
    paused = _restarting(stage, "suspended", evicted_restarts=False) if own else None
    finishing = [job for job in _finishing(stage, own=own) if job.ok]
    small = [job for job in (deleted, evicted, paused) if job is not None and job.ok]
    stage.wait("every Job has its pods", begun([*small, *finishing]), budget="enqueue")
    going = [
        job
        for job in small
        if past_enqueue(stage.live, job)
        and stage.wait(f"{job.name} runs", _running(job, 2), budget="start", unless=_ended_early(job))
    ]
    if deleted is not None and deleted in going:
        stage.remove_pod(_in_phase(stage.live, deleted, "Running")[0])
    if evicted is not None and evicted in going:
        stage.evict(_in_phase(stage.live, evicted, "Running")[0])
    resumable = False
    if paused is not None and paused in going and stage.command(paused, "AbortJob"):
        resumable = stage.wait(f"{paused.name} is suspended", _suspended(paused), budget="finish")
    for job in finishing:
        if past_enqueue(stage.live, job) and stage.wait(
            f"{job.name} has one finished member", _one_finished(job), budget="start"
        ):
            _remove(stage, job)
    stage.window("after the removals")
    if paused is not None and resumable:
        stage.command(paused, "ResumeJob")
    for job in going:
        if job is not paused or resumable:
            unless = None if job is paused else _made_again_alone(job)
            stage.wait(f"{job.name} has ended", ended(job), budget="run", unless=unless)


removals = Scenario(
    name="removals",
    summary="small Jobs that lose a pod by deletion or eviction, are suspended and resumed, or lose a finished member",
    run=run,
    needs=Needs(
        seconds=5,
        pods_run=True,
        permissions=(
            "create pods/eviction",
            "delete pods",
            "create commands.bus.volcano.sh",
            "create,delete,list,watch jobs.batch",
        ),
    ),
)
