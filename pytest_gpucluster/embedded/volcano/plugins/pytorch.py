"""Plugin `pytorch`: the rendezvous variables of torch.distributed."""

from collections.abc import Iterable, Sequence

from pytest_gpucluster.embedded.objects import Obj
from pytest_gpucluster.embedded.volcano.plugins import flags
from pytest_gpucluster.embedded.volcano.plugins.base import (
    Quiet,
    add_env,
    add_port,
    find_task,
    host,
    literal,
    regular,
)

DEFAULTS = {
    "master": "master", "worker": "worker", "port": "23456", "wait-master-enabled": "false",
    "wait-master-timeout": "300", "wait-master-image": "busybox:1.36.1",
}  # fmt: skip
"""Flags of the plugin and their defaults (Volcano v1.14.4)."""
IGNORED = {
    "plugins.ignores-port": "port",
    "plugins.no-wait-master": "wait-master-enabled",
    "plugins.waits-too-long": "wait-master-timeout",
}
"""Defect -> the flag that keeps its default under it."""
PORT_NAME = "pytorchjob-port"


class PytorchPlugin(Quiet):
    """Sets MASTER_ADDR, MASTER_PORT, WORLD_SIZE and RANK in regular containers."""

    name = "pytorch"

    def __init__(
        self, arguments: Sequence[str], *, first_worker_rank: int = 1, ignored: Iterable[str] = ()
    ) -> None:
        """Read the arguments.

        Args:
            arguments: Flags as in `DEFAULTS`.
            first_worker_rank: RANK of worker 0; 1 unless a defect is on.
            ignored: Flags that keep their default; none unless a defect is on.
        """
        given = {**flags.parse(arguments, DEFAULTS), **{flag: DEFAULTS[flag] for flag in ignored}}
        self._given = given
        self._master, self._worker = given["master"], given["worker"]
        self._port = flags.number(given["port"], int(DEFAULTS["port"]))
        self._first = first_worker_rank

    def on_pod(self, pod: Obj, job: Obj, task: Obj, index: int) -> None:
        """Add the variables and the port; nothing where the Job has no master task."""
        master = find_task(job, self._master)
        if master is None:
            return
        address = host(job, master, 0)
        entries = [
            literal("MASTER_ADDR", address),
            literal("MASTER_PORT", str(self._port)),
            literal("WORLD_SIZE", str(self._world(job, master))),
        ]
        rank = self._rank(task, index)
        if rank is not None:
            entries.append(literal("RANK", str(rank)))
        add_env(regular(pod), entries)
        add_port(regular(pod), PORT_NAME, self._port)
        waits = flags.is_true(self._given["wait-master-enabled"])
        if waits and task["name"] == self._worker:
            pod["spec"].setdefault("initContainers", []).append(self._wait(address))

    def _world(self, job: Obj, master: Obj) -> int:
        worker = find_task(job, self._worker)
        return int(master.get("replicas") or 0) + int((worker or {}).get("replicas") or 0)

    def _rank(self, task: Obj, index: int) -> int | None:
        if task["name"] == self._master:
            return 0
        return index + self._first if task["name"] == self._worker else None

    def _wait(self, address: str) -> Obj:
        limit = flags.number(self._given["wait-master-timeout"], int(DEFAULTS["wait-master-timeout"]))
        script = _WAIT.format(host=address, port=self._port, limit=limit)
        return {
            "name": "wait-for-master",
            "image": self._given["wait-master-image"],
            "command": ["sh", "-c", script],
        }


_WAIT = """\
echo "waiting for {host}:{port} to answer"
waited=0
until {{ nc -z {host} {port} || echo > /dev/tcp/{host}/{port}; }} 2>/dev/null; do
  if [ "$waited" -ge {limit} ]; then echo "no answer of {host}:{port} within {limit} seconds"; exit 1; fi
  sleep 2
  waited=$((waited + 2))
done
echo "{host}:{port} answers"
"""
"""What the init container runs: the steps of Volcano's script, in our own words."""
