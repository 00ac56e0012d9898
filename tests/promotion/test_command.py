"""`gpucluster promote`: what opens, what does not, and one line that says why; the gate itself is judged elsewhere."""

import dataclasses
import json
import types

import pytest

from pytest_gpucluster import cli
from pytest_gpucluster.cli import gate, promote
from pytest_gpucluster.promotion import records, switching, targets, trial
from tests.acceptance import toy

from .conftest import KUEUE, MERGE, QUEUES, found, make_cluster_queue, make_queue, state_of


@pytest.fixture
def call(monkeypatch, capsys):
    """Call the command with a decision that was made; return exit status, output and error."""

    def run(folder, queue, *words, decided=None, runs=(), hold=False):
        if decided is not None:
            monkeypatch.setattr(gate, "considered", lambda *_: (decided, list(runs)))
        named = [] if hold else ["--run", str(folder / "run"), "--policy", "weekly"]
        command = ["promote", "--queue", queue, "--for", "prod", "--profiles", str(folder), *named, *words]
        status = cli.main(command)
        return (status, *capsys.readouterr())

    return run


def saw(api, queue, kind="Queue", *, row="GANG-002", **more):
    """Return a run that passed a row and saw the queue as it is."""
    seen = found(api, kind, queue).queue
    return dataclasses.replace(
        toy.run("run-1", toy.attempt(row)), seen_queues={seen.place: seen}, digest="ab" * 32, **more
    )


def decide(*runs, verdict="pass", profile=None):
    """Return the decision of a gate that asks for one row."""
    if verdict != "pass":
        runs = (toy.run("run-1", toy.attempt("GANG-002", verdict)),)
    return toy.decide(list(runs), toy.wants("GANG-002"), profile=profile)


def test_behind_an_open_gate_the_queue_is_opened(raw, api, place, call, name):
    """Exit 0; who, policy, run and digest stand on it; an Event says so."""
    make_queue(raw, name)
    run = saw(api, name)
    status, out, err = call(place(name), name, "--by", "ann", decided=decide(run), runs=[run])
    assert (status, err) == (0, "")
    assert out.splitlines()[-1] == f"queue       Queue/{name} is Open now (was Closed), promoted by ann"
    told = raw.ok("GET", f"{QUEUES}/{name}")["metadata"]["annotations"]
    assert (told[records.BY], told[records.POLICY]) == ("ann", "toy")
    assert told[records.RUNS] == f"run-1=sha256:{'ab' * 32}"
    assert told[records.UNTIL].startswith("2026-12-08T")
    (event,) = [
        each
        for each in raw.ok("GET", "/api/v1/namespaces/default/events")["items"]
        if each["involvedObject"]["name"] == name
    ]
    assert (event["reason"], event["type"]) == ("Promoted", "Normal")
    assert event["message"] == "opened by ann on policy toy, runs run-1"
    status, out, _ = call(place(name), name, decided=decide(run), runs=[run])
    assert status == 0
    assert f"Queue/{name} is Open already" in out


def test_a_closed_gate_opens_nothing(raw, api, place, call, name):
    """Exit 1, the reason and what to do; a queue that is open is not closed behind somebody's back."""
    make_queue(raw, name)
    status, out, _ = call(place(name), name, decided=decide(verdict="fail"))
    assert status == 1
    assert "GANG-002 (only): fail" in out
    assert out.splitlines()[-1] == f"queue       Queue/{name} is Closed and stays so: the gate is closed"
    assert state_of(raw.ok("GET", f"{QUEUES}/{name}")) == "Closed"
    reasons = [
        each["reason"]
        for each in raw.ok("GET", "/api/v1/namespaces/default/events")["items"]
        if each["involvedObject"]["name"] == name
    ]
    assert reasons == ["PromotionRefused"]
    make_queue(raw, f"{name}-open", closed=False)
    status, out, _ = call(place(name), f"{name}-open", decided=decide(verdict="fail"))
    assert status == 1
    assert "is Open and stays so: the gate is closed; `promote --hold` closes it" in out


