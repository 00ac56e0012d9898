"""Dumps and evidence with anything in any field: one line or an answer, never a traceback."""

import copy
import json
import pathlib
import random

import pytest

from pytest_gpucluster import cli
from pytest_gpucluster.cli import common

RECORDED = pathlib.Path(__file__).parents[2] / "fixtures" / "recorded"
DUMPS = sorted(path for path in (RECORDED / "diagnose").rglob("*.json*") if path.stat().st_size < 100_000)
EVIDENCE = [
    RECORDED / "embedded" / f"{name}.jsonl" for name in ("over-large", "misnamed", "probe", "invalid")
]

ODD = [
    None, True, 0, -1, 1.5, "", "x", "\x1b[31m", "\ud800", [], {}, [None], ["x"], {"a": 1}, [{}], [[]], 1e308, 10**30,
    "9" * 30, "NaN", "1Gi", {"": None}, "2026-13-45T99:99:99Z", "\x00",
]  # fmt: skip


def places(value, path=()):
    """Yield the path to each value of plain data."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield (*path, key)
            yield from places(item, (*path, key))


def spoilt(value, chance):
    """Return plain data with a few values exchanged or left out."""
    made = copy.deepcopy(value)
    for _ in range(chance.choice([1, 1, 2, 4])):
        known = list(places(made))
        if not known:
            return made
        *above, key = chance.choice(known)
        inner = made
        for step in above:
            inner = inner[step]
        if chance.random() < 0.8:
            inner[key] = copy.deepcopy(chance.choice(ODD))
        else:
            del inner[key]
    return made


def spoilt_text(path, chance):
    """Return the text of a file, one object or several lines of them, spoilt."""
    text = path.read_text(encoding="utf-8")
    try:
        return json.dumps(spoilt(json.loads(text), chance))
    except json.JSONDecodeError:
        lines = text.splitlines()
        for _ in range(chance.choice([1, 2, 4])):
            number = chance.randrange(len(lines))
            lines[number] = json.dumps(spoilt(json.loads(lines[number]), chance))
        return "\n".join(lines)


@pytest.mark.parametrize("seed", range(20))
def test_a_spoilt_dump_is_no_traceback(tmp_path, capsys, seed):
    """An exception of the command would leave `main` here."""
    chance = random.Random(seed)  # noqa: S311 - the same cases in each run
    path = tmp_path / "dump.json"
    path.write_text(spoilt_text(chance.choice(DUMPS), chance), encoding="utf-8")
    assert cli.main(["diagnose", "--from", str(path), "--all"]) in (0, 1, 2, 3)
    said = capsys.readouterr()
    assert "\x1b" not in said.out + said.err
    assert said.out or said.err.startswith("gpucluster: ")
    assert said.err.count("\n") <= 1


@pytest.mark.parametrize("seed", range(20))
def test_spoilt_evidence_is_no_traceback(tmp_path, capsys, seed):
    """What cannot be judged ends with another status than a violation."""
    chance = random.Random(seed)  # noqa: S311 - the same cases in each run
    source = chance.choice(EVIDENCE)
    row = chance.choice([one.id for one in common.registry() if one.scenario.name == source.stem])
    path = tmp_path / source.name
    path.write_text(spoilt_text(source, chance), encoding="utf-8")
    status = cli.main(["judge", str(path), "--requirement", row])
    said = capsys.readouterr()
    assert status in (0, 1, 2, 3, 4)
    assert status != 1 or "VIOLATION" in said.out
    assert said.err.count("\n") <= 1


@pytest.mark.parametrize("command", [["diagnose", "--from"], ["judge", "--requirement", "GANG-002"]])
@pytest.mark.parametrize(
    "text",
    [
        '{"kind": "Pod", "apiVersion": "v1", "metadata": ' + '{"a":' * 400 + "1" + "}" * 401,
        '{"kind": "Pod", "apiVersion": "v1", "metadata": ' + "[" * 5000 + "]" * 5000 + "}",
        '{"type": "LOG", "t": 1, "line": ' + "[" * 300 + "]" * 300 + "}",
        "\x00\x00\x00",
        "[]",
        "null",
        "\ufeff{}",
        "{}\n{}\n",
        '{"kind": "List", "apiVersion": "v1", "items": [1, null, [], {}]}',
    ],
    ids=["deep", "deeper", "deep-line", "nul", "list", "null", "mark", "empty", "odd-items"],
)
def test_odd_files_are_one_line(tmp_path, capsys, command, text):
    """Whatever a file is, it says which it was."""
    path = tmp_path / "odd.json"
    path.write_text(text, encoding="utf-8")
    status = cli.main([command[0], *command[1:], str(path)])
    said = capsys.readouterr()
    assert status in (0, 2, 3) or (status == 1 and "in trouble" in said.out)
    assert said.err.count("\n") <= 1


def test_what_nobody_foresaw_is_one_line(tmp_path, capsys, monkeypatch):
    """A fault of ours on somebody's file names the file and the fault."""
    from pytest_gpucluster.evidence.log import ingest

    def broken(_paths):
        raise RuntimeError("of ours")

    monkeypatch.setattr(ingest, "read", broken)
    path = tmp_path / "dump.json"
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n", "uid": "u"}}
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [pod]}))
    for words in (["diagnose", "--from", str(path)], ["judge", str(path), "--requirement", "GANG-002"]):
        assert cli.main(words) == 3
        said = capsys.readouterr()
        assert f"{path}: cannot be" in said.err
        assert "RuntimeError: of ours" in said.err
