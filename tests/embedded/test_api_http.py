"""The API over HTTP: discovery, verbs, refusals in Kubernetes' words, sub-resources, pages, faults."""

import http.client
import json
import socket
import socketserver
import threading
import time
from http.server import BaseHTTPRequestHandler

import pytest

from tests.embedded.support import GPU, Api, control_plane, pod

MERGE = "application/merge-patch+json"


def here(ns, body):
    """Return a body put into a namespace."""
    body["metadata"]["namespace"] = ns
    return body


def test_health_version_and_discovery(api):
    """Probes answer ok; version, groups and resources are listed, each answer with its kind."""
    for path in ("/healthz", "/readyz", "/livez"):
        assert api.raw("GET", path)[:2] == (200, b"ok")
    assert api.ok("GET", "/version")["gitVersion"] == "v1.37.0"
    assert api.ok("GET", "/api")["kind"] == "APIVersions"
    groups = [g["name"] for g in api.ok("GET", "/apis")["groups"]]
    assert "batch" in groups
    assert "batch.volcano.sh" not in groups
    listed = api.ok("GET", "/api/v1")["resources"]
    names = {r["name"]: r for r in listed}
    assert {"pods", "pods/status", "pods/binding", "pods/log", "nodes/status"} <= set(names)
    assert names["pods/binding"]["kind"] == "Binding"
    assert api.ok("GET", "/apis/batch")["preferredVersion"]["version"] == "v1"
    assert api.ok("GET", "/apis/batch/v1")["groupVersion"] == "batch/v1"


def test_aggregated_discovery(api):
    """Kubectl's one-request discovery is answered in the type it asks for."""
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
    status, raw, headers = api.raw("GET", "/apis", headers={"Accept": accept})
    assert status == 200
    assert headers["Content-Type"].endswith("as=APIGroupDiscoveryList")
    assert b'"resource":"jobs"' in raw


def test_openapi_says_that_the_server_validates(api):
    """Each PATCH has a fieldValidation parameter, which makes kubectl leave validation to the server."""
    index = api.ok("GET", "/openapi/v3")["paths"]
    document = api.ok("GET", index["apis/batch/v1"]["serverRelativeURL"])
    patches = [p["patch"] for p in document["paths"].values() if "patch" in p]
    assert patches
    assert all("fieldValidation" in [q["name"] for q in p["parameters"]] for p in patches)
    assert patches[0]["x-kubernetes-group-version-kind"] == {"group": "batch", "version": "v1", "kind": "Job"}


@pytest.mark.parametrize(
    "path", ["/api/v2", "/api/v1/gadgets", "/apis/none/v1/jobs", "/nothing", "/api/v1/pods/x"]
)
def test_what_is_not_served_is_404(api, path):
    """An unknown group, kind or path is 404 with a Status."""
    status, answer = api.call("GET", path)
    assert (status, answer["kind"], answer["reason"]) == (404, "Status", "NotFound")


def test_life_of_an_object(api, ns):
    """Create, read, replace, patch, list and delete answer as Kubernetes does."""
    base = f"/api/v1/namespaces/{ns}/configmaps"
    status, made = api.call("POST", base, {"metadata": {"name": "a"}, "data": {"k": "1"}})
    assert (status, made["kind"], made["metadata"]["namespace"]) == (201, "ConfigMap", ns)
    assert api.call("POST", base, {"metadata": {"name": "a"}})[0] == 409
    made["data"] = {"k": "2"}
    replaced = api.ok("PUT", f"{base}/a", made)
    status, refused = api.call("PUT", f"{base}/a", made)
    assert (status, refused["reason"]) == (409, "Conflict")
    assert "the object has been modified" in refused["message"]
    assert api.ok("PATCH", f"{base}/a", {"data": {"m": "3"}}, MERGE)["data"] == {"k": "2", "m": "3"}
    step = [{"op": "remove", "path": "/data/k"}]
    assert api.ok("PATCH", f"{base}/a", step, "application/json-patch+json")["data"] == {"m": "3"}
    listed = api.ok("GET", base)
    assert (listed["kind"], [o["metadata"]["name"] for o in listed["items"]]) == ("ConfigMapList", ["a"])
    assert int(listed["metadata"]["resourceVersion"]) > int(replaced["metadata"]["resourceVersion"])
    gone = api.ok("DELETE", f"{base}/a")
    assert (gone["status"], gone["details"]["uid"]) == ("Success", made["metadata"]["uid"])
    status, missing = api.call("GET", f"{base}/a")
    assert (status, missing["message"]) == (404, 'configmaps "a" not found')


