"""Inputs from the field, and made for faults: the right cause comes first, is named in full, and nobody else is."""

import re
from typing import Any

import pytest

from pytest_gpucluster import cli, diagnose
from pytest_gpucluster.evidence.log import ingest
from tests import documents, recordings

FOLDER = recordings.FOLDER / "diagnose"
CASES: list[dict[str, Any]] = documents.read(FOLDER / "cases.yaml")
EXIT = {"healthy": 0, "trouble": 1, "refused": 1, "unclear": 3}


def _id(case: dict[str, Any]) -> str:
    return f"{case['file']}-{case.get('job', '')}"


def _arguments(case: dict[str, Any]) -> list[str]:
    job, space = case.get("job"), case.get("namespace")
    words = ["diagnose", *([job] if job else []), "--from", str(FOLDER / case["file"])]
    return [*words, *(["-n", space] if space else [])]


def _all(case: dict[str, Any]) -> list[diagnose.Diagnosis]:
    """Return the diagnoses of all subjects that the case asks for."""
    evidence = diagnose.revive(ingest.read([FOLDER / case["file"]]))
    told = evidence.header.get("subject") or {}
    kind, _, name = str(case.get("job") or "/").partition("/")
    name = name or str(told.get("name") or "")
    space = case.get("namespace") or str(told.get("namespace") or "")
    found = diagnose.subjects(evidence, name, space, kind.lower())
    return [diagnose.diagnose(one, recordings.JUDGES) for one in found]


def test_every_file_is_a_case():
    """A file that no case names is tried by nobody."""
    there = {path.name for path in FOLDER.iterdir()} - {"cases.yaml"}
    assert there == {case["file"] for case in CASES}


@pytest.mark.parametrize("case", CASES, ids=_id)
def test_the_right_cause_comes_first(case: dict[str, Any]):
    """State and code of the first cause are those of the case."""
    (found, *_) = _all(case)
    text = diagnose.render(found, full=True)
    assert found.state.value == case["state"], text
    assert (found.suspects[0].code if found.suspects else "") == case["code"], text


@pytest.mark.parametrize("case", CASES, ids=_id)
def test_what_is_printed_names_and_spares(case: dict[str, Any], capsys: pytest.CaptureFixture[str]):
    """The command prints what must be named, nothing that must not be, and exits as the state says."""
    status = cli.main(_arguments(case))
    text = " ".join(capsys.readouterr().out.split())
    for word in case["names"]:
        assert word in text, text
    for word in case["spares"]:
        assert word not in text, text
    assert status == EXIT[case["state"]]


@pytest.mark.parametrize("case", CASES, ids=_id)
def test_a_printed_title_is_taken_as_an_argument(case: dict[str, Any], capsys: pytest.CaptureFixture[str]):
    """What stands at the head of a diagnosis can be asked for again, and the same is answered."""
    for found in _all(case):
        title, _, space = found.subject.partition(" -n ")
        if "/" not in title:
            continue  # pods of no job have no title of their own
        cli.main(["diagnose", title, "--from", str(FOLDER / case["file"]), *(["-n", space] if space else [])])
        assert capsys.readouterr().out.startswith(f"{found.subject}: ")


VERBS = (
    "get",
    "describe",
    "logs",
    "delete",
    "auth",
    "cordon",
    "uncordon",
    "edit",
    "taint",
    "label",
    "rollout",
)
PLAIN = re.compile(r"[a-z][\w.-]*(?:[,/][a-z][\w.-]*)*")


@pytest.mark.parametrize("case", CASES, ids=_id)
def test_printed_commands_work(case: dict[str, Any]):
    """A kubectl line that is to be copied has a verb, a kind with its group where several have the name, and names."""
    for found in _all(case):
        for one in (*found.suspects, *found.notes):
            for line in one.look:
                words = line.split()
                assert words[0] == "kubectl", line
                rest = [
                    w
                    for n, w in enumerate(words[1:])
                    if not w.startswith("-") and words[n] not in ("-n", "-l", "-o", "-c")
                ]
                assert rest[0] in VERBS, line
                assert all(PLAIN.match(word) or "'" in line for word in rest), line
                assert rest[1:2] not in (["queue"], ["podgroup"], ["podgroups"], ["workload"]), line
                assert "None" not in line, line
                assert "  " not in line, line
