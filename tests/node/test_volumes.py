"""Volumes and environment of real pods, as the plugins of Volcano use them."""

import base64
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.node.harness import CONFIGMAPS, PODS, SECRETS, Nodes, started

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"


@pytest.fixture(scope="module", autouse=True)
def objects(nodes: Nodes) -> None:
    """A ConfigMap and a Secret of the shape of Volcano's svc and ssh plugins."""
    hosts = {"master.host": "job-master-0.job", "worker.host": "job-worker-0.job\njob-worker-1.job"}
    data = {**hosts, "VC_WORKER_NUM": "2"}
    nodes.api.create(CONFIGMAPS, {"kind": "ConfigMap", "metadata": {"name": "job-svc"}, "data": data})
    keys = {
        k: base64.b64encode(k.encode()).decode()
        for k in ("id_rsa", "id_rsa.pub", "authorized_keys", "config")
    }
    nodes.api.create(
        SECRETS, {"kind": "Secret", "metadata": {"name": "job-ssh"}, "type": "Opaque", "data": keys}
    )


def test_configmap_in_etc_volcano(nodes: Nodes) -> None:
    """A ConfigMap is mounted at a folder of /etc that the host does not have; its files cannot be written."""
    script = "cat /etc/volcano/worker.host; echo; ls /etc/volcano; touch /etc/volcano/x || echo fixed; ls /etc/passwd"
    said = nodes.output(
        "etc-volcano", f"exec 2>/dev/null; {script}",
        container={"volumeMounts": [{"name": "v", "mountPath": "/etc/volcano"}]},
        volumes=[{"name": "v", "configMap": {"name": "job-svc"}}],
    )  # fmt: skip
    assert said.split("\n") == [
        "job-worker-0.job", "job-worker-1.job", "VC_WORKER_NUM", "master.host", "worker.host", "fixed",
        "/etc/passwd", "",
    ]  # fmt: skip


def test_secret_at_root_ssh_by_sub_path(nodes: Nodes) -> None:
    """The ssh plugin's Secret lies at /root/.ssh through a subPath, with its modes."""
    items = [{"key": k, "path": f".ssh/{k}"} for k in ("id_rsa", "authorized_keys")]
    said = nodes.output(
        "ssh", "cat /root/.ssh/id_rsa; echo; stat -c '%a %U' /root/.ssh/id_rsa; ls -A /root/.ssh",
        container={"volumeMounts": [{"name": "s", "mountPath": "/root/.ssh", "subPath": ".ssh"}]},
        volumes=[{"name": "s", "secret": {"secretName": "job-ssh", "items": items, "defaultMode": 0o600}}],
    )  # fmt: skip
    assert said.splitlines() == ["id_rsa", "600 root", "authorized_keys", "id_rsa"]


def test_projected_and_downward_api(nodes: Nodes) -> None:
    """A projected volume joins ConfigMap, Secret and the pod's own fields."""
    sources = [
        {"configMap": {"name": "job-svc", "items": [{"key": "master.host", "path": "a/master"}]}},
        {"secret": {"name": "job-ssh", "items": [{"key": "config", "path": "ssh-config"}]}},
        {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
    ]
    said = nodes.output(
        "projected", "cat /p/a/master; echo; cat /p/ssh-config; echo; cat /p/labels", metadata={"labels": {"x": "y"}},
        container={"volumeMounts": [{"name": "p", "mountPath": "/p"}]},
        volumes=[{"name": "p", "projected": {"sources": sources}}],
    )  # fmt: skip
    assert said.splitlines() == ["job-master-0.job", "config", 'x="y"']


def test_environment_of_a_worker(nodes: Nodes) -> None:
    """Variables from a ConfigMap, from the pod and with references reach the process and its command line."""
    env = [
        {
            "name": "VC_WORKER_HOSTS",
            "valueFrom": {"configMapKeyRef": {"name": "job-svc", "key": "worker.host"}},
        },
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "BOTH", "value": "$(POD_IP):$(VC_WORKER_NUM)"},
    ]
    container = {
        "command": ["printf", "%s|"], "args": ["$(BOTH)", "$(VC_WORKER_HOSTS)", "$(NOT_THERE)", "two\nlines", ""],
        "envFrom": [{"configMapRef": {"name": "job-svc"}}], "env": env,
    }  # fmt: skip
    said = nodes.output("worker-env", container=container)
    ip = nodes.pod("worker-env")["status"]["podIP"]
    assert said == f"{ip}:2|job-worker-0.job\njob-worker-1.job|$(NOT_THERE)|two\nlines||"


