"""How fast GPUs are: products and a training step on all of them, and the documented smoke loop."""

import dataclasses
import pathlib
from typing import Any

from pytest_gpucluster.measure import baseline, shipped
from pytest_gpucluster.scenario import Handle, Needs, NotApplicable, Scenario, Stage
from pytest_gpucluster.scenario.predicates import gave_up, job_ended
from pytest_gpucluster.scenario.programs import Agents, payloads_of, speaking, torchrun
from pytest_gpucluster.workload import GangSpec

from .common import LOGS, PAYLOAD, told
from .numa import gpu_nodes

PORT = 23458
CPU_RANKS = {"gemm": 1, "train": 2, "smoke": 3}
"""Ranks where GPUs are only pretended; in the smoke loop the documented formula is right by accident on two."""
SMALL_PRODUCTS = ("--cpu", "--most=2", "--warm=0.2", "--window=0.04", "--cv=0.3")
SMALL_MODEL = (
    "--cpu", "--layers=2", "--width=64", "--heads=2", "--seq=64", "--batch=2", "--vocab=256", "--steps=10",
    "--warm-steps=3", "--most=1", "--cv=1",
)  # fmt: skip
SMALL_LOOP = ("--cpu", "--size=192", "--steps=20")


@dataclasses.dataclass(frozen=True)
class Layout:
    """Pods, GPUs of each, ranks of each."""

    pods: int
    gpus: int
    ranks: int


def declared(stage: Stage) -> Any:
    """Return what the profile declares of speed, and write it into the evidence's header with its floors and baseline.

    Raises:
        NotApplicable: nothing is declared.
    """
    mfu = stage.profile.mfu
    if mfu is None:
        raise NotApplicable("the profile does not declare `mfu`: how fast GPUs are is not judged")
    plain: dict[str, Any] = mfu.model_dump(mode="json")
    listed = shipped.load(mfu.floor_file) if mfu.floor_file else []
    plain["floors"] = [*plain["floors"], *({**one, "of": mfu.floor_file} for one in listed)]
    if mfu.baseline:
        try:
            plain["baseline_figures"] = baseline.read(pathlib.Path(mfu.baseline))
        except baseline.BaselineError as error:
            plain["baseline_problem"] = str(error)
    stage.given["mfu"] = plain
    return mfu


def layout(stage: Stage, mfu: Any, nodes: int | None, cpu_ranks: int, *, all_gpus: bool = True) -> Layout:
    """Return who takes part: pods that together hold all GPUs of the nodes.

    A pod asks for the GPUs of a whole node; where pods must lie on one NUMA node, for those of one. Two pods of one
    node reach each other over its network only: training takes one of them.

    Raises:
        NotApplicable: that is no GPU at all.
    """
    numa, whole = stage.profile.numa, stage.profile.gpus_per_node
    if mfu.device == "cpu":
        return Layout(1, min(cpu_ranks, whole), cpu_ranks)
    single = numa is not None and numa.policy == "single-numa-node"
    each = whole // numa.nodes if single and numa is not None else whole
    if each < 1:
        raise NotApplicable(f"{whole} GPUs per node are none for each of its pods")
    found = nodes or max(1, len(gpu_nodes(stage, whole)))
    return Layout(found * (whole // each if all_gpus else 1), each, each)


def gang(stage: Stage, name: str, who: Layout, command: tuple[str, ...], payload: str) -> GangSpec:
    """Return the gang of torchrun agents, where several have names before they are ready; or the one process."""
    return torchrun(stage, name, Agents(who.pods, who.ranks, who.gpus, PORT), command, payload=payload)


def measure(stage: Stage, role: str, wanted: GangSpec, dialect: Any) -> Handle:
    """Run one program on all ranks from start to end."""
    made = stage.gang(wanted, role=role, dialect=dialect)
    if made.ok:
        stage.follow(made)
        stage.wait(
            f"all ranks of {role} have measured", job_ended(made), budget="torch", unless=gave_up(made)
        )
        stage.delete(made)
    return made


def training_args(mfu: Any) -> tuple[str, ...]:
    """Return the arguments of the training payload for a declared model."""
    training = mfu.training
    sizes = ("layers", "width", "heads", "seq", "batch", "vocab")
    given = [f"--{name}={value}" for name in sizes if (value := getattr(training, name)) is not None]
    return (*given, f"--compile={training.compile}", *(("--recompute",) if training.recompute else ()))


def run(stage: Stage) -> None:
    """Let all GPUs multiply at once, then train on them."""
    mfu = declared(stage)
    cpu = mfu.device == "cpu"
    products = layout(stage, mfu, mfu.nodes, CPU_RANKS["gemm"])
    training = layout(stage, mfu, mfu.training.nodes, CPU_RANKS["train"], all_gpus=False)
    told(
        stage,
        world=products.pods * products.ranks,
        training_world=training.pods * training.ranks,
        resource=stage.profile.gpu_resource,
        currency="gpu",
    )
    payload = payloads_of(stage, "gemm.py", "train_step.py")
    most = max(products.pods * products.gpus, training.pods * training.gpus)
    dialect = speaking(stage, {stage.profile.gpu_resource: most})
    args = (f"--seconds={mfu.seconds:g}", *(SMALL_PRODUCTS if cpu else ()))
    multiply = gang(stage, f"{stage.name}-gemm", products, ("/workspace/gemm.py", *args), payload)
    measure(stage, "gemm", multiply, dialect)
    args = SMALL_MODEL if cpu else training_args(mfu)
    train = gang(stage, f"{stage.name}-train", training, ("/workspace/train_step.py", *args), payload)
    measure(stage, "train", train, dialect)


def run_smoke(stage: Stage) -> None:
    """Let all ranks do the documented loop of product and all-reduce."""
    mfu = declared(stage)
    who = layout(stage, mfu, mfu.nodes, CPU_RANKS["smoke"])
    told(stage, world=who.pods * who.ranks, resource=stage.profile.gpu_resource, currency="gpu")
    payload = payloads_of(stage, "smoke.py")
    dialect = speaking(stage, {stage.profile.gpu_resource: who.pods * who.gpus})
    args = SMALL_LOOP if mfu.device == "cpu" else ()
    measure(stage, "smoke", gang(stage, stage.name, who, ("/workspace/smoke.py", *args), payload), dialect)


speed = Scenario(
    name="speed",
    summary="all GPUs multiply matrices at once for as long as they must, then train a decoder",
    run=run,
    needs=Needs(
        section="mfu",
        named=True,
        nodes=1,
        gpus=8,
        seconds=14,
        gpu_seconds=8 * 180,
        torch=True,
        permissions=PAYLOAD + LOGS,
    ),
)

smoke_loop = Scenario(
    name="smoke-loop",
    summary="the documented loop of a product and an all-reduce, its FLOPs counted right",
    run=run_smoke,
    needs=Needs(
        section="mfu",
        named=True,
        nodes=1,
        gpus=8,
        seconds=9,
        gpu_seconds=8 * 20,
        torch=True,
        permissions=PAYLOAD + LOGS,
    ),
)
