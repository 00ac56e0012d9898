"""KUE-007: gangs that must stay inside one domain, on the recorded evidence and changes of it."""

import dataclasses

import pytest

from pytest_gpucluster.evidence import Evidence
from pytest_gpucluster.evidence.objects.network_places import Levels
from pytest_gpucluster.evidence.objects.owners import Said
from pytest_gpucluster.evidence.scheduling import kueue_topology
from pytest_gpucluster.judge.gang import topology_domain
from pytest_gpucluster.judge.kueue import topology as judge
from pytest_gpucluster.mutants import base
from pytest_gpucluster.plain.copies import clone
from pytest_gpucluster.requirement import Verdict
from tests import recordings

RACK = "topology.gpucluster.dev/rack"


@pytest.fixture(name="good")
def recorded():
    """Return the recorded evidence of a healthy run."""
    return recordings.embedded("kueue-topology")


def told(evidence, **changed):
    """Return an evidence whose judges are told something else."""
    header = clone(dict(evidence.header))
    header["given"].update(changed)
    return Evidence(evidence.lines, header=header, spans=evidence.spans)


def test_a_healthy_run_passes_with_room_elsewhere(good):
    """The finding says where the gang is, what was free elsewhere, and why the other waited."""
    found = judge.keeps_domain(good)
    assert found.verdict is Verdict.PASS, found.observed
    assert "whole in block-0/rack-0" in found.observed
    assert "were free elsewhere" in found.observed
    assert "allows to fit only 4 out of 5 pod(s)" in found.observed
    assert found.refusal.component == "kueue"


@pytest.mark.parametrize(
    ("topology", "verdict"),
    [
        (None, Verdict.NOT_APPLICABLE),
        ({"levels": [], "required": RACK}, Verdict.INCONCLUSIVE),
        ({"levels": [RACK], "required": ""}, Verdict.INCONCLUSIVE),
        ({"levels": [RACK], "required": "example.com/row"}, Verdict.INCONCLUSIVE),
        (
            {"levels": ["topology.gpucluster.dev/block"], "required": "topology.gpucluster.dev/block"},
            Verdict.INCONCLUSIVE,
        ),
        ({"levels": ["a/b", RACK], "required": RACK}, Verdict.INCONCLUSIVE),
    ],
)
def test_what_was_declared_must_be_what_was_asked(good, topology, verdict):
    """Another level than the Jobs ask for, one that nodes do not tell, and one that cannot be read prove nothing."""
    assert judge.keeps_domain(told(good, topology=topology)).verdict is verdict


@pytest.mark.parametrize("role", ["subject", "across"])
def test_neither_gang_may_be_missing(good, role):
    """One that fits shows that something can be placed, one that does not that the level is kept."""
    roles = {name: who for name, who in good.given["roles"].items() if name != role}
    assert judge.keeps_domain(told(good, roles=roles)).verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("resource", ["", "nvidia.com/gpu", "slots.gpucluster.dev/of-another"])
def test_the_scarce_resource_must_be_known(good, resource):
    """Without it nobody knows what was free where."""
    assert judge.keeps_domain(told(good, resource=resource)).verdict is Verdict.INCONCLUSIVE


def test_a_window_that_is_too_short_or_missing_leaves_it_open(good):
    """What held nothing for a moment may have been placed in the next."""
    without = base.without(good, lambda line: line.data.get("note") == "window-end")
    assert judge.keeps_domain(without).verdict is not Verdict.PASS
    assert judge.keeps_domain(told(good, window=60.0)).verdict is Verdict.INCONCLUSIVE


def test_a_member_bound_across_is_a_violation(good):
    """Even one, even for a moment: a pod of the gang that fits nowhere has a node."""
    line = next(line for line in good.of_kind("Pod") if line.object["spec"].get("nodeName"))
    across = next(who for who in good.given["roles"]["across"])
    obj = clone(dict(line.object))
    obj["metadata"].update(uid="stray", name="stray")
    obj["metadata"]["ownerReferences"][0].update(uid=across["uid"], name=across["name"])
    lines = [*good.lines, dataclasses.replace(line, object=obj)]
    found = judge.keeps_domain(base.with_lines(good, lines))
    assert (found.verdict, found.violation) == (Verdict.FAIL, True), found.observed


@pytest.mark.parametrize(
    ("assignment", "places"),
    [
        ({"levels": ["a"], "slices": [one(2, {"universal": "x"})]}, [{"a": "x"}, {"a": "x"}])
        for one in [lambda count, *values: {"domainCount": count, "valuesPerLevel": list(values)}]
    ]
    + [
        (
            {
                "levels": ["a", "b"],
                "slices": [
                    {
                        "domainCount": 2,
                        "valuesPerLevel": [
                            {"universal": "x"},
                            {"individual": {"prefix": "n-", "suffix": ".z", "roots": ["1", "2"]}},
                        ],
                    }
                ],
            },
            [{"a": "x", "b": "n-1.z"}, {"a": "x", "b": "n-2.z"}],
        ),
        (
            {
                "levels": ["a"],
                "slices": [{"domainCount": 2, "valuesPerLevel": [{"individual": {"roots": ["1"]}}]}],
            },
            None,
        ),
        (
            {"levels": ["a", "b"], "slices": [{"domainCount": 1, "valuesPerLevel": [{"universal": "x"}]}]},
            None,
        ),
        ({"levels": [], "slices": []}, None),
        ({"levels": ["a"], "slices": []}, None),
        ({"levels": ["a"]}, None),
        ({}, None),
        ("net", None),
    ],
)
def test_assignments_are_read_or_not_known(assignment, places):
    """What is written compressed is read out; what is damaged is never read as a domain."""
    workload = {
        "status": {"admission": {"podSetAssignments": [{"name": "main", "topologyAssignment": assignment}]}}
    }
    found = kueue_topology.assigned(workload)
    assert (None if found is None else list(found)) == places


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ('couldn\'t assign flavors to pod set main: topology "net" allows to fit only 4 out of 5 pod(s)', True),
        ("no topology domains at level: example.com/rack", True),
        ("0/2 placements are available, first placement status: minCount (5) cannot be satisfied", True),
        ("insufficient quota for slots.gpucluster.dev/kueue-topology.84b062 in flavor kueue-topology-84b062", False),
        ("0/2 nodes are available: 2 Insufficient slots.gpucluster.dev/one-domain.5cd345.", False),
        ("minCount (5) cannot be satisfied: 0 scheduled, 4 remaining", False),
        ("", False),
    ],
)  # fmt: skip
def test_names_of_ours_are_no_words_of_a_scheduler(message, named):
    """A resource or flavor that is called after a topology does not say that the topology was looked at."""
    known = Levels(("example.com/rack",), "example.com/rack")
    said = Said(0.0, "kueue", "Workload/w", "QuotaReserved=False", "Pending", message, "key")
    assert topology_domain.names_topology(said, known) is named
