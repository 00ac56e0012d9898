"""What many nodes and pods cost: a cluster of 5,000 nodes decided, 10,000 pods followed, a gang of 1,024 judged.

A small server answers as an API server would, from pages that were made beforehand, in a process of its own; each
measurement runs in a fresh process, so that its memory is its own. References, in the same run: parsing the same bytes
with `json.loads` and keeping what came of it, and for the gang, reading its file.

    python benchmarks/scale.py [--nodes 5000] [--pods 10000] [--gang 1024]

Prints seconds, memory and ratios, and ends with 1 where a target is missed: nodes decided within 5 s and 300 MB, the
gang judged within 1 s.
"""

import argparse
import http.server
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import threading
import time
import types
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

LIMITS = {"nodes": (5.0, 300.0), "gang": (1.0, None)}
"""Measurement -> most seconds, most megabytes."""

NODE_BYTES = 8 * 1024
PAGE = 500
NAMESPACE = "training"
ROWS = ("INV-002", "INV-005", "INV-006", "INV-008", "INV-009", "INV-010")

IMAGES = [
    {"names": [f"registry.example/train/part-{n}@sha256:{n:064x}"], "sizeBytes": 123456789} for n in range(24)
]


def node(number: int) -> dict[str, Any]:
    """Return a node of a large cluster: its labels of feature discovery, its conditions, its images; 8 KB and more."""
    labels = {
        "kubernetes.io/hostname": f"gpu-{number:05d}",
        "topology.kubernetes.io/zone": f"zone-{number % 8}",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.count": "8",
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        "nvidia.com/cuda.driver-version.full": "570.172.08",
        "cloud.google.com/gke-nodepool": f"pool-{number % 16}",
        **{f"feature.node.kubernetes.io/cpu-cpuid.FEATURE{n:03d}": "true" for n in range(60)},
    }
    amounts = {"cpu": "96", "memory": "1056270364Ki", "pods": "110", "nvidia.com/gpu": "8", "rdma/hca": "8"}
    beat = "2026-11-28T10:00:00Z"
    conditions = [
        {"type": kind, "status": "True" if kind == "Ready" else "False", "reason": f"Kubelet{kind}",
         "message": f"kubelet says about {kind}", "lastHeartbeatTime": beat, "lastTransitionTime": beat}
        for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    ]  # fmt: skip
    made: dict[str, Any] = {
        "metadata": {
            "name": f"gpu-{number:05d}",
            "uid": f"9a1f0000-0000-4000-8000-{number:012d}",
            "resourceVersion": str(1000 + number),
            "labels": labels,
            "annotations": {f"example.com/note-{n}": "x" * 40 for n in range(8)},
        },
        "spec": {"podCIDR": f"10.{number // 250}.{number % 250}.0/24"},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": conditions,
            "nodeInfo": {"kernelVersion": "6.8.0-1021", "osImage": "Ubuntu 24.04.2 LTS", "kubeletVersion": "v1.37.0",
                         "containerRuntimeVersion": "containerd://2.1.4", "architecture": "amd64"},
            "images": IMAGES,
        },
    }  # fmt: skip
    assert number or len(json.dumps(made)) >= NODE_BYTES
    return made


def pod(number: int) -> dict[str, Any]:
    """Return a bound and running pod of about 3 KB."""
    return {
        "metadata": {
            "name": f"worker-{number}", "namespace": NAMESPACE, "uid": f"pod-{number:08d}",
            "resourceVersion": str(90000 + number), "labels": {f"label-{n}": "x" * 20 for n in range(10)},
        },
        "spec": {
            "nodeName": f"gpu-{number % 5000:05d}", "schedulerName": "volcano",
            "containers": [{"name": "main", "image": "train:1", "env": [
                {"name": f"VARIABLE_{n}", "value": "value"} for n in range(40)
            ]}],
        },
        "status": {"phase": "Running", "podIP": "10.0.0.1"},
    }  # fmt: skip


