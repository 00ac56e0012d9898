"""The vocabulary of evidence is what the recorded runs, the scenarios and the judges say."""

import ast
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_gpucluster.evidence.log import vocabulary
from pytest_gpucluster.evidence.log.vocabulary import Form
from pytest_gpucluster.judge import needs_of_judges
from pytest_gpucluster.judge.needs import DECLARED, Needs
from pytest_gpucluster.profile.model import Profile

ROOT = Path(__file__).resolve().parents[3]
WRITERS = [
    *(ROOT / "suites" / "scenarios").glob("*.py"),
    *(ROOT / "pytest_gpucluster" / "scenario").glob("*.py"),
]


@pytest.fixture(scope="module")
def recorded() -> list[dict[str, Any]]:
    """Return all lines of the recorded runs but those of watches and containers, and one of each of these a file."""
    found = []
    for folder in ("embedded", "host", "embedded-native"):
        for file in sorted((ROOT / "fixtures" / "recorded" / folder).rglob("*.jsonl")):
            seen: set[str] = set()
            for text in file.read_text(encoding="utf-8").splitlines():
                line = json.loads(text)
                if line.get("type") in ("HEADER", "NOTE") or line.get("type") not in seen:
                    seen.add(str(line.get("type")))
                    found.append(line)
    return found


def _unlike(name: str, told: Mapping[str, Any], forms: Mapping[str, Form]) -> str:
    """Return what a line has that its form does not, or lacks; "" for a line that is as its form."""
    if name not in forms:
        return f"{name} is unknown"
    form = forms[name]
    odd = [*(set(told) - {*form.fields, *form.more}), *(set(form.fields) - set(told))]
    return f"{name}: {odd}" if odd else ""


def test_recorded_lines_are_as_the_vocabulary_says(recorded: list[dict[str, Any]]) -> None:
    """Types of lines with their fields, and notes with theirs."""
    notes = {"type", "t", "scenario", "note"}
    for line in recorded:
        if "type" not in line:
            continue
        rest = {key: value for key, value in line.items() if key != "type"}
        if line["type"] == "NOTE" and "note" in line:
            told = {key: value for key, value in line.items() if key not in notes}
            assert not _unlike(line["note"], told, vocabulary.NOTES), line
        elif "type" in line:
            assert not _unlike(line["type"], rest, vocabulary.LINES), line


def test_recorded_headers_have_known_keys_and_roles(recorded: list[dict[str, Any]]) -> None:
    """What a header tells is in the reference."""
    for header in (line for line in recorded if line.get("type") == "HEADER"):
        given = header.get("given", {})
        assert set(header.get("source", {})) <= set(vocabulary.SOURCE), header["scenario"]
        assert set(given) <= {*vocabulary.GIVEN, *vocabulary.OF_PROFILE}, header["scenario"]
        roles = {role.rpartition(":")[2] for role in given.get("roles", {}) if not role.startswith("case:")}
        assert roles <= set(vocabulary.ROLES), header["scenario"]


def _notes() -> Iterator[tuple[str, set[str], bool]]:
    """Yield each note that is written, with its fields, and whether these are all."""
    for file in WRITERS:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("note", "_note"):
                word = node.args[0] if node.args else None
                if isinstance(word, ast.Constant):
                    names = {key.arg for key in node.keywords if key.arg is not None}
                    yield str(word.value), names, len(names) == len(node.keywords) and len(node.args) == 1
            elif isinstance(node, ast.Dict):
                keys = {
                    str(key.value): value
                    for key, value in zip(node.keys, node.values, strict=True)
                    if isinstance(key, ast.Constant)
                }
                if isinstance(word := keys.get("note"), ast.Constant):
                    yield str(word.value), set(keys) - {"note"}, True


def test_notes_are_written_as_the_vocabulary_says() -> None:
    """Also those that no recorded run has: a wait that expired, a watch that was not current."""
    written = list(_notes())
    for word, names, whole in written:
        form = vocabulary.NOTES[word]
        assert names <= {*form.fields, *form.more}, word
        assert not whole or set(form.fields) <= names, word
    assert {word for word, _, _ in written} >= {
        "timed-out",
        "aborted",
        "proven",
        "unproven",
        "left-over",
        "logs",
    }


def test_no_word_is_left_that_nobody_says(recorded: list[dict[str, Any]]) -> None:
    """A role that no scenario gives away, and a key that nobody tells or reads, go from the reference too."""
    code = "".join(file.read_text(encoding="utf-8") for file in WRITERS)
    judges = "".join(
        file.read_text(encoding="utf-8") for file in (ROOT / "pytest_gpucluster" / "judge").rglob("*.py")
    )
    headers = [line for line in recorded if line.get("type") == "HEADER"]
    played = {role.rpartition(":")[2] for line in headers for role in line["given"].get("roles", {})}
    assert {role for role in vocabulary.ROLES if role not in played and f'"{role}"' not in code} == set()
    told = {key for line in headers for key in line["given"]}
    assert {key for key in vocabulary.GIVEN if key not in told and f'"{key}"' not in code + judges} == set()


def test_what_every_scenario_tells_is_of_the_vocabulary() -> None:
    """Keys of the profile are keys that the profile has."""
    assert set(DECLARED) <= {*vocabulary.GIVEN, *vocabulary.OF_PROFILE}
    assert set(vocabulary.OF_PROFILE) <= set(Profile.model_fields)


@pytest.mark.parametrize(
    ("needs", "said"),
    [
        (Needs(roles=("subjct",)), "unknown role 'subjct'; did you mean 'subject'?"),
        (Needs(meant=("late-one",)), "unknown role 'late-one'"),
        (Needs(notes=("scarce", "room-made|room")), "unknown note 'room'"),
        (Needs(facts=("measure",)), "unknown event 'measure'; did you mean 'measured'?"),
        (Needs(given=("word",)), "unknown key of `given` 'word'; did you mean 'world'?"),
    ],
)
def test_a_need_that_names_no_known_word_is_one_line(needs: Needs, said: str) -> None:
    """Which judge, what, and the nearest."""
    with pytest.raises(ValueError, match=r"needs of gang\.x\.y: ") as raised:
        needs_of_judges.check({"gang.x.y": needs})
    assert said in str(raised.value)
