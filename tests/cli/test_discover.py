"""`gpucluster discover` writes a profile that our own loader takes, or that says what is left to fill in."""

import http.server
import json
import re
import threading

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpucluster import profile
from pytest_gpucluster.cli import profile_draft
from pytest_gpucluster.profile.reading import read_mapping

NODES = "/api/v1/nodes"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
CLUSTER_QUEUES = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"
VOLCANO = "/apis/apps/v1/namespaces/volcano-system/deployments"


def node(name, gpus, resource="nvidia.com/gpu", **labels):
    """Return a node."""
    amounts = {"cpu": "96", **({resource: str(gpus)} if gpus else {})}
    status = {
        "capacity": amounts,
        "allocatable": amounts,
        "nodeInfo": {"kernelVersion": "6.8", "kubeletVersion": "v1.34.1"},
    }
    return {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": status}


def rails(*counts, name="rdma/hca"):
    """Return GPU nodes with so many adapters each."""
    made = [node(f"gpu-{number}", 8) for number in range(len(counts))]
    for each, count in zip(made, counts, strict=True):
        each["status"]["capacity"][name] = str(count)
    return made


def queue(name, state="Open"):
    """Return a Volcano queue."""
    return {"metadata": {"name": name}, "spec": {}, "status": {"state": state}}


@pytest.fixture
def api():
    """Serve paths from a dict: a list of objects, or a status code."""
    deployment = {"metadata": {"name": "volcano-scheduler"}, "spec": {"template": {"spec": {"containers": [
        {"name": "s", "image": "volcanosh/vc-scheduler:v1.14.4"}]}}}}  # fmt: skip
    answers = {
        NODES: [node(f"gpu-{n}", 8) for n in range(3)] + [node("cpu-0", 0)],
        QUEUES: [queue("root"), queue("default"), queue("training")],
        VOLCANO: [deployment],
    }

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            path = self.path.partition("?")[0]
            found = answers.get(path, 404)
            if path == "/version":
                self.say(200, {"gitVersion": "v1.34.2"})
            elif isinstance(found, int):
                self.say(
                    found,
                    {"kind": "Status", "code": found, "message": f"{path} is not for you", "reason": "No"},
                )
            else:
                self.say(200, {"kind": "List", "metadata": {"resourceVersion": "1"}, "items": found})

        def say(self, code, body):
            data = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    answers["url"] = f"http://127.0.0.1:{server.server_address[1]}"
    yield answers
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def discover(api, call, tmp_path):
    """Give a call of the command that returns the text."""

    def run(context="kubernetes-admin@1e3"):
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": context,
            "contexts": [{"name": context, "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": api["url"]}}],
            "users": [{"name": "u", "user": {}}],
        }
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(json.dumps(config))
        status, out, err = call("discover", "--kubeconfig", kubeconfig)
        assert (status, err) == (0, ""), err
        return out

    return run


def load(text, tmp_path):
    """Load a text as a profile called prod-a."""
    (tmp_path / "prod-a.yaml").write_text(text, encoding="utf-8")
    return profile.load("prod-a", [tmp_path]).profile


def test_what_can_be_seen_is_filled_in_and_loads(discover, tmp_path):
    """One queue of its own, GPU nodes that agree: the profile is complete as it is written."""
    text = discover()
    found = load(text, tmp_path)
    assert (found.scheduler, found.queue, found.gpu_resource, found.gpus_per_node) == (
        "volcano", "training", "nvidia.com/gpu", 8,
    )  # fmt: skip
    assert found.connection.context == "kubernetes-admin@1e3"
    assert found.connection.kubeconfig == str(tmp_path / "kubeconfig")
    open_ = text.partition("connection:")[2].split(profile_draft.OPEN)[1:]
    assert [each.partition(",")[0] for each in open_] == [": images of the suite's own pods"]
    assert found.versions == {}
    assert found.bind_spread is None
    assert "observed: kubernetes 1.34.1, 1.34.2; volcano 1.14.4" in text


