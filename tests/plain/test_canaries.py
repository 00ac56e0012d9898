"""Secrets of every kind leave no text, no object and no log; what only resembles one is kept."""

import copy
import json

import pytest

from pytest_gpucluster.plain import redact, withheld
from pytest_gpucluster.plain.secret_logs import Lines
from tests.plain.canaries import KEPT, TEXTS, WORD, Canary


def kinds(canary: Canary) -> str:
    """Return the name of a case."""
    return canary.kind


def leaks(canary: Canary, text: str) -> list[str]:
    """Return what of a secret is in a text."""
    return [part for part in canary.parts if part in text]


def test_there_are_at_least_fifty_kinds() -> None:
    """No kind stands twice."""
    assert len({one.kind for one in TEXTS}) == len(TEXTS) >= 50


@pytest.mark.parametrize("canary", TEXTS, ids=kinds)
def test_a_secret_leaves_no_text(canary: Canary) -> None:
    """Not a log, not a message of an object, and not a text within JSON; once cleaned, it stays as it is."""
    said = [
        redact.clean(canary.text),
        redact.clean({"message": canary.text})["message"],
        redact.clean(json.dumps({"msg": canary.text})),
    ]
    assert [leaks(canary, text) for text in said] == [[], [], []]
    assert [redact.clean(text) for text in said] == said
    json.loads(said[2])


@pytest.mark.parametrize("canary", TEXTS, ids=kinds)
def test_a_secret_leaves_no_log(canary: Canary) -> None:
    """Logs come line by line."""
    log = Lines()
    assert not leaks(canary, "\n".join(log.clean(line) for line in canary.text.split("\n")))


@pytest.mark.parametrize("text", KEPT)
def test_what_resembles_a_secret_is_kept(text: str) -> None:
    """Names, ids, digests, symbols and sentences about secrets are what judges read."""
    assert redact.clean(text) == text
    assert redact.clean({"message": text}) == {"message": text}
    assert Lines().clean(text) == text


SAID = f"plain-{WORD}"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "train-0",
        "uid": "9a1f0c1e-4f5f-4f0e-9a54-6f6a2f1b9c11",
        "annotations": {"example.com/notes": SAID, "kubectl.kubernetes.io/last-applied-configuration": SAID},
    },
    "spec": {
        "initContainers": [{"name": "i", "image": "x", "args": [SAID]}],
        "containers": [
            {
                "name": "main",
                "image": "registry.example/torch@sha256:" + "0123456789abcdef" * 4,
                "command": [
                    "bash",
                    "-c",
                    f"login {SAID}; export A={SAID}; torchrun --nnodes=2 train.py -x {SAID}",
                ],
                "args": ["--lr", SAID, f"--name={SAID}", f"-p{SAID}", SAID],
                "env": [
                    {"name": "ANYTHING", "value": SAID},
                    {"name": "NVIDIA_API_KEY", "value": SAID},
                    {"name": "NCCL_DEBUG", "value": "INFO"},
                    {"name": "FROM", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                ],
                "livenessProbe": {
                    "exec": {"command": ["check", SAID]},
                    "httpGet": {"path": "/", "httpHeaders": [{"name": "X-Any", "value": SAID}]},
                },
                "lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", f"bye {SAID}"]}}},
            }
        ],
    },
}


def job(template: dict) -> dict:
    """Return a Volcano Job of a pod."""
    return {
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"tasks": [{"name": "w", "template": template}]},
    }


@pytest.mark.parametrize(
    "obj",
    [
        POD,
        {"kind": "PodList", "items": [POD]},
        job(POD),
        {"type": "ADDED", "t": 1.0, "object": POD},
        {"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"any.yaml": SAID, "nginx.conf": SAID}},
        {"kind": "ConfigMap", "metadata": {"name": "c"}, "binaryData": {"x": SAID}},
        {"kind": "ConfigMapList", "items": [{"metadata": {"name": "c"}, "data": {"a": SAID}}]},
        {"kind": "Secret", "data": {"a": SAID}, "stringData": {"b": SAID}},
        {"kind": "SecretList", "items": [{"metadata": {}, "data": {"x": SAID}}]},
        {"fabric": {"env": {"ANYTHING": SAID}}},
        {"overlay": {"annotations": {"example.com/x": SAID}, "env": [{"name": "A", "value": SAID}]}},
        {"user": {"exec": {"command": "aws", "args": ["-x", SAID], "env": [{"name": "A", "value": SAID}]}}},
        {"environment": [f"ANYTHING={SAID}"]},
        {"command": ["pytest", f"--gpucluster-set=fabric.env.ANYTHING={SAID}"], "event": "run-start"},
    ],
    ids=str.split("pod pods job line map binary maps secret secrets profile overlay kubeconfig list command"),
)
def test_values_that_nobody_reads_are_not_written(obj: dict) -> None:
    """They look like nothing, and are replaced by their length and a digest for the place where they stand."""
    before = copy.deepcopy(obj)
    once = redact.clean(obj)
    assert SAID not in json.dumps(once)
    assert redact.clean(once) == once
    assert obj == before


def volume(**source: object) -> dict:
    """Return a pod with one volume."""
    return {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"volumes": [{"name": "v", **source}]}}


def of_kind(kind: str, **spec: object) -> dict:
    """Return an object by its spec."""
    return {"kind": kind, "metadata": {"name": "x"}, "spec": spec}


