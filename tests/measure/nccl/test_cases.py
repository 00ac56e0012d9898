"""Every case gives the stated facts under every key, and case files that cannot be used are one line."""

from typing import Any

import pytest

from pytest_gpucluster.measure.nccl import cases, facts, verdict
from tests import documents
from tests.measure.nccl import logs

FILES = sorted(logs.FOLDER.glob("*.yaml"))
CASES = [
    pytest.param(case, id=f"{file.stem}-{case.id}")
    for file in FILES
    for case in cases.parse(documents.read(file))
]


@pytest.mark.parametrize("case", CASES)
def test_a_case_gives_the_stated_facts(case: cases.Case) -> None:
    """All keys under `expect`, no more and no less."""
    assert cases.differences(case) == []


@pytest.mark.parametrize("case", CASES)
def test_another_expectation_is_a_difference(case: cases.Case) -> None:
    """A comparison that cannot fail is none."""
    spoilt = cases.Case(case.id, case.given, case.lines, dict.fromkeys(case.expect, "no such value"))
    assert {d.key for d in cases.differences(spoilt)} == set(case.expect)


def test_every_key_of_cases_has_a_value() -> None:
    """The vocabulary and what is computed are the same."""
    assert set(verdict.values(logs.facts(""))) == set(facts.KEYS)


GOOD: dict[str, Any] = {"id": "x", "lines": ["a"], "expect": {"class": "unknown"}}


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (None, "expected a list of cases, found nothing"),
        ({"id": "x"}, "expected a list of cases, found a mapping"),
        (["x"], "case 1: expected a mapping with id, lines and expect, found a text"),
        ([{**GOOD, "id": None}], "case 1: 'id' is nothing, not a text"),
        ([{"id": "x", "expect": {}}], "case 'x': 'lines' is missing"),
        ([{**GOOD, "lines": "a"}], "case 'x': 'lines' is a text, not a list"),
        ([{"id": "x", "lines": []}], "case 'x': 'expect' is missing"),
        ([{**GOOD, "expect": {"clas": 1}}], "case 'x': unknown key 'clas' in expect; did you mean 'class'?"),
        ([{**GOOD, "given": []}, GOOD], "case 'x': the id is used twice"),
        ([{**GOOD, "given": "x"}], "case 'x': 'given' is a text, not a mapping"),
        ([{**GOOD, "given": {"ranks": 0}}], "case 'x': given.ranks is 0, not a number of at least 1"),
        ([{**GOOD, "given": {"expected_hcas": "a"}}], "case 'x': given.expected_hcas is a text, not a list"),
        ([{**GOOD, "given": {"pod_nodes": 1.5}}], "case 'x': given.pod_nodes is a number, not a mapping"),
        ([{**GOOD, "given": {"networks": {"x": "rmda"}}}], "did you mean 'rdma'?"),
    ],
)
def test_a_bad_document_is_one_line(document: Any, said: str) -> None:
    """What, where, and the nearest match."""
    with pytest.raises(cases.CaseError) as error:
        cases.parse(document)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("machines", "proven"),
    [
        ({"a-0": "x", "a-1": "x"}, False),
        ({"a-0": "x", "a-1": "y"}, True),
        ({"a-0": "x", "a-1": "x", "a-2": "y"}, False),
        (["x", "x"], False),
        (["x", "y"], True),
        (1, False),
        (2, True),
        ("x", False),
        ([{"pod": "a-0", "node": "x"}, {"pod": "a-1", "nodeName": "y"}], True),
        (None, None),
    ],
)
def test_pods_and_their_machines(machines: Any, proven: bool | None) -> None:
    """Pods of one machine prove nothing of a wire, in whatever shape it is told."""
    told = cases.given({"ranks": 2, "nodes": 2, "pod_nodes": machines}, "x")
    found = verdict.values(logs.facts("\n".join(logs.ring()) + "\n", **vars(told)))
    assert found["inter_node_proven"] is proven
    assert found["rdma_gdr_check"] == ("inconclusive" if proven is False else "pass")