@pytest.mark.parametrize(
    ("body", "code", "text"),
    [
        (b"{", 400, "error decoding JSON"),
        ([], 400, "an object is needed"),
        ({"kind": "Pod"}, 400, "cannot be handled as a ConfigMap"),
        ({"apiVersion": "batch/v1"}, 400, "does not match the expected API version (v1)"),
        ({"metadata": {"name": "x", "namespace": "other"}}, 400, "does not match the namespace sent"),
        ({"metadata": {}}, 422, "name or generateName is required"),
    ],
)
def test_bodies_that_make_no_sense(api, ns, body, code, text):
    """A body that is malformed or of another kind, version or namespace is refused with the reason."""
    status, answer = api.call("POST", f"/api/v1/namespaces/{ns}/configmaps", body)
    assert status == code
    assert text in answer["message"]


@pytest.mark.parametrize(
    ("resources", "field", "text"),
    [
        ({"limits": {GPU: 1}, "requests": {GPU: 2}}, "requests", f"must be equal to {GPU} limit of 1"),
        ({"requests": {GPU: 2}}, "limits", "Limit must be set for non overcommitable resources"),
        ({"limits": {GPU: "500m"}}, f"limits[{GPU}]", "must be an integer"),
        ({"limits": {"gpu": 1}}, "limits[gpu]", "must be a standard resource for containers"),
        (
            {"limits": {"cpu": 1}, "requests": {"cpu": 2}},
            "requests",
            "must be less than or equal to cpu limit of 1",
        ),
    ],
)
def test_resource_mistakes_are_invalid_at_their_field(api, ns, resources, field, text):
    """What a manifest gets wrong about resources is 422 with field and reason as Kubernetes words them."""
    body = here(ns, pod("p"))
    body["spec"]["containers"][0]["resources"] = resources
    status, answer = api.call("POST", f"/api/v1/namespaces/{ns}/pods", body)
    assert (status, answer["reason"]) == (422, "Invalid")
    assert f"spec.containers[0].resources.{field}: " in answer["message"]
    assert text in answer["message"]


