"""Which plugins a Job has, made ready from its spec."""

from collections.abc import Callable, Sequence

from pytest_gpucluster.embedded.objects import Obj
from pytest_gpucluster.embedded.volcano.plugins import pytorch
from pytest_gpucluster.embedded.volcano.plugins.base import Plugin
from pytest_gpucluster.embedded.volcano.plugins.env import EnvPlugin
from pytest_gpucluster.embedded.volcano.plugins.mpi import MpiPlugin
from pytest_gpucluster.embedded.volcano.plugins.pytorch import PytorchPlugin
from pytest_gpucluster.embedded.volcano.plugins.ssh import SshPlugin
from pytest_gpucluster.embedded.volcano.plugins.svc import SvcPlugin

ORDER = ("env", "svc", "ssh", "mpi", "pytorch")
"""Order in which plugins run. Volcano's own order is random; no reader may depend on it."""


class UnknownPluginError(Exception):
    """A Job names a plugin that does not exist."""


class Silent:
    """The pytorch plugin with the defect that it injects nothing."""

    name = "pytorch"

    def on_pod(self, pod: Obj, job: Obj, task: Obj, index: int) -> None:
        """Leave the pod as it is."""

    def on_job(self, job: Obj, store: object) -> None:
        """Create nothing."""

    def on_end(self, job: Obj, store: object) -> None:
        """Delete nothing."""


def plugins_of(job: Obj, has: Callable[[str], bool]) -> list[Plugin]:
    """Return the plugins of a Job in the order in which they run.

    Plugins that Volcano knows and this cluster does not play (tensorflow, ray, hcclrank) are left out.

    Args:
        job: The Job.
        has: Whether a named defect is on.

    Raises:
        UnknownPluginError: when Volcano knows no plugin of that name.
    """
    listed: dict[str, Sequence[str]] = dict(job["spec"].get("plugins") or {})
    unknown = sorted(set(listed) - set(ORDER) - {"tensorflow", "ray", "hcclrank"})
    if unknown:
        raise UnknownPluginError(unknown[0])
    if has("plugins.injects-unasked"):
        listed.setdefault("pytorch", _any_master(job))
        listed.setdefault("mpi", _any_master(job))
    return [_make(name, listed[name] or [], has) for name in ORDER if name in listed]


def _any_master(job: Obj) -> list[str]:
    tasks = [str(task["name"]) for task in job["spec"].get("tasks") or []]
    second = tasks[1] if len(tasks) > 1 else "worker"
    return [f"--master={tasks[0]}", f"--worker={second}"] if tasks else []


def _make(name: str, arguments: Sequence[str], has: Callable[[str], bool]) -> Plugin:
    match name:
        case "env":
            return EnvPlugin()
        case "svc":
            return SvcPlugin(
                arguments,
                without_service=has("plugins.svc-without-service"),
                without_files=has("plugins.no-hosts-files"),
            )
        case "ssh":
            return SshPlugin(arguments, open_keys=has("plugins.opens-keys"))
        case "mpi":
            return MpiPlugin(arguments)
    if has("plugins.no-pytorch-env"):
        return Silent()
    first = 0 if has("plugins.rank-off-by-one") else 1
    ignored = [flag for defect, flag in pytorch.IGNORED.items() if has(defect)]
    return PytorchPlugin(arguments, first_worker_rank=first, ignored=ignored)
