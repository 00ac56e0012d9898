"""How pods reach the API server: certificate in each namespace, token by their account, TLS behind a socket."""

import http.client
import json
import pathlib
import socket
import ssl
import tempfile
import time

import pytest

from pytest_gpucluster.embedded.controllers.pod_accounts import MOUNT, ROOT_CA
from tests.embedded.support import PATIENCE, Api, control_plane, pod

ADDRESS = "10.88.0.1"
ADMIN = "admin-token"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


class As(Api):
    """The administrator."""

    def raw(self, method, path, body=None, headers=None):
        """Send with the token."""
        return super().raw(method, path, body, {**(headers or {}), "Authorization": f"Bearer {ADMIN}"})


@pytest.fixture(params=[()], ids=["well"])
def plane(request):
    """A control plane that pods can reach, and its socket for them."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        path = str(pathlib.Path(folder) / "pods.sock")
        tokens = [{"token": ADMIN, "user": "kubernetes-admin", "groups": ["system:masters"]}]
        config = {"volcano": False, "tokens": tokens, "pod_socket": path, "pod_address": ADDRESS}
        with control_plane({**config, "defects": list(request.param)}) as ready:
            yield As(ready["url"]), path


def asked(path, certificate, token, what):
    """Ask through the socket as a pod does, which knows the server by its address; returns code and body."""
    context = ssl.create_default_context(cadata=certificate)
    with socket.socket(socket.AF_UNIX) as plain:
        plain.connect(path)
        connection = http.client.HTTPConnection(ADDRESS)
        with context.wrap_socket(plain, server_hostname=ADDRESS) as connection.sock:
            connection.request("GET", what, headers={"Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())


def certificate_in(api, namespace):
    """Return the certificate that is published into a namespace, once it is there."""
    ends = time.monotonic() + PATIENCE
    while True:
        code, found = api.call("GET", f"/api/v1/namespaces/{namespace}/configmaps/{ROOT_CA}")
        if code == 200:
            return found["data"]["ca.crt"]
        assert time.monotonic() < ends, found
        time.sleep(0.02)


def reader(api):
    """Make an account that may get nodes; returns a token of it and the certificate."""
    api.ok("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "reader"}})
    rule = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}
    api.ok("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "reads"}, "rules": [rule]})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reads"}
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": "default"}
    binding = {"metadata": {"name": "reads"}, "roleRef": reference, "subjects": [subject]}
    api.ok("POST", f"{RBAC}/clusterrolebindings", binding)
    api.ok("POST", "/api/v1/nodes", {"metadata": {"name": "n", "labels": {"a": "b"}}})
    path = "/api/v1/namespaces/default/serviceaccounts/reader/token"
    token = api.ok("POST", path, {"spec": {}})["status"]["token"]
    return token, certificate_in(api, "default")


def test_a_pod_asks_with_its_token_over_tls(plane):
    """What its account may, and no more."""
    api, path = plane
    token, certificate = reader(api)
    code, node = asked(path, certificate, token, "/api/v1/nodes/n")
    assert (code, node["metadata"]["labels"]) == (200, {"a": "b"})
    assert asked(path, certificate, token, "/api/v1/nodes")[0] == 403
    with pytest.raises(ssl.SSLError):
        asked(path, None, token, "/api/v1/nodes/n")


@pytest.mark.parametrize("plane", [("access.nodes-hidden",)], indirect=True, ids=["hidden"])
def test_nodes_hidden(plane):
    """Planted access.nodes-hidden: 403 for an account that is bound; the administrator still may."""
    api, path = plane
    token, certificate = reader(api)
    code, said = asked(path, certificate, token, "/api/v1/nodes/n")
    assert (code, said["reason"]) == (403, "Forbidden")
    assert api.call("GET", "/api/v1/nodes/n")[0] == 200


def test_an_account_of_its_own_is_mounted_and_the_default_one_is_not(plane):
    """Into all containers, once; not where somebody says no."""
    api, _ = plane
    api.ok("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "own"}})

    def mounts(name, **spec):
        body = pod(name)
        body["spec"] |= spec
        made = api.ok("POST", "/api/v1/namespaces/default/pods", body)
        found = [[m["mountPath"] for m in c.get("volumeMounts") or []] for c in made["spec"]["containers"]]
        return found, [v for v in made["spec"].get("volumes") or [] if "projected" in v]

    found, volumes = mounts("mounted", serviceAccountName="own")
    assert found == [[MOUNT]]
    sources = [next(iter(source)) for source in volumes[0]["projected"]["sources"]]
    assert sources == ["serviceAccountToken", "configMap", "downwardAPI"]
    assert mounts("default") == ([[]], [])
    assert mounts("unmounted", serviceAccountName="own", automountServiceAccountToken=False) == ([[]], [])


def test_each_namespace_gets_the_certificate(plane):
    """Also one that is made later."""
    api, _ = plane
    api.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "later"}})
    assert certificate_in(api, "later") == certificate_in(api, "default")
