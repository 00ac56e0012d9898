"""Programs of ours in pods: their image, their ConfigMap, the names of their pods, and how torchrun starts them."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from pytest_gpucluster.kube.errors import EnvironmentProblem
from pytest_gpucluster.plain import schedulers
from pytest_gpucluster.scenario.stage import Stage
from pytest_gpucluster.workload import Dialect, GangSpec, Role, config_map


def image(stage: Stage, role: str) -> str:
    """Return the image that plays a role (`python`, `torch`).

    Raises:
        EnvironmentProblem: the cluster has none; the row is then not decided.
    """
    images: Mapping[str, str] = getattr(stage.cluster, "images", {})
    if role not in images:
        facts: Mapping[str, Any] = getattr(stage.cluster, "facts", {})
        told = str(facts.get(f"{role}_problem") or "")
        fix = "" if told else no_image_fix(role)
        raise EnvironmentProblem(told or f"the profile names no image for {role} (images.{role})", fix=fix)
    return images[role]


def roles_with_image(stage: Stage) -> list[str]:
    """Return the roles for which the cluster has an image, sorted."""
    images: Mapping[str, str] = getattr(stage.cluster, "images", {})
    return sorted(images)


def no_image_fix(role: str) -> str:
    """Return what to do where the profile names no image for a role."""
    more = " and PyTorch" if role == "torch" else ""
    return (
        f"name an image with Python{more} that the nodes can pull: `images: {{{role}: REGISTRY/IMAGE:TAG}}` in the "
        f"profile, or --gpucluster-set images.{role}=REGISTRY/IMAGE:TAG"
    )


def payloads_of(stage: Stage, *programs: str, name: str = "") -> str:
    """Create the ConfigMap with payload programs; returns its name, `name` or one of the scenario."""
    name = name or f"{stage.name}-payloads"
    stage.submit(config_map(name, *programs), role="payload")
    return name


def headless(stage: Stage, name: str, selector: Mapping[str, str] | None = None) -> str:
    """Create the Service under which the members of a gang have names, ready or not; returns its name.

    A member of an Indexed Job is `JOB-INDEX.SERVICE`, from its creation on.

    Args:
        stage: where.
        name: of the Service.
        selector: labels of the members; None for those of the Indexed Job of the same name.
    """
    spec = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": dict(selector or {"batch.kubernetes.io/job-name": name}),
    }
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}
    stage.submit(service, role="service")
    return name


def speaking(stage: Stage, quota: Mapping[str, int] | None = None) -> Dialect:
    """Return how the declared scheduler wants gangs written, with a queue of our own where gangs need quota.

    Args:
        stage: where.
        quota: resource -> what the gangs of the scenario may hold together, for a scheduler that admits by quota; CPU
            and memory are plenty.
    """
    dialect: Dialect = stage.dialect
    if dialect.scarce != schedulers.QUOTA:
        return dialect
    return dataclasses.replace(dialect, queue=stage.cluster_queue(dict(quota or {})).queue)  # type: ignore[type-var]


@dataclasses.dataclass(frozen=True)
class Agents:
    """Agents of torchrun, one per pod.

    Attributes:
        pods: pods.
        ranks: ranks of each pod.
        gpus: GPUs of each pod.
        port: TCP port on which they meet.
        lone: whether one pod also meets over the network; else it stays by itself (`--standalone`), and a lone rank
            needs no agent at all.
        apart: whether no two pods may share a node.
    """

    pods: int
    ranks: int
    gpus: int
    port: int
    lone: bool = False
    apart: bool = False


def torchrun(
    stage: Stage,
    name: str,
    agents: Agents,
    command: tuple[str, ...],
    *,
    payload: str,
    env: Mapping[str, str] | None = None,
    field_env: Mapping[str, str] | None = None,
) -> GangSpec:
    """Return the gang of torchrun agents that runs a program on every rank; members have names before they are ready.

    Args:
        stage: where.
        name: of the gang.
        agents: how many, with how many ranks and GPUs.
        command: the program below `/workspace` and its arguments.
        payload: the ConfigMap with the program.
        env: variables in its pods.
        field_env: variables from the downward API, beside POD_IP.

    Raises:
        EnvironmentProblem: the cluster has no image with torch.
    """
    named = agents.pods > 1 or agents.lone
    if not named and agents.ranks == 1:
        line: tuple[str, ...] = ("python",)
    else:
        meet: tuple[str, ...] = ("--standalone",)
        if named:
            if not stage.dialect.names_members:
                headless(stage, name)
            first = stage.dialect.member_host(name, "worker", 0)
            meet = (
                "--rdzv_backend=c10d",
                f"--rdzv_id={name}",
                "--local-addr=$(POD_IP)",
                f"--rdzv_endpoint={first}.{stage.namespace}.svc.cluster.local:{agents.port}",
            )
        # A program that fails must say so, not try again.
        line = (
            "torchrun", f"--nnodes={agents.pods}", f"--nproc_per_node={agents.ranks}", *meet, "--max-restarts=0",
        )  # fmt: skip
    fields = {"POD_IP": "status.podIP", **(field_env or {})}
    words = (*line[1:], *command)
    role = Role("worker", agents.pods, line[:1], words, env=dict(env or {}), field_env=fields)
    return GangSpec(
        name,
        roles=(role,),
        resources={stage.profile.gpu_resource: agents.gpus} if agents.gpus else {},
        image=image(stage, "torch"),
        plugins={"svc": ("--publish-not-ready-addresses=true",)}
        if stage.dialect.names_members and named
        else {},
        subdomain="" if stage.dialect.names_members or not named else name,
        payload=payload,
        grace=2,
        apart=stage.dialect.gang_label if agents.apart else "",
    )
