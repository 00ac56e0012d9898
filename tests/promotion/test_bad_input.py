"""A full disk, no Kueue, a queue that vanishes in the middle: one line, and nothing is open."""

import contextlib
import errno
import pathlib
import tempfile

import pytest

from pytest_gpucluster import cli
from pytest_gpucluster.cli import gate
from pytest_gpucluster.promotion import records, targets, trial
from tests.acceptance import toy
from tests.embedded.support import Api, control_plane

from .conftest import QUEUES, found, make_queue, state_of
from .test_command import decide, held, pending, saw


@contextlib.contextmanager
def full():
    """Let standard output be a disk that is full."""
    with pathlib.Path("/dev/full").open("w", encoding="utf-8") as disk, contextlib.redirect_stdout(disk):
        yield


def words(folder, queue, *more):
    """Return the words of a promotion."""
    named = ["--run", str(folder / "run"), "--policy", "weekly"]
    return ["promote", "--queue", queue, "--for", "prod", "--profiles", str(folder), *named, *more]


@pytest.fixture
def stand(raw, api, place, monkeypatch, capsys):
    """Promote a held queue of a name, with something in place of its trial; return status, output and error."""

    def promote(queue, rows):
        make_queue(raw, queue)
        run, decided = pending(api, queue)
        monkeypatch.setattr(gate, "considered", lambda *_: (decided, [run]))
        if rows is not None:
            monkeypatch.setattr(trial, "run", rows)
        status = cli.main(words(held(place, queue), queue))
        return (status, *capsys.readouterr())

    return promote


def test_a_decision_that_cannot_be_written_opens_nothing(raw, api, place, name, monkeypatch, capsys):  # noqa: PLR0917 (fixtures)
    """A log on a full disk: nobody could read on what the queue was opened."""
    make_queue(raw, name)
    run = saw(api, name)
    monkeypatch.setattr(gate, "considered", lambda *_: (decide(run), [run]))
    with full():
        assert cli.main(words(place(name), name)) == 3
    err = capsys.readouterr().err
    assert err == "gpucluster: what was found could not be written: No space left on device\n"
    assert state_of(raw.ok("GET", f"{QUEUES}/{name}")) == "Closed"


def test_a_gate_that_cannot_be_written_is_not_open(place, monkeypatch, capsys):
    """Exit 0 would be read as open by who reads nothing else."""
    monkeypatch.setattr(gate, "decided", lambda *_: decide(toy.run("run-1", toy.attempt("GANG-002"))))
    folder = place("q")
    with full():
        assert cli.main(["gate", str(folder / "run"), "--policy", "weekly", "--for", "prod", "--json"]) == 3
    assert capsys.readouterr().err.endswith("could not be written: No space left on device\n")


def test_a_trial_without_room_is_not_green(raw, stand, name, monkeypatch):
    """The disk is full when the rows are to run: the queue is closed again, and says why."""

    def none(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", none)
    status, out, _ = stand(name, None)
    assert status == 1
    assert "the rows could not be run: [Errno 28] No space left on device" in out
    assert f"Queue/{name} is Closed again" in out
    assert state_of(raw.ok("GET", f"{QUEUES}/{name}")) == "Closed"


@pytest.mark.parametrize("green", [True, False])
def test_a_queue_that_vanishes_during_its_trial_is_gone(raw, stand, name, green):
    """Green or not: it is not called open, nor called left open, and nobody waits for it."""

    def vanish(*_):
        raw.ok("DELETE", f"{QUEUES}/{name}")
        return trial.Trial(green=green, said=())

    status, out, err = stand(name, vanish)
    assert status == 1
    assert err == f"gpucluster: promote: Queue/{name} is gone: it was deleted while it was being promoted\n"
    assert "Open" not in out


def test_a_queue_that_is_closed_during_its_trial_is_not_called_open(raw, api, stand, name, switch):
    """Somebody held it while the rows ran, and they passed: it stays closed."""

    def close(*_):
        switch("bob").hold(found(api, "Queue", name))
        return trial.Trial(green=True, said=())

    status, out, err = stand(name, close)
    assert status == 1
    assert "is being promoted by bob" in err
    assert "is Open now" not in out
    assert state_of(raw.ok("GET", f"{QUEUES}/{name}")) == "Closed"


def test_a_cluster_without_kueue_is_one_line(url, place, capsys):
    """Neither checks nor ClusterQueues are served; status 2 for both commands."""
    with control_plane({"volcano": False}) as ready:
        folder = place("q", "kueue: {cluster_queue: q}")
        config = (folder / "kubeconfig").read_text().replace(url, ready["url"])
        (folder / "kubeconfig").write_text(config)
        runs = [
            "--runs",
            str(folder / "run"),
            "--policy",
            "weekly",
            "--for",
            "prod",
            "--profiles",
            str(folder),
        ]
        assert cli.main(["gatekeeper", "--check", "fit", *runs]) == 2
        assert capsys.readouterr().err == (
            "gpucluster: gatekeeper: the API serves no AdmissionCheck of kueue.x-k8s.io/v1beta2 (is Kueue 0.15 or "
            "later installed?)\n"
        )
        assert cli.main(words(folder, "clusterqueue/q")) == 2
        assert "the API serves no ClusterQueue (is Kueue installed?)" in capsys.readouterr().err
        assert Api(ready["url"]).ok("GET", "/api/v1/namespaces/default/events")["items"] == []


def test_a_claim_without_a_time_has_lapsed(raw, api, name):
    """Whoever damaged it: it holds nobody up, and the queue counts as left open."""
    make_queue(raw, name)
    queue = found(api, "Queue", name)
    told = {records.STATE: records.TRIAL, records.LAPSES: "soon"}
    damaged = targets.Target(
        queue.info, {**queue.obj, "metadata": {**queue.obj["metadata"], "annotations": told}}
    )
    assert records.another(damaged) == ""
    assert records.cut_off(damaged) == "somebody since ?"
