"""Programs `kind` and `docker` that record what they are asked and fail on demand, and a new cluster's API server."""

import contextlib
import http.server
import json
import pathlib
import sys
import threading
import urllib.parse

PROGRAM = '''#!{python}
"""Stands in for {name}."""
import json, os, pathlib, sys, time
state = pathlib.Path({state!r})
with (state / "calls.jsonl").open("a") as file:
    file.write(json.dumps([{name!r}, *sys.argv[1:]]) + "\\n")
words = [word for word in sys.argv[1:3] if not word.startswith("-")]
verb = "-".join([{name!r}, *words])
arguments = sys.argv[1:]
def option(name):
    return arguments[arguments.index(name) + 1]
def fail():
    for path in state.glob("fail-*"):
        if verb.startswith(path.name.removeprefix("fail-")):
            sys.stderr.write(path.read_text())
            sys.exit(1)
    if (state / f"hang-{{verb}}").exists():
        (state / "hanging").write_text(str(os.getpid()))
        time.sleep(600)
{body}
'''

KIND = """
clusters = state / "clusters"
if verb == "kind-get-clusters":
    fail()
    print("\\n".join(sorted(path.name for path in clusters.iterdir())))
elif verb == "kind-create-cluster":
    import yaml
    config = yaml.safe_load(pathlib.Path(option("--config")).read_text())
    (clusters / config["name"]).write_text(json.dumps(config))
    fail()
    verb, arguments = "kind-export-kubeconfig", [*arguments, "--name", config["name"]]
elif verb == "kind-delete-cluster":
    fail()
    (clusters / option("--name")).unlink(missing_ok=True)
else:
    fail()
if verb == "kind-export-kubeconfig":
    context = "kind-" + option("--name")
    pathlib.Path(option("--kubeconfig")).write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": context,
        "clusters": [{"name": context, "cluster": {"server": (state / "server").read_text()}}],
        "users": [{"name": context, "user": {"token": "t"}}],
        "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
    }))
"""

DOCKER = """
images = state / "images"
fail()
if verb.startswith("docker-image"):
    name = arguments[-1]
    known = images.read_text().split() if images.exists() else []
    if name not in known:
        sys.stderr.write(f"Error: No such image: {name}\\n")
        sys.exit(1)
    print("sha256:of-" + name)
elif verb.startswith("docker-build"):
    with images.open("a") as file:
        file.write(option("--tag") + "\\n")
elif verb.startswith("docker-save"):
    pathlib.Path(option("--output")).write_text("archive")
"""


class Programs:
    """What the fake programs were asked, and what they do next.

    Attributes:
        folder: belongs into PATH.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        """Write both programs."""
        self.folder = folder / "bin"
        self._state = folder / "state"
        (self._state / "clusters").mkdir(parents=True)
        self.folder.mkdir()
        for name, body in (("kind", KIND), ("docker", DOCKER)):
            path = self.folder / name
            path.write_text(
                PROGRAM.format(python=sys.executable, name=name, state=str(self._state), body=body)
            )
            path.chmod(0o755)

    def serve(self, url: str) -> None:
        """Say where the API server of the next cluster is."""
        (self._state / "server").write_text(url)

    def fails(self, verb: str, said: str) -> None:
        """Let `kind-create-cluster` or `docker-build` fail."""
        (self._state / f"fail-{verb}").write_text(said)

    def works(self, verb: str) -> None:
        """Let it work again."""
        (self._state / f"fail-{verb}").unlink()

    def hangs(self, verb: str) -> pathlib.Path:
        """Let it never end; return the file that holds its process id once it hangs."""
        (self._state / f"hang-{verb}").write_text("")
        return self._state / "hanging"

    def add_cluster(self, name: str) -> None:
        """Let there be a cluster."""
        (self._state / "clusters" / name).write_text("{}")

    def remove_cluster(self, name: str) -> None:
        """Let a cluster be gone."""
        (self._state / "clusters" / name).unlink()

    def add_image(self, name: str) -> None:
        """Let the engine have an image."""
        with (self._state / "images").open("a") as file:
            file.write(f"{name}\n")

    def clusters(self) -> dict[str, dict]:
        """Return the configuration of each cluster that there is."""
        return {path.name: json.loads(path.read_text()) for path in (self._state / "clusters").iterdir()}

    def calls(self, *beginning: str) -> list[list[str]]:
        """Return the calls that begin with these words."""
        path = self._state / "calls.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        found = [json.loads(line) for line in lines]
        return [call for call in found if tuple(call[: len(beginning)]) == beginning]


class Api(http.server.ThreadingHTTPServer):
    """An API server that keeps what is applied, and lets nodes and deployments be as the test wants them.

    Attributes:
        objects: path of an object -> the object.
        applied: paths in the order in which they were applied.
        refuse: path -> text with which an apply is refused.
    """

    daemon_threads = True

    def __init__(self, *, gpus: int = 8, ready: bool = True) -> None:
        """Have a control plane and two workers."""
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, dict] = {}
        self.applied: list[str] = []
        self.refuse: dict[str, str] = {}
        self.changed = threading.Condition()
        for name in ("c-control-plane", "c-worker", "c-worker2"):
            self.put(f"/api/v1/nodes/{name}", node(name, gpus=gpus, ready=ready))
        self.put(
            "/apis/apps/v1/namespaces/kube-system/deployments/coredns", available("kube-system", "coredns")
        )

    @property
    def url(self) -> str:
        """Return where it listens."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def put(self, path: str, obj: dict) -> None:
        """Let an object be."""
        with self.changed:
            self.objects[path] = obj
            self.changed.notify_all()

    def below(self, path: str) -> list[dict]:
        """Return the objects of a collection, of all namespaces where it names none."""
        group, _, plural = path.rpartition("/")
        return [
            obj
            for key, obj in self.objects.items()
            if key.startswith(f"{group}/") and key.split("/")[-2] == plural
        ]


