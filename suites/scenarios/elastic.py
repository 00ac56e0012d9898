"""Elastic jobs: what their workers run, where they meet, and what their payloads have printed so far."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from pytest_gpucluster.profile import Elastic
from pytest_gpucluster.scenario import Stage
from pytest_gpucluster.scenario.gpu_nodes import offered
from pytest_gpucluster.scenario.not_applicable import NotApplicable
from pytest_gpucluster.scenario.programs import headless, image
from pytest_gpucluster.scenario.slots import schedulable
from pytest_gpucluster.workload import GangSpec, Role, Volume, lone_pod

from .durable_volume import empty, mounted

PROGRAMS = ("elastic_client.py", "elastic_store.py", "elastic_train.py")
PACE = 0.25
"""Least seconds of a step: a lost member is noticed in the next one."""
EVERY = 4
"""Steps between two checkpoints: one second of work."""
PORTS = {"c10d-store-pod": 29400, "c10d": 29400, "etcd-v2": 2379}
BACKENDS = {"c10d-store-pod": "c10d", "c10d": "c10d", "etcd-v2": "etcd-v2"}
"""Declared backend -> what torchrun calls it."""
SHARED_DIR = "/shared"
"""Where the volume of a store, or the one that workers share, is mounted."""
STORE_LABEL = "gpucluster.dev/elastic-store"
GRACE = 4
"""Seconds that a worker has to end: the agent sends its ranks TERM, waits for them, and leaves the rendezvous."""
STORE_WITHIN = 60.0
"""Seconds in which the store must answer its workers; it starts at the same time as they do."""
AGENT_GRACE = 2
"""Seconds of these that the agent gives its ranks; torchrun's own 30 are longer than the pod's."""

SERVICES = ("create,delete services",)
JOBS = ("create,delete,patch jobs.batch", "create,delete,patch pods")

START = 'python /workspace/elastic_client.py $0 && exec torchrun "$@"'
"""What a worker runs: the question whether its backend can be used, then torchrun as the container's first process, so
that whoever kills the container kills the agent."""


def declared(stage: Stage) -> Elastic:
    """Return what is declared of elastic training.

    Raises:
        NotApplicable: nothing is.
    """
    found = stage.profile.elastic
    if found is None:
        raise NotApplicable("the profile declares no elastic training (`elastic: {}`)")
    return found


@dataclasses.dataclass(frozen=True)
class Meeting:
    """Where the agents of a job meet.

    Attributes:
        backend: as the profile calls it.
        endpoint: HOST:PORT.
    """

    backend: str
    endpoint: str


def meeting(stage: Stage, elastic: Elastic, payload: str) -> Meeting:
    """Return where the jobs of a scenario meet, with a store of our own where none is declared.

    Nobody waits for it here: workers do, and say what became of it.
    """
    if elastic.endpoint is not None or elastic.backend == "c10d":
        return Meeting(elastic.backend, elastic.endpoint or "")
    name, port = f"{stage.name}-store", PORTS[elastic.backend]
    endpoint = f"{name}.{stage.namespace}.svc.cluster.local:{port}"
    write = etcd if elastic.backend == "etcd-v2" else tcp_store
    pod = lone_pod(write(stage, name, endpoint, payload), "default-scheduler", {STORE_LABEL: name})
    store = stage.submit(pod, role="store")
    headless(stage, name, {STORE_LABEL: name})
    if store.ok:
        stage.follow(store)
    return Meeting(elastic.backend, endpoint)


def tcp_store(stage: Stage, name: str, endpoint: str, payload: str) -> GangSpec:
    """Return the pod with a TCPStore: off the GPU nodes where there are others, and without a GPU."""
    port = endpoint.rpartition(":")[2]
    role = Role("store", 1, ("python",), ("/workspace/elastic_store.py", f"--port={port}"))
    return GangSpec(
        name, roles=(role,), image=image(stage, "torch"), payload=payload, nodes=nodes_without_gpus(stage)
    )


def etcd(stage: Stage, name: str, endpoint: str, payload: str) -> GangSpec:  # noqa: ARG001 (etcd runs nothing of ours)
    """Return the pod with an etcd that has the v2 API; what it keeps lies in a volume of the pod's own."""
    args = (
        "--enable-v2=true",
        f"--data-dir={SHARED_DIR}/etcd",
        "--listen-client-urls=http://0.0.0.0:2379",
        f"--advertise-client-urls=http://{endpoint}",
    )
    role = Role("store", 1, ("etcd",), args)
    return GangSpec(
        name,
        roles=(role,),
        image=image(stage, "etcd"),
        nodes=nodes_without_gpus(stage),
        volumes=(Volume("shared", {"emptyDir": {}}, SHARED_DIR),),
    )


def nodes_without_gpus(stage: Stage) -> tuple[str, ...]:
    """Return the names of the nodes that take pods and offer no GPU, () if all offer some."""
    resource = stage.profile.gpu_resource
    nodes = [n for n in stage.live.objects("Node") if schedulable(n) and not offered(n, resource)]
    return tuple(sorted(str(node["metadata"]["name"]) for node in nodes))


