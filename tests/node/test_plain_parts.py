"""The parts of the nodes that need no sandbox: logs, names, images, status, configuration."""

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from pytest_gpucluster.node import config, defects, images, names, registration, status
from pytest_gpucluster.node.logs import ContainerLog
from pytest_gpucluster.plain.times import now


def read(log: ContainerLog, **options: Any) -> str:
    """Read a log to its end."""

    async def collect() -> str:
        return b"".join([part async for part in log.read(**options)]).decode()

    return asyncio.run(collect())


def test_log_keeps_lines_and_streams_apart(tmp_path: Path) -> None:
    """Lines are kept whole though output comes in pieces, each with its stream and a mark."""
    log = ContainerLog(tmp_path / "c" / "0.log")
    log.feed("stdout", b"on")
    log.feed("stderr", b"error\n")
    log.feed("stdout", b"e\ntwo\nrest")
    log.close()
    kept = [line.split(" ", 1)[1] for line in log.path.read_text().splitlines()]
    assert kept == ["stderr F error", "stdout F one", "stdout F two", "stdout P rest"]
    assert read(log) == "error\none\ntwo\nrest"


def test_log_of_long_lines(tmp_path: Path) -> None:
    """A line longer than a part is cut when kept, and whole when read."""
    log = ContainerLog(tmp_path / "0.log")
    log.feed("stdout", b"x" * 40000 + b"\n")
    log.close()
    assert len(log.path.read_text().splitlines()) == 3
    assert read(log) == "x" * 40000 + "\n"


def test_log_since_and_timestamps(tmp_path: Path) -> None:
    """Older lines can be left out, and each line can carry its time."""
    log = ContainerLog(tmp_path / "0.log")
    log.feed("stdout", b"line\n")
    log.close()
    assert read(log, since=now() + timedelta(hours=1)) == ""
    assert read(log, timestamps=True).endswith("Z line\n")
    assert read(log, tail_lines=0) == ""
    assert log.tail(3) == "ne\n"


def test_follow_wakes_on_output(tmp_path: Path) -> None:
    """A follower gets what is written after it began, and ends with the log."""
    log = ContainerLog(tmp_path / "0.log")
    log.feed("stdout", b"before\n")

    async def follow() -> list[bytes]:
        async def write() -> None:
            log.feed("stdout", b"after\n")
            await asyncio.sleep(0)
            log.close()

        found = []
        async for part in log.read(follow=True):
            if not found:
                task = asyncio.create_task(write())
            found.append(part)
        await task
        return found

    assert b"".join(asyncio.run(follow())) == b"before\nafter\n"


def test_image_table() -> None:
    """An exact name wins over patterns, and the longest pattern over shorter ones."""
    table = {name: config.Image((name,)) for name in ("train:1", "train:*", "*")}
    found = [images.resolve(table, name) for name in ("train:1", "train:2", "other")]
    assert [image.entrypoint[0] for image in found if image] == ["train:1", "train:*", "*"]
    assert images.resolve({"a": config.Image()}, "b") is None


def pod(**spec: Any) -> dict[str, Any]:
    """Return a pod with the given spec."""
    return {"metadata": {"name": "job-0", "namespace": "ns"}, "spec": spec}


def test_host_names() -> None:
    """The host name is spec.hostname or the pod's name, cut to 63 characters; only a subdomain gives a full name."""
    assert names.hostname(pod()) == "job-0"
    assert names.hostname(pod(hostname="h")) == "h"
    long = pod()
    long["metadata"]["name"] = "a" * 62 + "-b"
    assert names.hostname(long) == "a" * 62
    assert names.full_name(pod(), "cluster.local") is None
    assert names.full_name(pod(subdomain="job"), "cluster.local") == "job-0.job.ns.svc.cluster.local"


def test_hosts_file() -> None:
    """The own names stand beside the pod's address, or beside 127.0.0.1 when the defect is planted."""
    aliased = pod(subdomain="job", hostAliases=[{"ip": "1.2.3.4", "hostnames": ["a", "b"]}])
    text = names.hosts_file(aliased, "10.0.0.9", "cluster.local")
    assert "10.0.0.9\tjob-0.job.ns.svc.cluster.local\tjob-0\n1.2.3.4\ta b\n" in text
    assert "127.0.0.1\tjob-0\n" in names.hosts_file(pod(), "10.0.0.9", "cluster.local", loopback=True)


def test_resolv_conf() -> None:
    """The search list is that of ClusterFirst; dnsConfig adds to it; policy None leaves only dnsConfig."""
    assert names.resolv_conf(pod(), "10.0.0.1", "cluster.local") == (
        "search ns.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.0.0.1\noptions ndots:5\n"
    )
    extra = {
        "nameservers": ["9.9.9.9"],
        "searches": ["x"],
        "options": [{"name": "ndots", "value": "1"}, {"name": "edns0"}],
    }
    assert names.resolv_conf(pod(dnsPolicy="None", dnsConfig=extra), "10.0.0.1", "c") == (
        "search x\nnameserver 9.9.9.9\noptions ndots:1 edns0\n"
    )