@pytest.mark.parametrize("dry", [True, False])
def test_a_queue_that_was_changed_since_the_run_is_refused(raw, api, place, call, name, dry):  # noqa: PLR0917 (fixtures)
    """Its spec, its generation, another queue of its name; status alone is no change."""
    make_queue(raw, name)
    run = saw(api, name)
    words = ["--dry-run"] if dry else []
    raw.ok("PATCH", f"{QUEUES}/{name}/status", {"status": {"allocated": {"cpu": "1"}}}, MERGE)
    raw.ok("PATCH", f"{QUEUES}/{name}", {"spec": {"weight": 5}}, MERGE)
    status, _, err = call(place(name), name, *words, decided=decide(run), runs=[run])
    assert status == 1
    assert "stays so: it was changed since run-1: its spec is another: weight; run again" in err
    raw.ok("PATCH", f"{QUEUES}/{name}", {"spec": {"weight": 1}}, MERGE)
    status, _, err = call(place(name), name, *words, decided=decide(run), runs=[run])
    assert status == 1
    assert "its spec was written since (generation" in err
    assert state_of(raw.ok("GET", f"{QUEUES}/{name}")) == "Closed"
    newer = saw(api, name)
    newer = dataclasses.replace(newer, id="run-2", ended="2099-01-01")
    assert call(place(name), name, *words, decided=decide(run, newer), runs=[newer, run])[0] == 0


def test_a_queue_that_no_run_saw_is_refused(raw, api, place, call, name):
    """Nobody knows what it was; a run that is not counted says nothing of it."""
    make_queue(raw, name)
    run = dataclasses.replace(saw(api, name), seen_queues={})
    status, _, err = call(place(name), name, decided=decide(run), runs=[run])
    assert status == 1
    assert "no run shows it" in err
    planted = dataclasses.replace(saw(api, name), id="other", planted=("x",))
    status, _, err = call(place(name), name, decided=decide(run, planted), runs=[run, planted])
    assert status == 1
    assert "no run shows it" in err


def test_a_dry_run_writes_nothing(raw, api, place, call, name):
    """Neither queue nor Event; exit 0 if it would open."""
    make_queue(raw, name)
    run = saw(api, name)
    before = raw.ok("GET", f"{QUEUES}/{name}")
    status, out, _ = call(place(name), name, "--dry-run", decided=decide(run), runs=[run])
    assert status == 0
    assert f"queue       Queue/{name} is Closed; it would be opened by" in out
    assert call(place(name), name, "--dry-run", decided=decide(verdict="fail"))[0] == 1
    assert call(place(name), name, "--hold", "--dry-run", hold=True)[0] == 0
    assert raw.ok("GET", f"{QUEUES}/{name}") == before
    told = raw.ok("GET", "/api/v1/namespaces/default/events")["items"]
    assert not [each for each in told if each["involvedObject"]["name"] == name]


def test_a_cluster_queue_is_opened_and_held(raw, api, place, call, name):
    """By its stopPolicy; the same run may open it again."""
    make_cluster_queue(raw, name)
    folder = place("other", f"kueue: {{cluster_queue: {name}}}")
    run = saw(api, name, "ClusterQueue")
    assert call(folder, name, decided=decide(run), runs=[run])[0] == 0
    assert raw.ok("GET", f"{KUEUE}/clusterqueues/{name}")["spec"]["stopPolicy"] == "None"
    status, out, _ = call(folder, name, "--hold", hold=True)
    assert status == 0
    assert f"ClusterQueue/{name} is stopped (stopPolicy Hold) now (was Active), held by" in out
    assert call(folder, name, decided=decide(run), runs=[run])[0] == 0


def cut_off(raw, name):
    """Leave a queue as a trial does whose machine is gone."""
    make_queue(raw, name, closed=False)
    told = {records.STATE: "on trial", records.BY: "ann", records.AT: "2026-11-30T01:00:00Z",
            records.LAPSES: "2026-11-30T01:02:00Z"}  # fmt: skip
    raw.ok("PATCH", f"{QUEUES}/{name}", {"metadata": {"annotations": told}}, MERGE)


def test_a_queue_whose_trial_was_cut_off_is_closed_by_the_next_promotion(raw, place, call, name):
    """First, whatever the gate says: nothing vouches for what it admits meanwhile. A dry run changes nothing."""
    cut_off(raw, name)
    assert call(place(name), name, "--dry-run", decided=decide(verdict="fail"))[0] == 1
    assert state_of(raw.ok("GET", f"{QUEUES}/{name}")) == "Open"
    status, out, _ = call(place(name), name, decided=decide(verdict="fail"))
    assert status == 1
    first = f"queue       Queue/{name} was Open, and is closed first: the trial by ann since 2026-11-30T01:00:00Z was"
    assert out.startswith(first)
    assert f"Queue/{name} is Closed and stays so: the gate is closed" in out
    assert state_of(raw.ok("GET", f"{QUEUES}/{name}")) == "Closed"


