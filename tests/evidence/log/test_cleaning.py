"""Evidence that is cleaned before it is judged: the same findings, and nothing in them that may not be told."""

import json
import pathlib

import pytest

from pytest_gpucluster.evidence.log import cleaning, ingest
from pytest_gpucluster.report import decisions
from tests.plain.canaries import PEM_LINES, TEXTS, WORD

RECORDED = pathlib.Path(__file__).parents[3] / "fixtures" / "recorded"
FILES = sorted((RECORDED / "embedded").glob("*.jsonl"))
QUICK = {
    "healthy",
    "waiting",
    "prepared",
    "collectives",
    "inventory",
    "wired",
    "miswired",
    "two-jobs",
    "probe",
    "over-large",
}
"""Recordings whose judges read variables, arguments, ConfigMaps and logs."""


@pytest.mark.parametrize("path", [path for path in FILES if path.stem in QUICK], ids=lambda path: path.stem)
def test_judges_find_the_same(path):
    """Each row of the scenario has the same finding, word for word."""
    from pytest_gpucluster.cli import common

    rows = [row for row in common.registry() if row.scenario.name == path.stem]
    assert rows
    whole = ingest.read(path)
    clean = cleaning.cleaned(whole)
    for row in rows:
        ours, theirs = (decisions.decide(row, each, dict(each.given)) for each in (whole, clean))
        assert ours.as_dict() == theirs.as_dict(), row.id


def logged(texts):
    """Return lines of evidence in which one container said some texts."""
    lines = [line for text in texts for line in text.split("\n")]
    said = [
        {"type": "LOG", "t": float(n), "pod": "p", "uid": "u", "container": "c", "line": line}
        for n, line in enumerate(lines)
    ]
    return [json.dumps(one) for one in [{"type": "HEADER", "schema": 1, "given": {"note": WORD}}, *said]]


def test_no_kind_of_secret_is_left_in_a_log():
    """All kinds after one another, as one container said them."""
    made = cleaning.cleaned(ingest.of_lines(logged([one.text for one in TEXTS]), "x"))
    text = json.dumps([dict(line.data) for line in made.lines])
    assert not [part for one in TEXTS for part in one.parts if part in text]


def test_a_key_that_is_never_closed_does_not_take_the_rest_of_a_log():
    """After so many lines a log is a log again."""
    made = cleaning.cleaned(
        ingest.of_lines(logged(["-----BEGIN PRIVATE KEY-----", PEM_LINES[0], *["step"] * 500]), "x")
    )
    assert made.lines[1].data["line"] == "[redacted]"
    assert made.lines[-1].data["line"] == "step"
