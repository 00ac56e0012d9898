"""Commands on terminals of every kind: not UTF-8, 40 columns wide, without colour; and what a cluster says on them."""

import json
import os
import subprocess
import sys

import pytest

from tests.plugin.test_steering import SAYS, STEERING, TERMINALS

START = "import sys; from pytest_gpucluster.cli import main; sys.exit(main())"
SPACE = f"team-{SAYS}"


@pytest.fixture(scope="module")
def dump(tmp_path_factory):
    """Give a dump of a job that hangs, whose names and messages steer."""
    meta = {"name": f"train {SAYS}", "namespace": SPACE, "creationTimestamp": "2026-11-30T10:00:00Z"}
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": meta,
        "spec": {"schedulerName": "volcano", "containers": [{"name": SAYS, "image": SAYS}]},
        "status": {"phase": "Pending", "reason": SAYS, "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": f"0/3 nodes {SAYS}"}]},
    }  # fmt: skip
    event = {
        "apiVersion": "v1", "kind": "Event", "type": "Warning", "reason": "FailedScheduling", "message": SAYS,
        "metadata": {"name": "e", "namespace": SPACE}, "lastTimestamp": "2026-11-30T10:00:30Z",
        "involvedObject": {"kind": "Pod", **{key: meta[key] for key in ("name", "namespace")}},
    }  # fmt: skip
    path = tmp_path_factory.mktemp("dump") / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [pod, event]}), encoding="utf-8")
    return path


def say(terminal, *words):
    """Run a command on a terminal; return its status and what it said, whose bytes the terminal knows."""
    done = subprocess.run(
        [sys.executable, "-c", START, *map(str, words)],
        env={**os.environ, **TERMINALS[terminal]},
        capture_output=True,
        check=False,
    )
    encoding = TERMINALS[terminal].get("PYTHONIOENCODING", "utf-8")
    said = done.stdout.decode(encoding)
    errors = done.stderr.decode(encoding)
    assert "Traceback" not in errors
    assert not [one for one in STEERING if one in said + errors], words
    return done.returncode, said, errors


@pytest.mark.parametrize("terminal", TERMINALS)
def test_a_diagnosis_steers_nothing(dump, terminal):
    """Its text shows the characters as escapes; its JSON says what the cluster said."""
    status, said, _ = say(terminal, "diagnose", "--from", dump, "--all")
    assert status in (1, 3)
    assert r"\x1b[31mred" in said
    status, said, _ = say(terminal, "diagnose", "--from", dump, "--json")
    assert "\u202eback" in json.dumps(json.loads(said), ensure_ascii=False)


@pytest.mark.parametrize("terminal", ["ascii", "narrow"])
def test_other_commands_steer_nothing(dump, terminal, tmp_path):
    """A judge, its JSON, a mistake that quotes what was typed, a log of NCCL."""
    say(terminal, "judge", dump, "--requirement", "GANG-002")
    status, said, _ = say(terminal, "judge", dump, "--requirement", "GANG-002", "--json")
    assert json.loads(said)["id"] == "GANG-002"
    typed = f"vcjob/{SAYS}".replace("\x00", "").replace("\ud800", "")
    status, _, errors = say(terminal, "diagnose", typed, "--from", dump)
    assert status == 2
    assert r"\x1b[31mred" in errors
    log = tmp_path / "nccl.log"
    log.write_bytes(f"host:1:1 [0] NCCL WARN {SAYS}\n".encode("utf-8", "surrogatepass"))
    say(terminal, "judge", "nccl", log, "--ranks", "2")
