"""Plugin `mpi`: the hosts of the workers for the task that launches."""

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_gpucluster.embedded.objects import Obj
from pytest_gpucluster.embedded.volcano.plugins import flags
from pytest_gpucluster.embedded.volcano.plugins.base import (
    Quiet,
    add_env,
    add_port,
    everything,
    find_task,
    hosts,
    literal,
)

DEFAULTS = {"master": "master", "worker": "worker", "port": "22"}
PORT_NAME = "mpijob-port"


class MpiPlugin(Quiet):
    """Sets MPI_HOST in the pods of the master task and declares the port in all."""

    name = "mpi"

    def __init__(self, arguments: Sequence[str]) -> None:
        """Read the arguments `--master`, `--worker`, `--port`."""
        given = flags.parse(arguments, DEFAULTS)
        self._master, self._worker = given["master"], given["worker"]
        self._port = flags.number(given["port"], int(DEFAULTS["port"]))

    def on_pod(self, pod: Obj, job: Obj, task: Obj, index: int) -> None:  # noqa: ARG002
        """Add MPI_HOST to the launcher, and the port."""
        if task["name"] == self._master:
            worker = find_task(job, self._worker)
            if worker is None:
                return
            add_env(everything(pod), [literal("MPI_HOST", ",".join(hosts(job, worker)))])
        add_port(everything(pod), PORT_NAME, self._port)


def missing_task(spec: Mapping[str, Any]) -> str | None:
    """Return `master` or `worker` when a Job with the plugin lacks that task, else None."""
    plugins = spec.get("plugins") or {}
    if MpiPlugin.name not in plugins:
        return None
    given = flags.parse(plugins[MpiPlugin.name] or [], DEFAULTS)
    present = {task.get("name") for task in spec.get("tasks") or []}
    for role in ("master", "worker"):
        if given[role] not in present:
            return role
    return None