def state(**found: Any) -> status.ContainerState:
    """Return a container in a state."""
    return status.ContainerState("c", "i", found)


def ended(code: int) -> status.ContainerState:
    """Return a container that has ended."""
    return state(**status.terminated(code, container_id="x", started="s", finished="f"))


@pytest.mark.parametrize(
    ("main", "init", "initialized", "over", "expected"),
    [
        ([state(**status.waiting("X"))], [], True, False, "Pending"),
        ([state(running={})], [], True, False, "Running"),
        ([state(running={}), state(**status.waiting("X"))], [], True, False, "Pending"),
        ([ended(0), state(running={})], [], True, False, "Running"),
        ([ended(0)], [], True, True, "Succeeded"),
        ([ended(0), ended(1)], [], True, True, "Failed"),
        ([state(**status.waiting("X"))], [state(running={})], False, False, "Pending"),
        ([state(**status.waiting("X"))], [ended(1)], False, True, "Failed"),
        ([state(**status.waiting("X"))], [], True, True, "Failed"),
    ],
)
def test_phases(main: list[Any], init: list[Any], initialized: bool, over: bool, expected: str) -> None:
    """The phase follows from the containers as a kubelet derives it."""
    view = status.PodView(init, main, "Never", networked=True, initialized=initialized, over=over)
    assert status.phase(view) == expected


def told(main: list[Any], *, over: bool, networked: bool = True) -> dict[str, tuple[str, str | None]]:
    """Return status and reason of each condition of a pod that is not started again."""
    view = status.PodView([], main, "Never", networked=networked, initialized=True, over=over)
    return {kind: (each["status"], each.get("reason")) for kind, each in status.conditions(view).items()}


def test_conditions_of_a_pod_whose_containers_ended_are_those_of_its_end() -> None:
    """As recorded of Kubernetes 1.37: the pod is Running for a moment more, and its conditions say how it ended."""
    good, bad = told([ended(0)], over=False), told([ended(3)], over=False)
    assert (good["Ready"], good["Initialized"]) == (("False", "PodCompleted"), ("True", "PodCompleted"))
    assert bad["ContainersReady"] == ("False", "PodFailed")
    assert good["PodReadyToStartContainers"] == ("True", None)
    assert told([ended(0), state(running={})], over=False)["Ready"] == ("False", "ContainersNotReady")


def test_conditions_of_a_pod_whose_init_container_failed_are_those_of_its_end() -> None:
    """As seen on Kubernetes 1.37: Pending for a moment more, with the reason PodFailed."""
    waits = [state(**status.waiting("PodInitializing"))]
    view = status.PodView([ended(1)], waits, "Never", networked=True, initialized=False, over=False)
    found = status.conditions(view)
    assert (found["Ready"]["reason"], found["Initialized"]["reason"]) == (
        "PodFailed",
        "ContainersNotInitialized",
    )
    again = status.PodView([ended(1)], waits, "OnFailure", networked=True, initialized=False, over=False)
    assert status.conditions(again)["Ready"]["reason"] == "ContainersNotReady"


def test_a_pod_that_was_killed_before_it_began_says_only_that_nothing_is_ready() -> None:
    """As seen on Kubernetes 1.37: phase Failed, and the reason ContainersNotReady."""
    found = told([state(**status.waiting("ContainerCreating"))], over=True)
    assert found["Ready"] == ("False", "ContainersNotReady")


def test_a_container_that_never_began_is_told_as_not_found_once_its_pod_is_over() -> None:
    """As seen on Kubernetes 1.37; what waits for an init container that failed goes on waiting."""

    def state_of(main: Any, *, init: list[Any], initialized: bool, over: bool) -> dict[str, Any]:
        view = status.PodView(init, [main], "Never", networked=True, initialized=initialized, over=over)
        (one,) = status.containers(view)["containerStatuses"]
        state: dict[str, Any] = one["state"]
        return state

    waits = state(**status.waiting("ContainerCreating"))
    lost = state_of(waits, init=[], initialized=True, over=True)["terminated"]
    assert (lost["exitCode"], lost["reason"], lost["startedAt"]) == (137, "ContainerStatusUnknown", None)
    assert "waiting" in state_of(waits, init=[], initialized=True, over=False)
    assert "waiting" in state_of(waits, init=[ended(1)], initialized=False, over=True)
    assert state_of(ended(3), init=[], initialized=True, over=True)["terminated"]["exitCode"] == 3
    assert "waiting" in waits.state