def test_what_is_proposed_can_be_taken_up(discover, tmp_path):
    """Every commented key is one that the loader knows, with a value that it takes."""
    text = discover()
    taken = re.sub(r"(?m)^# ((?:  )*(?:- )?[a-z_]*\w:( .*)?|(?:  )+- .*)$", r"\1", text)
    taken = "\n".join(line for line in taken.splitlines() if not line.startswith("observed"))
    with pytest.raises(
        profile.ProfileError, match=r"images\.\w+ = 'registry.example/IMAGE@sha256:DIGEST': must be an "
    ):
        load(taken, tmp_path)
    taken = taken.replace("IMAGE@sha256:DIGEST", f"image@sha256:{'0' * 64}")
    found = load(taken, tmp_path)
    assert found.bind_spread == 5
    assert found.versions["volcano"] == ("1.14",)
    assert found.overlay["spec"]["tolerations"]
    assert found.pool_label == "example.com/pool"
    assert set(found.images) == {"python", "torch"}
    assert (found.fabric.nodes, found.fabric.transport, found.mfu.nodes) == (2, "NET/IB", 1)
    assert (found.kueue.cluster_queue, found.numa.policy) == (None, "single-numa-node")
    assert (found.storage.durable.source, found.elastic.max) == ("storage_class", 3)


OFFERED = ("fabric", "mfu", "kueue", "numa", "storage", "elastic")


@pytest.mark.parametrize(
    ("path", "answer", "said", "section"),
    [
        (NODES, rails(8, 8), "rdma/hca 8 on 2 nodes", "nics_per_node: 8"),
        (NODES, rails(4, name="vpc.amazonaws.com/efa"), "vpc.amazonaws.com/efa 4 on 1 node", "transport: NET/OFI"),
        (NODES, rails(8, 4), "8 on 1 node, 4 on 1 node", "nodes: 2"),
        (NODES, [node("a", 8, **{"nvidia.com/gpu.product": "H200"})], "product is H200 (1)", "floor_file: products"),
        (CLUSTER_QUEUES, [queue("research")], "ClusterQueues research", "cluster_queue: research"),
        (CLUSTER_QUEUES, [queue("a"), queue("b")], "ClusterQueues a, b", "kueue: {}"),
        (CLUSTER_QUEUES, 404, "the API serves no ClusterQueues: leave this section out", "kueue: {}"),
        (CLUSTER_QUEUES, 403, "ClusterQueues may not be listed", "kueue: {}"),
        (NODES, [node("gpu-7", 8)], "nodes/gpu-7/proxy/configz", "policy: single-numa-node"),
    ],
)  # fmt: skip
def test_sections_come_with_what_was_seen(api, discover, path, answer, said, section):  # noqa: PLR0917
    """Each section of a capability is offered, whatever was seen, and says so as a comment."""
    api[path] = answer
    text = discover()
    assert said in " ".join(text.replace("\n#", "").split())
    assert re.search(rf"(?m)^# +{re.escape(section)}$", text)
    assert all(re.search(rf"(?m)^# {name}:", text) for name in OFFERED)