def answers(nodes: int, pods: int) -> dict[str, list[bytes]]:
    """Return path -> pages."""
    conf = (
        'actions: "enqueue, allocate, backfill"\ntiers:\n- plugins:\n  - name: priority\n  - name: gang\n'
        "- plugins:\n  - name: predicates\n  - name: proportion\n"
    )
    parts = {"volcano-scheduler": "vc-scheduler", "volcano-controllers": "vc-controller-manager"}
    deployments = [
        {"metadata": {"name": name}, "spec": {"template": {"spec": {
            "containers": [{"name": name, "image": f"volcanosh/{image}:v1.14.4"}],
            "volumes": [{"name": "conf", "configMap": {"name": "volcano-scheduler-configmap"}}],
        }}}}
        for name, image in parts.items()
    ]  # fmt: skip
    queue = {"metadata": {"name": "default", "uid": "q"}, "spec": {"weight": 1}, "status": {"state": "Open"}}
    system = "volcano-system"
    return {
        "/api/v1/nodes": list(pages(node(n) for n in range(nodes))),
        f"/api/v1/namespaces/{NAMESPACE}/pods": list(pages(pod(n) for n in range(pods))),
        "/apis/scheduling.volcano.sh/v1beta1/queues": list(pages(iter([queue]))),
        f"/apis/apps/v1/namespaces/{system}/deployments": list(pages(iter(deployments))),
        f"/api/v1/namespaces/{system}/configmaps/volcano-scheduler-configmap": [
            json.dumps({"metadata": {"name": "volcano-scheduler-configmap"}, "data": {"volcano-scheduler.conf": conf}})
            .encode()
        ],
        "/version": [json.dumps({"gitVersion": "v1.37.0"}).encode()],
    }  # fmt: skip


