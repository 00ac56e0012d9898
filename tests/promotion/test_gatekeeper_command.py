"""`gpucluster gatekeeper` as a process: mistakes at once, health, one of two by a Lease, and its memory."""

import json
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from pytest_gpucluster import cli
from pytest_gpucluster.promotion.gatekeeper import forms, health, reading

from .conftest import KUEUE, wait

START = "import sys; from pytest_gpucluster.cli import main; sys.exit(main())"
LIMIT = 64 * 1024
"""Memory of the gatekeeper itself, in KiB."""


def make_check(raw, name, controller=forms.CONTROLLER):
    """Create an AdmissionCheck."""
    raw.ok(
        "POST",
        f"{KUEUE}/admissionchecks",
        {"metadata": {"name": name}, "spec": {"controllerName": controller}},
    )


def words(folder, check, *more):
    """Return the words of the command."""
    runs = folder / "runs"
    runs.mkdir(exist_ok=True)
    options = ["--check", check, "--runs", str(runs), "--policy", "weekly", "--for", "prod"]
    return ["gatekeeper", *options, "--profiles", str(folder), *more]


def start(folder, check, *more):
    """Start it as a process."""
    return subprocess.Popen(
        [sys.executable, "-c", START, *words(folder, check, *more)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (["--check", "conformanc"], "there is no AdmissionCheck 'conformanc'; did you mean"),
        (["--policy", "weakly"], "unknown policy 'weakly'; did you mean 'weekly'"),
        (["--runs", "/nowhere"], "no such folder: '/nowhere'"),
        (["--offline"], "it could not see that a node was replaced"),
        (["--for", "embedded"], "has no `connection`"),
    ],
)
def test_a_mistake_is_told_at_once(raw, place, capsys, name, more, line):  # noqa: PLR0917 (fixtures)
    """One line and status 2, not a loop that says it for ever."""
    make_check(raw, f"conformance-{name}")
    assert cli.main(words(place("q"), f"conformance-{name}", *more)) == 2
    err = capsys.readouterr().err
    assert line in err
    assert len(err.splitlines()) == 1


def test_a_check_of_another_controller_is_a_mistake(raw, place, capsys, name):
    """Both names are told."""
    make_check(raw, name, "x.io/y")
    assert cli.main(words(place("q"), name)) == 2
    assert f"is of the controller 'x.io/y', not of '{forms.CONTROLLER}'" in capsys.readouterr().err


@pytest.mark.slow
def test_one_of_two_works_and_the_other_takes_over(raw, place, name):
    """Without a run the check is not Active, and says so; the second one waits, and works when the first has ended."""
    make_check(raw, name)
    folder = place("q")
    with start(folder, name, "--health-port", "0") as first:
        try:
            # No ClusterQueue of this test asks for the check: nothing would be held back.
            assert first.stdout.readline().startswith(f"note: no ClusterQueue names AdmissionCheck {name}")
            assert first.stdout.readline() == f"controls AdmissionCheck {name}\n"
            assert first.stdout.readline().startswith("not active: EvidenceUnreadable: ")
            path = f"{KUEUE}/admissionchecks/{name}"
            told = forms.condition(
                wait(raw, path, lambda obj: forms.condition(obj, "Active").get("status") == "False"), "Active"
            )
            assert told["reason"] == "EvidenceUnreadable"
            assert "has no run that has ended" in told["message"]
            with start(folder, name) as second:
                try:
                    assert second.stdout.readline().startswith("note: no ClusterQueue names")
                    assert "holds the Lease default/gpucluster-gatekeeper-" in second.stdout.readline()
                    first.terminate()
                    assert first.wait(20) == 0
                    assert second.stdout.readline() == f"controls AdmissionCheck {name}\n"
                    assert second.stdout.readline().startswith("not active: EvidenceUnreadable: ")
                    status = dict(
                        line.split(":", 1)
                        for line in Path(f"/proc/{second.pid}/status").read_text().splitlines()
                    )
                    assert int(status["VmHWM"].split()[0]) < LIMIT
                finally:
                    second.terminate()
                    assert second.wait(20) == 0
        finally:
            first.kill()
    leases = raw.ok("GET", "/apis/coordination.k8s.io/v1/namespaces/default/leases")["items"]
    assert not [each for each in leases if name in each["metadata"]["name"]]


def test_health_is_answered():
    """200 or 503 for both paths, 404 for others."""
    state = {"alive": True, "ready": False}
    with health.serving(0, lambda: state["alive"], lambda: state["ready"]) as port:

        def ask(path):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
                    return answer.status
            except urllib.error.HTTPError as error:
                return error.code

        assert [ask(path) for path in ("/healthz", "/readyz", "/other")] == [200, 503, 404]
        state.update(alive=False, ready=True)
        assert [ask(path) for path in ("/healthz", "/readyz")] == [503, 200]


def folder_of(parent, name, *, ended=True):
    """Make the folder of a run."""
    folder = parent / name
    folder.mkdir()
    (folder / reading.JOURNAL).write_text("")
    if ended:
        (folder / reading.REPORT).write_text("{}")
    return folder


def test_runs_that_have_ended_count_once(tmp_path):
    """A run that is still written is left out, and `latest` is the run that it points to."""
    one = folder_of(tmp_path, "a")
    folder_of(tmp_path, "b", ended=False)
    (tmp_path / "latest").symlink_to("a")
    assert reading.finished(tmp_path) == [one.resolve()]
    assert reading.finished(one) == [one]
    before = reading.stamp(tmp_path)
    folder_of(tmp_path, "c")
    assert reading.stamp(tmp_path) != before
    assert reading.stamp(tmp_path / "nowhere") == ()


def said(**more):
    """Return what `gpucluster gate --json` says."""
    return {
        "open": True, "until": "2026-12-01T00:00:00Z", "closers": [], "policy": {"name": "weekly"},
        "runs": {"r1": "d", "r2": "d"}, "runs_ignored": {"r2": "other"}, **more,
    }  # fmt: skip


def test_a_decision_is_read():
    """What counts and until when; what closes it."""
    found = reading.of_decision(said())
    assert (found.open, found.reason) == (True, "EvidenceAccepted")
    assert found.message == "policy weekly, runs r1: accepted until 2026-12-01T00:00:00Z"
    closers = [{"what": "INV-005", "why": "old: 9 d"}, {"what": "GANG-001", "why": "fail"}]
    closed = reading.of_decision(said(open=False, until=None, closers=closers))
    assert (closed.open, closed.reason, closed.message) == (
        False,
        "GateClosed",
        "INV-005: old: 9 d; and 1 more",
    )


@pytest.mark.parametrize(
    ("printed", "status", "why"),
    [
        ("", 2, "the policy is gone"),
        ("", 3, "the policy is gone"),
        ("no JSON", 0, "said nothing that can be read"),
        (json.dumps({"open": True}), 0, "said nothing that can be read"),
        (json.dumps(said(open="yes", closers=[{"what": "x", "why": "y"}])), 0, "x: y"),
    ],
)
def test_whatever_the_gate_says_else_is_closed(tmp_path, monkeypatch, printed, status, why):
    """A mistake, a tampered run, half an answer: never open."""
    folder_of(tmp_path, "a")
    done = subprocess.CompletedProcess([], status, printed, "gpucluster: the policy is gone\n")
    monkeypatch.setattr(reading.subprocess, "run", lambda *_, **__: done)
    found = reading.reader(tmp_path, ["--policy", "p", "--for", "c"])()
    assert not found.open
    assert why in found.message
