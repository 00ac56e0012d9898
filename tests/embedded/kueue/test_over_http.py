"""Kueue's kinds over HTTP: discovery, kubectl, and what a configuration may say."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_gpucluster.embedded.kueue.settings import Settings, WaitForPodsReady
from pytest_gpucluster.embedded.process import ConfigError, read_config
from tests.embedded.support import Api, control_plane

KUBECTL = str(Path(sys.executable).with_name("kubectl"))
API = "/apis/kueue.x-k8s.io/v1beta2"


@pytest.fixture(scope="module")
def plane():
    """A control plane with Kueue."""
    with control_plane({"kueue": {"waitForPodsReady": {"timeout": "5m"}}}) as ready:
        yield ready


@pytest.fixture
def api(plane):
    """A client of it, with a flavor."""
    client = Api(plane["url"])
    client.call("POST", f"{API}/resourceflavors", {"metadata": {"name": "any"}})
    return client


def queue(name, quota="1", **spec):
    """Return a ClusterQueue of GPUs."""
    resources = [{"name": "nvidia.com/gpu", "nominalQuota": quota}]
    group = {"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": "any", "resources": resources}]}
    return {"metadata": {"name": name}, "spec": {"namespaceSelector": {}, "resourceGroups": [group], **spec}}


def test_the_group_is_discovered(api):
    """One version, five kinds and the priority class, with their short names."""
    found = api.ok("GET", API)["resources"]
    names = {
        r["name"]: (r["kind"], r["namespaced"], r.get("shortNames")) for r in found if "/" not in r["name"]
    }
    assert names["clusterqueues"] == ("ClusterQueue", False, ["cq"])
    assert names["localqueues"] == ("LocalQueue", True, ["queue", "queues", "lq"])
    assert names["resourceflavors"] == ("ResourceFlavor", False, ["flavor", "flavors", "rf"])
    assert names["workloads"] == ("Workload", True, ["kwl", "kueueworkload", "kueueworkloads"])
    assert names["admissionchecks"] == ("AdmissionCheck", False, None)
    assert "workloads/status" in {r["name"] for r in found}


def test_kubectl_shows_them(api, plane, tmp_path):
    """`kubectl get` by short name shows the columns of the CustomResourceDefinitions."""
    api.ok("POST", f"{API}/clusterqueues", queue("shown"))

    def kubectl(*words):
        command = [KUBECTL, "--server", plane["url"], "--cache-dir", str(tmp_path), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout

    head, row = kubectl("get", "cq", "shown").splitlines()
    assert head.split() == ["NAME", "COHORT", "PENDING", "WORKLOADS"]
    assert row.split()[0] == "shown"
    assert json.loads(kubectl("get", "cq", "shown", "-o", "json"))["spec"]["stopPolicy"] == "None"
    assert "any" in kubectl("get", "rf")


def test_what_the_installation_leaves_says_how_kueue_is_configured(api):
    """The ConfigMap holds the Configuration in Kueue's own field names; the Deployment is available."""
    place = "/api/v1/namespaces/kueue-system/configmaps/kueue-manager-config"
    text = api.ok("GET", place)["data"]["controller_manager_config.yaml"]
    assert json.loads(text)["waitForPodsReady"] == {"timeout": "5m"}
    place = "/apis/apps/v1/namespaces/kueue-system/deployments/kueue-controller-manager"
    deployment = api.ok("GET", place)
    assert deployment["status"]["availableReplicas"] == 1
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"].endswith("/kueue:v0.17.0")


@pytest.mark.parametrize(
    ("body", "code", "text"),
    [
        (queue("r1", "x"), 422, 'nominalQuota: Invalid value: "x"'),
        (queue("r2", stopPolicy="Never"), 422, 'Unsupported value: "Never"'),
        (queue("r3", queueingStrategy="LIFO"), 422, 'Unsupported value: "LIFO"'),
        (
            queue("r4", preemption={"borrowWithinCohort": {"policy": "LowerPriority"}}),
            422,
            "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never",
        ),
        (queue("r5", "-2"), 403, 'admission webhook "vclusterqueue.kb.io" denied the request'),
    ],
)
def test_a_wrong_queue_is_refused(api, body, code, text):
    """By the schema with 422, by the webhook with 403, and never stored."""
    status, answer = api.call("POST", f"{API}/clusterqueues", body)
    assert (status, answer["code"]) == (code, code)
    assert text in answer["message"]
    assert api.call("GET", f"{API}/clusterqueues/{body['metadata']['name']}")[0] == 404


def test_the_admission_sees_dry_runs(api):
    """A dry run of a labelled Job comes back suspended: how one finds out that the admission is there."""
    pod = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    job = {
        "metadata": {"name": "j", "labels": {"kueue.x-k8s.io/queue-name": "q"}},
        "spec": {"template": pod},
    }
    answer = api.ok("POST", "/apis/batch/v1/namespaces/default/jobs?dryRun=All", job)
    assert answer["spec"]["suspend"] is True
    assert api.call("GET", "/apis/batch/v1/namespaces/default/jobs/j")[0] == 404


def test_a_configuration_is_read_in_kueues_own_names():
    """Durations as Kueue writes them, numbers as numbers; what is not stated has Kueue's default."""
    assert Settings.of(config=True) == Settings()
    assert Settings.of({}).wait is None
    read = Settings.of({
        "waitForPodsReady": {
            "timeout": "1500ms", "recoveryTimeout": "3m", "blockAdmission": True,
            "requeuingStrategy": {
                "timestamp": "Creation", "backoffLimitCount": 2, "backoffBaseSeconds": 0.5, "backoffMaxSeconds": 9,
            },
        },
        "manageJobsWithoutQueueName": True,
        "batchSeconds": 1,
    })  # fmt: skip
    wait = WaitForPodsReady(
        1.5, 180.0, block=True, limit=2, first=0.5, longest=9.0, by_eviction=False
    )  # fmt: skip
    assert read == Settings(wait, every_job=True, batch=1.0)


@pytest.mark.parametrize(
    ("kueue", "text"),
    [
        ({"waitForPodReady": {}}, "unknown fields of kueue: waitForPodReady"),
        ({"waitForPodsReady": 5}, "kueue.waitForPodsReady must be an object"),
        ({"waitForPodsReady": {"enable": True}}, "unknown fields of kueue.waitForPodsReady: enable"),
        ({"waitForPodsReady": {"timeout": "soon"}}, "soon"),
        (
            {"waitForPodsReady": {"requeuingStrategy": {"limit": 1}}},
            "unknown fields of kueue.waitForPodsReady.requeuingStrategy: limit",
        ),
    ],
)
def test_a_wrong_configuration_is_one_line(kueue, text):
    """The process does not start, and says what is wrong."""
    with pytest.raises(ConfigError) as caught:
        read_config(json.dumps({"kueue": kueue}))
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)
