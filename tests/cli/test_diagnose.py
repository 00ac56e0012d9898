"""`gpucluster diagnose`: what it reads, what it says of odd files, and what it does where it may not look."""

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from pytest_gpucluster.evidence.log import ingest
from pytest_gpucluster.evidence.log.model import SCHEMA
from pytest_gpucluster.plain import names
from tests import recordings
from tests.cli.conftest import Call
from tests.diagnose import cases
from tests.diagnose.planting import Dump

Obj = dict[str, Any]

KINDS = {"jobs": "Job", "podgroups": "PodGroup", "queues": "Queue", "pods": "Pod", "events": "Event", "nodes": "Node",
         "services": "Service", "networkpolicies": "NetworkPolicy", "configmaps": "ConfigMap",
         "trainjobs": "TrainJob", "jobsets": "JobSet", "mpijobs": "MPIJob", "pytorchjobs": "PyTorchJob",
         "leaderworkersets": "LeaderWorkerSet", "workloads": "Workload"}  # fmt: skip


class Served:
    """An API server that shows what one look showed, and forbids what it is told to.

    Attributes:
        forbidden: (verb, resource) pairs that are answered with 403; a verb of `log` for logs.
        absent: API groups that are not served.
        asked: (method, path) of every request.
    """

    def __init__(self, dump: Dump) -> None:
        """Serve the objects of a look."""
        self.objects = dump.objects
        self.forbidden: set[tuple[str, str]] = set()
        self.absent: set[str] = set()
        self.asked: list[tuple[str, str]] = []
        served = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                code, body = served.answer(self.path)
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                """Write nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def answer(self, target: str) -> tuple[int, Obj | bytes]:
        """Return status and body of one request."""
        parts = urlsplit(target)
        self.asked.append(("GET", parts.path))
        words = parts.path.strip("/").split("/")
        rest = words[2:] if words[0] == "api" else words[3:]
        if not rest:
            plural = {kind: name for name, kind in KINDS.items()}
            told = [o["kind"] for o in self.objects if o["apiVersion"] == "/".join(words[1:3])]
            return 200, {"resources": [{"kind": k, "name": plural[k], "namespaced": True} for k in told]}
        space = rest[1] if rest[0] == "namespaces" and len(rest) > 2 else ""
        rest = rest[2:] if space else rest
        if words[0] == "apis" and "/".join(words[1:3]) in self.absent:
            return 404, b"404 page not found\n"
        if rest[-1] == "log":
            if ("log", "pods") in self.forbidden:
                return self._refused("log", "pods/log")
            return 200, b"hello from the log\n"
        verb = "get" if len(rest) > 1 else "list"
        if (verb, rest[0]) in self.forbidden or ((f"{verb} all", rest[0]) in self.forbidden and not space):
            return self._refused(verb, rest[0])
        version = "/".join(words[1:3]) if words[0] == "apis" else "v1"
        found = [o for o in self.objects if self._is(o, (version, rest[0]), space, parse_qs(parts.query))]
        if verb == "get":
            named = [o for o in found if o["metadata"]["name"] == rest[1]]
            return (
                (200, named[0])
                if named
                else (404, {"kind": "Status", "reason": "NotFound", "message": "not found"})
            )
        return 200, {"kind": "List", "metadata": {"resourceVersion": "7"}, "items": found}

    @staticmethod
    def _refused(verb: str, resource: str) -> tuple[int, Obj]:
        text = f'{resource} is forbidden: User "ann" cannot {verb} resource "{resource}"'
        return 403, {"kind": "Status", "code": 403, "reason": "Forbidden", "message": text}

    @staticmethod
    def _is(obj: Obj, asked: tuple[str, str], space: str, query: dict[str, list[str]]) -> bool:
        version, resource = asked
        if obj["kind"] != KINDS.get(resource) or obj["apiVersion"] != version:
            return False
        labels = obj["metadata"].get("labels") or {}
        wanted = dict(part.split("=") for part in query.get("labelSelector", [""])[0].split(",") if part)
        return (not space or obj["metadata"].get("namespace") == space) and wanted.items() <= labels.items()

    def kubeconfig(self, path: Path) -> Path:
        """Write the file that leads here."""
        url = f"http://127.0.0.1:{self.server.server_address[1]}"
        path.write_text(yaml.safe_dump({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": url}}], "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "team-a"}}],
        }))  # fmt: skip
        return path


@pytest.fixture
def served() -> Iterator[Served]:
    """Serve the healthy job."""
    api = Served(Dump())
    yield api
    api.server.shutdown()
    api.server.server_close()


@pytest.fixture
def look(served: Served, tmp_path: Path, call: Call) -> Call:
    """Give a look at the served cluster."""
    config = served.kubeconfig(tmp_path / "config")

    def run(*words: object) -> tuple[int, str, str]:
        return call("diagnose", "--kubeconfig", config, *words)

    return run


NAMESPACE = "case-r1-real-kubelet-pytorch-gang"


def test_a_healthy_job_is_called_so_and_what_was_looked_at_is_said(look: Call):
    """Nothing is wrong: that is said, with what the word rests on."""
    status, out, err = look("vcjob/torch", "-n", NAMESPACE)
    assert (status, err) == (0, "")
    assert out.startswith(f"vcjob/torch -n {NAMESPACE}: healthy")
    for what in ("the Job", "4 pods", "queue default", "events about them", "logs of 4 pods"):
        assert what in " ".join(out.split())


def test_it_only_reads(served: Served, look: Call):
    """Plain reads, and not many: a list a kind and a log a container."""
    look("vcjob/torch", "-n", NAMESPACE)
    assert {method for method, _ in served.asked} == {"GET"}
    assert len(served.asked) <= 20


@pytest.mark.parametrize(
    ("forbidden", "said"),
    [
        (("list", "nodes"), 'cannot list resource "nodes"'),
        (("list", "events"), 'cannot list resource "events"'),
        (("list", "queues"), 'cannot list resource "queues"'),
        (("log", "pods"), 'cannot log resource "pods/log"'),
        (("list all", "pods"), 'cannot list resource "pods"'),
        (("list", "jobs"), 'cannot list resource "jobs"'),
    ],
)
def test_what_may_not_be_read_is_named_and_the_rest_is_looked_at(
    served: Served, look: Call, forbidden: tuple[str, str], said: str
):
    """One right that is missing costs one line, not the diagnosis."""
    served.forbidden.add(forbidden)
    status, out, err = look("vcjob/torch", "-n", NAMESPACE)
    text = " ".join(out.split())
    assert (status, err) == (0, "")
    assert said in text
    assert "the Job, PodGroup" in text
    assert "4 pods" in text


def test_a_missing_api_is_the_cause(served: Served, look: Call):
    """Without the CRDs the answer is what to install, not that the job does not exist."""
    served.absent |= {"batch.volcano.sh/v1alpha1", "scheduling.volcano.sh/v1beta1"}
    served.objects = []
    status, out, _ = look("vcjob/torch", "-n", NAMESPACE)
    assert status == 1
    assert "does not serve Job.batch.volcano.sh" in " ".join(out.split())
    assert "install Volcano" in out


def test_an_unknown_job_names_those_that_are_near(look: Call):
    """The name is matched with the jobs that there are."""
    status, out, err = look("vcjob/troch", "-n", NAMESPACE)
    assert (status, out) == (2, "")
    assert f"no vcjob 'troch' in namespace '{NAMESPACE}'; did you mean 'torch'? (torch)" in err


def test_the_namespace_of_the_context_is_taken(look: Call):
    """As kubectl does it."""
    _, _, err = look("vcjob/torch")
    assert "in namespace 'team-a' (there are none)" in err


# -- other subjects than Volcano Jobs ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["pod", "po", "podgroup", "pg", "podgroups.scheduling.volcano.sh"])
def test_a_part_of_a_job_leads_to_the_job(served: Served, look: Call, kind: str):
    """A pod and a PodGroup are resolved over their owners: the same job, its pods and their logs."""
    wanted = "Pod" if kind.startswith("po") and not kind.startswith("podg") else "PodGroup"
    name = next(o["metadata"]["name"] for o in served.objects if o["kind"] == wanted)
    status, out, err = look(f"{kind}/{name}", "-n", NAMESPACE)
    assert (status, err) == (0, "")
    assert out.startswith(f"vcjob/torch -n {NAMESPACE}: healthy")
    assert "logs of 4 pods" in " ".join(out.split())
    assert len(served.asked) <= 30


def _owned(kind: str, version: str, name: str, owner: Obj | None = None, **more: Any) -> Obj:
    metadata: Obj = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}-{kind}"}
    metadata["creationTimestamp"] = "2026-01-01T00:00:00Z"
    if owner is not None:
        told = owner["metadata"]
        metadata["ownerReferences"] = [
            {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": told["name"], "uid": told["uid"],
             "controller": True},
        ]  # fmt: skip
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **more}


def _train(served: Served) -> None:
    """Serve a TrainJob over a JobSet over a Job, whose two pods cannot pull their image, and a pod of nobody."""
    train = _owned(
        "TrainJob", "trainer.kubeflow.org/v1alpha1", "llm", spec={"trainer": {"numNodes": 2}}, status={}
    )
    jobs = _owned("JobSet", "jobset.x-k8s.io/v1alpha2", "llm", train, spec={}, status={})
    spec = {"parallelism": 2, "completions": 2, "completionMode": "Indexed"}
    job = _owned("Job", "batch/v1", "llm-node-0", jobs, spec=spec, status={"active": 2})
    waits = {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}}
    status = {
        "phase": "Pending", "startTime": "2026-01-01T00:00:05Z",
        "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:05Z"}],
        "containerStatuses": [{"name": "c", "image": "train:1", "restartCount": 0, "ready": False, "state": waits}],
    }  # fmt: skip
    box = {"name": "c", "image": "train:1"}
    pods = [
        _owned(
            "Pod", "v1", f"llm-node-0-{n}", job, spec={"nodeName": "n", "containers": [box]}, status=status
        )
        for n in range(2)
    ]
    alone = _owned("Pod", "v1", "alone", spec={"nodeName": "n", "containers": [box]}, status=status)
    served.objects = [train, jobs, job, *pods, alone]


@pytest.mark.parametrize(
    "subject", ["trainjob/llm", "jobset/llm", "jobs.batch/llm-node-0", "job/llm-node-0", "pod/llm-node-0-1"]
)
def test_each_owner_of_a_pod_leads_to_its_pods(
    served: Served, look: Call, subject: str, tmp_path: Path, call: Call
):
    """Whatever stands above it: the same cause, of the same job, and a dump of it says the same."""
    _train(served)
    status, out, err = look(subject, "-n", NAMESPACE, "--save", tmp_path / "dump")
    assert (status, err) == (1, "")
    assert "train:1" in out
    assert "2 pods" in " ".join(out.split())
    assert " alone" not in out
    assert call("diagnose", "--from", tmp_path / "dump")[0] == 1


OWNERS = {
    "mpijob": ("MPIJob", "kubeflow.org/v2beta1"),
    "pytorchjob": ("PyTorchJob", "kubeflow.org/v1"),
    "lws": ("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1"),
    "leaderworkersets": ("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1"),
}
"""Word for a kind -> the kind and its API."""


def _owned_by(served: Served, word: str) -> None:
    """Serve the pods of `_train` under an object of another operator, and a Workload of Kueue that stands for it."""
    _train(served)
    kind, version = OWNERS[word]
    owner = _owned(kind, version, "llm", spec={}, status={})
    pods = [one for one in served.objects if one["kind"] == "Pod" and one["metadata"]["name"] != "alone"]
    for pod in pods:
        pod["metadata"]["ownerReferences"] = _owned("Pod", "v1", "x", owner)["metadata"]["ownerReferences"]
    workload = _owned(
        "Workload", "kueue.x-k8s.io/v1beta2", f"{kind.lower()}-llm-1a2b3", owner, spec={}, status={}
    )
    served.objects = [owner, workload, *pods]


@pytest.mark.parametrize("word", sorted(OWNERS))
def test_the_words_of_every_operator_lead_to_its_pods(served: Served, look: Call, word: str):
    """By its own name, by its short name, and by the Workload that Kueue made for it."""
    _owned_by(served, word)
    for subject in (f"{word}/llm", f"workload/{OWNERS[word][0].lower()}-llm-1a2b3"):
        status, out, err = look(subject, "-n", NAMESPACE)
        assert (status, err) == (1, ""), subject
        assert "train:1" in out
        assert "2 pods" in " ".join(out.split())


def test_a_workload_that_is_held_leads_to_its_job(served: Served, look: Call):
    """No pod is there yet: what Kueue says of the Workload is said of the job."""
    _train(served)
    job = next(one for one in served.objects if one["kind"] == "Job")
    job["metadata"]["ownerReferences"] = []
    job["spec"]["suspend"], job["status"] = True, {}
    why = "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, 2 more needed"
    told = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": why}
    told["lastTransitionTime"] = "2026-01-01T00:00:05Z"
    held = _owned(
        "Workload",
        "kueue.x-k8s.io/v1beta2",
        "job-llm-9f",
        job,
        spec={"queueName": "q"},
        status={"conditions": [told]},
    )
    served.objects = [job, held]
    status, out, err = look("workload/job-llm-9f", "-n", NAMESPACE)
    assert err == ""
    assert out.startswith(f"job/llm-node-0 -n {NAMESPACE}")
    assert "insufficient unused quota" in " ".join(out.split())
    assert status in (1, 3)


SUBJECTS = ["vcjob/torch", "pod/torch-master-0", "podgroup/x", "job/x", "jobset/x", "trainjob/x", "mpijob/x",
            "pytorchjob/x", "lws/x", "workload/x"]  # fmt: skip


@pytest.mark.parametrize("more", [(), ("--follow",), ("--json",)], ids=["once", "follow", "json"])
@pytest.mark.parametrize("subject", SUBJECTS)
def test_who_may_read_nothing_is_told_that_and_nothing_else(
    served: Served, look: Call, subject: str, more: tuple[str, ...]
):
    """A job of which nothing is known is neither starting nor healthy: one line, with what is needed."""
    beside = ("namespaces", "resourcequotas", "endpointslices", "rayclusters")
    served.forbidden |= {(verb, what) for verb in ("get", "list") for what in (*KINDS, *beside)} | {
        ("log", "pods")
    }
    status, out, err = look(subject, "-n", NAMESPACE, *more)
    assert (status, out) == (3, "")
    assert f"nothing may be read of {subject.replace('lws', 'leaderworkerset')} -n {NAMESPACE}" in err
    assert 'User "ann" cannot' in err
    assert "needs get and list on" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("readable", ["events", "jobs", "pods"])
def test_one_thing_that_may_be_read_is_looked_at(served: Served, look: Call, readable: str):
    """Events, the Job or its pods alone still tell something."""
    beside = ("namespaces", "resourcequotas", "endpointslices", "rayclusters")
    every = {(verb, what) for verb in ("get", "list") for what in (*KINDS, *beside)} | {("log", "pods")}
    served.forbidden |= {one for one in every if one[1] != readable}
    status, out, err = look("vcjob/torch", "-n", NAMESPACE)
    assert err == ""
    assert "looked at" in out
    assert "starting" not in out
    assert status in (0, 1, 3)


def test_a_pod_of_nobody_is_looked_at_alone(served: Served, look: Call, tmp_path: Path, call: Call):
    """No owner and no gang: its own state is told."""
    _train(served)
    status, out, err = look("pod/alone", "-n", NAMESPACE, "--save", tmp_path / "dump")
    assert (status, err) == (1, "")
    assert "train:1" in out
    assert "1 pod (1 Pending)" in out
    assert "1 of 1 pod" in " ".join(out.split())
    assert call("diagnose", "--from", tmp_path / "dump")[0] == 1


@pytest.mark.parametrize(
    ("subject", "absent", "said"),
    [
        ("pod/alon", "", f"no pod 'alon' in namespace '{NAMESPACE}'; did you mean 'alone'?"),
        ("jobset/x", "", f"no jobset 'x' in namespace '{NAMESPACE}' (llm)"),
        (
            "trainjob/llm",
            "trainer.kubeflow.org/v1alpha1",
            "does not serve trainjobs of trainer.kubeflow.org/v1alpha1",
        ),
    ],
)
def test_a_subject_that_is_not_there_is_one_line(
    served: Served, look: Call, subject: str, absent: str, said: str
):
    """Near names of the same kind; a kind that is not served is said to be that."""
    _train(served)
    served.absent.add(absent)
    status, out, err = look(subject, "-n", NAMESPACE)
    assert (status, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_json_carries_the_same(served: Served, look: Call):
    """A program can read state, causes, rows and what was not looked at."""
    served.forbidden.add(("list", "nodes"))
    status, out, _ = look("vcjob/torch", "-n", NAMESPACE, "--json")
    told = json.loads(out)
    assert status == 0
    assert told["state"] == "healthy"
    assert told["causes"] == []
    assert any("nodes" in line for line in told["not_looked_at"])
    assert told["rows"]["PLG-001"]["verdict"] == "pass"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["deployment/x"], "unknown kind 'deployment' (allowed: "),
        (["vcjbo/x"], "unknown kind 'vcjbo'; did you mean 'vcjob'?"),
        (["trainjbo/x"], "unknown kind 'trainjbo'; did you mean 'trainjob'?"),
        (["smoke"], "'smoke': expected KIND/NAME, such as vcjob/smoke"),
        (["vcjob/"], "expected KIND/NAME"),
        ([], "name the job, KIND/NAME such as vcjob/smoke, or files with --from"),
        (["--from", "nowhere.json"], "no such file: 'nowhere.json'"),
        (["--from", "x", "--follow"], "--follow and --save need a cluster"),
        (["vcjob/x", "--kubeconfig", "nowhere"], "no such kubeconfig: 'nowhere'"),
        (["vcjob/x", "--folow"], "unknown option '--folow'; did you mean '--follow'?"),
    ],
)
def test_a_mistake_is_one_line(call: Call, words: list[str], said: str):
    """It says what was meant; nothing is printed."""
    status, out, err = call("diagnose", *words)
    assert (status, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_without_a_kubeconfig(call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """The places that were tried are named."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    status, _, err = call("diagnose", "vcjob/x")
    assert status == 2
    assert f"no kubeconfig ({tmp_path / 'none'} does not exist)" in err