KINDS = {
    "/apis/rbac.authorization.k8s.io/v1": [("Role", "roles", True), ("RoleBinding", "rolebindings", True)],
    "/apis/apiextensions.k8s.io/v1": [("CustomResourceDefinition", "customresourcedefinitions", False)],
    "/apis/admissionregistration.k8s.io/v1": [
        ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations", False),
        ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations", False),
    ],
    "/apis/things.example/v1": [("Thing", "things", False)],
}


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Api

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Answer discovery, an object, a list, or a watch that tells every object again when one changes."""
        url = urllib.parse.urlsplit(self.path)
        query = urllib.parse.parse_qs(url.query)
        if url.path in KINDS:
            rows = [{"kind": k, "name": p, "namespaced": n} for k, p, n in KINDS[url.path]]
            self._answer(200, {"resources": rows})
        elif url.path in self.server.objects:
            self._answer(200, self.server.objects[url.path])
        elif "watch" in query:
            self._watch(url.path)
        elif url.path.split("/")[-2] == "configmaps":
            self._answer(404, {"kind": "Status", "code": 404, "reason": "NotFound", "message": "not found"})
        else:
            items = self.server.below(url.path)
            self._answer(200, {"metadata": {"resourceVersion": "1"}, "items": items})

    def do_PATCH(self) -> None:
        """Apply."""
        path = urllib.parse.urlsplit(self.path).path
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if path in self.server.refuse:
            text = self.server.refuse[path]
            self._answer(403, {"kind": "Status", "code": 403, "reason": "Forbidden", "message": text})
            return
        self.server.applied.append(path)
        if body["kind"] == "CustomResourceDefinition":
            body["status"] = {"conditions": [{"type": "Established", "status": "True"}]}
        if body["kind"] == "Deployment":
            body = {**body, **available(body["metadata"]["namespace"], body["metadata"]["name"])}
        self.server.put(path, body)
        self._answer(200, body)

    def _watch(self, path: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with contextlib.suppress(OSError), self.server.changed:
            while True:
                for obj in self.server.below(path):
                    line = json.dumps({"type": "MODIFIED", "object": obj}).encode() + b"\n"
                    self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
                self.server.changed.wait(30)

    def _answer(self, code: int, body: dict) -> None:
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def node(name: str, *, gpus: int = 8, ready: bool = True) -> dict:
    """Return a node."""
    control = "control-plane" in name
    taints = [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}] if control else []
    said = {"type": "Ready", "status": "True" if ready else "False", "message": "cni is not there"}
    return {
        "metadata": {"name": name, "uid": name, "resourceVersion": "1"},
        "spec": {"taints": taints},
        "status": {
            "conditions": [said],
            "nodeInfo": {"kubeletVersion": "v1.37.2"},
            "allocatable": {} if control else {"nvidia.com/gpu": str(gpus)},
        },
    }


def available(namespace: str, name: str) -> dict:
    """Return a deployment that is Available."""
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": name, "resourceVersion": "1"},
        "status": {"conditions": [{"type": "Available", "status": "True"}]},
    }
