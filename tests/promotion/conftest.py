"""Fixtures of promotion: a control plane with Volcano and Kueue, and queues of the test's own."""

import itertools
import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pytest_gpucluster.kube import connection, objects
from pytest_gpucluster.plain import times
from pytest_gpucluster.promotion import records, switching, targets
from tests.embedded.support import Api, control_plane

QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
MERGE = "application/merge-patch+json"
_numbers = itertools.count()


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    """Run a control plane."""
    with control_plane({"kueue": True, "bookmark_seconds": 0.5}) as ready:
        yield ready["url"]


@pytest.fixture
def raw(url: str) -> Api:
    """Talk to it as anybody else would."""
    return Api(url)


@pytest.fixture
def api(url: str) -> Iterator[objects.Objects]:
    """Talk to it as the command does."""
    opened = connection.Connection.at(url)
    yield objects.Objects(opened)
    opened.close()


@pytest.fixture
def name() -> str:
    """Name a queue of the test's own."""
    return f"q{next(_numbers)}"


@pytest.fixture
def switch(api: objects.Objects) -> Callable[..., switching.Switch]:
    """Make a switch with short patience, in the name of somebody."""

    def make(by: str = "ci", seconds: float = 5.0, **more: Any) -> switching.Switch:
        record = records.Record(by, "weekly", {"run-1": "ab" * 32}, None, times.now())
        return switching.Switch(api, record, seconds, **more)

    return make


PROFILE = """provider: existing
connection: {{kubeconfig: kubeconfig, context: c}}
scheduler: volcano
queue: {queue}
gpu_resource: nvidia.com/gpu
gpus_per_node: 8
{more}
"""


@pytest.fixture
def place(tmp_path: pathlib.Path, url: str) -> Callable[..., pathlib.Path]:
    """Give a folder with a kubeconfig, and what writes a profile into it."""
    config = {
        "apiVersion": "v1", "kind": "Config", "current-context": "c", "users": [{"name": "u", "user": {}}],
        "clusters": [{"name": "k", "cluster": {"server": url}}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
    }  # fmt: skip
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    (tmp_path / "run").mkdir()

    def write(queue: str, more: str = "") -> pathlib.Path:
        (tmp_path / "prod.yaml").write_text(PROFILE.format(queue=queue, more=more))
        return tmp_path

    return write


def make_queue(raw: Api, name: str, *, closed: bool = True, **spec: Any) -> dict[str, Any]:
    """Make a Queue of Volcano, closed by a Command."""
    made: dict[str, Any] = raw.ok("POST", QUEUES, {"metadata": {"name": name}, "spec": {"weight": 1, **spec}})
    wait(raw, f"{QUEUES}/{name}", lambda queue: state_of(queue) == "Open")
    if closed:
        close(raw, name)
    return made


def close(raw: Api, name: str) -> None:
    """Close a Queue as vcctl does, and see it closed."""
    command(raw, name, "CloseQueue")
    wait(raw, f"{QUEUES}/{name}", lambda queue: state_of(queue) == "Closed")


def command(raw: Api, name: str, action: str) -> None:
    """Give a Command."""
    target = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "name": name, "uid": "x"}
    body = {"metadata": {"generateName": f"{name}-"}, "action": action, "target": target}
    raw.ok("POST", "/apis/bus.volcano.sh/v1alpha1/namespaces/default/commands", body)


def make_cluster_queue(
    raw: Api, name: str, *, policy: str = "Hold", flavor: bool = True, **spec: Any
) -> None:
    """Make a ClusterQueue of Kueue that is stopped."""
    if flavor:
        raw.call("POST", f"{KUEUE}/resourceflavors", {"metadata": {"name": name}})
    rows = [{"name": "nvidia.com/gpu", "nominalQuota": 4}]
    group = {"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": name, "resources": rows}]}
    body = {"namespaceSelector": {}, "resourceGroups": [group], "stopPolicy": policy, **spec}
    raw.ok("POST", f"{KUEUE}/clusterqueues", {"metadata": {"name": name}, "spec": body})
    wait(raw, f"{KUEUE}/clusterqueues/{name}", lambda queue: (queue.get("status") or {}).get("conditions"))


def state_of(queue: dict[str, Any]) -> str:
    """Return the state of a Queue."""
    return str((queue.get("status") or {}).get("state") or "")


def wait(raw: Api, path: str, check: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """Return an object once it is as asked, woken by its watch."""
    collection, _, name = path.rpartition("/")
    found: dict[str, Any] = raw.ok("GET", path)
    if check(found):
        return found
    version = found["metadata"]["resourceVersion"]
    query = f"watch=true&resourceVersion={version}&fieldSelector=metadata.name%3D{name}&timeoutSeconds=15"
    for event in raw.watch(f"{collection}?{query}"):
        if event["type"] != "BOOKMARK" and check(event["object"]):
            return dict(event["object"])
    raise AssertionError(f"{path} did not become as asked: {raw.ok('GET', path)}")


def found(api: objects.Objects, kind: str, name: str) -> targets.Target:
    """Read a queue."""
    info = objects.table_row(kind)
    return targets.Target(info, api.get(info, name))
