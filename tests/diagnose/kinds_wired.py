"""Kinds in which a job wires itself, or is not wired: what it sets on its own is no fault of a plugin."""

from collections.abc import Callable

from tests.diagnose.kinds_started import Plant, Row
from tests.diagnose.planting import GPU, Dump, Obj

SELF = (
    "export MASTER_ADDR=$(getent hosts torch-master-0.torch | cut -d' ' -f1); torchrun --master_addr "
    "$MASTER_ADDR t.py"
)
ASKS = "torchrun --master_addr $MASTER_ADDR --node_rank $RANK t.py"


def _wired(command: str, change: Callable[[Obj], None] | None = None, *says: str) -> Plant:
    """Let the job have no pytorch plugin and run a command, with a change to each of its templates and pods."""

    def plant() -> Dump:
        dump = Dump()
        dump.job["spec"]["plugins"] = {"svc": []}
        for spec in (dump.task(0), dump.task(1), *(pod["spec"] for pod in dump.pods)):
            box = spec["containers"][0]
            names = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")
            box["env"] = [e for e in box.get("env", []) if e["name"] not in names]
            box["command"] = ["sh", "-c", command]
            if change is not None:
                change(spec)
        return dump.say(dump.workers[0], *says) if says else dump

    return plant


def _from_map(spec: Obj) -> None:
    spec["containers"][0]["envFrom"] = [{"configMapRef": {"name": "world"}}]


def _by_claim(spec: Obj) -> None:
    spec["resourceClaims"] = [{"name": "gpus", "resourceClaimTemplateName": "eight"}]
    spec["containers"][0]["resources"] = {"claims": [{"name": "gpus"}]}


def _amd_image(spec: Obj) -> None:
    spec["containers"][0] |= {"image": "rocm/pytorch:6", "resources": {"requests": {"cpu": "1"}}}


def _mpi(command: str, pods: int = 4, *says: str) -> Plant:
    def plant() -> Dump:
        dump = Dump()
        dump.job["spec"]["plugins"] = {"svc": []}
        dump.task(0)["containers"][0]["command"] = ["sh", "-c", command]
        for spec in (dump.task(1), *(pod["spec"] for pod in dump.workers)):
            spec["containers"][0]["command"] = ["/usr/sbin/sshd", "-D"]
        for pod in dump.workers[pods - 1 :]:
            dump.objects.remove(pod)
        if pods == 1:
            dump.job["spec"]["tasks"] = dump.job["spec"]["tasks"][:1]
            dump.job["spec"]["minAvailable"] = dump.group["spec"]["minMember"] = 1
        return dump.say(dump.master, *says) if says else dump

    return plant


KINDS: dict[str, Row] = {
    "variables that the command sets itself": (_wired(SELF), "healthy", "", [], ["pytorch plugin"]),
    "variables that a ConfigMap sets": (_wired(ASKS, _from_map), "healthy", "", [], ["pytorch plugin"]),
    "variables that nobody sets": (
        _wired(ASKS), "trouble", "rank-variables", ["no pytorch plugin", "RANK"], [],
    ),
    "variables of a ConfigMap that lacks them": (
        _wired(ASKS, _from_map, "KeyError: 'RANK'"), "trouble", "rank-variables", ["KeyError: 'RANK'"], [],
    ),
    "GPUs by a claim": (
        _wired("torchrun --nnodes=4 t.py", _by_claim), "healthy", "", [], ["asks for no GPU", GPU + ": N"],
    ),
    "GPUs of AMD that nobody asks for": (
        _wired("torchrun --nnodes=4 t.py", _amd_image, "RuntimeError: No HIP GPUs are available"),
        "trouble", "gpu-limit", ["amd.com/gpu"], [GPU],
    ),
    "mpirun inside one pod": (
        _mpi("mpirun --allow-run-as-root -np 8 all_reduce_perf -b 8", 1), "healthy", "", [], ["mpi plugin", "ssh"],
    ),
    "mpirun over hosts that nobody names": (
        _mpi("mpirun --host $MPI_HOST -np 8 train"), "trouble", "mpi-plugin", ["MPI_HOST", "mpi plugin"], [],
    ),
    "mpirun over hosts of its own": (
        _mpi("mpirun --hostfile /etc/hosts.mpi -np 8 train", 4, "ssh: connect to host b port 22: Connection refused"),
        "trouble", "mpi-plugin", ["mpi"], [],
    ),
}  # fmt: skip
"""Kind -> how it is planted, state, code of the first cause, what must be named, what must not."""
