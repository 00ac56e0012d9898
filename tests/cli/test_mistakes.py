"""A mistake of the user is one line that says what was meant."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Call

HEAVY = ("kubernetes", "aiohttp", "pydantic", "jinja2", "torch", "pytest", "jsonschema")


@pytest.mark.usefixtures("sample_suites")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["describ"], "unknown command 'describ'; did you mean 'describe'?"),
        (["describe", "defect"], "unknown subject 'defect'; did you mean 'defects'?"),
        (["describe", "profile", "--jsn"], "describe: unknown option '--jsn'; did you mean '--json'?"),
        (["describe", "requirements", "GANG-022"], "unknown requirement 'GANG-022'; did you mean 'GANG-0"),
        (["describe", "profile", "GANG-002"], "describe profile takes no ids"),
        (
            ["describe", "profile", "--cluster", "embeded"],
            "unknown cluster 'embeded'; did you mean 'embedded'?",
        ),
        (["describe", "profile", "--cluster", "clusters/kind.yaml"], "did you mean 'kind'?"),
        (["describe", "profile", "--cluster", "./host"], "did you mean 'host'?"),
        (
            ["describe", "profile", "--set", "quue=a"],
            "option --set: quue: unknown key; did you mean 'queue'?",
        ),
        (["describe", "profile", "--profiles", "clustrs"], "no such folder: --profiles 'clustrs'"),
        (["describe"], "describe: the following arguments are required"),
        (["judge", "x.jsonl"], "judge: the following arguments are required: --requirement"),
        (["judge", "nowhere.jsonl", "--requirement", "GANG-002"], "no such file or folder: 'nowhere.jsonl'"),
        (
            ["judge", ".", "--requirement", "GANG-02"],
            "unknown requirement 'GANG-02'; did you mean 'GANG-002'?",
        ),
        (["judge", ".", "--requirement", "TRN-001"], "requirement TRN-001 is not built"),
        (["judge", ".", "--requirement", "GANG-002", "--given", "n"], "--given 'n': expected KEY=VALUE"),
        (["judge", ".", "--requirement", "GANG-002", "--given", "n=]"], "the value is not valid YAML"),
        (["report", "nowhere"], "no such run folder: 'nowhere'"),
        (["report", "."], "is not the folder of a run: it has no run.jsonl"),
        (["report", ".", "more"], "report: one argument too many: 'more'"),
        (["verify", "."], "is not the folder of a run: it has no run.jsonl"),
        (["cleanup"], "cleanup: name what to remove: the folder of a run, --run ID or --all-expired"),
        (["cleanup", "--run", "x"], "cleanup: name the cluster: --cluster NAME"),
        (["serve", "--defect", "gang.binds-partialy"], "did you mean 'gang.binds-partially'?"),
        (["serve", "--kubeconfig", "/dev/null"], "--kubeconfig /dev/null: exists and is not overwritten"),
    ],
)
def test_a_mistake_is_one_line(
    call: Call,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    said: str,
) -> None:
    """Status 2, nothing on standard output, one line on standard error, with the nearest match."""
    monkeypatch.chdir(tmp_path)
    status, out, err = call(*words)
    assert (status, out) == (2, "")
    assert err.startswith("gpucluster: ")
    assert err.count("\n") == 1
    assert said in err


def test_mistakes_of_a_profile_are_a_line_each(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All are told at once, and none is glued to another."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.yaml").write_text("quue: a\nslots: yess\n", encoding="utf-8")
    status, _, err = call("describe", "profile", "--cluster", "bad")
    assert status == 2
    assert all(line.startswith("gpucluster: ") for line in err.splitlines())
    assert (
        len([line for line in err.splitlines() if "quue: unknown key" in line or "slots = 'yess'" in line])
        == 2
    )


@pytest.mark.parametrize("command", ["gate", "gatekeeper"])
def test_mistakes_of_a_policy_are_a_line_each(call: Call, run: Path, tmp_path: Path, command: str) -> None:
    """As those of a profile are."""
    policy = tmp_path / "mine.yaml"
    policy.write_text("age: soon\nstagez: []\nnodes: few\n", encoding="utf-8")
    words = ["gate", run] if command == "gate" else ["gatekeeper", "--runs", tmp_path, "--check", "c"]
    status, _, err = call(*words, "--policy", policy, "--for", "embedded")
    lines = err.splitlines()
    assert (status, len(lines)) == (2, 3)
    assert all(line.startswith(f"gpucluster: {command}: {policy}:{n}: ") for n, line in enumerate(lines, 1))


def test_an_unknown_profile_is_told_by_the_option_that_named_it(
    call: Call, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gate has no option --cluster."""
    monkeypatch.chdir(tmp_path)
    status, _, err = call("gate", run, "--policy", "weekly", "--for", "prod-a")
    assert status == 2
    assert err.startswith("gpucluster: --for: unknown cluster 'prod-a'")


def test_a_file_that_is_hardly_like_the_missing_one_is_not_named(call: Call, tmp_path: Path) -> None:
    """Beside `nope` stands `opt`: no slip leads from one to the other."""
    (tmp_path / "opt").write_text("", encoding="utf-8")
    _, _, err = call("judge", tmp_path / "nope", "--requirement", "GANG-002")
    assert "did you mean" not in err


def test_a_near_name_beside_the_missing_file_is_named(call: Call, run: Path) -> None:
    """A slip in a file's name is answered with the file that is there."""
    status, _, err = call("judge", run / "evidence" / "gang-scarc.jsonl", "--requirement", "GANG-002")
    assert status == 2
    assert f"did you mean '{run}/evidence/gang-scarce.jsonl'?" in err


def test_help_is_there_and_costs_nothing(call: Call) -> None:
    """Every command has its help, and help imports nothing heavy."""
    assert call("--help")[0] == 0
    assert call()[0] == 2
    script = (
        "import sys, json\nfrom pytest_gpucluster.cli import main\n"
        "for name in ('judge', 'report', 'verify', 'cleanup', 'serve', 'describe'):\n"
        "    try:\n        main([name, '--help'])\n    except SystemExit as end:\n        assert end.code == 0\n"
        "print('LOADED' + json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = json.loads(done.stdout.rpartition("LOADED")[2])
    assert [name for name in HEAVY if name in loaded] == []
    assert done.stdout.count("usage: gpucluster ") == 6


def test_the_version_is_told(call: Call) -> None:
    """`--version` names program and version."""
    assert call("--version")[1].startswith("gpucluster 0.")
