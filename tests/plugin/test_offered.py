"""A GPU resource that no node offers is an error before the first row, with what the nodes offer."""

import fnmatch
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_gpucluster.kube import errors, objects
from tests.plugin.conftest import Project

pytest_plugins = ["pytester"]

PROFILE = """\
connection: {{kubeconfig: kubeconfig, context: there}}
scheduler: volcano
queue: default
gpu_resource: {resource}
gpus_per_node: {gpus}
"""
KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: there, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: me, user: {}}]
contexts: [{name: there, context: {cluster: there, user: me}}]
"""


def node(**amounts: str) -> dict[str, Any]:
    """Return a node that offers something beside CPUs."""
    return {
        "metadata": {"name": "n"},
        "status": {"capacity": {"cpu": "8", **amounts}, "allocatable": {"cpu": "8"}},
    }


NODES = (
    node(**{"nvidia.com/gpu.shared": "8", "hugepages-2Mi": "0", "slots.gpucluster.dev/x.1": "2"}),
    node(**{"nvidia.com/gpu.shared": "8", "nvidia.com/mig-1g.10gb": "7"}),
    node(**{"amd.com/gpu": "8"}),
)


def queue(name: str, state: str = "Open") -> dict[str, Any]:
    """Return a queue of Volcano."""
    return {"metadata": {"name": name}, "status": {"state": state}}


QUEUES = (queue("default"), queue("team-a"))
IMAGES = "images: {python: python:3, torch: torch:2}\n"


@pytest.fixture
def there(project: Project, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give a project whose profile `there` names a cluster with some nodes."""
    folder = project.pytester.path

    def make(
        resource: str, nodes: Any = NODES, gpus: int = 8, queues: Any = QUEUES, more: str = IMAGES
    ) -> Project:
        def listed(_api: object, info: Any, *_args: object, **_more: object) -> list[Mapping[str, Any]]:
            if info is objects.table_row("Queue"):
                if isinstance(queues, Exception):
                    raise queues
                return list(queues)
            assert info is objects.NODE
            if isinstance(nodes, Exception):
                raise nodes
            return list(nodes)

        monkeypatch.setattr(objects.Objects, "list", listed)
        monkeypatch.setenv("FAKE_ASKED", "1")
        (folder / "there.yaml").write_text(
            PROFILE.format(resource=resource, gpus=gpus) + more, encoding="utf-8"
        )
        (folder / "kubeconfig").write_text(KUBECONFIG, encoding="utf-8")
        project.rows("GANG-001 calm passes")
        return project

    return make


@pytest.mark.parametrize("resource", ["nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb", "amd.com/gpu"])
def test_any_name_that_a_node_offers_is_good(there: Any, resource: str) -> None:
    """Shared, a slice, another vendor's: what is declared and what is offered agree."""
    assert there(resource).run("--cluster=there").ret == 0


def test_a_name_that_no_node_offers_ends_the_run_before_the_first_row(there: Any) -> None:
    """Status 4, one line: where it stands, the nearest, what the nodes offer; nothing is touched."""
    project = there("nvidia.com/gpu")
    result = project.run("--cluster=there")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [each for each in result.stderr.lines if each.startswith("ERROR: ")]
    assert line.removeprefix("ERROR: ") == (
        f"{Path(project.pytester.path, 'there.yaml')}:4: gpu_resource = 'nvidia.com/gpu': no node offers it; did you "
        "mean 'nvidia.com/gpu.shared'? (of 3 nodes, offered: amd.com/gpu on 1, nvidia.com/gpu.shared on 2, "
        "nvidia.com/mig-1g.10gb on 1)"
    )
    assert project.log == []


def test_no_gpus_declared_where_nodes_have_some_ends_the_run(there: Any) -> None:
    """Rows about GPUs would not apply, and the answer be yes without them."""
    project = there("amd.com/gpu", gpus=0)
    result = project.run("--cluster=there")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [each for each in result.stderr.lines if each.startswith("ERROR: ")]
    assert line.endswith(
        "there.yaml:5: gpus_per_node = 0: says that no node has GPUs, but 1 of 3 offer amd.com/gpu"
    )
    assert project.log == []


@pytest.mark.parametrize("amounts", [{}, {"nvidia.com/gpu": "0"}])
def test_no_gpus_declared_and_none_there_is_good(there: Any, amounts: dict[str, str]) -> None:
    """A cluster of CPUs; a node goes on naming the resource after its device plugin went."""
    assert there("nvidia.com/gpu", (node(**amounts),), gpus=0).run("--cluster=there").ret == 0


@pytest.mark.parametrize(("nodes", "count"), [((), "0 nodes"), ((node(),), "1 node")])
def test_nodes_without_any_device_are_told(there: Any, nodes: Any, count: str) -> None:
    """Nothing is offered at all: the plugin is asked for, not the spelling."""
    result = there("nvidia.com/gpu", nodes).run("--cluster=there")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [f"*no node offers it (the cluster has {count}, but none offers any device: does *"]
    )