def pages(items: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    """Yield lists of at most `PAGE` items each; the token of the next is its number."""
    every = list(items)
    for start in range(0, max(len(every), 1), PAGE):
        last = start + PAGE >= len(every)
        meta = {"resourceVersion": "99999"} | ({} if last else {"continue": str(start // PAGE + 1)})
        yield json.dumps({"kind": "List", "metadata": meta, "items": every[start : start + PAGE]}).encode()


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers lists, single objects, silent watches, and dry runs as Volcano's admission fills them in."""

    protocol_version = "HTTP/1.1"
    served: dict[str, list[bytes]]

    def do_GET(self) -> None:
        """Answer a list, an object or a watch that stays silent."""
        url = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        if "watch" in query:
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.flush()
            threading.Event().wait(60)
            return
        found = self.served.get(url.path)
        if found is None:
            self._answer(404, b'{"kind":"Status","code":404,"reason":"NotFound"}')
        else:
            self._answer(200, found[int(query.get("continue", 0))])

    def do_POST(self) -> None:
        """Complete a Job, or say that everything is permitted."""
        job = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if job["kind"] != "Job":
            every = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
            job["status"] = {"resourceRules": [every], "nonResourceRules": [], "incomplete": False}
            self._answer(201, json.dumps(job).encode())
            return
        spec = job["spec"]
        for field, value in {"schedulerName": "volcano", "queue": "default", "maxRetry": 3}.items():
            spec.setdefault(field, value)
        for index, task in enumerate(spec["tasks"]):
            task.setdefault("name", f"default{index}")
        self._answer(201, json.dumps(job).encode())

    def log_message(self, *args: object) -> None:
        """Say nothing."""

    def _answer(self, code: int, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def serve(nodes: int, pods: int) -> None:
    """Serve until standard input ends; the first line of output is the URL."""
    Handler.served = answers(nodes, pods)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client that leaves is the usual end
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    sys.stdin.read()


# -- what is measured, each in a process of its own ------------------------------------------------------------------


def measure_parsing(url: str) -> dict[str, Any]:
    """Fetch and parse the pages of nodes, and keep the result."""
    import urllib.request

    began, kept, token = time.monotonic(), [], "0"
    while token:
        with urllib.request.urlopen(f"{url}/api/v1/nodes?continue={token}") as answer:  # noqa: S310
            page = json.loads(answer.read())
        kept += page["items"]
        token = page["metadata"].get("continue", "")
    return {"seconds": time.monotonic() - began, "items": len(kept)}


def measure_nodes(url: str) -> dict[str, Any]:
    """Run the scenario `inventory` and decide its rows."""
    from pytest_gpucluster.report import decisions
    from pytest_gpucluster.report.suites import load_suites
    from pytest_gpucluster.requirement import REGISTRY

    load_suites()
    rows = [REGISTRY.get(row) for row in ROWS]
    began = time.monotonic()
    with session(url) as running:
        evidence = running.evidence(rows[0].scenario)
        verdicts = {row.id: str(decisions.decide(row, evidence).verdict) for row in rows}
        seconds = time.monotonic() - began
    return {"seconds": seconds, "verdicts": verdicts, "requests": running.requests["total"]}


def measure_pods(url: str) -> dict[str, Any]:
    """Follow the pods of the namespace until all are known and a wait for the last of them returns."""
    from pytest_gpucluster.scenario import Needs, Scenario, Stage

    seen: list[int] = []

    def run(stage: Stage) -> None:
        stage.wait("pods", lambda live: bool(live.objects("Pod")), budget="start")
        seen.append(len(stage.live.objects("Pod")))

    began = time.monotonic()
    with session(url) as running:
        running.evidence(Scenario("pods", "follow", run, Needs(pods_run=False), kinds=("Pod",)))
        seconds = time.monotonic() - began
    return {"seconds": seconds, "items": seen[0]}


def session(url: str) -> Any:
    """Return a session with the embedded profile's declarations against the server."""
    from pytest_gpucluster import profile
    from pytest_gpucluster.scenario import RunStore, Session

    loaded = profile.load("embedded").profile
    declared = types.SimpleNamespace(**{name: getattr(loaded, name) for name in type(loaded).model_fields})
    declared.namespace = NAMESPACE
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="gpucluster-bench-"))
    kubeconfig = scratch / "kubeconfig"
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [context],
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {}}],
    }
    kubeconfig.write_text(json.dumps(config), encoding="utf-8")
    cluster = types.SimpleNamespace(
        name="scale", kubeconfig=str(kubeconfig), context="c", features=frozenset(), images={}, facts={}
    )
    return Session(cluster, declared, RunStore(scratch / "run"))


def measure_gang(path: str) -> dict[str, Any]:
    """Judge a gang of many recorded members, as its file is read."""
    from pytest_gpucluster.evidence import read
    from pytest_gpucluster.judge.gang import all_or_nothing, runs_whole
    from pytest_gpucluster.judge.lifecycle import completion

    began = time.monotonic()
    evidence = read(path)
    read_in = time.monotonic() - began
    judges = {
        "GANG-001": runs_whole.runs_whole,
        "GANG-002": all_or_nothing.all_or_nothing,
        "LIFE-001": completion.completes_with_policy,
    }
    began = time.monotonic()
    verdicts = {row: str(judge(evidence, evidence.given).verdict) for row, judge in judges.items()}
    return {
        "seconds": time.monotonic() - began,
        "reading": read_in,
        "verdicts": verdicts,
        "lines": len(evidence),
    }


def gang_file(members: int, path: pathlib.Path) -> None:
    """Write the recorded gang that waits for room (b3) with as many members as asked for."""
    source = ROOT / "fixtures" / "recorded" / "volcano" / "v1.14.4" / "b3-room-for-n-minus-one-then-room"
    lines = [json.loads(line) for line in (source / "events.jsonl").read_text(encoding="utf-8").splitlines()]
    pods = {
        line["object"]["metadata"]["name"]
        for line in lines
        if line.get("kind") == "Pod"
        and "volcano.sh/job-name" in (line["object"]["metadata"].get("labels") or {})
    }
    copies = members // len(pods)
    with path.open("w", encoding="utf-8") as file:
        for line in lines:
            text = json.dumps(line)
            obj = line.get("object", {})
            if obj.get("metadata", {}).get("name") in pods:
                for copy in range(copies):
                    file.write(_renamed(line, copy) + "\n")
            else:
                for field in ("minAvailable", "minMember", "replicas"):
                    text = text.replace(f'"{field}": {len(pods)}', f'"{field}": {len(pods) * copies}')
                file.write(text + "\n")


