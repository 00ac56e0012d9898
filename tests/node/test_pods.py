"""Pods as real processes, from binding to removal."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from pytest_gpucluster.evidence.objects import containers
from tests.node.harness import CONFIGMAPS, FINAL, PODS, SECRETS, Nodes


def test_a_short_pod_succeeds_and_its_log_is_served(nodes: Nodes) -> None:
    """A pod whose process ends with 0 is Succeeded and its output can be read."""
    assert nodes.output("short", "echo one; echo two >&2; printf three") == "one\ntwo\nthree"


def test_status_of_a_running_pod(nodes: Nodes) -> None:
    """A running pod is Ready, has an address of the subnet, and says when it started."""
    nodes.run("running", "exec sleep 60")
    status = nodes.wait_phase("running", "Running")
    assert status["podIP"].startswith("10.88.")
    assert status["podIPs"] == [{"ip": status["podIP"]}]
    assert status["hostIP"] == "10.88.0.2"
    assert status["startTime"]
    assert {c["type"]: c["status"] for c in status["conditions"]} == dict.fromkeys(
        ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"], "True"
    )
    (container,) = status["containerStatuses"]
    assert (container["ready"], container["started"], container["restartCount"]) == (True, True, 0)
    assert "startedAt" in container["state"]["running"]


@pytest.mark.parametrize("code", [1, 3, 127, 128])
def test_exit_codes_are_kept(nodes: Nodes, code: int) -> None:
    """The exit code of the process is the one in the status, also those that shells use."""
    nodes.run(f"exit-{code}", f"exit {code}")
    status = nodes.wait_end(f"exit-{code}")
    ended = status["containerStatuses"][0]["state"]["terminated"]
    assert (status["phase"], ended["exitCode"], ended["reason"]) == ("Failed", code, "Error")


def test_conditions_of_ended_pods(nodes: Nodes) -> None:
    """Ended pods carry the reasons PodCompleted and PodFailed, as recorded from a kubelet."""
    nodes.run("conditions-0", "true")
    nodes.run("conditions-1", "false")
    good, bad = nodes.wait_end("conditions-0"), nodes.wait_end("conditions-1")
    assert {c["type"]: (c["status"], c.get("reason")) for c in good["conditions"]} == {
        "PodReadyToStartContainers": ("False", "PodSandboxNotReady"), "Initialized": ("True", "PodCompleted"),
        "Ready": ("False", "PodCompleted"), "ContainersReady": ("False", "PodCompleted"),
        "PodScheduled": ("True", None),
    }  # fmt: skip
    assert {c["type"]: (c["status"], c.get("reason")) for c in bad["conditions"]} == {
        "PodReadyToStartContainers": ("False", "PodSandboxNotReady"), "Initialized": ("True", None),
        "Ready": ("False", "PodFailed"), "ContainersReady": ("False", "PodFailed"), "PodScheduled": ("True", None),
    }  # fmt: skip


def test_missing_command_is_a_start_error(nodes: Nodes) -> None:
    """A program that is not there gives exit code 128, reason StartError, and its name in the message."""
    nodes.run("no-command", container={"command": ["/nosuch"]})
    status = nodes.wait_end("no-command")
    ended = status["containerStatuses"][0]["state"]["terminated"]
    assert (status["phase"], ended["exitCode"], ended["reason"]) == ("Failed", 128, "StartError")
    assert "/nosuch" in ended["message"]
    assert any(kind == "Warning" and reason == "Failed" for kind, reason, _ in nodes.api.events("no-command"))


def test_the_process_is_pid_1_of_its_own_world(nodes: Nodes) -> None:
    """Process number, host name, network and user are the container's own."""
    # Two dollar signs stand for one in a command of Kubernetes.
    script = "echo $$$$; hostname; hostname -i; echo $(ls /sys/class/net); ls /proc | grep -c '^[0-9]'"
    said = nodes.output("world", script)
    number, name, address, devices, processes = said.splitlines()
    assert (number, name, devices.split()) == ("1", "world", ["eth0", "lo"])
    assert address == nodes.pod("world")["status"]["podIP"]
    assert int(processes) <= 3


def test_environment_is_clean(nodes: Nodes) -> None:
    """Nothing of the agent's environment reaches a container."""
    said = nodes.output("clean", container={"command": ["env"]})
    assert sorted(line.split("=")[0] for line in said.splitlines()) == ["HOME", "HOSTNAME", "PATH"]


def test_writes_stay_in_the_container(nodes: Nodes) -> None:
    """Folders that the host lacks can be made, and nothing written reaches the host or another pod."""
    script = "mkdir -p /workspace /etc/volcano /root/.ssh && touch /tmp/left-over /etc/left-over /workspace/x && pwd"
    assert nodes.output("writes", script) == "/\n"
    assert (
        nodes.output("reads", "ls -d /tmp/left-over /etc/left-over /workspace /etc/volcano 2>/dev/null; true")
        == ""
    )


