"""The kubectl lines of the page that explains `diagnose`: what they print is enough for every rule."""

import json
import re
from pathlib import Path

import pytest

from pytest_gpucluster import cli
from tests.diagnose.building import Cluster, Obj
from tests.diagnose.reckoned_rooms import gang, hold, room

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "diagnose.md"
LINE = re.compile(
    r"^kubectl get (?P<kinds>\S+) (?P<name>[a-z][\w-]*)?\s*(?P<scope>-n \w+|-A|) ?-o json > (?P<file>\S+)$"
)
ALIKE = {"vcjob": "Job", "podgroups": "PodGroup"}


def _kind(word: str) -> str:
    """Return the kind, in lower case, that kubectl takes a word of its first argument for."""
    plain = word.partition(".")[0]
    return ALIKE.get(plain, re.sub(r"ies$", "y", plain).removesuffix("s")).lower()


def _dump(cluster: Cluster, folder: Path) -> list[str]:
    """Write what the documented lines would print of a cluster; return the arguments of the line that reads it."""
    block = next(one for one in PAGE.read_text().split("```") if one.strip().startswith("kubectl get vcjob"))
    *lines, last = block.strip().splitlines()
    for line in lines:
        told = LINE.match(line)
        assert told is not None, line
        kinds = {_kind(word) for word in told["kinds"].split(",")}
        space = told["scope"].removeprefix("-n ") if told["scope"].startswith("-n") else ""

        def shown(
            obj: Obj, kinds: set[str] = kinds, space: str = space, name: str | None = told["name"]
        ) -> bool:
            metadata = obj["metadata"]
            alike = obj["kind"].lower() in kinds and name in (None, metadata["name"])
            return alike and (not space or metadata.get("namespace") == space)

        items = [obj for obj in cluster.objects if shown(obj)]
        (folder / told["file"]).write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    words = [str(folder / word) if word.endswith(".json") else word for word in last.split()]
    return ["train" if word == "smoke" else word.replace("vcjob/smoke", "vcjob/train") for word in words[1:]]


def _diagnose(cluster: Cluster, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    cluster.add({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "smoke-svc", "namespace": "ml"}, "data": {},
    })  # fmt: skip
    cli.main(_dump(cluster, folder))
    return " ".join(capsys.readouterr().out.split())


def test_who_holds_the_room_is_in_the_dump(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Pods of other namespaces take the room: the dump names them, and lacks nothing but logs."""
    cluster = gang(hold(room(), 8), 3, 8)
    cluster.event(
        cluster.of("PodGroup")[-1], "Unschedulable", "3/3 tasks in gang unschedulable: pod group is not ready"
    )
    text = _diagnose(cluster, tmp_path, capsys)
    assert "the room is taken" in text
    assert "PodGroup/big 24" in text
    assert "nothing is broken" in text
    assert text.endswith("not the evidence has no logs")


def test_a_quota_of_the_namespace_is_in_the_dump(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A quota that stops the creation of a member is read from the dump, although no event is left."""
    cluster = room()
    cluster.gang(3, 4, made=2)
    amounts = {"requests.nvidia.com/gpu": "8"}
    cluster.add({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team", "namespace": "ml"},
        "spec": {"hard": amounts}, "status": {"hard": amounts, "used": amounts},
    })  # fmt: skip
    cluster.event(cluster.of("Job")[0], "Created", "x", kind="Normal")
    assert "ResourceQuota team of namespace ml has no room" in _diagnose(cluster, tmp_path, capsys)


def test_the_dump_of_a_job_that_runs_is_no_false_alarm(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """All that is missing is what kubectl cannot print as an object: logs."""
    cluster = room()
    cluster.gang(3, 8, at=("n0", "n1", "n2"))
    cluster.event(cluster.of("Pod")[1], "Scheduled", "x", kind="Normal")
    text = _diagnose(cluster, tmp_path, capsys)
    assert "vcjob/train -n ml: healthy, as far as can be seen" in text
    assert text.endswith("not the evidence has no logs")
