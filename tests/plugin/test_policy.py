"""A run that is told a policy: its decision is the answer, stands in every form, and is the exit code of a gate run."""

import json
import xml.etree.ElementTree as ET

import pytest

from pytest_gpucluster.cli import common
from pytest_gpucluster.cli import verify as command
from pytest_gpucluster.report import record, write
from pytest_gpucluster.requirement import REGISTRY

SCENES = """
from pytest_gpucluster.plain import times

def scene(name, **header):
    source = {"frozen": times.format_time(times.now()), "cluster_uid": "c-1"}
    return Scenario(name, needs=Needs(seconds=1), header={"source": source, **header})

fresh = scene("fresh")
dull = scene("dull", problem={"verdict": "inconclusive", "text": "the watch of Pod broke"})
"""
pytest_plugins = ["pytester"]

POLICY = """
summary: for training
age: 7d
stages:
- name: node
  rows: [INV-001]
- name: scheduling
  rows: [GANG-001, REF-001]
"""


@pytest.fixture
def gated(project):
    """Return a project with a policy that asks for rows of two stages."""
    (project.pytester.path / "small.yaml").write_text(POLICY, encoding="utf-8")
    doubles = project.pytester.path / "doubles.py"
    doubles.write_text(doubles.read_text(encoding="utf-8") + SCENES, encoding="utf-8")
    return project


GREEN = ("INV-001 fresh passes", "GANG-001 fresh passes", "REF-001 fresh passes")


def properties(project):
    """Return the properties of the suite in JUnit."""
    root = ET.parse(project.latest / "junit.xml").getroot()  # noqa: S314
    return {each.get("name"): each.get("value") for each in root.find("testsuite/properties")}


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_an_open_gate_is_the_answer_in_every_form(gated, workers):
    """Terminal, record, JUnit, CTRF, Markdown and page say for what, by which policy and until when."""
    gated.rows(*GREEN)
    result = gated.run_apart("--gpucluster-policy=small.yaml", "--gpucluster-gate", workers)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "*= gate =*",
            "inventory * yes",
            "scheduling * yes",
            "gate      open for inventory, scheduling, until * UTC (policy small)",
            "answer    Yes by the policy small: open for inventory, scheduling*",
        ]
    )
    report = gated.report()
    assert report["decision"]["open"]
    assert report["decision"]["purposes"] == {"inventory": "yes", "scheduling": "yes"}
    assert report["answer"] == {"word": "yes", "reasons": []}
    assert properties(gated)["gpucluster.gate"] == "open"
    assert properties(gated)["gpucluster.purpose.scheduling"] == "yes"
    extra = json.loads((gated.latest / "ctrf.json").read_text(encoding="utf-8"))["extra"]
    assert extra["decision"]["policy"]["name"] == "small"
    for name in ("report.md", "report.html"):
        text = (gated.latest / name).read_text(encoding="utf-8")
        assert "open for inventory, scheduling, until" in text


def test_a_row_that_nobody_ran_closes_the_gate_of_a_green_run(gated):
    """All tests pass, and the exit code is 1 all the same, with what to do; with and without --gpucluster-gate."""
    gated.rows(*GREEN)
    for gate in ((), ("--gpucluster-gate",)):
        result = gated.run("--gpucluster-policy=small.yaml", "-k", "not REF-001", *gate)
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        result.stdout.fnmatch_lines(
            [
                "REF-001 (scheduling): not run: no run tried it",
                "  fix: run it: pytest --cluster=embedded -k REF-001",
                "scheduling * undecided",
                "gate      closed: 1 reason in scheduling*",
                "answer    Undecided: REF-001*",
            ]
        )
    assert gated.report()["answer"]["word"] == "undecided"
    failures = [each.get("type") for each in ET.parse(gated.latest / "junit.xml").iter("failure")]  # noqa: S314
    assert failures == ["gate"]
    assert "What closes it" in (gated.latest / "report.html").read_text(encoding="utf-8")
    assert "| REF-001 |" in (gated.latest / "report.md").read_text(encoding="utf-8")


def test_a_violation_says_no_and_what_comes_later_is_ambiguous(gated):
    """The purposes say which is lost; a later stage names the earlier one that is red."""
    gated.rows("INV-001 fresh fails", "GANG-001 fresh fails", "REF-001 dull passes")
    result = gated.run("--gpucluster-policy=small.yaml", "--gpucluster-gate")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "INV-001 (node): fail: 2 of 3 members bound",
            "  fix: switch it on",
            "GANG-001 (scheduling): fail: 2 of 3 members bound",
            "  ambiguous: the earlier stage node is red, and this may come of it",
            "inventory * no",
            "answer    No: INV-001: fail: 2 of 3 members bound*",
        ]
    )
    assert gated.report()["answer"]["word"] == "no"


