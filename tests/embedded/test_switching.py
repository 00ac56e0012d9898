"""Defects of a control plane that runs: put in force, and out of force again; refused where nobody asked for it."""

from collections.abc import Iterator

import pytest

from pytest_gpucluster.embedded.defect_table import AT_START, DEFECTS
from pytest_gpucluster.plain.planted import Planted
from tests.embedded.support import Api, control_plane

PATH = "/debug/defects"
ADMIN, OTHER = "switching-admin", "switching-other"
USERS = [
    {"token": ADMIN, "user": "kubernetes-admin", "groups": ["system:masters"]},
    {"token": OTHER, "user": "other", "groups": []},
]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A control plane with Volcano that takes switches from its administrator."""
    with control_plane({"switchable": True, "tokens": USERS}) as ready:
        yield ready["url"]


@pytest.fixture
def admin(url: str) -> Iterator[Api]:
    """The administrator; no defect is in force afterwards."""
    client = Api(url, ADMIN)
    yield client
    client.ok("PUT", PATH, {"defects": []})


def _duplicates(api: Api) -> int:
    """Ask whether a Job with two tasks of one name would be taken; return the status."""
    container = {"name": "c", "image": "i"}
    task = {"name": "t", "replicas": 1, "template": {"spec": {"containers": [container]}}}
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "twice"},
        "spec": {"schedulerName": "volcano", "minAvailable": 1, "tasks": [task, task]},
    }  # fmt: skip
    return api.call("POST", "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs?dryRun=All", job)[0]


def test_a_defect_is_in_force_from_the_answer_until_the_next(admin):
    """What is asked for replaces what was in force, as a whole."""
    assert _duplicates(admin) == 400
    name = "admission.accepts-duplicate-tasks"
    assert admin.ok("PUT", PATH, {"defects": [name, "gang.forgets-room"]}) == {
        "defects": [name, "gang.forgets-room"]
    }
    assert _duplicates(admin) == 201
    assert admin.ok("PUT", PATH, {"defects": ["gang.forgets-room"]}) == {"defects": ["gang.forgets-room"]}
    assert _duplicates(admin) == 400


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["gang.forgets-rom"], "unknown defect 'gang.forgets-rom' of the control plane; did you mean"),
        (["node.slow-start"], "unknown defect 'node.slow-start' of the control plane"),
        (
            ["scheduler.down"],
            "defect 'scheduler.down' changes the start of the cluster: it needs its own cluster",
        ),
        ("gang.forgets-room", "defects must be a list of names"),
        ([1], "defects must be a list of names"),
        (None, "defects must be a list of names"),
    ],
)
def test_what_cannot_be_switched_is_refused_in_one_line(admin, asked, said):
    """The answer says why, and what was in force still is."""
    admin.ok("PUT", PATH, {"defects": ["admission.accepts-duplicate-tasks"]})
    code, answer = admin.call("PUT", PATH, {"defects": asked})
    assert code == 400
    assert answer["message"].startswith(said)
    assert "\n" not in answer["message"]
    assert _duplicates(admin) == 201


def test_only_the_administrator_switches(url, admin):
    """Whoever else asks is forbidden; neither a pod nor a user of the cluster can plant a defect."""
    code, answer = Api(url, OTHER).call("PUT", PATH, {"defects": ["gang.forgets-room"]})
    assert code == 403
    assert answer["message"] == f'forbidden: User "other" cannot put path "{PATH}"'


def test_the_control_plane_of_a_run_takes_no_switch(api):
    """Without the key `switchable` there is no such path, not even for the administrator."""
    assert api.call("PUT", PATH, {"defects": []})[0] == 404


def test_defects_that_decide_what_is_started_are_defects():
    """The list names known ones."""
    assert set(DEFECTS) >= AT_START


def test_a_set_is_replaced_or_left_alone():
    """A refused change changes nothing, also of the names beside it."""
    planted = Planted(["a", "down"], at_start=["down"])
    planted.switch(["b", "down"])
    assert list(planted) == ["b", "down"]
    for wanted in ([], ["a"]):
        with pytest.raises(ValueError, match="defect 'down' changes the start of the cluster"):
            planted.switch(wanted)
    assert list(planted) == ["b", "down"]
    assert len(planted) == 2
    assert "a" not in planted
