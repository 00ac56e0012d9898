"""What is admitted runs whole, what is above quota never runs, and teams take turns."""

from collections.abc import Callable

from pytest_gpucluster import requirement
from pytest_gpucluster.judge.kueue.admission import runs_once_admitted
from pytest_gpucluster.judge.kueue.half_admission import half_placed_by_quota_control
from pytest_gpucluster.judge.kueue.over_quota import over_quota_held
from pytest_gpucluster.judge.kueue.shared import control_ran, pods_can_run, quota_within_capacity
from pytest_gpucluster.judge.kueue.two_teams import take_turns

from ..scenarios.kueue import over_quota, promised, two_teams


@requirement(
    "KUE-001",
    level="must",
    documents="P",
    scenario=over_quota,
    judge=runs_once_admitted,
    presupposes=[pods_can_run, quota_within_capacity],
)
def test_a_labelled_job_is_held_admitted_whole_and_runs_whole(settle: Callable[[], None]) -> None:
    """A labelled Job is held, admitted as a whole, and runs as a whole.

    A Job that names its queue and is submitted without suspend MUST be stored suspended and have no pod before its
    Workload is admitted. It MUST be admitted with all its pods, and then all MUST run together.
    """
    settle()


@requirement(
    "KUE-002",
    level="must",
    documents="P",
    scenario=over_quota,
    judge=over_quota_held,
    presupposes=[control_ran],
)
def test_a_job_above_quota_never_has_a_pod(settle: Callable[[], None]) -> None:
    """A Job above quota never has a pod.

    A Job that asks for more than its queue can ever give MUST stay suspended for the window. It MUST have no pod, not
    even for a moment, and its Workload MUST name the resource that is short. A fitting Job on the same queue MUST
    run.
    """
    settle()


@requirement(
    "KUE-003",
    level="must",
    documents="P",
    scenario=two_teams,
    judge=take_turns,
    presupposes=[pods_can_run],
)
def test_two_teams_take_turns(settle: Callable[[], None]) -> None:
    """Two teams with quota for one Job take turns.

    If two Jobs of two teams fit the quota one at a time but not together, one MUST run whole while no pod of the
    other exists. The other MUST run whole after the first has ended.
    """
    settle()


@requirement(
    "KUE-009",
    level="control",
    documents="P",
    scenario=promised,
    judge=half_placed_by_quota_control,
    presupposes=[pods_can_run],
)
def test_quota_above_capacity_half_places_a_gang(settle: Callable[[], None]) -> None:
    """The contrast: quota above capacity half-places a gang.

    The detector MUST see the documented failure on this cluster: if the quota is more than the nodes have, plain
    Kueue starts only a part of a gang. The finding names cause and fix.
    """
    settle()
