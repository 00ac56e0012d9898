"""A gang that must stay inside one domain: asked for in the way of its scheduler, or refused, never dropped."""

import pytest

from pytest_gpucluster.workload import GangSpec, Role, WorkloadError
from pytest_gpucluster.workload.dialect import dialect_for

SPEC = GangSpec("g", roles=(Role("worker", 2, ("true",)),), domain="example.com/rack")


def test_kueue_is_asked_by_an_annotation_of_the_template():
    """And the Job's own metadata has only the label of its queue."""
    job = dialect_for("kueue").write(SPEC)
    annotations = job["spec"]["template"]["metadata"]["annotations"]
    assert annotations == {"kueue.x-k8s.io/podset-required-topology": "example.com/rack"}


def test_kubernetes_is_asked_by_a_constraint_beside_the_policy():
    """Of the Job's own scheduling; a gang that asks for nothing has none."""
    scheduling = dialect_for("native").write(SPEC)["spec"]["scheduling"]
    assert scheduling["schedulingConstraints"] == {"topology": [{"key": "example.com/rack"}]}
    anywhere = GangSpec("g", roles=SPEC.roles)
    assert "schedulingConstraints" not in dialect_for("native").write(anywhere)["spec"]["scheduling"]


@pytest.mark.parametrize(
    ("scheduler", "workload"), [("volcano", "job"), ("default-scheduler", "job"), ("volcano", "jobset")]
)
def test_who_cannot_be_asked_refuses(scheduler, workload):
    """A domain that was silently dropped would leave the gang anywhere."""
    with pytest.raises(WorkloadError):
        dialect_for(scheduler, "default", workload).write(SPEC)
