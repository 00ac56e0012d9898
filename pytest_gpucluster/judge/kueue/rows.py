"""Judges of the Kueue family: admission by quota, and what it does not promise."""

from pytest_gpucluster.judge.kueue.admission import runs_once_admitted
from pytest_gpucluster.judge.kueue.half_admission import half_placed_by_quota_control
from pytest_gpucluster.judge.kueue.over_quota import over_quota_held
from pytest_gpucluster.judge.kueue.queue_label import label_decides
from pytest_gpucluster.judge.kueue.shared import control_ran, pods_can_run, quota_within_capacity
from pytest_gpucluster.judge.kueue.status_and_pods import status_and_pods_agree
from pytest_gpucluster.judge.kueue.two_teams import take_turns
from pytest_gpucluster.judge.kueue.wait_for_pods_ready import evicts_what_is_not_ready

__all__ = [
    "control_ran",
    "evicts_what_is_not_ready",
    "half_placed_by_quota_control",
    "label_decides",
    "over_quota_held",
    "pods_can_run",
    "quota_within_capacity",
    "runs_once_admitted",
    "status_and_pods_agree",
    "take_turns",
]