def test_host_folders_are_visible_but_safe(nodes: Nodes) -> None:
    """A checkout below /tmp is visible in pods, and what a pod changes in it does not reach the host."""
    mark = nodes.state_dir / "checkout" / "train.py"
    mark.parent.mkdir(exist_ok=True)
    mark.write_text("original\n")
    assert nodes.output("visible", f"cat {mark}; echo changed > {mark}; cat {mark}") == "original\nchanged\n"
    assert mark.read_text() == "original\n"


def test_deletion_of_a_process_that_obeys(nodes: Nodes) -> None:
    """A deleted pod whose process ends with 0 on TERM is first Succeeded with a deletionTimestamp, then gone."""
    nodes.run("obeys", "trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done")
    nodes.wait_phase("obeys", "Running")
    nodes.api.wait(lambda: nodes.logs("obeys")[1] == "up\n")
    nodes.api.delete(f"{PODS}/obeys")
    nodes.api.wait(lambda: nodes.phase("obeys") == "gone")
    kinds = [
        (k, o["status"]["phase"], "deletionTimestamp" in o["metadata"]) for k, o in nodes.history("obeys")
    ]
    assert kinds[-2:] == [("MODIFIED", "Succeeded", True), ("DELETED", "Succeeded", True)]
    assert ("Normal", "Killing", "Stopping container c") in nodes.api.events("obeys")