def test_a_cluster_that_does_not_answer(call: Call, served: Served, tmp_path: Path):
    """One line, and another exit status than a mistake."""
    config = served.kubeconfig(tmp_path / "config")
    config.write_text(config.read_text().replace("127.0.0.1", "127.0.0.1.invalid"))
    status, out, err = call("diagnose", "vcjob/x", "--kubeconfig", config)
    assert (status, out) == (3, "")
    assert err.count("\n") == 1


# -- files -----------------------------------------------------------------------------------------------------------


def _list(objects: list[Any]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}, indent=4)


def test_what_kubectl_printed_is_enough(call: Call, tmp_path: Path):
    """`kubectl get ... -o json` of a hung job, in one file or in several."""
    objects, _ = cases.objects_at("g1-queue-capability", 9.0)
    together, queues, rest = tmp_path / "all.json", tmp_path / "queues.json", tmp_path / "rest.json"
    together.write_text(_list(objects))
    queues.write_text(_list([o for o in objects if o["kind"] == "Queue"]))
    rest.write_text(_list([o for o in objects if o["kind"] != "Queue"]))
    for words in (["--from", together], ["--from", queues, "--from", rest]):
        status, out, err = call("diagnose", "vcjob/overcap", *words)
        assert (status, err) == (1, "")
        assert "queue small may have 8" in " ".join(out.split())
        assert "no logs" in out