def _renamed(line: dict[str, Any], copy: int) -> str:
    """Return a pod's line for one of its copies: another name, uid and index."""
    made = json.loads(json.dumps(line))
    meta = made["object"]["metadata"]
    meta["name"], meta["uid"] = f"{meta['name']}-{copy}", f"{meta['uid']}-{copy}"
    return json.dumps(made)


MEASUREMENTS = {
    "parsing": measure_parsing, "nodes": measure_nodes, "pods": measure_pods, "gang": measure_gang,
}  # fmt: skip


def measured(what: str, argument: str) -> dict[str, Any]:
    """Return what a measurement in a fresh process says, with the most memory that it had."""
    command = [sys.executable, __file__, "--measure", what, argument]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def report(what: str, result: dict[str, Any], text: str) -> bool:
    """Print a result beside its target; return whether the target is kept."""
    most, memory = LIMITS.get(what, (None, None))
    late = most is not None and result["seconds"] > most
    fat = memory is not None and result["megabytes"] > memory
    bound = "".join(
        [f" (limit {most:g} s" if most else "", f", {memory:g} MB" if memory else "", ")" if most else ""]
    )
    used = f"{result['seconds']:.2f} s ({result['processor']:.2f} s of processor with imports)"
    print(f"{what}: {used}, {result['megabytes']:.0f} MB{bound}; {text}{' MISSED' * (late or fat)}")
    return not (late or fat)


def main() -> int:
    """Measure and print; return the exit status."""
    parser = argparse.ArgumentParser()
    for name, value in (("--nodes", 5000), ("--pods", 10000), ("--gang", 1024)):
        parser.add_argument(name, type=int, default=value)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.nodes, options.pods)
        return 0
    if options.measure:
        result = MEASUREMENTS[options.measure[0]](options.measure[1])
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({**result, "megabytes": peak, "processor": time.process_time()}))
        sys.stdout.flush()
        os._exit(0)
    server = subprocess.Popen(
        [sys.executable, __file__, "--serve", "--nodes", str(options.nodes), "--pods", str(options.pods)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with server, tempfile.TemporaryDirectory(prefix="gpucluster-bench-") as scratch:
        assert server.stdout is not None
        assert server.stdin is not None
        url = server.stdout.readline().strip()
        base = measured("parsing", url)
        print(
            f"reference: {base['items']} nodes fetched and parsed: {base['seconds']:.2f} s, {base['megabytes']:.0f} MB"
        )
        nodes = measured("nodes", url)
        pods = measured("pods", url)
        server.stdin.close()
        path = pathlib.Path(scratch) / "events.jsonl"
        gang_file(options.gang, path)
        gang = measured("gang", str(path))
    red = {row: verdict for row, verdict in nodes["verdicts"].items() if verdict != "pass"}
    text = f"{nodes['seconds'] / base['seconds']:.1f} x the reference, {nodes['requests']} requests"
    kept = report("nodes", nodes, f"{text}, {len(ROWS) - len(red)} of {len(ROWS)} rows pass {red or ''}")
    report(
        "pods",
        pods,
        f"{pods['items']} pods followed, {pods['seconds'] / base['seconds']:.1f} x the reference",
    )
    text = f"{gang['seconds'] / gang['reading']:.2f} x reading its {gang['lines']} lines ({gang['reading']:.2f} s)"
    kept &= report("gang", gang, f"{text}, {gang['verdicts']}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