def test_a_queue_is_closed_only_if_a_trial_was_cut_off(raw, api, place, call, switch, name):  # noqa: PLR0917 (fixtures)
    """What a job that looks each few minutes asks for: a trial that goes on and an open queue are left alone."""
    make_queue(raw, name)
    switch("ann").open(found(api, "Queue", name), records.TRIAL)
    words = ("--hold", "--if-cut-off")
    status, out, _ = call(place(name), name, *words, hold=True)
    assert (status, state_of(raw.ok("GET", f"{QUEUES}/{name}"))) == (0, "Open")
    assert "no trial of it was cut off" in out
    cut_off(raw, f"{name}-cut")
    status, out, _ = call(place(name), f"{name}-cut", *words, hold=True)
    assert (status, state_of(raw.ok("GET", f"{QUEUES}/{name}-cut"))) == (0, "Closed")


def test_for_a_program_it_is_one_object(raw, api, place, call, name):
    """What was done, the queue before and after, and the whole decision; of a refusal too."""
    make_queue(raw, name)
    run = saw(api, name)
    status, out, _ = call(place(name), name, "--json", "--by", "ann", decided=decide(run), runs=[run])
    told = json.loads(out)
    assert (status, told["outcome"], told["done"], told["by"]) == (0, "opened", True, "ann")
    queue = told["queue"]
    assert (queue["was"], queue["is"], queue["open"]) == ("Closed", "Open", True)
    assert told["gate"]["open"] is True
    assert told["gate"]["runs"] == {"run-1": "ab" * 32}
    raw.ok("PATCH", f"{QUEUES}/{name}", {"spec": {"weight": 5}}, MERGE)
    status, out, err = call(place(name), name, "--json", decided=decide(run), runs=[run])
    told = json.loads(out)
    assert (status, told["outcome"], told["done"]) == (1, "refused", False)
    assert "its spec is another: weight; run again" in told["why"]
    assert len(err.splitlines()) == 1
    status, out, _ = call(place(name), name, "--json", decided=decide(verdict="fail"))
    told = json.loads(out)
    assert (status, told["outcome"], told["gate"]["closers"][0]["what"]) == (1, "refused", "GANG-002")
    status, out, _ = call(place(name), name, "--json", "--hold", hold=True)
    told = json.loads(out)
    assert (status, told["outcome"], told["gate"], told["queue"]["open"]) == (0, "held", None, False)


