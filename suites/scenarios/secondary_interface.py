"""A fleet that is to meet and reduce over a second interface of its pods."""

from typing import Any

from pytest_gpucluster.scenario import Needs, NotApplicable, Scenario, Stage
from pytest_gpucluster.scenario.predicates import phase
from pytest_gpucluster.scenario.programs import image, payloads_of
from pytest_gpucluster.workload import GangSpec, Role

from .common import LOGS, PAYLOAD, told
from .indexed import JOBS, KINDS, SERVICES, ended, headless, indexed_job, member_names
from .two_jobs import meeting

PROGRAM = "/workspace/secondary_interface.py"
MEMBERS = 2
ANNOTATION = "k8s.v1.cni.cncf.io/networks"


def fleet(stage: Stage, name: str, payload: str, interface: str, network: str | None) -> dict[str, Any]:
    """Return the Indexed Job whose members use an interface for all, and ask for its network where one is declared.

    It is Kubernetes' own, placed by its own scheduler: interfaces depend on neither.
    """
    first = member_names(name, name, 1)[0]
    args = (
        PROGRAM,
        f"--interface={interface}",
        f"--first={first}",
        f"--members={MEMBERS}",
        f"--id={name}",
        f"--within={meeting(stage)}",
    )
    role = Role(
        "member",
        MEMBERS,
        ("python",),
        args,
        env={"GLOO_SOCKET_IFNAME": interface, "NCCL_SOCKET_IFNAME": interface},
    )
    spec = GangSpec(name, roles=(role,), image=image(stage, "torch"), payload=payload)
    job = indexed_job(stage, spec, name)
    if network:
        asked = network if "@" in network else f"{network}@{interface}"
        job["spec"]["template"].setdefault("metadata", {}).setdefault("annotations", {})[ANNOTATION] = asked
    return job


def run(stage: Stage) -> None:
    """Let the members meet over the declared interface, reduce once, and tell over what."""
    declared = stage.profile.secondary
    if declared is None:
        raise NotApplicable("the profile declares no second interface (secondary.interface)")
    told(stage, members=MEMBERS, world=MEMBERS)
    name, payload = stage.name, payloads_of(stage, "secondary_interface.py")
    stage.submit(headless(name, name), role="names")
    made = stage.submit(fleet(stage, name, payload, declared.interface, declared.network), role="subject")
    if made.ok:
        stage.follow(made)
        over = ended(made)
        stage.wait(
            "the fleet has ended",
            lambda live: over(live) or any(phase(pod) == "Failed" for pod in live.pods_of(made)),
            budget="torch",
        )
        stage.delete(made)


secondary_interface = Scenario(
    name="secondary-interface",
    summary="a fleet meets and reduces over the declared second interface of its pods",
    run=run,
    needs=Needs(
        section="secondary", seconds=8, torch=True, gang=False, permissions=PAYLOAD + LOGS + SERVICES + JOBS
    ),
    kinds=KINDS,
)
