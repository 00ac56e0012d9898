"""What the scenario with a member that waits in vain waits for."""

import threading
import types

import pytest

from pytest_gpucluster.scenario import live
from suites.scenarios import prepared

GATE = {"name": prepared.GATE}
ENDED = {**GATE, "state": {"terminated": {"exitCode": 1}}}
WAITS = {"name": "member", "state": {"waiting": {"reason": "PodInitializing"}}}


def seen(**status):
    """Return the view of one pod with a status."""
    state = live.State()
    state.apply("ADDED", "Pod", {"metadata": {"name": "p", "namespace": "ns", "uid": "1"}, "status": status})
    return live.Live(state, threading.Condition(), "ns")


@pytest.mark.parametrize(
    ("status", "over"),
    [
        ({}, False),
        ({"phase": "Pending", "initContainerStatuses": [{**GATE, "state": {"running": {}}}]}, False),
        # What a kubelet writes first; the phase comes up to some seconds later.
        ({"phase": "Pending", "initContainerStatuses": [ENDED], "containerStatuses": [WAITS]}, False),
        ({"phase": "Failed", "initContainerStatuses": [ENDED], "containerStatuses": [WAITS]}, True),
        ({"phase": "Succeeded"}, True),
        # A launcher that started beside its wait: it holds, and its pod does not end.
        (
            {
                "phase": "Pending",
                "initContainerStatuses": [{**GATE, "state": {"running": {}}}],
                "containerStatuses": [{"name": "member", "state": {"running": {}}}],
            },
            False,
        ),
        (
            {
                "phase": "Running",
                "initContainerStatuses": [ENDED],
                "containerStatuses": [{"name": "member", "state": {"running": {}}}],
            },
            True,
        ),
    ],
)
def test_a_member_gave_up_once_its_pod_has_ended(status, over):
    """The end of its container alone is not enough: the judge asks for the end of the pod."""
    assert prepared.gave_up(types.SimpleNamespace(uid="1"))(seen(**status)) is over
