"""Real clients against the API: the official Python client and kubectl."""

import json
import pathlib
import subprocess
import sys

import pytest

from tests.embedded.support import job, node

# From the `dev` extra: its absence is a failure, not a reason to skip.
KUBECTL = str(pathlib.Path(sys.executable).with_name("kubectl"))


@pytest.fixture
def dynamic(plane, tmp_path):
    """The official dynamic client, with a discovery cache of its own."""
    from kubernetes import client, dynamic

    configuration = client.Configuration(host=plane["url"])
    with client.ApiClient(configuration) as api_client:
        yield dynamic.DynamicClient(api_client, cache_file=str(tmp_path / "discovery.json"))


def test_dynamic_client_lives_with_it(dynamic, ns):
    """Discovery, create, get, list, patch, apply, watch and delete work through the dynamic client."""
    jobs = dynamic.resources.get(api_version="batch/v1", kind="Job")
    maps = dynamic.resources.get(api_version="v1", kind="ConfigMap")
    body = job("j", 2)
    body["metadata"]["namespace"] = ns
    made = jobs.create(body={"apiVersion": "batch/v1", "kind": "Job", **body}, namespace=ns)
    assert made.metadata.name == "j"
    maps.create(body={"metadata": {"name": "a"}, "data": {"k": "1"}}, namespace=ns)
    patched = maps.patch(
        body={"metadata": {"name": "a"}, "data": {"k": "2"}},
        namespace=ns,
        content_type="application/merge-patch+json",
    )
    assert patched.data.k == "2"
    applied = maps.server_side_apply(
        body={"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}},
        namespace=ns,
        field_manager="t",
    )
    assert applied.metadata.name == "b"
    events = [(e["type"], e["object"].metadata.name) for e in maps.watch(namespace=ns, timeout=1)]
    assert events == [("ADDED", "a"), ("ADDED", "b")]
    maps.delete(name="a", namespace=ns)
    assert [m.metadata.name for m in maps.get(namespace=ns).items] == ["b"]
    with pytest.raises(Exception, match="404"):
        maps.get(name="a", namespace=ns)
    jobs.delete(name="j", namespace=ns, propagation_policy="Background")


@pytest.fixture
def kubectl(plane, ns, tmp_path):
    """Run kubectl in the test's namespace and return its output."""

    def call(*arguments, code=0, stdin=None):
        command = [
            KUBECTL,
            "--server",
            plane["url"],
            "--cache-dir",
            str(tmp_path / "cache"),
            "-n",
            ns,
            *arguments,
        ]
        environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "KUBECONFIG": "/dev/null"}
        done = subprocess.run(
            command, env=environment, input=stdin, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == code, (done.stdout, done.stderr)
        return done.stdout + done.stderr

    return call


def test_kubectl_apply_get_delete(kubectl):
    """Plain apply creates, leaves alone and changes; get shows the columns; delete waits for the end."""
    body = {"apiVersion": "batch/v1", "kind": "Job", **job("j", 2)}
    del body["metadata"]["namespace"]
    assert "job.batch/j created" in kubectl("apply", "-f", "-", stdin=json.dumps(body))
    assert "job.batch/j unchanged" in kubectl("apply", "-f", "-", stdin=json.dumps(body))
    body["metadata"]["labels"] = {"a": "b"}
    assert "job.batch/j configured" in kubectl("apply", "-f", "-", stdin=json.dumps(body))
    assert kubectl("wait", "job/j", "--for=jsonpath={.status.active}=2", "--timeout=20s")
    shown = kubectl("get", "jobs,pods")
    assert "COMPLETIONS" in shown
    assert "job.batch/j   Running   0/2" in shown
    assert shown.count("Pending") == 2
    assert "SuccessfulCreate" in kubectl("get", "events")
    assert "Indexed" in kubectl("describe", "job", "j")
    assert 'job.batch "j" deleted' in kubectl("delete", "job", "j")
    kubectl("wait", "pods", "-l", "job-name=j", "--for=delete", "--timeout=20s")


def test_kubectl_sees_field_errors(kubectl):
    """Kubectl leaves the check of fields to the server and shows its refusal."""
    body = {"apiVersion": "batch/v1", "kind": "Job", **job("j", 2, retries=3)}
    del body["metadata"]["namespace"]
    shown = kubectl("apply", "-f", "-", stdin=json.dumps(body), code=1)
    assert 'strict decoding error: unknown field "spec.retries"' in shown


def test_kubectl_server_side_apply_and_edits(kubectl):
    """Server-side apply, label, annotate, patch, create and a watch end as they should."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "1"}}
    assert "serverside-applied" in kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(body))
    kubectl("label", "configmap", "a", "x=y")
    kubectl("annotate", "configmap", "a", "x=y")
    kubectl("patch", "configmap", "a", "--type=json", "-p", '[{"op":"add","path":"/data/l","value":"2"}]')
    found = json.loads(kubectl("get", "configmap", "a", "-o", "json"))
    assert found["data"] == {"k": "1", "l": "2"}
    assert found["metadata"]["labels"] == {"x": "y"}
    kubectl("create", "configmap", "b", "--from-literal=k=v")
    assert kubectl("get", "configmap", "b", "-o", "jsonpath={.data.k}") == "v"


def test_kubectl_nodes(kubectl, api, ns):
    """Nodes show their readiness; cordon marks one as not schedulable."""
    name = f"n-{ns}"
    api.ok("POST", "/api/v1/nodes", node(name))
    assert f"{name}   Ready    <none>" in kubectl("get", "nodes")
    kubectl("cordon", name)
    assert "Ready,SchedulingDisabled" in kubectl("get", "node", name)
    assert "deleted" in kubectl("delete", "node", name)


def test_kubectl_namespaces(kubectl, ns):
    """A namespace is created and deleted by kubectl, which waits until it is gone."""
    kubectl("create", "namespace", f"{ns}-more")
    assert "Active" in kubectl("get", "namespace", f"{ns}-more")
    kubectl("delete", "namespace", f"{ns}-more")
    assert "NotFound" in kubectl("get", "namespace", f"{ns}-more", code=1)