@pytest.mark.parametrize(
    ("path", "answer", "key", "said"),
    [
        (NODES, [node("a", 8), node("b", 8), node("c", 4)], "gpus_per_node", "8 on a, b; 4 on c"),
        (NODES, [node("a", 0, **{"nvidia.com/gpu.present": "true"})], "gpu_resource", "labels say that 1 nodes"),
        (NODES, [node("a", 2, "example.com/tpu")], "gpu_resource", "extended resources observed: example.com/tpu"),
        (NODES, [{"metadata": {"name": "a"}}], "gpu_resource", "none of 1 nodes"),
        (NODES, [], "gpu_resource", "none of 0 nodes"),
        (NODES, 403, "gpu_resource", "the nodes may not be read"),
        (QUEUES, [queue("default"), queue("x"), queue("y", "Closed")], "queue", "x (Open), y (Closed)"),
        (QUEUES, [], "queue", "observed: none"),
        (QUEUES, 403, "scheduler", "could not be seen"),
        (QUEUES, 404, "queue", "`default` if the scheduler has none"),
    ],
)  # fmt: skip
def test_what_cannot_be_seen_is_left_open_and_named(  # noqa: PLR0917 (fixtures and a table's columns)
    api, discover, tmp_path, path, answer, key, said
):
    """The loader names the open key; the comment before it says what was seen instead."""
    api[path] = answer
    text = discover()
    with pytest.raises(profile.ProfileError, match=rf"{key}( = '')?: is empty"):
        load(text, tmp_path)
    comment = " ".join(text.partition(f"\n{key}:")[0].replace("\n#", "").split())
    assert f"{profile_draft.OPEN}:" in comment
    assert said in comment
    if answer == 403:
        assert (
            f"Not everything could be read: list {path.rpartition('/')[2]}: {path} is not for you" in comment
        )


def test_an_open_key_is_filled_and_the_profile_loads(api, discover, tmp_path):
    """After the user filled in what was open nothing else is missing."""
    api[NODES] = [node("a", 8), node("b", 4)]
    text = discover().replace("\ngpus_per_node:", "\ngpus_per_node: 8")
    assert load(text, tmp_path).gpus_per_node == 8


def test_kueue_without_volcano(api, discover, tmp_path):
    """Where Kueue alone is there, its queues are shown and the scheduler is the default one."""
    api[QUEUES] = 404
    api[CLUSTER_QUEUES] = [{"metadata": {"name": "team-a"}}]
    text = discover()
    assert "ClusterQueues observed: team-a" in " ".join(text.replace("\n#", "").split())
    assert load(text.replace("\nqueue:", "\nqueue: team-a"), tmp_path).scheduler == "default-scheduler"


def test_mistakes_are_one_line_and_write_no_profile(api, call, tmp_path, monkeypatch):
    """No file, no contexts, an unknown context, no current one, several files, no answer."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    contexts = [{"name": "a", "context": {"cluster": "c", "user": "u"}}]
    config = {"contexts": contexts, "users": [{"name": "u", "user": {}}],
              "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}]}  # fmt: skip
    good, bad, odd = tmp_path / "good", tmp_path / "bad", tmp_path / "odd"
    good.write_text(yaml.safe_dump(config))
    bad.write_text("a: [")
    odd.write_text("[]")
    calls = [
        ((), 2, "does not exist): name one with --kubeconfig"),
        (("--kubeconfig", tmp_path / "god"), 2, "did you mean"),
        (("--kubeconfig", bad), 2, "cannot be read"),
        (("--kubeconfig", odd), 2, "is not a kubeconfig"),
        (("--kubeconfig", good), 2, "no current context"),
        (("--kubeconfig", good, "--context", "b"), 2, "unknown context"),
        (("--kubeconfig", good, "--context", "a"), 3, "refused"),
    ]
    for words, wanted, said in calls:
        status, out, err = call("discover", *words)
        assert (status, out) == (wanted, ""), (words, err)
        assert said in err
        assert err.count("\n") == 1
    monkeypatch.setenv("KUBECONFIG", f"{good}:{bad}")
    status, out, err = call("discover")
    assert (status, out) == (2, "")
    assert "several files" in err


@given(
    st.text()
    | st.sampled_from(["no", "1e3", "0123", "~", "a: b", "null", "x #y", "- a", "arn:aws:eks:eu:1:cluster/a"])
)
def test_a_text_is_read_back_as_it_was(text):
    """Names of contexts and paths may hold anything."""
    assert read_mapping(f"key: {profile_draft.scalar(text)}\n", "x").data == {"key": text}