def test_a_recorded_stream_is_read_as_well(call: Call):
    """Our own evidence is a dump too; without a name every job that is left is looked at."""
    path = recordings.VOLCANO / "b2-fragmentation" / "events.jsonl"
    status, out, _ = call("diagnose", "--from", path)
    assert status == 1
    assert "vcjob/frag" in out
    assert "vcjob/control" in out
    assert "stays reserved" in " ".join(out.split())


def test_an_error_of_kubectl_is_read(call: Call, tmp_path: Path):
    """What kubectl said of the missing CRDs is enough."""
    said = tmp_path / "error.txt"
    said.write_text(
        'error: unable to recognize "x.yaml": no matches for kind "Job" in version "batch.volcano.sh/v1alpha1"\n'
    )
    status, out, _ = call("diagnose", "--from", said)
    assert status == 1
    assert "install Volcano" in out


def test_a_dump_that_is_cut_off(call: Call, tmp_path: Path):
    """Of JSON lines the whole ones are read, and that one is missing is said; half a list is no list."""
    lines = (recordings.VOLCANO / "b2-fragmentation" / "events.jsonl").read_text()
    cut = tmp_path / "cut.jsonl"
    cut.write_text(lines[: int(len(lines) * 0.9)])
    status, out, _ = call("diagnose", "vcjob/control", "--from", cut)
    assert status == 1
    assert "is cut off and was left out" in " ".join(out.split())
    objects, _ = cases.objects_at("g1-queue-capability", 9.0)
    cut.write_text(_list(objects)[:5000])
    status, out, err = call("diagnose", "--from", cut)
    assert (status, out) == (2, "")
    assert "not JSON" in err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            f'{{"type": "HEADER", "schema": {SCHEMA + 1}}}\n',
            f"evidence schema {SCHEMA + 1}; this version reads 1 to {SCHEMA}",
        ),
        ("", "empty; expected JSON lines or kubectl output"),
        ("hello\n", "not JSON"),
        (
            '{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}',
            "no job and no pod (kinds found: Node)",
        ),
        ('{"apiVersion": "v1", "kind": "List", "items": []}', "no object"),
        ("[1, 2]", "found; expected a JSON object"),
    ],
)
def test_a_file_that_is_no_dump(call: Call, tmp_path: Path, text: str, said: str):
    """One line that names the file and what it expected."""
    path = tmp_path / "odd.json"
    path.write_text(text)
    status, out, err = call("diagnose", "--from", path)
    assert (status, out) == (2, "")
    assert said in err
    assert "odd.json" in err