def test_what_the_policy_does_not_ask_for_does_not_decide_a_gate_run(gated):
    """A row outside the policy that fails is told, and the gate run ends with 0; any other run stays red."""
    gated.rows(*GREEN, "KUE-001 fresh fails")
    result = gated.run("--gpucluster-policy=small.yaml", "--gpucluster-gate")
    assert result.ret == 0
    assert result.parseoutcomes() == {"passed": 3, "failed": 1}
    result.stdout.fnmatch_lines(["answer    Yes by the policy small*"])
    assert gated.run("--gpucluster-policy=small.yaml").ret == pytest.ExitCode.TESTS_FAILED
    assert gated.run("--gpucluster-gate").ret == pytest.ExitCode.TESTS_FAILED


def test_a_test_that_is_no_row_is_not_excused_by_a_policy(gated):
    """What fails beside the rows is red in a gate run with an open gate, too."""
    gated.rows(*GREEN)
    gated.write(test_other="def test_other():\n    assert False\n")
    result = gated.run("--gpucluster-policy=small.yaml", "--gpucluster-gate")
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_left_overs_close_the_gate(gated, monkeypatch):
    """Nobody signs for a cluster on which the run left something."""
    monkeypatch.setenv("FAKE_LEFT_OVERS", "Queue/gpucluster-q")
    gated.rows(*GREEN)
    result = gated.run("--gpucluster-policy=small.yaml", "--gpucluster-gate")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*: the run left something on the cluster: Queue/gpucluster-q"])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("age: 7d\nstages: []\n", "*small.yaml:2: stages: must not be empty*"),
        (POLICY.replace("INV-001", "INV-01"), "*unknown requirement; did you mean INV-0*"),
        (POLICY.replace("7d", "7 weeks"), "*age = '7 weeks': must be a time such as 14d*"),
        ("a: [", "*small.yaml*not valid YAML*"),
    ],
)
def test_a_policy_that_cannot_be_used_is_one_line_before_the_run(gated, text, told):
    """No cluster is touched."""
    (gated.pytester.path / "small.yaml").write_text(text, encoding="utf-8")
    gated.rows(*GREEN)
    result = gated.run("--gpucluster-policy=small.yaml")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert len(result.stderr.str().strip().splitlines()) == 1
    result.stderr.fnmatch_lines([f"ERROR: option --gpucluster-policy: {told}"])
    assert gated.log == []


def test_ini_and_environment_name_a_policy_too(gated, monkeypatch):
    """A path in the ini file starts at its folder; a shipped name stays a name."""
    gated.rows(*GREEN)
    path = gated.pytester.path / "pytest.toml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text + 'gpucluster_policy = "small.yaml"\n', encoding="utf-8")
    (gated.pytester.path / "inside").mkdir()
    monkeypatch.chdir(gated.pytester.path / "inside")
    gated.run("--rootdir=..", "-c", "../pytest.toml", "..", "--gpucluster-report-dir=../reports")
    assert gated.report()["decision"]["policy"]["name"] == "small"
    path.write_text(text, encoding="utf-8")
    monkeypatch.chdir(gated.pytester.path)
    monkeypatch.setenv("GPUCLUSTER_POLICY", "weekly")
    gated.run()
    assert gated.report()["decision"]["policy"]["name"] == "weekly"


@pytest.mark.parametrize("args", [(), ("--gpucluster-policy=",)])
def test_without_a_policy_there_is_no_decision(gated, monkeypatch, args):
    """Nothing changes for who names none, or an empty one where the pipeline's environment names one."""
    if args:
        monkeypatch.setenv("GPUCLUSTER_POLICY", "weekly")
    gated.rows(*GREEN)
    result = gated.run(*args)
    assert result.ret == 0
    assert gated.report()["decision"] is None
    assert "gpucluster.policy" not in properties(gated)


def test_a_run_that_was_killed_has_a_closed_gate(gated):
    """Its journal has the policy and no decision."""
    gated.rows(*GREEN)
    gated.run("--gpucluster-policy=small.yaml")
    path = gated.latest / record.JOURNAL
    kept = [
        line for line in path.read_text(encoding="utf-8").splitlines() if '"event":"decision"' not in line
    ]
    path.write_text("\n".join(kept[:-1]) + "\n", encoding="utf-8")
    folded = record.fold(path)
    assert folded["decision"]["text"] == "closed: the run has not come to its end"
    assert folded["answer"]["word"] == "undecided"


def test_verify_decides_the_gate_again(gated, capsys, monkeypatch):
    """A decision that was written otherwise, with every sum made anew, is found; an untouched one is reached again."""
    monkeypatch.setattr(common, "registry", lambda _: REGISTRY)
    gated.rows(*GREEN)
    gated.run("--gpucluster-policy=small.yaml", "-k", "not REF-001")
    assert command.run([str(gated.latest)]) == 1
    assert "answer: Undecided: REF-001" in capsys.readouterr().out
    path = gated.latest / record.JOURNAL
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    told = next(line for line in lines if line["event"] == "decision")["decision"]
    told |= {"open": True, "text": "open for scheduling", "closers": [], "purposes": {"scheduling": "yes"}}
    path.write_text(
        "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines), encoding="utf-8"
    )
    (gated.latest / record.REPORT).unlink()
    write.write_all(gated.latest)
    assert command.run([str(gated.latest)]) == 3
    assert "says that its gate is open for scheduling, but it is closed" in capsys.readouterr().out
