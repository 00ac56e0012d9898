"""CTRF: valid by the fields of its specification, and never greener than the record."""

import json
from typing import Any

import jsonschema
import pytest

from pytest_gpucluster.report import ctrf, record
from tests.report import sample

_TEXT, _WHOLE, _OBJECT = {"type": "string"}, {"type": "integer", "minimum": 0}, {"type": "object"}
_NAME = {"type": "string", "minLength": 1}
_WORDS = {"type": "array", "items": {"type": "string"}}
_PATH = {**_WORDS, "minItems": 1}
_TIME = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$"}
_STATUS = {"enum": ["passed", "failed", "skipped", "pending", "other"]}


def _closed(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    return {
        "type": "object", "required": list(required), "properties": {**required, **optional},
        "additionalProperties": False,
    }  # fmt: skip


SCHEMA = _closed(
    {
        "reportFormat": {"const": "CTRF"},
        "specVersion": {"type": "string", "pattern": r"^\d+\.\d+\.\d+$"},
        "results": _closed(
            {
                "tool": _closed({"name": _NAME}, version=_TEXT, extra=_OBJECT),
                "summary": _closed(
                    dict.fromkeys(["tests", *_STATUS["enum"], "start", "stop"], _WHOLE),
                    flaky=_WHOLE, suites=_WHOLE, extra=_OBJECT,
                ),
                "tests": {
                    "type": "array",
                    "items": _closed(
                        {"name": _NAME, "status": _STATUS, "duration": _WHOLE},
                        start=_WHOLE, stop=_WHOLE, suite=_PATH, message=_TEXT, trace=_TEXT, rawStatus=_TEXT,
                        tags=_WORDS, filePath=_TEXT, retries=_WHOLE, flaky={"type": "boolean"}, extra=_OBJECT,
                    ),
                },
            },
            environment=_closed({}, reportName=_TEXT, testEnvironment=_TEXT, extra=_OBJECT),
            extra=_OBJECT,
        ),
    },
    reportId={"type": "string", "pattern": r"^[0-9a-f-]{36}$"}, timestamp=_TIME, generatedBy=_TEXT, extra=_OBJECT,
)  # fmt: skip
"""The fields of the specification (docs/specification of github.com/ctrf-io/ctrf) that we write, and no others.

It refuses whatever the published schema refuses (ctrf-schema-0.0.json of ctrf 0.3.0): compared in November 2026
by changing every field of the sample run in eleven ways.
"""


@pytest.fixture
def made(run) -> dict[str, Any]:
    """Give the CTRF of the sample run."""
    found: dict[str, Any] = json.loads(ctrf.render(record.fold(run / record.JOURNAL)))
    return found


def test_it_is_valid(made):
    """Required fields, allowed values, nothing of our own outside of `extra`."""
    jsonschema.validate(made, SCHEMA)


def test_the_schema_refuses_what_is_not_of_the_specification(made):
    """Or the test above would show nothing."""
    for change in ({"answer": 1}, {"specVersion": "x"}, {"results": {}}, {"timestamp": "2026-11-28"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**made, **change}, SCHEMA)


def test_only_a_pass_is_passed(made):
    """A verdict never becomes a greener status; the verdict itself stands beside it."""
    by_id = {
        test["extra"]["requirement"]: test
        for test in made["results"]["tests"]
        if "requirement" in test["extra"]
    }
    told = {
        row: (test["status"], test["rawStatus"])
        for row, test in by_id.items()
        if test["rawStatus"] != "not run"
    }
    assert told == {
        "GANG-001": ("passed", "pass"),
        "GANG-002": ("failed", "fail"),
        "GANG-007": ("skipped", "not_applicable"),
        "REF-001": ("passed", "pass"),
        "REF-002": ("other", "environment"),
        "PLG-003": ("other", "inconclusive"),
        "FAB-006": ("failed", "fail"),
        "SITE-001": ("passed", "pass"),
    }
    assert by_id["FAB-006"]["extra"]["waiver"]["owner"]
    assert by_id["LIFE-001"]["status"] in {"pending", "skipped"}


def test_counts_are_those_of_the_tests(made):
    """And the answer goes along."""
    summary, tests = made["results"]["summary"], made["results"]["tests"]
    assert (
        summary["tests"]
        == len(tests)
        == sum(summary[name] for name in ("passed", "failed", "pending", "skipped", "other"))
    )
    assert summary["stop"] > summary["start"] == round(sample.START.timestamp() * 1000) + 1000
    assert made["extra"]["answer"]["word"] == "no"
    assert made["extra"]["not_built"]


def test_the_same_run_has_the_same_id(run, made):
    """Whenever its report is made again."""
    again = json.loads(ctrf.render(record.fold(run / record.JOURNAL)))
    assert again == made