def test_for_a_pull_request_it_is_markdown(raw, api, place, call, name, monkeypatch):  # noqa: PLR0917 (fixtures)
    """What was done first, then the gate; of a trial its rows."""
    make_queue(raw, name)
    monkeypatch.setattr(trial, "run", lambda *_: trial.Trial(green=False, said=("answer    No",)))
    run, decided = pending(api, name)
    status, out, _ = call(held(place, name), name, "--markdown", decided=decided, runs=[run])
    assert status == 1
    assert out.startswith(f"### Queue/{name}: refused\n")
    assert "On trial: GANG-001 did not pass in it." in out
    assert "### Gate of embedded: open" in out


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--if-cut-off", "--run", "run", "--policy", "weekly"], "--if-cut-off only goes with --hold"),
        (["--hold", "--json", "--markdown"], "--json and --markdown: choose one"),
        ([], "--run and --policy missing"),
        (["--run", "run"], "--policy missing"),
        (["--hold", "--run", "run"], "--hold closes a queue whatever runs say"),
        (["--run", "run", "--policy", "weekly", "--offline"], "a queue cannot be opened without its cluster"),
        (["--hold", "--dry-run", "--for", "embedded"], "has no `connection`: its cluster ends with its run"),
        (["--hold", "--queue", "queues/x"], "'queues' is no kind of queue"),
        (["--hold", "--queue", "nowhere"], "there is no Queue 'nowhere'"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(place, capsys, words, line):
    """Nothing is asked of the cluster that is not needed to say so."""
    folder = place("training")
    words = ["--queue", "training", "--for", "prod", "--profiles", str(folder), *words]
    assert cli.main(["promote", *words]) == 2
    err = capsys.readouterr().err
    assert line in err
    assert len(err.splitlines()) == 1


def test_a_cluster_that_does_not_answer_is_one_line(place, capsys):
    """The queue is not open, as far as anybody knows."""
    folder = place("training")
    config = (folder / "kubeconfig").read_text()
    broken = json.loads(config)
    broken["clusters"][0]["cluster"]["server"] = "http://127.0.0.1:1"
    (folder / "kubeconfig").write_text(json.dumps(broken))
    words = ["--queue", "training", "--for", "prod", "--profiles", str(folder), "--hold"]
    assert cli.main(["promote", *words]) == 1
    err = capsys.readouterr().err
    assert "refused" in err
    assert len(err.splitlines()) == 1


def held(place, name):
    """Write a profile whose queue is held."""
    return place(name, "conformance_queue: conformance")


def pending(api, name):
    """Return a run of a held queue, and its decision."""
    run = saw(api, name, row="GANG-001", profile={})
    profile = toy.profile_of(conformance_queue="conformance")
    run = dataclasses.replace(run, profile=profile.model_dump(mode="json"))
    return run, toy.decide([run], toy.wants("GANG-001"), profile=profile)


@pytest.mark.parametrize("green", [True, False])
def test_a_held_queue_is_tried_out(raw, api, place, call, name, monkeypatch, green):  # noqa: PLR0917 (fixtures)
    """It is open while the rows run, stays so if they pass, and is closed again if not."""
    make_queue(raw, name)
    states = []

    def run_rows(words, _begun):
        queue = raw.ok("GET", f"{QUEUES}/{name}")
        states.append((state_of(queue), queue["metadata"]["annotations"][records.STATE]))
        assert "-k=GANG-001" in words
        assert "--gpucluster-set=conformance_queue=null" in words
        return trial.Trial(green=green, said=("answer    as it is",), runs={"trial-1": "cd" * 32})

    monkeypatch.setattr(trial, "run", run_rows)
    run, decided = pending(api, name)
    status, out, _ = call(held(place, name), name, decided=decided, runs=[run])
    assert states == [("Open", "on trial")]
    assert "  answer    as it is" in out
    queue = raw.ok("GET", f"{QUEUES}/{name}")
    told = queue["metadata"]["annotations"]
    if green:
        assert (status, state_of(queue), told[records.STATE]) == (0, "Open", "open")
        assert f"trial-1=sha256:{'cd' * 32}" in told[records.RUNS]
    else:
        assert (status, state_of(queue), told[records.STATE]) == (1, "Closed", "held")
        assert "is Closed again: GANG-001 did not pass in it" in out
    assert records.LAPSES not in told


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_a_trial_that_is_cut_off_leaves_the_queue_closed(raw, api, place, call, name, monkeypatch, error):  # noqa: PLR0917 (fixtures)
    """Ctrl-C, the end of a pipeline's job, an error of ours."""
    make_queue(raw, name)

    def cut(_words, _begun):
        raise error

    monkeypatch.setattr(trial, "run", cut)
    run, decided = pending(api, name)
    if error is RuntimeError:
        with pytest.raises(RuntimeError):
            call(held(place, name), name, decided=decided, runs=[run])
    else:
        assert call(held(place, name), name, decided=decided, runs=[run])[0] == 130
    assert state_of(raw.ok("GET", f"{QUEUES}/{name}")) == "Closed"


def test_a_trial_that_leaves_a_queue_open_says_so(raw, api, place, call, name, monkeypatch):  # noqa: PLR0917 (fixtures)
    """The cluster does not answer any more: one line, exit 1, and what to do."""
    make_queue(raw, name)
    monkeypatch.setattr(trial, "run", lambda *_: trial.Trial(green=False, said=()))

    def refused(self, target):
        raise targets.Refused("no answer")

    monkeypatch.setattr(switching.Switch, "hold", refused)
    run, decided = pending(api, name)
    status, _, err = call(held(place, name), name, decided=decided, runs=[run])
    assert status == 1
    assert "is STILL OPEN and cannot be closed: no answer; close it with --hold" in err


def test_a_trial_that_cannot_start_is_not_green(tmp_path):
    """A profile that does not load, a selection without a row: never green, and its last line is told."""
    for words in (trial.words(["GANG-001"], "nowhere", tmp_path), ["--no-such-option"]):
        found_ = trial.run(words)
        assert not found_.green
        assert found_.said
        assert not found_.runs


def test_who_hides_in_a_name_is_one_line(monkeypatch):
    """A name of several lines is one on the queue."""
    options = types.SimpleNamespace(by="ann\n  smith")
    assert promote._record(options, None).by == "ann smith"


@pytest.mark.parametrize(
    ("files", "status", "line"),
    [
        ({}, 2, "is not the folder of a run"),
        ({"run.jsonl": "no record\n"}, 3, "run.jsonl"),
        ({"report.json": "{}"}, 3, "report.json"),
    ],
)
def test_a_run_that_cannot_be_read_opens_nothing(raw, place, call, name, files, status, line):  # noqa: PLR0917 (fixtures)
    """As for the gate: 2 for what is no run, 3 for one that does not hold."""
    make_queue(raw, name)
    folder = place(name)
    for file, content in files.items():
        (folder / "run" / file).write_text(content)
    found_status, _, err = call(folder, name)
    assert found_status == status, err
    assert line in err
    assert len(err.splitlines()) == 1
    assert state_of(raw.ok("GET", f"{QUEUES}/{name}")) == "Closed"
