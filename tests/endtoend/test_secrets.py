"""A cluster that holds secrets of every kind: none is in a file that is written, nor on a terminal."""

import json
import pathlib
import stat
import subprocess
import types

import pytest
import yaml

from pytest_gpucluster import profile, provider
from pytest_gpucluster.kube import connection, objects
from pytest_gpucluster.provider.embedded import EmbeddedProvider
from tests.endtoend import harness
from tests.plain.canaries import TEXTS, WORD

pytestmark = pytest.mark.slow

SPACE = "team-a"
SAID = f"plain-{WORD}"
"""What looks like nothing."""
ESCAPES = "\x1b[31mred \x1b]0;title\x07 \u202eback\u200b \x9b2J"
DISTINCT = 8
"""Letters of a part that no page, time or digest has by chance; there is a longer one of each kind."""
PARTS = sorted(
    {part for one in TEXTS for part in one.parts if len(part) >= DISTINCT}
    | {SAID, "\x1b[31m", "\x1b]0;", "\u202e", "\x9b"}
)
EVERY = "\n".join(one.text for one in TEXTS)
MARKED = {"example.com/notes": f"{SAID} {ESCAPES}"}
LABELS = {"example.com/owner": "label-of-others"}


def pod(name):
    """Return the specification of a container that holds secrets, and prints them; it waits for nothing."""
    program = f"import time; print({(EVERY + chr(10) + ESCAPES)!r}, flush=True); time.sleep(600)"
    box = {
        "name": name,
        "image": "python",
        "command": ["python", "-c", program],
        "args": ["--token", SAID, f"--name={SAID}", f"-p{SAID}"],
        "env": [{"name": "HF_TOKEN", "value": SAID}, {"name": "ANYTHING", "value": SAID}],
    }
    return {"metadata": {"labels": LABELS, "annotations": MARKED}, "spec": {"containers": [box]}}


def job(name, replicas=2):
    """Return a Volcano Job of such pods."""
    task = {"name": "worker", "replicas": replicas, "template": pod("main")}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": SPACE, "annotations": MARKED, "labels": LABELS},
        "spec": {"schedulerName": "volcano", "minAvailable": replicas, "queue": "default", "tasks": [task]},
    }


def holding():
    """Return objects of others in the namespace: secrets in each place where one can be."""
    meta = {"namespace": SPACE, "labels": LABELS, "annotations": MARKED}
    yield {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {**meta, "name": "c"},
        "data": {"a.yaml": EVERY, "b": SAID},
    }
    yield {"apiVersion": "v1", "kind": "Secret", "metadata": {**meta, "name": "s"}, "stringData": {"a": SAID}}
    yield {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {**meta, "name": "x"},
        "spec": {"clusterIP": "None", "selector": LABELS},
    }
    yield {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**meta, "name": "alone"},
        "spec": pod("one")["spec"],
    }
    yield job("secretive")
    yield job("beside", 1)
    for number, text in enumerate((EVERY, ESCAPES)):
        for about in ("secretive", "alone"):
            yield {
                "apiVersion": "v1", "kind": "Event", "type": "Warning", "reason": "FailedScheduling", "message": text,
                "metadata": {**meta, "name": f"e{number}-{about}"},
                "involvedObject": {"kind": "Job", "name": about, "namespace": SPACE},
                "lastTimestamp": "2026-11-30T10:00:00Z",
            }  # fmt: skip


@pytest.fixture(scope="module")
def held(tmp_path_factory):
    """An embedded cluster that holds secrets, and a profile with some in odd places."""
    folder = tmp_path_factory.mktemp("held")
    user = {"token": f"token-{WORD}", "user": "ci", "groups": ["system:masters"]}
    source = EmbeddedProvider(tokens=[user], tls=True)
    with provider.start(profile.load("embedded"), folder / "cluster", source=source) as cluster:
        written = {
            "connection": {"kubeconfig": str(cluster.kubeconfig), "context": "ci"},
            "scheduler": "volcano",
            "queue": "default",
            "gpu_resource": "nvidia.com/gpu",
            "gpus_per_node": 8,
            "scheduler_period": 0.05,
            "bind_spread": 1.0,
            "namespace": SPACE,
            "images": {"python": "python"},
            "fabric": {"device": "cpu", "env": {"HF_TOKEN": SAID, "ANYTHING": SAID}},
            "overlay": {"metadata": {"annotations": MARKED, "labels": {"example.com/team": "ml"}}},
        }
        (folder / "there.yaml").write_text(yaml.safe_dump(written), encoding="utf-8")
        api = objects.Objects(connection.Connection.open(cluster.kubeconfig))
        api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
        for one in holding():
            api.create(one, namespace=SPACE)
        yield types.SimpleNamespace(cluster=cluster, folder=folder, api=api)