def test_quantities_that_are_none_are_bad_requests(api, ns):
    """A quantity that cannot be read fails when the object is decoded: 400."""
    body = here(ns, pod("p"))
    body["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "two"}}
    status, answer = api.call("POST", f"/api/v1/namespaces/{ns}/pods", body)
    assert status == 400
    assert "quantities must match the regular expression" in answer["message"]


def test_pod_defaults(api, ns):
    """A pod gets the defaults that the API server makes, whatever status it was sent with."""
    body = here(ns, pod("p", schedulerName="nobody"))
    body["status"] = {"phase": "Running"}
    body["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1", "memory": "1Gi"}}
    made = api.ok("POST", f"/api/v1/namespaces/{ns}/pods", body)
    spec = made["spec"]
    assert (spec["restartPolicy"], spec["dnsPolicy"]) == ("Always", "ClusterFirst")
    assert spec["serviceAccountName"] == "default"
    assert [t["tolerationSeconds"] for t in spec["tolerations"]] == [300, 300]
    assert spec["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}
    assert made["status"] == {"phase": "Pending", "qosClass": "Guaranteed"}
    assert made["metadata"]["generation"] == 1


def test_unknown_fields_warn_or_refuse(api, ns):
    """An unknown field is dropped with a warning, and refused under strict validation."""
    path = f"/api/v1/namespaces/{ns}/pods"
    body = here(ns, pod("p", schedulerName="nobody", restart="x"))
    status, answer = api.call("POST", f"{path}?fieldValidation=Strict", body)
    assert status == 400
    assert 'strict decoding error: unknown field "spec.restart"' in answer["message"]
    status, raw, headers = api.raw("POST", path, body)
    assert status == 201
    assert headers["Warning"] == '299 - "unknown field \\"spec.restart\\""'
    assert b'"restart"' not in raw
    twice = b'{"metadata":{"name":"c","name":"d"}}'
    status, answer = api.call("POST", f"/api/v1/namespaces/{ns}/configmaps?fieldValidation=Strict", twice)
    assert (status, 'duplicate field "name"' in answer["message"]) == (400, True)


def test_spec_of_a_pod_is_fixed(api, ns):
    """Most of a pod's spec cannot be changed; its image can."""
    path = f"/api/v1/namespaces/{ns}/pods"
    api.ok("POST", path, here(ns, pod("p", schedulerName="nobody")))
    status, answer = api.call("PATCH", f"{path}/p", {"spec": {"hostname": "x"}}, MERGE)
    assert status == 422
    assert "pod updates may not change fields other than" in answer["message"]
    patch = {"spec": {"containers": [{"name": "c", "image": "y"}]}}
    changed = api.ok("PATCH", f"{path}/p", patch, "application/strategic-merge-patch+json")
    assert changed["spec"]["containers"][0]["image"] == "y"


def test_dry_run_leaves_nothing(api, ns):
    """dryRun=All answers as the write would and stores nothing; any other value is refused."""
    path = f"/api/v1/namespaces/{ns}/configmaps"
    assert api.call("POST", f"{path}?dryRun=All", {"metadata": {"name": "a"}})[0] == 201
    assert api.call("GET", f"{path}/a")[0] == 404
    assert api.call("POST", f"{path}?dryRun=Some", {"metadata": {"name": "a"}})[0] == 400


def test_pages_show_one_moment(api, ns):
    """A list read in pages is as it was at its first page; after compaction its token is expired."""
    path = f"/api/v1/namespaces/{ns}/configmaps"
    for n in range(5):
        api.ok("POST", path, {"metadata": {"name": f"a{n}"}})
    first = api.ok("GET", f"{path}?limit=2")
    assert first["metadata"]["remainingItemCount"] == 3
    api.ok("DELETE", f"{path}/a3")
    second = api.ok("GET", f"{path}?limit=2&continue={first['metadata']['continue']}")
    third = api.ok("GET", f"{path}?limit=2&continue={second['metadata']['continue']}")
    names = [o["metadata"]["name"] for page in (first, second, third) for o in page["items"]]
    assert names == ["a0", "a1", "a2", "a3", "a4"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert "continue" not in third["metadata"]
    api.ok("POST", "/debug/compact")
    status, answer = api.call("GET", f"{path}?limit=2&continue={first['metadata']['continue']}")
    assert (status, answer["reason"]) == (410, "Expired")


def test_selectors_of_a_list(api, ns):
    """Label and field selectors narrow a list; an unsupported field is 400."""
    path = f"/api/v1/namespaces/{ns}/pods"
    for name, color in (("a", "red"), ("b", "blue")):
        body = here(ns, pod(name, schedulerName="nobody"))
        body["metadata"]["labels"] = {"color": color}
        api.ok("POST", path, body)

    def names(query):
        return [o["metadata"]["name"] for o in api.ok("GET", f"{path}?{query}")["items"]]

    assert names("labelSelector=color%21%3Dred") == ["b"]
    assert names("fieldSelector=status.phase%3DPending,metadata.name%3Da") == ["a"]
    assert names("fieldSelector=spec.nodeName%3D") == ["a", "b"]
    assert api.call("GET", f"{path}?fieldSelector=spec.color%3Dred")[0] == 400


def test_deletecollection_deletes_what_is_selected(api, ns):
    """DELETE on a collection deletes the selected objects."""
    path = f"/api/v1/namespaces/{ns}/configmaps"
    for n in range(3):
        api.ok("POST", path, {"metadata": {"name": f"a{n}", "labels": {"n": str(n)}}})
    api.ok("DELETE", f"{path}?labelSelector=n%20in%20(0,1)")
    assert [o["metadata"]["name"] for o in api.ok("GET", path)["items"]] == ["a2"]


def test_binding_and_eviction(api, ns):
    """A pod is bound once, 409 after that; eviction marks it as disrupted and deletes it with grace."""
    path = f"/api/v1/namespaces/{ns}/pods"
    node = f"n-{ns}"
    api.ok("POST", "/api/v1/nodes", {"metadata": {"name": node}})
    api.ok("POST", path, here(ns, pod("p", schedulerName="nobody")))
    target = {"target": {"kind": "Node", "name": node}}
    assert api.call("POST", f"{path}/p/binding", target)[0] == 201
    status, answer = api.call("POST", f"{path}/p/binding", target)
    assert (status, answer["reason"]) == (409, "Conflict")
    assert f'pod p is already assigned to node "{node}"' in answer["message"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    assert api.call("POST", f"{path}/p/eviction", eviction)[0] == 201
    evicted = api.ok("GET", f"{path}/p")
    assert evicted["metadata"]["deletionGracePeriodSeconds"] == 1
    assert "DisruptionTarget" in [c["type"] for c in evicted["status"]["conditions"]]
    api.ok("DELETE", f"{path}/p", {"gracePeriodSeconds": 0})
    assert api.call("GET", f"{path}/p")[0] == 404
    api.ok("DELETE", f"/api/v1/nodes/{node}")


def test_node_status_is_patched_as_for_slots(api, ns):
    """Capacity of a private resource is written through the status of a node, with a strategic patch too."""
    node = f"n-{ns}"
    status = {"capacity": {"cpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]}
    api.ok("POST", "/api/v1/nodes", {"metadata": {"name": node}, "status": status})
    patch = {"status": {"capacity": {"slots.gpucluster.dev/x": "3"}}}
    api.ok("PATCH", f"/api/v1/nodes/{node}/status", patch, MERGE)
    patch = {"status": {"conditions": [{"type": "Full", "status": "False"}]}}
    api.ok("PATCH", f"/api/v1/nodes/{node}/status", patch, "application/strategic-merge-patch+json")
    found = api.ok("GET", f"/api/v1/nodes/{node}")["status"]
    assert found["capacity"] == {"cpu": "8", "slots.gpucluster.dev/x": "3"}
    assert [c["type"] for c in found["conditions"]] == ["Ready", "Full"]
    api.ok("DELETE", f"/api/v1/nodes/{node}")


def test_apply_creates_and_changes(api, ns):
    """Server-side apply creates an absent object from YAML, then owns its fields."""
    path = f"/api/v1/namespaces/{ns}/configmaps/a?fieldManager=one"
    kind = "application/apply-patch+yaml"
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: '1'\n  l: '2'\n"
    status, made = api.call("PATCH", path, body, kind)
    assert (status, made["data"]) == (201, {"k": "1", "l": "2"})
    assert made["metadata"]["managedFields"][0]["manager"] == "one"
    changed = api.ok("PATCH", path, {"data": {"k": "1"}}, kind)
    assert changed["data"] == {"k": "1"}
    status, answer = api.call("PATCH", path.replace("one", "two"), {"data": {"k": "3"}}, kind)
    assert (status, answer["reason"]) == (409, "Conflict")
    assert api.call("PATCH", path.partition("?")[0], {"data": {}}, kind)[0] == 422


def test_patch_of_an_unknown_type_is_415(api, ns):
    """A content type that is no patch is refused with the list of those that are."""
    api.ok("POST", f"/api/v1/namespaces/{ns}/configmaps", {"metadata": {"name": "a"}})
    status, answer = api.call("PATCH", f"/api/v1/namespaces/{ns}/configmaps/a", {}, "application/json")
    assert (status, answer["reason"]) == (415, "UnsupportedMediaType")
    assert "application/merge-patch+json" in answer["message"]


def test_table_has_columns_and_metadata(api, ns):
    """A list asked for as Table has cells per column, and rows that carry their object's metadata."""
    api.ok("POST", f"/api/v1/namespaces/{ns}/pods", here(ns, pod("p", schedulerName="nobody")))
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
    table = json.loads(api.raw("GET", f"/api/v1/namespaces/{ns}/pods", headers=accept)[1])
    assert table["kind"] == "Table"
    names = [c["name"] for c in table["columnDefinitions"]]
    row = dict(zip(names, table["rows"][0]["cells"], strict=True))
    assert (row["Name"], row["Ready"], row["Status"]) == ("p", "0/1", "Pending")
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


class _Kubelet(BaseHTTPRequestHandler):
    """Answers one log."""

    def do_GET(self):
        """Answer with the path that was asked for."""
        code = 200 if "/c?" in self.path or self.path.endswith("/c") else 404
        self.send_response(code)
        self.end_headers()
        self.wfile.write(self.path.encode())

    def log_message(self, *args):
        """Say nothing."""

    def address_string(self):
        return "unix"


def test_logs_come_from_the_kubelet_of_the_node(api, ns, tmp_path):
    """The log of a pod is what the kubelet behind its node's socket answers, with the query passed on."""
    path = f"/api/v1/namespaces/{ns}/pods"
    node, socket_path = f"n-{ns}", str(tmp_path / "k.sock")
    annotations = {"gpucluster.dev/kubelet-socket": socket_path}
    api.ok("POST", "/api/v1/nodes", {"metadata": {"name": node, "annotations": annotations}})
    api.ok("POST", path, here(ns, pod("p", schedulerName="nobody")))
    status, answer = api.call("GET", f"{path}/p/log")
    assert (status, answer["message"]) == (400, "pod p does not have a host assigned")
    api.ok("POST", f"{path}/p/binding", {"target": {"name": node}})
    assert api.call("GET", f"{path}/p/log")[0] == 502
    with socketserver.ThreadingUnixStreamServer(socket_path, _Kubelet) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            status, raw, _ = api.raw("GET", f"{path}/p/log?tailLines=5&pretty=1")
            assert (status, raw.decode()) == (200, f"/containerLogs/{ns}/p/c?tailLines=5")
            status, answer = api.call("GET", f"{path}/p/log?container=d")
            assert (status, answer["message"]) == (400, "container d is not valid for pod p")
        finally:
            server.shutdown()
            thread.join()
    api.ok("DELETE", f"{path}/p", {"gracePeriodSeconds": 0})
    api.ok("DELETE", f"/api/v1/nodes/{node}")


def test_a_node_passes_a_question_on_to_its_kubelet(api, ns, tmp_path):
    """`proxy/configz` is answered by the kubelet behind the node's socket; other paths are not passed on."""
    node, socket_path = f"p-{ns}", str(tmp_path / "k.sock")
    path = f"/api/v1/nodes/{node}/proxy"
    assert api.call("GET", f"{path}/configz")[0] == 404
    annotations = {"gpucluster.dev/kubelet-socket": socket_path}
    api.ok("POST", "/api/v1/nodes", {"metadata": {"name": node, "annotations": annotations}})
    assert api.call("GET", f"{path}/configz")[0] == 503
    with socketserver.ThreadingUnixStreamServer(socket_path, _Kubelet) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            assert api.raw("GET", f"{path}/configz")[1].decode() == "/configz"
            assert api.call("GET", f"{path}/run/a/b/c")[0] == 404
        finally:
            server.shutdown()
            thread.join()
    api.ok("DELETE", f"/api/v1/nodes/{node}")


def test_requests_are_counted_by_template(api, ns):
    """The server counts requests by method and path template, watches apart."""
    key = "GET /api/v1/namespaces/{namespace}/secrets/{name}"
    before = api.ok("GET", "/debug/requests").get(key, 0)
    for name in ("a", "b"):
        api.call("GET", f"/api/v1/namespaces/{ns}/secrets/{name}")
    list(api.watch(f"/api/v1/namespaces/{ns}/secrets?watch=1&timeoutSeconds=1"))
    counts = api.ok("GET", "/debug/requests")
    assert counts[key] == before + 2
    assert counts["GET /api/v1/namespaces/{namespace}/secrets?watch"] >= 1


def test_faults_on_request():
    """Every n-th request fails with 500, and named paths hang, when the configuration says so."""
    faults = {"status_500_every": 3, "hang_paths": ["/secrets"]}
    with control_plane({"volcano": False, "faults": faults}) as ready:
        api = Api(ready["url"])
        codes = [api.call("GET", "/api/v1/namespaces")[0] for _ in range(6)]
        assert codes == [200, 200, 500, 200, 200, 500]
        connection = http.client.HTTPConnection(api._host, timeout=0.3)
        connection.request("GET", "/api/v1/namespaces/default/secrets")
        with pytest.raises(TimeoutError):
            connection.getresponse()
        connection.close()
        assert api.call("PUT", "/debug/faults", {"no_such_fault": 1})[0] == 400


def test_unix_socket_serves_the_same(tmp_path):
    """The API answers on its Unix socket as on its port, and the socket file goes with the process."""
    path = tmp_path / "api.sock"
    with control_plane({"volcano": False, "socket": str(path)}) as ready:
        assert ready["socket"] == str(path)
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(path))
            connection.sendall(b"GET /readyz HTTP/1.1\r\nHost: api\r\nConnection: close\r\n\r\n")
            answer = b""
            while chunk := connection.recv(4096):
                answer += chunk
        assert answer.startswith(b"HTTP/1.1 200")
    for _ in range(100):
        if not path.exists():
            break
        time.sleep(0.05)
    assert not path.exists()


def test_volcano_kinds_are_absent_without_volcano(api):
    """A cluster without Volcano answers 404 for its groups."""
    assert api.call("GET", "/apis/batch.volcano.sh/v1alpha1")[0] == 404
    assert api.call("GET", "/apis/scheduling.volcano.sh/v1beta1/queues")[0] == 404