def job(
    stage: Stage,
    elastic: Elastic,
    where: Meeting,
    payload: str,
    *,
    name: str,
    members: tuple[int, int],
    restarts: int,
    resources: Mapping[str, int | str] | None = None,
    more: tuple[str, ...] = (),
    lost: int = 0,
    shared: Volume | None = None,
) -> GangSpec:
    """Return an elastic job: an Indexed Job of agents of torchrun with one rank each.

    Args:
        stage: where.
        elastic: what is declared.
        where: where its agents meet.
        payload: the ConfigMap with the programs.
        name: of the job, and id of its rendezvous.
        members: fewest and most workers.
        restarts: `--max-restarts` of each agent.
        resources: what each worker asks for.
        more: further arguments of the program.
        lost: members that the Job makes again.
        shared: the volume on which its workers save; None where they save nothing.
    """
    endpoint, inside = where.endpoint, where.backend == "c10d"
    if inside:
        headless(stage, name)
        host = stage.contrast.member_host(name, "worker", 0)
        endpoint = f"{host}.{stage.namespace}.svc.cluster.local:{PORTS[where.backend]}"
    conf = {
        "join_timeout": elastic.join_timeout,
        "last_call_timeout": elastic.last_call_timeout,
        "keep_alive_interval": elastic.keep_alive_interval,
        "keep_alive_max_attempt": elastic.keep_alive_max_attempt,
        **({"is_host": "false"} if where.backend == "c10d-store-pod" else {}),
    }
    args = (
        f"{where.backend} {endpoint} --within={STORE_WITHIN:g}",
        f"--nnodes={members[0]}:{members[1]}",
        "--nproc-per-node=1",
        f"--rdzv-backend={BACKENDS[where.backend]}",
        f"--rdzv-id={name}",
        f"--rdzv-endpoint={endpoint}",
        f"--rdzv-conf={','.join(f'{key}={value}' for key, value in conf.items())}",
        "--local-addr=$(POD_IP)",
        f"--max-restarts={restarts}",
        "/workspace/elastic_train.py",
        f"--pace={PACE:g}",
        f"--every={EVERY}",
        *((f"--checkpoints={SHARED_DIR}/{stage.namespace}",) if shared is not None else ()),
        *more,
    )
    interface = stage.profile.interface
    env = {
        # Since 2.8 agents keep one store for all rounds, in which a newcomer waits for what nobody writes again.
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(AGENT_GRACE),
        **({"GLOO_SOCKET_IFNAME": interface} if interface else {}),
    }
    role = Role(
        "worker", members[1], ("sh", "-c", START), args, env=env, field_env={"POD_IP": "status.podIP"}
    )
    gpus = {stage.profile.gpu_resource: elastic.gpus} if elastic.gpus else {}
    return GangSpec(
        name,
        roles=(role,),
        resources={**gpus, **(resources or {})},
        image=image(stage, "torch"),
        payload=payload,
        subdomain=name if inside else "",
        grace=GRACE,
        max_retry=lost,
        volumes=(shared,) if shared is not None else (),
    )


def saves(stage: Stage) -> bool:
    """Report whether a volume is declared that workers of several nodes share: there they save."""
    storage = stage.profile.storage
    if storage is None:
        return False
    durable = storage.durable
    return durable.source != "storage_class" or durable.access == "ReadWriteMany"


def volume(stage: Stage) -> Volume | None:
    """Return the volume on which workers save, with a claim of its class where that is declared; None where none is."""
    storage = stage.profile.storage
    return mounted(stage, storage, SHARED_DIR) if storage is not None and saves(stage) else None


def leave(stage: Stage, shared: Volume | None) -> None:
    """Remove what workers saved, where the volume is not ours and stays."""
    storage = stage.profile.storage
    if storage is not None and shared is not None:
        empty(stage, storage, shared, f"{SHARED_DIR}/{stage.namespace}")


def unusable(stage: Stage, where: Meeting) -> str:
    """Tell why no agent of a meeting will start: a worker's image or its store lacks what it needs; "" else."""
    for said in stage.said("elastic-client", "elastic-endpoint"):
        if said.data.get("backend") == where.backend and said.data.get("ok") is False:
            return (
                f"a worker cannot use {where.backend}: {said.data.get('missing') or said.data.get('error')}"
            )
    return ""


@dataclasses.dataclass(frozen=True)
class World:
    """A world as its ranks have told it so far.

    Attributes:
        name: what its ranks agreed to call it.
        size: ranks that it has.
        formed: uid of a pod -> its rank, of those that said that it formed.
        steps: newest step that it has taken, 0 for none.
        saved: whether it has written a checkpoint.
    """

    name: str
    size: int
    formed: Mapping[str, int]
    steps: int
    saved: bool

    @property
    def whole(self) -> bool:
        """Report whether all ranks have said that it formed, and it has taken a step."""
        return len(self.formed) == self.size and self.steps > 0


def worlds(stage: Stage, name: str) -> list[World]:
    """Return the worlds of a job so far, in the order in which they formed."""
    found: dict[str, dict[str, Any]] = {}
    for said in stage.said("elastic-formed", "elastic-step"):
        if said.data.get("id") != name:
            continue
        one = found.setdefault(str(said.data.get("name")), {"formed": {}, "steps": 0, "saved": False})
        one["size"] = said.data["world"]
        if said.event == "elastic-formed":
            one["formed"][said.uid] = int(said.data["rank"])
        else:
            one["steps"] = max(one["steps"], int(said.data["step"]))
            one["saved"] = one["saved"] or bool(said.data.get("saved"))
    return [World(world, **fields) for world, fields in found.items()]
