"""The life of an elastic job: it loses a worker, gets it back, is made smaller, and falls below its minimum."""

from collections.abc import Callable

from pytest_gpucluster.scenario import Handle, Live, Needs, Scenario, Stage
from pytest_gpucluster.scenario.predicates import phase
from pytest_gpucluster.scenario.programs import payloads_of
from pytest_gpucluster.scenario.stage import SlotPool

from .common import LOGS, PAYLOAD, told
from .durable_volume import CLAIMS
from .elastic import (
    EVERY,
    JOBS,
    PACE,
    PROGRAMS,
    SERVICES,
    Meeting,
    World,
    declared,
    job,
    leave,
    meeting,
    nodes_without_gpus,
    saves,
    unusable,
    volume,
    worlds,
)

TRIES = 20
"""Members that the Job makes again: every loss counts as a failed pod."""


PATIENCE = 90.0
"""Seconds for a world to form anew where none are declared, beside what its time-outs let it wait."""


def reform(stage: Stage) -> float:
    """Return the seconds in which a world must form anew, or may be waited for."""
    elastic = declared(stage)
    lost = elastic.keep_alive_interval * elastic.keep_alive_max_attempt
    return elastic.reform or PATIENCE + elastic.last_call_timeout + lost


class Life:
    """One elastic job on a pool of slots, one slot for each worker."""

    def __init__(self, stage: Stage, training: Handle, pool: SlotPool, where: Meeting) -> None:
        """Look at a job that was submitted."""
        self._stage = stage
        self._where = where
        self._job = training
        self._pool = pool
        self._seen: set[str] = set()

    @property
    def newest(self) -> World:
        """Return the world that formed last."""
        return worlds(self._stage, self._job.name)[-1]

    def forms(self, size: int, what: str) -> bool:
        """Wait until a new world of a size has formed, taken steps and, if it can, saved a checkpoint."""
        stage, saving = self._stage, saves(self._stage)

        def formed(_: Live) -> bool:
            new = [world for world in worlds(stage, self._job.name) if world.name not in self._seen]
            return any(one.size == size and one.whole and (one.saved or not saving) for one in new)

        # The first one starts from nothing; what follows it has its own bound.
        budget, extra = ("run", reform(stage)) if self._seen else ("torch", 0.0)
        if not stage.wait(what, formed, budget=budget, extra=extra, unless=self._over()):
            return False
        self._seen |= {world.name for world in worlds(stage, self._job.name)}
        return True

    def _over(self) -> Callable[[Live], str]:
        """Tell when no worker is left that could form a world: all that were there have failed, or none can start."""
        before = {pod["metadata"]["uid"] for pod in self._stage.live.pods_of(self._job)}

        def check(live: Live) -> str:
            pods = [pod for pod in live.pods_of(self._job) if pod["metadata"]["uid"] in before]
            ended = pods and all(phase(pod) in ("Failed", "Succeeded") for pod in pods)
            return "all workers have ended" if ended else unusable(self._stage, self._where)

        return check

    def lose(self, count: int = 1) -> None:
        """Kill workers and take their slots away, first the one that has rank 0: nobody takes their places."""
        stage, ranks = self._stage, self.newest.formed
        pods = {str(pod["metadata"]["uid"]): pod for pod in stage.live.pods_of(self._job)}
        lost = [pods[uid] for uid in sorted(ranks, key=lambda uid: ranks[uid])[:count] if uid in pods]
        (node, _), *_ = self._pool.counts.items()
        self._pool = stage.resize_slots(self._pool, {node: len(ranks) - len(lost)})
        for pod in lost:
            stage.remove_pod(pod, grace=0)

    def gives_back(self, slots: int) -> None:
        """Let the workers have so many slots again."""
        (node, _), *_ = self._pool.counts.items()
        self._pool = self._stage.resize_slots(self._pool, {node: slots})

    def gives_up(self) -> bool:
        """Wait until the workers that are left have waited for others in vain and have ended."""
        stage, elastic = self._stage, declared(self._stage)
        left = set(self.newest.formed)

        def ended(live: Live) -> bool:
            pods = [pod for pod in live.pods_of(self._job) if pod["metadata"]["uid"] in left]
            return all(
                phase(pod) in ("Failed", "Succeeded") or "deletionTimestamp" in pod["metadata"]
                for pod in pods
            )

        return stage.wait(
            "the workers below the minimum have given up", ended, budget="run", extra=elastic.join_timeout
        )


def run(stage: Stage) -> None:
    """Let the job live: whole, less one, whole again, less one by declaration, below its minimum."""
    elastic = declared(stage)
    smallest, whole = elastic.min, elastic.max
    told(
        stage,
        elastic=elastic.model_dump(),
        members=whole,
        pace=PACE,
        every=EVERY,
        shared=saves(stage),
        other_nodes=len(nodes_without_gpus(stage)),
    )
    pool = stage.slots(nodes=1, per_node=whole)
    payload = payloads_of(stage, *PROGRAMS)
    where = meeting(stage, elastic, payload)
    shared = volume(stage)
    wanted = job(
        stage, elastic, where, payload, name=stage.name, members=(smallest, whole),
        restarts=elastic.max_restarts, resources={pool.resource: 1}, lost=TRIES, shared=shared,
    )  # fmt: skip
    training = stage.submit(stage.contrast.write(wanted), role="training")
    if training.ok:
        stage.follow(training)
        live_through(stage, Life(stage, training, pool, where), training)
        stage.delete(training)
    leave(stage, shared)


def live_through(stage: Stage, life: Life, training: Handle) -> None:
    """Let a job lose workers, get them back and lose them for good, as far as its worlds form."""
    elastic = declared(stage)
    smallest, whole = elastic.min, elastic.max
    if not life.forms(whole, f"a world of {whole} trains"):
        return
    life.lose()
    if not life.forms(whole - 1, f"a world of {whole - 1} trains on after a loss"):
        return
    life.gives_back(whole)
    if not life.forms(whole, f"a world of {whole} trains again"):
        return
    stage.scale(training, whole - 1)
    if life.forms(whole - 1, f"the world follows the Job to {whole - 1} members"):
        life.lose(whole - smallest)
        life.gives_up()


elastic_training = Scenario(
    name="elastic-training",
    summary="an elastic job loses a worker, gets it back, is made smaller, and falls below its minimum",
    run=run,
    needs=Needs(
        slot_nodes=1,
        slots_per_node=3,
        seconds=70,
        torch=True,
        gang=False,
        permissions=PAYLOAD + LOGS + SERVICES + JOBS + CLAIMS,
    ),
    kinds=("Pod", "Job.batch", "Event", "Service", "ConfigMap", "Node", "PersistentVolumeClaim"),
)