def test_a_sandbox_that_is_not_there_has_a_reason() -> None:
    """Before it is made, and once it is gone."""
    for networked, over in ((False, False), (True, True)):
        found = told([state(**status.waiting("X"))], over=over, networked=networked)
        assert found["PodReadyToStartContainers"] == ("False", "PodSandboxNotReady")


def test_condition_times_are_kept() -> None:
    """The time of a condition moves only with its status; conditions of others are kept."""
    view = status.PodView([], [state(running={})], "Never", networked=True, initialized=True, over=False)
    server = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "early"},
        {"type": "DisruptionTarget", "status": "True"},
    ]
    first = status.merge_conditions(status.conditions(view), {}, server, "t1", 3)
    own = {c["type"]: c for c in first}
    assert own["PodScheduled"]["lastTransitionTime"] == "early"
    assert own["Ready"]["observedGeneration"] == 3
    assert first[-1] == {"type": "DisruptionTarget", "status": "True"}
    view.main[0].ready = True
    second = {c["type"]: c for c in status.merge_conditions(status.conditions(view), own, server, "t2", 3)}
    assert (second["Ready"]["lastTransitionTime"], second["Initialized"]["lastTransitionTime"]) == (
        "t2",
        "t1",
    )


def test_foreign_resources() -> None:
    """Only resources that the node does not manage are copied, changed and removed."""
    node = {"status": {"capacity": {"cpu": "1", "a/b": "2"}, "allocatable": {"cpu": "9", "c/d": "1"}}}
    assert registration.unmanaged_difference(node, {"cpu": "1"}) == {"a/b": "2", "c/d": None}
    assert registration.unmanaged_difference({}, {}) == {}


def test_configuration(tmp_path: Path) -> None:
    """Defaults are filled in, a program's folder comes first on PATH, and a policy holds for all nodes."""
    line = {
        "api_socket": "/a", "state_dir": str(tmp_path), "topology_policy": "restricted",
        "nodes": [{"name": "a"}, {"name": "b", "topology_policy": "none"}],
        "images": {"x": ["/opt/v/bin/python", "-u"], "y": {"env": {"A": 1}}},
    }  # fmt: skip
    found = config.parse(json.dumps(line))
    assert [n.topology_policy for n in found.nodes] == ["restricted", "none"]
    assert found.images["x"] == config.Image(("/opt/v/bin/python", "-u"), ("/opt/v/bin",))
    assert found.images["y"].env == {"A": "1"}
    assert str(found.subnet) == "10.88.0.0/16"


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"state_dir": "relative"}, "state_dir"),
        ({"state_dir": "/proc/self/fd:1"}, "state_dir"),
        ({"subnet": "10.0.0.0/30"}, "too small"),
        ({"subnet": "x"}, "x"),
        ({"nodes": []}, "at least one"),
        ({"nodes": [{"name": "a"}, {"name": "a"}]}, "used once"),
        ({"nodes": [{"name": "a", "memory": "lots"}]}, "not a quantity"),
        ({"images": {"x": "python"}}, "must map to a list"),
        ({"imagess": {}}, "did you mean 'images'"),
    ],
)
def test_wrong_configuration(change: dict[str, Any], part: str, tmp_path: Path) -> None:
    """Each thing that cannot be used is named."""
    line = {"api_socket": "/a", "state_dir": str(tmp_path), "nodes": [{"name": "a"}], **change}
    with pytest.raises(config.ConfigError, match=part):
        config.parse(json.dumps(line))


def test_defects_have_names_of_an_area() -> None:
    """Each defect is named area.dashed-words and described."""
    for name, text in defects.DEFECTS.items():
        area, _, words = name.partition(".")
        assert area in ("network", "node", "storage", "torch")
        assert words == words.lower()
        assert text
    assert list(defects.check([])) == []


def test_an_unhealthy_device_is_counted_and_cannot_be_asked_for(tmp_path: Path) -> None:
    """The planted defect takes one GPU of the last node from allocatable, and leaves the others alone."""
    line = {"api_url": "http://x", "state_dir": str(tmp_path), "nodes": [{"name": "a"}, {"name": "b"}]}
    for planted, wanted in (([], {"a": "8", "b": "8"}), ([defects.DEVICE_UNHEALTHY], {"a": "8", "b": "7"})):
        parsed = config.parse(json.dumps({**line, "defects": planted}))
        found = {spec.name: registration.node_object(spec, parsed, "10.0.0.1") for spec in parsed.nodes}
        assert {n: o["status"]["allocatable"]["nvidia.com/gpu"] for n, o in found.items()} == wanted
        assert {o["status"]["capacity"]["nvidia.com/gpu"] for o in found.values()} == {"8"}
