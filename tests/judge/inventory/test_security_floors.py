"""INV-011: versions under containers and the floors of advisories."""

import datetime as dt

import pytest

from pytest_gpucluster import profile
from pytest_gpucluster.judge.inventory import security_floors as judge
from pytest_gpucluster.measure import shipped
from pytest_gpucluster.requirement import Verdict
from tests import recordings
from tests.judge.inventory import cluster

LISTED = shipped.load("floors", "security")
DRIVER = "nvidia.com/cuda.driver-version.full"
LABELS = {"runc": "example.org/runc", "firmware": "example.org/firmware"}


def security(**changed):
    """Return what a scenario tells of floors."""
    return {
        "dated": str(LISTED["dated"]),
        "floors": LISTED["floors"],
        "labels": LABELS,
        "required": ["driver"],
        **changed,
    }


def decided(*nodes, toolkit=None, frozen="2026-09-30T10:00:00Z", **changed):
    """Return the finding on nodes, and on the image of the toolkit's DaemonSet."""
    lines = [{"t": 0.0, "type": "ADDED", "kind": "Node", "object": node} for node in nodes]
    if toolkit is not None:
        spec = {"template": {"spec": {"containers": [{"name": "c", "image": toolkit}]}}}
        items = [{"metadata": {"name": "nvidia-container-toolkit-daemonset"}, "spec": spec}]
        case = "read:daemonsets:gpu-operator"
        lines.append(
            {"t": 1.0, "type": "RESPONSE", "case": case, "code": 200, "request": "list", "items": items}
        )
    header = {"given": {**cluster.TOLD, "security": security(**changed)}, "source": {"frozen": frozen}}
    return judge.not_below_floors(recordings.evidence_of(lines, header=header))


def node(name="a", **labels):
    """Return a GPU node with versions in its labels, by component."""
    keys = {"driver": DRIVER, "amd": "amd.com/gpu.driver-version", **LABELS}
    return cluster.node(name, labels={keys[component]: text for component, text in labels.items()})


@pytest.mark.parametrize(
    ("labels", "toolkit", "verdict", "told"),
    [
        ({"driver": "580.159.03"}, None, Verdict.PASS, "not known from inside the cluster: toolkit, runc, firmware"),
        ({"driver": "580.159.04"}, "nvcr.io/nvidia/k8s/container-toolkit:v1.19.1-ubuntu20.04", Verdict.PASS, "1.19.1"),
        ({"driver": "580.126.09"}, None, Verdict.FAIL, "driver 580.126.09 of Node/a, below 580.159.03 (NVIDIA 5821"),
        ({"driver": "550.163.01"}, None, Verdict.FAIL, "a branch that has ended"),
        ({"driver": "610.10"}, None, Verdict.INCONCLUSIVE, "no floor for its branch"),
        ({"driver": "unknown"}, None, Verdict.INCONCLUSIVE, "no floor for its branch"),
        ({}, None, Verdict.INCONCLUSIVE, "the version of driver is not known on a"),
        ({"amd": "6.12.12"}, None, Verdict.INCONCLUSIVE, "the version of driver is not known on a"),
        ({"driver": "580.159.03"}, "nvcr.io/nvidia/k8s/container-toolkit:v1.17.8", Verdict.FAIL, "below 1.19.1"),
        ({"driver": "580.159.03"}, "mirror/container-toolkit@sha256:00", Verdict.INCONCLUSIVE, "toolkit"),
        ({"driver": "580.159.03", "runc": "1.3.5"}, None, Verdict.FAIL, "below 1.3.6 (GHSA-xjvp-4fhw-gc47"),
        ({"driver": "580.159.03", "runc": "runc version 1.2.8"}, None, Verdict.PASS, "runc 1.2.8"),
        ({"driver": "580.159.03", "firmware": "28.43.7999"}, None, Verdict.FAIL, "below 43.8002"),
        ({"driver": "580.159.03", "firmware": "32.43.8002"}, None, Verdict.PASS, "firmware 32.43.8002"),
        ({"driver": "580.159.03", "firmware": "28.47.1026"}, None, Verdict.INCONCLUSIVE, "no floor for its branch"),
    ],
)  # fmt: skip
def test_versions_beside_their_floors(labels, toolkit, verdict, told):
    """Below is a fail; unknown, of a branch that nobody listed, and of another vendor are never a pass."""
    found = decided(node(**labels), toolkit=toolkit)
    assert (found.verdict, told in found.observed) == (verdict, True), found.observed


def test_one_node_of_many_is_named():
    """Each node has its own driver; one without a label is no pass either."""
    good = [node(f"n{n}", driver="595.71.05") for n in range(3)]
    assert decided(*good).verdict is Verdict.PASS
    assert "Node/old" in decided(*good, node("old", driver="595.58.03")).where[0]
    assert "not known on silent" in decided(*good, node("silent")).observed


def test_the_age_of_the_list_is_told():
    """In days, when the evidence was frozen; a list without a day, or a file without a time, says so."""
    assert "floors of 2026-09-25, 5 days old" in decided(node(driver="595.71.05")).observed
    assert "floors of 2026-09-25" in decided(node(driver="595.71.05"), frozen="").observed
    assert "floors of an unknown day" in decided(node(driver="595.71.05"), dated="").observed


def test_nothing_known_and_nothing_required_does_not_apply():
    """And without a list nothing is decided."""
    assert decided(node(), required=[]).verdict is Verdict.NOT_APPLICABLE
    assert decided(node(driver="595.71.05"), floors=[]).verdict is Verdict.INCONCLUSIVE


def test_the_shipped_list_is_one_that_a_profile_could_name():
    """Each floor has a version or has ended, its advisory and where that is published; the day is a day."""
    assert isinstance(LISTED["dated"], dt.date)
    for floor in LISTED["floors"]:
        assert floor["source"].startswith("https://")
        told = {key: value for key, value in floor.items() if key != "source"}
        assert profile.SecurityFloor.model_validate(told)
    keys = [(floor["component"], floor.get("branch")) for floor in LISTED["floors"]]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{floors: [{component: runc, version: 1.3.6, advisory: us}]}", "must have both `dated` and `floors`"),
        ("{dated: 2026-11-01}", "security: must have both `dated` and `floors`"),
        ("{labels: {runcc: a/b}}", "security.labels.runcc: unknown key; did you mean 'runc'?"),
        ("{required: [drivers]}", "security.required.0 = 'drivers': is not known; did you mean 'driver'?"),
        (
            "{dated: 2026-11-01, floors: [{component: runc, advisory: us}]}",
            "security.floors.0: must have either `version` or `ended: true`",
        ),
        (
            "{dated: 2026-11-01, floors: [{component: runc, version: v1, advisory: us}]}",
            "security.floors.0.version",
        ),
    ],
)  # fmt: skip
def test_mistakes_in_the_profile_are_one_line(tmp_path, text, problem):
    """What, where, what is allowed, and the nearest match."""
    path = tmp_path / "prod-a.yaml"
    start = "connection: {kubeconfig: k, context: c}\nscheduler: volcano\nqueue: q\ngpu_resource: nvidia.com/gpu\n"
    path.write_text(f"{start}gpus_per_node: 8\nsecurity: {text}\n")
    with pytest.raises(profile.ProfileError) as caught:
        profile.load("prod-a", [tmp_path])
    assert problem in str(caught.value)