HANDED_ON = {
    "csi of a pod": volume(csi={"driver": "x", "volumeAttributes": {"any": SAID}}),
    "csi of a volume": of_kind("PersistentVolume", csi={"volumeAttributes": {"any": SAID, "fsType": SAID}}),
    "flex of a pod": volume(flexVolume={"driver": "x/y", "options": {"any": SAID}}),
    "flex of a volume": of_kind("PersistentVolume", flexVolume={"driver": "x/y", "options": {"any": SAID}}),
    "mount": of_kind("PersistentVolume", mountOptions=["vers=3.0", f"any={SAID}", SAID, f"ro,any={SAID}"]),
    "mount of a class": {"kind": "StorageClass", "mountOptions": [f"any={SAID}"], "parameters": {"any": SAID}},
    "attachment": {"kind": "VolumeAttachment", "status": {"attachmentMetadata": {"any": SAID}}},
    "attributes class": {"kind": "VolumeAttributesClass", "driverName": "x", "parameters": {"any": SAID}},
    "plugin of a vcjob": of_kind("Job", plugins={"own": [f"--any={SAID}", SAID, f"any={SAID}"]}),
    "plugin ssh of a vcjob": of_kind("Job", plugins={"ssh": [f"--ssh-private-key={SAID}"]}),
    "plugin of a job template": of_kind("JobTemplate", plugins={"own": [f"-any={SAID}"]}),
    "device": of_kind("ResourceClaim", devices={"config": [{"opaque": {"parameters": {"a": {"b": [SAID]}}}}]}),
    "Ray": of_kind("RayCluster", headGroupSpec={"rayStartParams": {"redis-password": SAID, "any": SAID}}),
    "Ray job": of_kind("RayJob", entrypoint=f"train.py --any {SAID}", runtimeEnvYAML=f"env_vars: {{A: {SAID}}}"),
    "Spark": of_kind("SparkApplication", sparkConf={"any": SAID}, hadoopConf={"any": SAID}),
    "trainer": of_kind("TrainJob", trainer={"command": ["run", SAID], "args": [f"--any={SAID}", SAID]}),
}  # fmt: skip


@pytest.mark.parametrize("obj", HANDED_ON.values(), ids=HANDED_ON)
def test_options_of_drivers_plugins_and_engines_are_not_written(obj: dict) -> None:
    """Kubernetes hands them on without knowing what they mean; their names stay, so that two dumps can be compared."""
    before = copy.deepcopy(obj)
    once = redact.clean(obj)
    assert SAID not in json.dumps(once)
    assert "any" in json.dumps(once) or "any" not in json.dumps(obj)
    assert redact.clean(once) == once
    assert obj == before


@pytest.mark.parametrize(
    "obj",
    [
        of_kind("Job", plugins={"pytorch": ["--master=lead", "--worker=w-2", "--port=29500"], "env": [],
                                "svc": ["--publish-not-ready-addresses=true"], "mpi": ["--nosuch=1"]}),
        of_kind("PersistentVolume", mountOptions=["ro", "vers=4.1", "nconnect=8,noatime", "proto=rdma"]),
        of_kind("AdmissionCheck", parameters={"apiGroup": "kueue.x-k8s.io", "kind": "Config", "name": "c"}),
        of_kind("RayCluster", headGroupSpec={"rayStartParams": {"num-gpus": "8", "block": "true"}}),
        {"event": "model", "parameters": 124_000_000, "options": {"any": SAID}},
        volume(csi={"driver": "secrets-store.csi.k8s.io", "readOnly": True, "nodePublishSecretRef": {"name": "s"}}),
    ],
    ids=str.split("plugins mounts reference ray event csi"),
)  # fmt: skip
def test_options_that_are_read_are_written(obj: dict) -> None:
    """Tasks and ports of a job's plugins, switches and amounts of a mount, the references of a check."""
    assert redact.clean(obj) == obj


def test_what_judges_read_is_written() -> None:
    """Ranks, rendezvous, NCCL, hosts files, how a scheduler is configured; the options of launchers."""
    pod = redact.clean(POD)
    box = pod["spec"]["containers"][0]
    assert {"name": "NCCL_DEBUG", "value": "INFO"} in box["env"]
    assert box["env"][3] == POD["spec"]["containers"][0]["env"][3]
    assert "torchrun --nnodes=2 train.py" in box["command"][2]
    assert box["image"] == POD["spec"]["containers"][0]["image"]
    assert pod["metadata"]["uid"] == POD["metadata"]["uid"]
    for kept in (
        {
            "kind": "ConfigMap",
            "metadata": {"name": "j-svc"},
            "data": {"worker.host": "a-0.a", "VC_W_HOSTS": "a-0.a"},
        },
        {
            "kind": "ConfigMap",
            "metadata": {},
            "data": {"volcano-scheduler.conf": 'actions: "enqueue, allocate"'},
        },
        {"metadata": {"annotations": {"volcano.sh/task-index": "1", "scheduling.k8s.io/group-name": "g"}}},
        {"env": [{"name": name, "value": "x"} for name in ("RANK", "MASTER_ADDR", "GLOO_SOCKET_IFNAME")]},
        {
            "name": "m",
            "args": ["--rdzv_endpoint=a-0.a:29500", "--told=$(RANK)", "$MASTER_ADDR:$(MASTER_PORT)"],
        },
        {
            "name": "m",
            "env": [{"name": "GPUCLUSTER_CONTAINER", "value": "m"}],
            "args": ["any words", "of ours"],
        },
    ):
        assert redact.clean(kept) == kept


def test_equal_values_have_equal_digests_that_nobody_can_make_again() -> None:
    """The digest is of this process: it says that two values are equal, and not which they are."""
    one, same, other = (withheld.of(value) for value in (WORD, WORD, f"{WORD}."))
    assert one == same != other
    assert one.startswith(f"<{len(WORD)} characters, ")
    assert withheld.of(one) == one