def test_mounts_inside_mounts(nodes: Nodes) -> None:
    """A volume can be mounted inside another one, and a single file over an existing one."""
    said = nodes.output(
        "nested", "cat /data/cfg/master.host; echo; cat /etc/hostname; touch /data/own && ls /data",
        container={
            "volumeMounts": [
                {"name": "cfg", "mountPath": "/data/cfg"}, {"name": "data", "mountPath": "/data"},
                {"name": "cfg", "mountPath": "/etc/hostname", "subPath": "VC_WORKER_NUM"},
            ]
        },
        volumes=[{"name": "data", "emptyDir": {}}, {"name": "cfg", "configMap": {"name": "job-svc"}}],
    )  # fmt: skip
    assert said.splitlines() == ["job-master-0.job", "2cfg", "own"]


def test_host_path(nodes: Nodes) -> None:
    """A hostPath is the host's own folder: what the pod writes is there afterwards, unless it is read-only."""
    folder = nodes.state_dir / "host data"
    folder.mkdir()
    (folder / "in").write_text("from the host\n")
    mounts = [{"name": "h", "mountPath": "/h"}, {"name": "h", "mountPath": "/ro", "readOnly": True}]
    said = nodes.output(
        "host-path", "cat /h/in; echo out > /h/out; touch /ro/x 2>/dev/null || echo read-only",
        container={"volumeMounts": mounts}, volumes=[{"name": "h", "hostPath": {"path": str(folder)}}],
    )  # fmt: skip
    assert said == "from the host\nread-only\n"
    assert (folder / "out").read_text() == "out\n"


def test_containers_of_a_pod_share_network_and_memory(nodes: Nodes) -> None:
    """Two containers of a pod meet on localhost and in /dev/shm, and have process trees of their own."""
    serve = "echo hello > /dev/shm/word; exec python3 -m http.server 8000 -d /dev/shm"
    ask = "import urllib.request as u; print(u.urlopen('http://localhost:8000/word').read().decode(), end='')"
    client = f'until python3 -c "{ask}" 2>/dev/null; do sleep 0.1; done; cat /dev/shm/word; echo $$$$'
    nodes.run("two", containers=[
        {"name": "c", "image": "test", "command": ["sh", "-c", client]},
        {"name": "server", "image": "test", "command": ["sh", "-c", serve]},
    ])  # fmt: skip
    nodes.api.wait(lambda: '"terminated"' in json.dumps(nodes.pod("two")["status"]))
    assert nodes.logs("two")[1] == "hello\nhello\n1\n"
    nodes.api.delete(f"{PODS}/two")


def test_volume_that_cannot_be_made(nodes: Nodes) -> None:
    """A volume of a kind that these nodes lack is told by a FailedMount event; the pod can be deleted."""
    nodes.run(
        "pvc", "true", container={"volumeMounts": [{"name": "v", "mountPath": "/v"}]},
        volumes=[{"name": "v", "nfs": {"server": "x", "path": "/"}}],
    )  # fmt: skip
    nodes.api.wait(lambda: any("kind nfs" in text for _, _, text in nodes.api.events("pvc")))
    nodes.api.delete(f"{PODS}/pvc")
    nodes.api.wait(lambda: nodes.phase("pvc") == "gone")


def _bind(nodes: Nodes, claim: str, source: dict[str, object]) -> None:
    """Bind a claim to a volume of its own."""
    spec = {"accessModes": ["ReadWriteMany"], "capacity": {"storage": "1Gi"}, **source}
    nodes.api.create("/api/v1/persistentvolumes", {"metadata": {"name": f"pv-{claim}"}, "spec": spec})
    nodes.api.patch(
        f"{CLAIMS}/{claim}", {"spec": {"volumeName": f"pv-{claim}"}, "status": {"phase": "Bound"}}
    )


def _claim(nodes: Nodes, name: str) -> dict[str, Any]:
    """Create a claim that is not bound; returns the volume of a pod that names it."""
    nodes.api.create(CLAIMS, {"metadata": {"name": name}, "spec": {}, "status": {"phase": "Pending"}})
    return {"name": "v", "persistentVolumeClaim": {"claimName": name}}


