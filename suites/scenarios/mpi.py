"""Jobs whose members reach each other over SSH: with the ssh plugin, with the mpi plugin, and with neither."""

from collections.abc import Callable

from pytest_gpucluster.scenario import Handle, Live, Needs, Scenario, Stage
from pytest_gpucluster.scenario.not_applicable import NotApplicable
from pytest_gpucluster.scenario.predicates import finished, job_ended
from pytest_gpucluster.scenario.programs import image, payloads_of
from pytest_gpucluster.workload import GangSpec, Role

from .common import LOGS, PAYLOAD, told

PROGRAM = ("python3", "/workspace/ssh_members.py")
WORKERS = 2
PORT = 22
"""Port of OpenSSH, which the plugins leave to the image."""
KEYS = "/root/.ssh"


def declared_image(stage: Stage) -> str:
    """Return the image with ssh, sshd and MPI.

    Raises:
        NotApplicable: the profile names none.
        EnvironmentProblem: it is to be of this machine, which lacks the packages.
    """
    if "mpi" not in stage.profile.images:
        raise NotApplicable("the profile names no image with SSH and MPI (`images: {mpi: ..}`)")
    return image(stage, "mpi")


def members_over_ssh(name: str, named: str, payload: str, within: float) -> GangSpec:
    """Return a Job with the ssh plugin, and svc for its names: each member logs in to each other and stays."""
    pods = [f"{name}-master-0", *(f"{name}-worker-{index}" for index in range(WORKERS))]
    log_in = ("member", f"--to={','.join(pods)}", f"--within={within:g}")
    return GangSpec(
        name,
        roles=(Role("master", 1, PROGRAM, log_in), Role("worker", WORKERS, PROGRAM, log_in)),
        image=named,
        plugins={"ssh": (), "svc": ("--publish-not-ready-addresses=true",)},
        payload=payload,
    )


def launched(
    name: str, named: str, payload: str, within: float, *, plugins: dict[str, tuple[str, ...]], workers: int
) -> GangSpec:
    """Return the documented MPI Job: a master that runs mpiexec and ends the Job, workers that let it in."""
    hosts = ",".join(f"{name}-mpiworker-{index}.{name}" for index in range(workers))
    return GangSpec(
        name,
        roles=(
            Role(
                "mpimaster", 1, PROGRAM, ("launcher", f"--to={hosts}", f"--within={within:g}"), ends_job=True
            ),
            Role("mpiworker", workers, PROGRAM, ("worker",)),
        ),
        image=named,
        plugins=plugins,
        payload=payload,
    )


def run(stage: Stage) -> None:
    """Run the three side by side until all logins are told, the launched Job has ended, and the other launcher has."""
    named = declared_image(stage)
    within = stage.profile.budgets["run"] / 2
    told(stage, workers=WORKERS, port=PORT, folder=KEYS)
    payload = payloads_of(stage, "ssh_members.py", "mpi_rank.py")
    ssh, mpi, bare = (f"{stage.name}-{role}" for role in ("ssh", "mpi", "unplugged"))
    plugin = ("--master=mpimaster", "--worker=mpiworker", f"--port={PORT}")
    jobs = [
        ("ssh", members_over_ssh(ssh, named, payload, within)),
        ("mpi", launched(mpi, named, payload, within, plugins={"mpi": plugin}, workers=WORKERS)),
        # Names it has, or nobody could tell an unknown host from a login that is refused.
        ("unplugged", launched(bare, named, payload, within, plugins={"svc": ()}, workers=1)),
    ]
    made = {role: stage.submit(stage.dialect.write(spec), role=role) for role, spec in jobs}
    if not all(job.ok for job in made.values()):
        return
    for job in made.values():
        stage.follow(job)
    members = {"ssh": 1 + WORKERS, "mpi": 1 + WORKERS, "unplugged": 2}

    def all_there(live: Live) -> bool:
        return all(len(live.pods_of(made[role])) >= count for role, count in members.items())

    if stage.wait("all members exist", all_there, budget="enqueue"):
        done = (entered(stage, made["ssh"]), job_ended(made["mpi"]), finished(made["unplugged"], 1))
        stage.wait(
            "all members have tried to log in, and both launchers have ended",
            lambda live: all(each(live) for each in done),
            budget="run",
        )


def entered(stage: Stage, job: Handle) -> Callable[[Live], bool]:
    """Report whether every member has told of its login to every other, or one has ended."""
    members, over = 1 + WORKERS, finished(job, 1)

    def check(live: Live) -> bool:
        uids = {pod["metadata"]["uid"] for pod in live.pods_of(job)}
        logins = {(one.uid, str(one.data.get("to"))) for one in stage.said("ssh-login") if one.uid in uids}
        return len(logins) >= members * (members - 1) or over(live)

    return check


mpi = Scenario(
    name="mpi",
    summary="Jobs over SSH: members that log in to each other, mpiexec from a launcher, and the same without plugins",
    run=run,
    needs=Needs(seconds=6, pods_run=True, permissions=PAYLOAD + LOGS),
)
