"""Lifecycle policies and the rules of a Job's phase, on plain objects."""

import pytest

from pytest_gpucluster.embedded.volcano.jobs import status as rules
from pytest_gpucluster.embedded.volcano.jobs.podgroup import new_podgroup
from pytest_gpucluster.embedded.volcano.jobs.policies import Decision, Happening, decide

SYNC = Decision("SyncJob")


def job(*policies, tasks=(), **spec):
    """Return a Job with policies."""
    listed = [*tasks] or [{"name": "w", "replicas": 2, "minAvailable": 2}]
    body = {"minAvailable": 2, "policies": [*policies], "tasks": listed, **spec}
    meta = {"name": "j", "namespace": "n", "uid": "u"}
    whole = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": meta, "spec": body}
    return {**whole, "status": {"version": 1}}


FAILED = Happening("PodFailed", job_uid="u", task="w", pod="p", exit_code=3, version=1)


@pytest.mark.parametrize(
    ("policy", "happened", "expected"),
    [
        ({"event": "PodFailed", "action": "RestartJob"}, FAILED, Decision("RestartJob")),
        ({"events": ["PodEvicted", "PodFailed"], "action": "AbortJob"}, FAILED, Decision("AbortJob")),
        ({"event": "*", "action": "AbortJob"}, FAILED, Decision("AbortJob")),
        ({"exitCode": 3, "action": "TerminateJob"}, FAILED, Decision("TerminateJob")),
        ({"exitCode": 4, "action": "TerminateJob"}, FAILED, SYNC),
        ({"event": "PodEvicted", "action": "RestartJob"}, FAILED, SYNC),
        (
            {"event": "PodFailed", "action": "RestartJob", "timeout": "5s"},
            FAILED,
            Decision("RestartJob", 5.0),
        ),
        ({"event": "*", "action": "AbortJob"}, Happening("OutOfSync"), SYNC),
        ({"event": "*", "action": "AbortJob"}, Happening("PodPending", version=1), SYNC),
        (
            {"event": "PodPending", "action": "AbortJob", "timeout": "1m"},
            Happening("PodPending", version=1),
            Decision("AbortJob", 60.0),
        ),
    ],
)
def test_the_first_matching_policy_decides(policy, happened, expected):
    """Event, exit code and timeout of a policy lead to its action, anything else to a sync."""
    assert decide(job(policy), happened) == expected


def test_the_task_is_asked_before_the_job():
    """A task's policy comes first; without a match the Job's counts."""
    tasks = [{"name": "w", "policies": [{"event": "PodFailed", "action": "RestartTask"}]}]
    found = job({"event": "*", "action": "AbortJob"}, tasks=tasks)
    assert decide(found, FAILED) == Decision("RestartTask")
    assert decide(found, Happening("PodEvicted", task="w", version=1)) == Decision("AbortJob")


def test_news_of_an_older_attempt_is_ignored():
    """A pod of an earlier version of the Job leads to a sync only."""
    found = job({"event": "*", "action": "AbortJob"})
    assert decide(found, Happening("PodFailed", task="w", version=0)) == SYNC
    assert decide(found, Happening("PodFailed", job_uid="other", task="w", version=1)) == SYNC


def test_a_command_wins():
    """What a command asks for is done whatever the policies say."""
    found = job({"event": "*", "action": "RestartJob"})
    assert decide(found, Happening("CommandIssued", action="AbortJob")) == Decision("AbortJob")


@pytest.mark.parametrize(
    ("status", "spec", "phase"),
    [
        ({"running": 2}, {}, None),
        ({"pending": 1, "running": 1}, {}, "Pending"),
        ({"pending": 1, "running": 1}, {"minAvailable": 1}, None),
        ({"succeeded": 1, "running": 1}, {"minSuccess": 1}, "Completed"),
        ({"succeeded": 1, "failed": 1}, {}, "Failed"),
        ({"succeeded": 1, "failed": 1}, {"minAvailable": 1}, "Completed"),
        ({"succeeded": 1, "failed": 1}, {"minAvailable": 1, "minSuccess": 2}, "Failed"),
        (
            {"succeeded": 2, "taskStatusCount": {"w": {"phase": {"Succeeded": 2}}}},
            {},
            "Completed",
        ),
    ],
)
def test_a_running_job_ends_by_its_counters(status, spec, phase):
    """Completed, Failed and the return to Pending follow from the counts and minimums."""
    assert rules.while_running(job(**spec), status) == phase


@pytest.mark.parametrize(
    ("status", "phase"),
    [
        ({"retryCount": 1}, "Pending"),
        ({"retryCount": 1, "terminating": 2}, None),
        ({"retryCount": 3}, "Failed"),
    ],
)
def test_restarting_ends_when_pods_are_gone_or_attempts_are(status, phase):
    """A restart waits for its pods; the attempt that reaches maxRetry fails."""
    assert rules.while_restarting(job(maxRetry=3), status) == phase


def test_a_condition_moves_to_the_end():
    """Each phase has one condition, the newest last."""
    status = {}
    for phase in ("Pending", "Running", "Pending"):
        rules.set_phase(status, phase, "now")
    assert [c["status"] for c in status["conditions"]] == ["Running", "Pending"]


CONTAINER = {"resources": {"requests": {"cpu": "500m", "nvidia.com/gpu": "4"}, "limits": {"cpu": "1"}}}


def test_minimum_resources_take_task_minimums_first():
    """The minimum of every task counts before further replicas of the first."""
    template = {"spec": {"containers": [CONTAINER]}}
    plain = {"spec": {"containers": [{"resources": {"requests": {"memory": "1Gi"}}}]}}
    tasks = [
        {"name": "w", "replicas": 4, "minAvailable": 1, "template": template},
        {"name": "ps", "replicas": 1, "minAvailable": 1, "template": plain},
    ]
    group = new_podgroup(job(tasks=tasks, minAvailable=3))
    assert group["spec"]["minTaskMember"] == {"w": 1, "ps": 1}
    assert group["spec"]["minResources"] == {
        "count/pods": "3", "cpu": "1", "limits.cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "8",
        "pods": "3", "requests.cpu": "1", "requests.memory": "1Gi", "requests.nvidia.com/gpu": "8",
    }  # fmt: skip


def test_limits_are_no_requests_in_minimum_resources():
    """A template that states limits only asks for nothing: no API server has filled it in (recorded, v1.14.4)."""
    bare = {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "4"}}}]}}
    group = new_podgroup(job(tasks=[{"name": "w", "replicas": 8, "template": bare}], minAvailable=8))
    assert group["spec"]["minResources"] == {"count/pods": "8", "pods": "8"}


def test_running_duration_is_written_as_go_does():
    """Hours and minutes appear only when there are some."""
    born = {"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}}
    assert rules.running_duration(born, "2026-01-01T00:00:05Z") == "5s"
    assert rules.running_duration(born, "2026-01-01T00:01:05Z") == "1m5s"
    assert rules.running_duration(born, "2026-01-01T02:00:05Z") == "2h0m5s"