def test_nodes_that_cannot_be_read_are_told(there: Any) -> None:
    """The rows go on: they have more patience, and say themselves what they cannot see."""
    result = there("nvidia.com/gpu", errors.EnvironmentProblem("nodes is forbidden")).run("--cluster=there")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["gpucluster: the nodes could not be read, so it is not known whether one offers nvidia.com/gpu*"]
    )


DEAD = errors.Unreachable("cannot connect to http://127.0.0.1:9: connection refused", sent=False)
EXPIRED = errors.ApiError(401, "Unauthorized", "Unauthorized", request="list Node")
ENDINGS = {
    "dead": (
        {"nodes": DEAD},
        "*there.yaml:1: the cluster does not answer: cannot connect*; start or reach it*",
    ),
    "expired": (
        {"nodes": EXPIRED},
        "*the cluster refuses the credentials*; log in again*--context=there auth whoami",
    ),
    "queue": (
        {"queues": (queue("training"),)},
        "*there.yaml:3: queue = 'default': the cluster has no such queue*",
    ),
    "no-queue": ({"queues": ()}, "*queue = 'default': the cluster has no such queue (the cluster has none)"),
    "images": (
        {"more": ""},
        "*there.yaml: images.python: no image is named, so GANG-001 will not be decided; name an*",
    ),
}
"""What keeps every row from being decided, and how it is told."""


@pytest.mark.parametrize("what", ENDINGS)
def test_what_no_row_can_do_without_ends_the_run_in_one_block(there: Any, what: str) -> None:
    """Before the first row, with what mends it; the plan warns of it and ends well."""
    given, text = ENDINGS[what]
    project = there("amd.com/gpu", **given)
    result = project.run("--cluster=there")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [each for each in result.stderr.lines if each.startswith("ERROR: ")]
    assert fnmatch.fnmatchcase(line, f"ERROR: {text.replace('[', '[[]')}"), line
    assert project.log == []
    planned = project.run("--cluster=there", "--gpucluster-plan")
    assert planned.ret == 0
    planned.stdout.fnmatch_lines([f"warning       {text}", "Nothing was run, and the cluster was only read."])
    assert project.log == []


def test_a_cluster_that_is_slow_ends_nothing(there: Any) -> None:
    """Thousands of nodes may take longer than the first question waits."""
    result = there("amd.com/gpu", errors.Unreachable("no answer within 5 s")).run("--cluster=there")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["gpucluster: the nodes could not be read*no answer within 5 s"])


def test_rows_that_need_no_image_are_run_without(there: Any) -> None:
    """The others are told beforehand which key they will miss."""
    project = there("amd.com/gpu", more="")
    project.rows(
        "GANG-001 calm passes", "GANG-002 Scenario('still',needs=Needs(pods_run=False,gang=False)) passes"
    )
    result = project.run("--cluster=there")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["gpucluster: *images.python: no image is named, so GANG-001 will not be decided*"]
    )


def test_a_queue_that_takes_nothing_or_is_not_to_be_seen_ends_nothing(there: Any) -> None:
    """A closed one is told; where queues may not be listed, or Volcano is not there, rows find out."""
    closed = there("amd.com/gpu", queues=(queue("default", "Closed"),)).run("--cluster=there")
    assert closed.ret == 0
    closed.stdout.fnmatch_lines(["gpucluster: the queue default is Closed and takes no Jobs*"])
    forbidden = errors.ApiError(403, "Forbidden", "queues is forbidden")
    assert there("amd.com/gpu", queues=forbidden).run("--cluster=there").ret == 0


def test_a_queue_that_is_held_is_closed_as_declared(there: Any) -> None:
    """Of the two the one is told that takes the gangs of the run; both must be there."""
    held = f"{IMAGES}\nconformance_queue: conformance\n"
    both = queue("default", "Closed"), queue("conformance")
    quiet = there("amd.com/gpu", queues=both, more=held).run("--cluster=there")
    assert quiet.ret == 0
    quiet.stdout.no_fnmatch_line("*takes no Jobs*")
    shut = queue("default", "Closed"), queue("conformance", "Closed")
    told = there("amd.com/gpu", queues=shut, more=held).run("--cluster=there")
    told.stdout.fnmatch_lines(["gpucluster: the queue conformance is Closed and takes no Jobs*"])
    missing = there("amd.com/gpu", queues=both[:1], more=held).run("--cluster=there")
    assert missing.ret == pytest.ExitCode.USAGE_ERROR
    missing.stderr.fnmatch_lines(["*conformance_queue = 'conformance': the cluster has no such queue*"])
