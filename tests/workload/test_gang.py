"""A gang written once, for each scheduler."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpucluster.workload import (
    GangSpec,
    Role,
    Sidecar,
    WorkloadError,
    apply_overlay,
    dialect_for,
    filler,
)
from pytest_gpucluster.workload.overlay import pod_templates

SPEC = GangSpec(
    "smoke",
    roles=(
        Role("master", 1, ("python", "x"), ends_job=True),
        Role("worker", 3, ("python", "x"), sidecars=(Sidecar("watch", ("true",)),)),
    ),
    resources={"nvidia.com/gpu": 4},
    image="python",
    plugins={"pytorch": ("--master=master",)},
    policies=(("PodEvicted", "RestartJob"),),
    payload="files",
)


def test_volcano_gets_a_job_with_the_scheduler_named_everywhere():
    """The schedulerName stands on the Job and on every task template, as the documents ask."""
    job = dialect_for("volcano", "team-a").write(SPEC)
    assert job["apiVersion"] == "batch.volcano.sh/v1alpha1"
    assert (job["spec"]["schedulerName"], job["spec"]["queue"], job["spec"]["minAvailable"]) == (
        "volcano",
        "team-a",
        4,
    )
    for _, pod in pod_templates(job):
        assert pod["schedulerName"] == "volcano"
        assert pod["restartPolicy"] == "Never"
    assert job["spec"]["tasks"][0]["policies"] == [{"event": "TaskCompleted", "action": "CompleteJob"}]
    assert "policies" not in job["spec"]["tasks"][1]


def test_every_member_asks_for_something():
    """A member without requests is best-effort, which the gang plugin does not protect."""
    for _, pod in pod_templates(dialect_for("volcano").write(SPEC)):
        for container in pod["containers"]:
            assert container["resources"]["requests"]["cpu"]
        assert pod["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "4"}


def test_the_default_scheduler_gets_an_indexed_job():
    """The contrast is written with what Kubernetes alone has."""
    spec = GangSpec("c", roles=(Role("worker", 4, ("sleep", "1")),), resources={"x/y": 4}, image="python")
    job = dialect_for("default-scheduler").write(spec)
    assert (job["apiVersion"], job["spec"]["completionMode"], job["spec"]["parallelism"]) == (
        "batch/v1",
        "Indexed",
        4,
    )


def test_what_a_scheduler_cannot_express_is_said():
    """An Indexed Job has one role and no plugins; an unknown scheduler is answered with the known ones."""
    with pytest.raises(WorkloadError, match="has one role, this gang has 2"):
        dialect_for("default-scheduler").write(SPEC)
    with pytest.raises(WorkloadError, match="did you mean 'volcano'"):
        dialect_for("volcanoe")


def test_the_filler_is_no_pod_of_the_gang_scheduler():
    """What holds room must not count in the queue under test."""
    pod = filler("hold", {"x/y": 1}, "python", ("sleep", "1"))
    assert "schedulerName" not in pod["spec"]


OVERLAY = {
    "metadata": {"annotations": {"net": "ib"}},
    "spec": {"tolerations": [{"key": "gpu"}], "nodeSelector": {"pool": "a"}, "serviceAccountName": "x"},
}


def test_the_overlay_reaches_every_pod():
    """Tolerations, selectors and annotations go onto each template, the manifest itself is not changed."""
    job = dialect_for("volcano").write(SPEC)
    before = json.dumps(job)
    for metadata, pod in pod_templates(apply_overlay(job, OVERLAY)):
        assert metadata["annotations"] == {"net": "ib"}
        assert pod["tolerations"] == [{"key": "gpu"}]
        assert pod["nodeSelector"] == {"pool": "a"}
    assert json.dumps(job) == before


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=2)
        ),
        max_leaves=6,
    )
)
def test_the_overlay_is_idempotent(value):
    """Applied twice it is as applied once, whatever it holds."""
    job = dialect_for("volcano").write(SPEC)
    overlay = {"spec": {"extra": value, "tolerations": [{"key": "gpu"}]}}
    once = apply_overlay(job, overlay)
    assert apply_overlay(once, overlay) == once