def test_a_claim_is_waited_for_until_it_is_bound_and_is_one_folder_for_all_pods(
    nodes: Nodes, tmp_path: Path
) -> None:
    """A pod waits for its claim and says so; what one pod writes the next one reads, and may not change if told so."""
    mounted = {"volumeMounts": [{"name": "v", "mountPath": "/data"}]}
    claim = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    nodes.run("writer", "echo one > /data/file", container=mounted, volumes=[claim])
    nodes.api.wait(lambda: any('"data" not found' in text for _, _, text in nodes.api.events("writer")))
    _claim(nodes, "data")
    nodes.run("second", "true", container=mounted, volumes=[claim])
    nodes.api.wait(lambda: any('"data" is not bound' in text for _, _, text in nodes.api.events("second")))
    assert nodes.phase("writer") == "Pending"
    _bind(nodes, "data", {"hostPath": {"path": str(tmp_path / "pv"), "type": "DirectoryOrCreate"}})
    nodes.wait_phase("writer", "Succeeded")
    nodes.wait_phase("second", "Succeeded")
    reads = "cat /data/file; echo two >> /data/file || echo closed"
    closed = {**claim, "persistentVolumeClaim": {"claimName": "data", "readOnly": True}}
    nodes.run("reader", reads, container=mounted, volumes=[closed])
    nodes.wait_phase("reader", "Succeeded")
    text = nodes.logs("reader")[1]
    assert text.startswith("one\n")
    assert "closed\n" in text
    assert (tmp_path / "pv" / "file").read_text() == "one\n"


def test_a_claim_of_a_kind_that_cannot_be_mounted_is_told(nodes: Nodes) -> None:
    """A volume of another kind than folders of the machine is named."""
    claim = _claim(nodes, "far")
    _bind(nodes, "far", {"nfs": {"server": "x", "path": "/"}})
    nodes.run("nfs", "true", container={"volumeMounts": [{"name": "v", "mountPath": "/v"}]}, volumes=[claim])
    nodes.api.wait(lambda: any("volumes of kind nfs" in text for _, _, text in nodes.api.events("nfs")))


@pytest.mark.parametrize("defect", ["storage.node-folders", "storage.pod-folders"])
def test_claims_of_nodes_and_of_pods_are_apart_where_that_is_planted(
    start: Callable[..., Nodes], tmp_path: Path, defect: str
) -> None:
    """Under the defects a pod writes into a folder of its node, or of its own, which others do not see."""
    nodes = start(defects=[defect])
    claim = _claim(nodes, "data")
    _bind(nodes, "data", {"hostPath": {"path": str(tmp_path / "pv"), "type": "DirectoryOrCreate"}})
    mounted = {"volumeMounts": [{"name": "v", "mountPath": "/data"}]}
    nodes.run("writer", "echo one > /data/file", container=mounted, volumes=[claim])
    nodes.wait_phase("writer", "Succeeded")
    pod = nodes.pod("writer")
    whose = {"storage.node-folders": pod["spec"]["nodeName"], "storage.pod-folders": pod["metadata"]["uid"]}
    assert [path.name for path in (tmp_path / "pv").iterdir()] == [whose[defect]]


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to make mounts on the host's side")
def test_mounts_of_the_host_do_not_hinder(sandboxes: None, short_folder: Path) -> None:
    """Where the host itself has mounts inside /etc and /var, as in a container, volumes still find their places."""
    binds = 'mount --bind /etc/hostname /etc/hostname && mount -t tmpfs -o mode=755 x /var/cache && exec "$@"'
    python = ("unshare", "--mount", "sh", "-c", binds, "sh", sys.executable)
    with started(short_folder / "s", python) as nodes:
        nodes.api.create(CONFIGMAPS, {"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"k": "v"}})
        paths = ["/etc/volcano", "/var/lib/deep/er", "/var/cache/c", "/opt/x/y"]
        read = "cat " + " ".join(f"{p}/k" for p in paths)
        said = nodes.output(
            "hindered", f"{read}; touch /etc/new /var/new /tmp/new; cat /etc/hostname; ls /etc/passwd",
            container={"volumeMounts": [{"name": "v", "mountPath": p} for p in paths]},
            volumes=[{"name": "v", "configMap": {"name": "c"}}],
        )  # fmt: skip
        assert said == "vvvvhindered\n/etc/passwd\n"
