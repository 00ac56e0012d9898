"""Plugin `env`: the index of a pod within its task."""

from pytest_gpucluster.embedded.objects import Obj
from pytest_gpucluster.embedded.volcano.plugins.base import Quiet, add_env, everything, literal


class EnvPlugin(Quiet):
    """Sets VK_TASK_INDEX and VC_TASK_INDEX in containers and init containers."""

    name = "env"

    def on_pod(self, pod: Obj, job: Obj, task: Obj, index: int) -> None:  # noqa: ARG002
        """Add the two variables."""
        entries = [literal("VK_TASK_INDEX", str(index)), literal("VC_TASK_INDEX", str(index))]
        add_env(everything(pod), entries)
