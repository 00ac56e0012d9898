"""Names that a log calls unknown: too early, never published, or unknown although published."""

import copy
from typing import Any

import pytest

from pytest_gpucluster.evidence import Evidence
from pytest_gpucluster.judge.plugins import name_resolution
from tests import recordings

CASE = "plg-launcher-works-at-the-third-try"


def case(**changes: Any) -> Evidence:
    """Return the public case of a launcher that works at its third try, with parts of its input changed."""
    found = copy.deepcopy(recordings.public_cases()[CASE])
    found["input"].update(changes)
    return recordings.public_evidence(found)


def published(*times: tuple[float, list[str]]) -> list[dict[str, Any]]:
    """Return what the EndpointSlice listed as ready, and when."""
    return [{"t": t, "ready": ready} for t, ready in times]


@pytest.mark.parametrize(
    ("times", "verdict", "text"),
    [
        (published((12, ["calc-worker-0"]), (31, ["calc-worker-0", "calc-worker-1"])), "pass", "t=31 s"),
        (
            published((2, ["calc-worker-0", "calc-worker-1"])),
            "fail",
            "calc-launcher-b2 could not resolve it at t=16 s",
        ),
        (published((12, ["calc-worker-0"])), "inconclusive", "no EndpointSlice lists its pod as ready"),
        (
            published((48, ["calc-worker-0", "calc-worker-1"])),
            "inconclusive",
            "no look-up was seen",
        ),
        ([], "inconclusive", "no Volcano Job"),
    ],
)
def test_not_yet_is_told_from_never(times: list[dict[str, Any]], verdict: str, text: str):
    """The times of the slice decide, not the resolver's words."""
    finding = name_resolution.master_resolves(case(endpoints_ready=times), {})
    assert finding.verdict == verdict
    assert text in finding.observed


@pytest.mark.parametrize(
    "line",
    [
        "ssh: Could not resolve hostname calc-worker-1.calc: Name or service not known",
        "getent: calc-worker-1.calc: Temporary failure in name resolution",
        "[c10d] The IPv6 network addresses of (calc-worker-1.calc, 29500) cannot be retrieved (gai error: -2)",
        "dial tcp: lookup calc-worker-1.calc on 10.96.0.10:53: no such host",
        'Could not resolve host "calc-worker-1.calc"',
    ],
)
def test_the_name_is_read_from_what_resolvers_print(line: str):
    """glibc, ssh, torch, Go and curl word it each in their way."""
    finding = name_resolution.master_resolves(case(logs={"calc-launcher-a1": [line]}), {})
    assert finding.verdict == "pass"
    assert "calc-worker-1.calc is published from t=31 s" in finding.observed
