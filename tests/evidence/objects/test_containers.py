"""Runs of containers, from their statuses."""

import dataclasses
from typing import Any

import pytest

from pytest_gpucluster.diagnose.detect import crashing
from pytest_gpucluster.evidence.objects import containers
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.scheduling import gangs
from tests import recordings

LOST = {
    "exitCode": 137,
    "reason": containers.UNKNOWN,
    "message": "The container could not be located when the pod was terminated",
    "startedAt": None,
    "finishedAt": None,
}
STARTED = "2026-11-29T02:00:00Z"


def status(state: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return the status of a container called main."""
    return {"name": "main", "restartCount": 0, "state": state, "lastState": {}, **more}


def with_status(given: dict[str, Any]) -> PodStory:
    """Return the story of a pod that last showed a container status."""
    (gang,) = gangs.gangs(recordings.stream("a-gang-fits"))
    return dataclasses.replace(gang.pods[0], last={"status": {"containerStatuses": [given]}})


@pytest.mark.parametrize(
    ("given", "began", "code"),
    [
        pytest.param(status({"running": {}}), True, None, id="runs"),
        pytest.param(status({"waiting": {"reason": "ContainerCreating"}}), False, None, id="waits"),
        pytest.param(status({"terminated": {"exitCode": 0, "startedAt": STARTED}}), True, 0, id="ended-well"),
        pytest.param(status({"terminated": {"exitCode": 137, "startedAt": STARTED}}), True, 137, id="killed"),
        pytest.param(status({"terminated": LOST}), False, None, id="never-ran"),
        pytest.param(status({"terminated": LOST}, restartCount=1), True, 137, id="lost-after-it-had-run"),
        pytest.param({"name": "main"}, False, None, id="nothing-said"),
    ],
)
def test_what_a_status_says_of_a_run(given: dict[str, Any], began: bool, code: int | None) -> None:
    """The kubelet's word on a container that it never started is neither a begin nor an end, for whoever asks."""
    assert containers.began(given) is began
    assert containers.end_of(given).get("exitCode") == code
    pod = with_status(given)
    assert [one for _, one in pod.exit_codes] == ([] if code is None else [code])
    assert [one for _, one, _ in crashing.ended_badly(pod)] == ([code] if code else [])
