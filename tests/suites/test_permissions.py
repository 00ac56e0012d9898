"""Every scenario declares what it asks the API for, and asks for no more."""

import json
import pathlib

import pytest

from pytest_gpucluster.kube import permissions as kube
from pytest_gpucluster.plain import components
from pytest_gpucluster.profile import load
from pytest_gpucluster.report.suites import load_suites
from pytest_gpucluster.scenario import permissions

RECORDED = pathlib.Path(__file__).resolve().parents[2] / "fixtures" / "recorded" / "embedded"
SCENARIOS = {row.scenario.name: row.scenario for row in load_suites() if row.where.startswith("suites.")}
PROFILE = load("embedded").profile


def asked_in(path):
    """Return what a recorded run asked for: the counted requests, and what its answers and notes show."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    found = set(lines[0].get("source", {}).get("asked", {}))
    for line in lines:
        if line["type"] == "RESPONSE" and line["request"].startswith("create "):
            found.add(line["request"].partition("/")[0])
        if line["type"] == "NOTE" and line["note"] in {"deleted-by-us", "room-made"} and line.get("kind"):
            found.add(f"delete {line['kind']}")
        if line["type"] == "NOTE" and line["note"] == "logs":
            found.add("log Pod")
    return found


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_a_scenario_asks_for_nothing_that_it_does_not_declare(name):
    """The recorded run of each scenario stays within what `gpucluster rbac` would grant for it."""
    declared = permissions.of_scenario(SCENARIOS[name], PROFILE, namespace=None)
    # Proofs of watches are asked for with every run; markers are made of some kinds.
    declared |= permissions.of_proofs([SCENARIOS[name]], PROFILE, namespace=None)
    declared |= permissions.of_proofs([SCENARIOS[name]], PROFILE, namespace=None)
    for text in SCENARIOS[name].needs.wishes:
        declared |= set(kube.parse(text))
    path = RECORDED / f"{name}.jsonl"
    if not path.is_file():
        path = RECORDED.parent / "host" / f"{name}.jsonl"
    assert path.is_file(), f"no recorded run of the scenario {name}"
    undeclared = {
        str(needed)
        for each in asked_in(path)
        if (needed := kube.of_request(each))
        and needed.resource not in {"namespaces", "leases"}
        # Where it is not granted each object is deleted by itself.
        and needed.verb != "deletecollection"
        # What is for a fixed namespace is counted without it.
        and (needed.verb, needed.resource) not in {(d.verb, d.resource) for d in declared if d.namespace}
        and needed not in declared
    }
    assert not undeclared, (
        f"the scenario {name} asks for {', '.join(sorted(undeclared))}: add it to its Needs.permissions"
    )


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_what_a_scenario_declares_can_be_read(name):
    """Each text has the shape that roles are made of."""
    for text in (*SCENARIOS[name].needs.permissions, *SCENARIOS[name].needs.wishes):
        assert {each.component for each in kube.parse(text)} <= {
            "",
            permissions.NETWORKS,
            *components.NAMESPACES,
        }