def test_a_job_that_the_dump_lacks(call: Call):
    """The jobs that it has are named, the nearest first."""
    path = recordings.VOLCANO / "b2-fragmentation" / "events.jsonl"
    _, _, err = call("diagnose", "vcjob/contrl", "--from", path)
    assert "no vcjob 'contrl'; did you mean 'control'? (control, frag)" in err


def test_a_hundred_thousand_events(call: Call, tmp_path: Path):
    """A namespace that hung for a night: what the events say is found, and not read a hundred thousand times."""
    objects, _ = cases.objects_at("g1-queue-capability", 9.0)
    said = next(
        o
        for o in objects
        if o["kind"] == "Event" and o["reason"] == "Unschedulable" and o["type"] == "Normal"
    )
    path = tmp_path / "many.jsonl"
    with path.open("w") as file:
        file.write('{"type": "HEADER", "schema": 1, "clock": "object", "snapshot": {}}\n')
        for obj in objects:
            file.write(
                json.dumps({"t": 0, "type": "ADDED", "kind": names.kind_key_of(dict(obj)), "object": obj})
                + "\n"
            )
        for number in range(100_000):
            metadata = {**said["metadata"], "name": f"e{number}", "uid": f"e{number}"}
            file.write(
                json.dumps(
                    {"t": 0, "type": "ADDED", "kind": "Event", "object": {**said, "metadata": metadata}}
                )
                + "\n"
            )
    status, out, _ = call("diagnose", "vcjob/overcap", "--from", path)
    assert status == 1
    assert "queue small may have 8" in " ".join(out.split())


def test_lines_of_a_dump_are_lines_of_evidence(tmp_path: Path, look: Call):
    """What --save writes is read by whatever reads evidence, and says what it was made for."""
    path = tmp_path / "dump.json"
    look("vcjob/torch", "-n", NAMESPACE, "--save", path)
    evidence = ingest.read(path)
    assert evidence.header["subject"] == {"kind": "vcjob", "name": "torch", "namespace": NAMESPACE}
    assert len(evidence.uids("Pod")) == 4
    assert evidence.logs()