def found_in(text):
    """Return what of the secrets is in a text."""
    return [part for part in PARTS if part in text]


def check_files(folder):
    """Check that no file holds a secret, and that nobody else may read one."""
    files = [path for path in pathlib.Path(folder).rglob("*") if path.is_file() and not path.is_symlink()]
    assert files
    for path in files:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
        assert not found_in(path.read_text(encoding="utf-8", errors="replace")), path
    for path in [folder, *(path for path in pathlib.Path(folder).rglob("*") if path.is_dir())]:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def say(held, *words, ok=(0, 1, 3)):
    """Run a command and check what it says."""
    done = harness.gpucluster(*map(str, words))
    assert done.returncode in ok, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert not found_in(done.stdout + done.stderr), words
    return done


def test_a_run_in_a_namespace_of_others_tells_nothing_of_them(held, tmp_path):
    """Its files, its terminal, and what is made of its files afterwards; objects of others are counted."""
    done = harness.run_suite(
        tmp_path, "-k", "GANG-002 or PLG-001 or INV-009", "--cluster=there", f"--gpucluster-profiles={held.folder}",
        "--gpucluster-set", f"fabric.env.OTHER={SAID}", "-v",
    )  # fmt: skip
    assert not found_in(done.stdout + done.stderr)
    assert "3 passed" in done.stdout
    folder = harness.run_folder(tmp_path)
    check_files(folder)
    log = (folder / "session-main.jsonl").read_text(encoding="utf-8")
    assert "label-of-others" not in log
    assert '"name":"secretive"' not in log
    (note,) = [one for one in map(json.loads, log.splitlines()) if one.get("note") == "strangers"]
    assert note["objects"]["Pod"] >= 4
    assert note["objects"]["Job.batch.volcano.sh"] == 2
    for path in sorted((folder / "evidence").glob("*.jsonl")):
        assert "label-of-others" not in path.read_text(encoding="utf-8")
    scarce = folder / "evidence" / "scarce.jsonl"
    say(held, "judge", scarce, "--requirement", "GANG-002")
    say(held, "judge", scarce, "--requirement", "GANG-002", "--json")
    say(held, "verify", folder, ok=(0, 1))
    say(held, "report", folder)
    check_files(folder)


def test_a_diagnosis_tells_nothing(held, tmp_path):
    """Live, as JSON, saved, from what was saved and from what kubectl printed."""
    config = f"--kubeconfig={held.cluster.kubeconfig}"
    dump = tmp_path / "private" / "dump.jsonl"
    dump.parent.mkdir(mode=0o700)
    live = say(held, "diagnose", "vcjob/secretive", "-n", SPACE, config, "--all", "--save", dump)
    say(held, "diagnose", "vcjob/secretive", "-n", SPACE, config, "--json")
    say(held, "diagnose", "pod/secretive-worker-0", "-n", SPACE, config, "--all")
    check_files(dump.parent)
    saved = dump.read_text(encoding="utf-8")
    assert "label-of-others" not in "".join(line for line in saved.splitlines() if "beside" in line)
    again = say(held, "diagnose", "--from", dump, "--all")
    assert (
        again.stdout.splitlines()[0].partition(" for ")[0]
        == live.stdout.splitlines()[0].partition(" for ")[0]
    )
    kinds = "pods,events,configmaps,secrets,services,jobs.batch.volcano.sh,podgroups.scheduling.volcano.sh"
    printed = subprocess.run(
        ["kubectl", config, "get", kinds, "-n", SPACE, "-o", "json"], capture_output=True, text=True, check=False
    )  # fmt: skip
    whole = tmp_path / "kubectl.json"
    whole.write_text(
        printed.stdout or json.dumps({"kind": "List", "apiVersion": "v1", "items": list(holding())})
    )
    say(held, "diagnose", "vcjob/secretive", "--from", whole, "--all")
    say(held, "diagnose", "vcjob/secretive", "--from", whole, "--json")
    say(held, "judge", whole, "--requirement", "GANG-002")


def test_other_commands_tell_nothing(held, tmp_path):
    """A first profile, the effective profile, a recording."""
    say(held, "discover", "--kubeconfig", held.cluster.kubeconfig, "--context", "ci")
    told = say(held, "describe", "profile", "--cluster=there", f"--profiles={held.folder}")
    assert "fabric.env.ANYTHING" in told.stdout
    say(held, "describe", "profile", "--cluster=there", f"--profiles={held.folder}", "--json")
    out = tmp_path / "recording"
    say(held, "record", "scarce", "--cluster=there", f"--profiles={held.folder}", "--out", out)
    check_files(out)
