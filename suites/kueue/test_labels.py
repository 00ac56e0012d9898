"""What the queue label decides."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge.kueue import queue_label, shared

from ..scenarios.kueue import labels


@requirement(
    "KUE-008",
    level="should",
    documents="P",
    scenario=labels,
    judge=queue_label.label_decides,
    presupposes=[shared.pods_can_run],
)
def test_the_queue_label_decides(settle: Callable[[], None]) -> None:
    """The queue label decides.

    A Job without the queue label runs outside the quota, and the finding SHOULD say so. A Job that names a LocalQueue
    which does not exist SHOULD stay suspended, without a pod, and its Workload SHOULD say that the queue does not
    exist.
    """
    settle()