def test_deletion_of_a_process_that_ignores_term(nodes: Nodes) -> None:
    """A process that ignores TERM is killed after the grace period: Failed, exit code 137."""
    nodes.run("ignores", "exec sleep 60", terminationGracePeriodSeconds=1)
    nodes.wait_phase("ignores", "Running")
    nodes.api.delete(f"{PODS}/ignores")
    nodes.api.wait(lambda: nodes.phase("ignores") == "gone")
    _, last = nodes.history("ignores")[-1]
    assert last["status"]["phase"] == "Failed"
    assert last["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137


def test_removal_without_grace_ends_the_process(nodes: Nodes) -> None:
    """A pod that vanishes from the API server has its process killed at once."""
    nodes.run("vanishes", "exec sleep 61")
    nodes.wait_phase("vanishes", "Running")
    before = len(nodes.running_processes())
    nodes.api.delete(f"{PODS}/vanishes", grace=0)
    nodes.run("after-vanishing", "true")
    nodes.wait_end("after-vanishing")
    deadline = time.monotonic() + 10
    while len(nodes.running_processes()) >= before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(nodes.running_processes()) < before


def test_a_killed_worker_fails_with_137(nodes: Nodes) -> None:
    """A first process that is killed from outside is Failed with 137, and says nothing of it in its log."""
    nodes.run("killed", "exec sleep 62")
    nodes.wait_phase("killed", "Running")

    def victims() -> list[int]:
        found = {p: Path(f"/proc/{p}/cmdline") for p in nodes.running_processes()}
        return [p for p, path in found.items() if path.exists() and path.read_bytes() == b"sleep\x0062\x00"]

    # A container is Running before its shell has become the program, of which there is no event.
    deadline = time.monotonic() + 20
    while len(victims()) != 1 and time.monotonic() < deadline:
        time.sleep(0.05)
    (victim,) = victims()
    os.kill(victim, signal.SIGKILL)
    status = nodes.wait_end("killed")
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137
    assert nodes.logs("killed") == (200, "")


def test_active_deadline(nodes: Nodes) -> None:
    """A pod that is active for too long is ended: Failed, reason DeadlineExceeded."""
    nodes.run("deadline", "exec sleep 60", activeDeadlineSeconds=1, terminationGracePeriodSeconds=0)
    status = nodes.wait_end("deadline")
    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137


def test_init_containers_run_in_order(nodes: Nodes) -> None:
    """Init containers run one after the other before the container, sharing an emptyDir with it."""
    mount = [{"name": "shared", "mountPath": "/shared"}]
    init = [
        {
            "name": n,
            "image": "test",
            "command": ["sh", "-c", f"echo {n} >> /shared/order"],
            "volumeMounts": mount,
        }
        for n in ("first", "second")
    ]
    said = nodes.output(
        "init", "cat /shared/order", container={"volumeMounts": mount},
        initContainers=init, volumes=[{"name": "shared", "emptyDir": {}}],
    )  # fmt: skip
    assert said == "first\nsecond\n"
    init_statuses = nodes.pod("init")["status"]["initContainerStatuses"]
    assert [s["state"]["terminated"]["exitCode"] for s in init_statuses] == [0, 0]


def test_failing_init_container_fails_the_pod(nodes: Nodes) -> None:
    """With restartPolicy Never a failed init container ends the pod; the container never starts."""
    nodes.run("bad-init", "true", initContainers=[{"name": "i", "image": "test", "command": ["false"]}])
    status = nodes.wait_end("bad-init")
    assert status["phase"] == "Failed"
    assert status["containerStatuses"][0]["state"]["waiting"]["reason"] == "PodInitializing"


def test_sidecar_ends_after_the_containers(nodes: Nodes) -> None:
    """An init container with restartPolicy Always runs beside the container and is ended after it."""
    script = "trap 'exit 0' TERM; while :; do sleep 0.05; done"
    side = {"name": "side", "image": "test", "restartPolicy": "Always", "command": ["sh", "-c", script]}
    nodes.run("sidecar", "sleep 0.2", initContainers=[side])
    assert nodes.wait_end("sidecar")["phase"] == "Succeeded"


def test_restart_on_failure(nodes: Nodes) -> None:
    """With OnFailure a failing container is started again, its restarts are counted, the last end is kept."""
    nodes.run(
        "restarts", "echo run; test -e /shared/seen || { touch /shared/seen; exit 7; }", restartPolicy="OnFailure",
        container={"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]},
        volumes=[{"name": "shared", "emptyDir": {}}],
    )  # fmt: skip
    status = nodes.wait_end("restarts")
    (container,) = status["containerStatuses"]
    assert (status["phase"], container["restartCount"]) == ("Succeeded", 1)
    assert container["lastState"]["terminated"]["exitCode"] == 7
    assert nodes.logs("restarts", query="?previous=true") == (200, "run\n")


def test_restart_always_goes_on(nodes: Nodes) -> None:
    """With Always a container is started again after success; between two runs the pod stays Running."""
    nodes.run("always", "true", restartPolicy="Always")
    nodes.api.wait(
        lambda: nodes.pod("always")["status"].get("containerStatuses", [{}])[0].get("restartCount", 0) >= 2
    )
    phases = [o["status"]["phase"] for _, o in nodes.history("always")]
    assert not set(phases) & set(FINAL)
    nodes.api.delete(f"{PODS}/always")
    nodes.api.wait(lambda: nodes.phase("always") == "gone")


def test_termination_message(nodes: Nodes) -> None:
    """What the process writes to /dev/termination-log is the message of its end, also at another path."""
    nodes.run("message", "echo because > /dev/termination-log; exit 1")
    nodes.run(
        "message-2", "echo elsewhere > /var/why; exit 1", container={"terminationMessagePath": "/var/why"}
    )
    nodes.run(
        "message-3",
        "echo from the log; exit 1",
        container={"terminationMessagePolicy": "FallbackToLogsOnError"},
    )
    for name, text in (("message", "because"), ("message-2", "elsewhere"), ("message-3", "from the log")):
        assert nodes.wait_end(name)["containerStatuses"][0]["state"]["terminated"]["message"] == f"{text}\n"


def test_unknown_image(nodes: Nodes) -> None:
    """An image that the table lacks leaves the pod waiting, with a Warning; deleted, it ends as one that never ran."""
    nodes.run("no-image", "true", container={"image": "registry.example/absent:1"})
    nodes.api.wait(lambda: "ErrImagePull" in json.dumps(nodes.pod("no-image")))
    assert nodes.phase("no-image") == "Pending"
    nodes.api.wait(lambda: any(kind == "Warning" for kind, _, _ in nodes.api.events("no-image")))
    nodes.api.delete(f"{PODS}/no-image")
    nodes.api.wait(lambda: nodes.phase("no-image") == "gone")
    _, last = nodes.history("no-image")[-1]
    (container,) = last["status"]["containerStatuses"]
    assert (last["status"]["phase"], containers.never_ran(container)) == ("Failed", True)


def test_absent_image_with_policy_never(nodes: Nodes) -> None:
    """With pull policy Never the reason is ErrImageNeverPull, in a kubelet's words."""
    nodes.run(
        "never-pull", "true", container={"image": "registry.example/absent:1", "imagePullPolicy": "Never"}
    )
    nodes.api.wait(lambda: "ErrImageNeverPull" in json.dumps(nodes.pod("never-pull")))
    waiting = nodes.pod("never-pull")["status"]["containerStatuses"][0]["state"]["waiting"]
    assert (
        waiting["message"]
        == 'Container image "registry.example/absent:1" is not present with pull policy of Never'
    )


def test_missing_configmap_volume_is_waited_for(nodes: Nodes) -> None:
    """A pod that mounts an absent ConfigMap waits with FailedMount and starts when it appears."""
    nodes.run(
        "waits", "cat /cfg/key", container={"volumeMounts": [{"name": "cfg", "mountPath": "/cfg"}]},
        volumes=[{"name": "cfg", "configMap": {"name": "late"}}],
    )  # fmt: skip
    nodes.api.wait(lambda: any(reason == "FailedMount" for _, reason, _ in nodes.api.events("waits")))
    nodes.api.create(
        CONFIGMAPS, {"kind": "ConfigMap", "metadata": {"name": "late"}, "data": {"key": "value"}}
    )
    assert nodes.wait_end("waits")["phase"] == "Succeeded"
    assert nodes.logs("waits")[1] == "value"


def test_missing_secret_in_env_is_waited_for(nodes: Nodes) -> None:
    """A container whose variable comes from an absent Secret waits with CreateContainerConfigError."""
    source = {"secretKeyRef": {"name": "late-secret", "key": "k"}}
    nodes.run("waits-env", "echo $V", container={"env": [{"name": "V", "valueFrom": source}]})
    nodes.api.wait(lambda: "CreateContainerConfigError" in json.dumps(nodes.pod("waits-env")))
    nodes.api.create(
        SECRETS, {"kind": "Secret", "metadata": {"name": "late-secret"}, "data": {"k": "aGlkZGVu"}}
    )
    assert nodes.wait_end("waits-env")["phase"] == "Succeeded"
    assert nodes.logs("waits-env")[1] == "hidden\n"


def test_working_folder_is_made(nodes: Nodes) -> None:
    """A working folder that the image lacks is made."""
    assert nodes.output("workdir", "pwd", container={"workingDir": "/workspace/run"}) == "/workspace/run\n"


def test_readiness_probe(nodes: Nodes) -> None:
    """A container is ready only while its probe says so; tcpSocket, exec and httpGet are tried."""
    server = "python3 -m http.server 8000 --directory /tmp/www"
    script = f"mkdir -p /tmp/www; while [ ! -e /go/go ]; do sleep 0.05; done; exec {server}"
    kinds = {
        "tcp": {"tcpSocket": {"port": 8000}},
        "http": {"httpGet": {"port": "web", "path": "/"}},
        "exec": {"exec": {"command": ["test", "-e", "/go/go"]}},
    }
    for kind, probe in kinds.items():
        go = nodes.state_dir / f"go-{kind}"
        go.mkdir()
        container = {
            "readinessProbe": {**probe, "periodSeconds": 1}, "ports": [{"name": "web", "containerPort": 8000}],
            "volumeMounts": [{"name": "go", "mountPath": "/go"}],
        }  # fmt: skip
        nodes.run(
            f"probe-{kind}",
            script,
            container=container,
            volumes=[{"name": "go", "hostPath": {"path": str(go)}}],
        )
    for kind in kinds:
        nodes.wait_phase(f"probe-{kind}", "Running")
        assert not nodes.pod(f"probe-{kind}")["status"]["containerStatuses"][0]["ready"]
        (nodes.state_dir / f"go-{kind}" / "go").touch()
    for kind in kinds:
        name = f"probe-{kind}"
        nodes.api.wait(
            lambda name=name: nodes.pod(name)["status"]["containerStatuses"][0]["ready"], what=name
        )


def test_logs_can_be_followed_and_cut(nodes: Nodes) -> None:
    """Following ends with the container, tailLines counts from the end, and unknown names are refused."""
    nodes.run("logs", "for i in 1 2 3; do echo $i; sleep 0.1; done")
    nodes.wait_phase("logs", "Running", *FINAL)
    assert nodes.logs("logs", query="?follow=true") == (200, "1\n2\n3\n")
    assert nodes.logs("logs", query="?tailLines=1") == (200, "3\n")
    assert nodes.logs("logs", query="?tailLines=x")[0] == 400
    assert nodes.logs("nosuch") == (404, 'pod "nosuch" not found\n')
    assert nodes.logs("logs", "other") == (404, 'container "other" not found in pod "logs"\n')
    refusal = 'previous terminated container "c" in pod "logs" not found'
    assert nodes.logs("logs", query="?previous=true") == (400, refusal)


def test_twenty_pods_at_once(nodes: Nodes) -> None:
    """Twenty pods that are bound at the same moment all run."""
    names = [f"crowd-{i}" for i in range(20)]
    for name in names:
        nodes.run(name, "hostname", nodeName=f"gpu-{int(name[-1]) % 2}")
    for name in names:
        assert nodes.wait_end(name, 60)["phase"] == "Succeeded"
        assert nodes.logs(name)[1] == f"{name}\n"
    assert len({nodes.pod(name)["status"]["podIP"] for name in names}) == 20
