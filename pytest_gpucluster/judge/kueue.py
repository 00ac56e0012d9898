"""Judges of the Kueue family: admission by quota, and what it does not promise."""

from pytest_gpucluster.judge.kueue_admission import runs_once_admitted
from pytest_gpucluster.judge.kueue_agree import status_and_pods_agree
from pytest_gpucluster.judge.kueue_half import half_placed_by_quota_control
from pytest_gpucluster.judge.kueue_labels import label_decides
from pytest_gpucluster.judge.kueue_quota import over_quota_held
from pytest_gpucluster.judge.kueue_ready import evicts_what_is_not_ready
from pytest_gpucluster.judge.kueue_teams import take_turns
from pytest_gpucluster.judge.kueue_terms import control_ran, pods_can_run, quota_within_capacity

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
