"""What the page tells beside its rows."""

import pytest

from pytest_gpucluster.report import html, identity, page, record

NODE = {"gpus": 8, "machineID": "m1", "driver": "575.1", "gpu_uuids": ["GPU-1"]}


@pytest.fixture
def report(run):
    """Give the report of the sample run, whose scenarios saw two GPU nodes."""
    found = record.fold(run / record.JOURNAL)
    for each in found["scenarios"]:
        each["seen"] = {"uid": "c-1", "nodes": {"gpu-0": NODE, "gpu-1": {**NODE, "gpu_uuids": ["GPU-2"]}},
                        "tried_on": ["gpu-0", "cpu-0"]}  # fmt: skip
    found["cluster"].update(identity.together(found["scenarios"]))
    return found


def test_scenarios_tell_one_cluster_together():
    """What a later one saw counts; GPUs add up; a state that is over is not kept."""
    first = {
        "seen": {"nodes": {"a": {**NODE, "state": "NotReady", "uid": "u"}}, "versions": {"volcano": "1"}}
    }
    other = {"seen": {"uid": "c", "nodes": {"a": {**NODE, "driver": "580", "gpu_uuids": ["GPU-9"]}}}}
    found = identity.together([first, other, {}, {"seen": None}])
    assert found == {
        "uid": "c",
        "components": {"volcano": "1"},
        "machines": {"a": {**NODE, "uid": "u", "driver": "580", "gpu_uuids": ["GPU-1", "GPU-9"]}},
    }
    assert identity.together([]) == {}


def test_rows_about_machines_tell_where_they_were_tried(report):
    """By the scenario's pods; a node without GPUs is none; rows of other areas are left out."""
    nodes, tried = page.coverage(report)
    assert nodes == ("gpu-0", "gpu-1")
    assert {one.row: (one.nodes, one.missed) for one in tried} == {"FAB-006": (("gpu-0",), ("gpu-1",))}


def test_a_row_that_reads_nodes_was_tried_on_all_that_it_saw(report):
    """It needs no pod on them."""
    row = next(row for row in report["requirements"] if row["id"] == "FAB-006")
    row.update(id="INV-002", area="inventory")
    assert identity.coverage(report)["INV-002"] == ["gpu-0", "gpu-1"]


@pytest.mark.parametrize(("nodes", "said"), [(2, ">tried</td>"), (40, ">1 of 40</td>")])
def test_the_matrix_becomes_a_list_for_many_nodes(report, nodes, said):
    """A thousand columns are no table; who was missed is named as far as there is room."""
    report["cluster"]["machines"] = {f"gpu-{number}": NODE for number in range(nodes)}
    told = html.render(report)
    assert said in told
    assert ("and 19 more" in told) == (nodes == 40)


def test_what_has_no_target_asks_the_operator(report):
    """A clean measurement that nobody declared a bound for; not one with a bound, nor one that was not taken."""
    (one,) = page.operator_input(report)
    assert (one.row, one.figures) == ("GANG-007", ("start spread: 0.42 s (no limit declared)",))
    row = next(row for row in report["requirements"] if row["id"] == "GANG-007")
    for change in ({"bound": 1.0}, {"value": None}):
        row["finding"]["numbers"] = [{**row["finding"]["numbers"][0], **change}]
        assert page.operator_input(report) == []


def test_red_rows_come_first(report):
    """In each area, and in its count."""
    told = html.render(report)
    gang = told[told.index('id="area-gang"') :]
    assert gang.index('id="GANG-002"') < gang.index('id="GANG-001"') < gang.index('id="GANG-007"')
    assert "1 violation, 1 pass, 1 not applicable" in told


def test_each_cause_is_told_once_with_its_fix(report):
    """Above all rows, with links to them."""
    told = html.render(report)
    mend = told[told.index('id="mend"') : told.index('id="identity"')]
    assert mend.count("the pods were placed by the default scheduler") == 1
    assert '<a href="#GANG-002">GANG-002</a>' in mend


def test_next_steps_are_commands(report):
    """Red rows again, floors for what has no target, verify, and the gate."""
    commands = [command for _, command in page.next_steps(report)]
    name = report["cluster"]["name"]
    assert commands == [
        f"pytest --cluster={name} -k 'GANG-002 or REF-002 or PLG-003 or FAB-006'",
        "gpucluster floors .",
        "gpucluster verify .",
        f"gpucluster gate . --policy acceptance --for {name}",
    ]


def test_a_thousand_nodes_are_a_page_of_less_than_five_megabytes(report):
    """As the largest clusters are."""
    report["cluster"]["machines"] = {
        f"gpu-{number:04}": {
            **NODE,
            "gpu_uuids": [f"GPU-{number:04}-{gpu}-5d3f-4e29-9f0a-c0ffee000000" for gpu in range(8)],
        }
        for number in range(1000)
    }
    assert len(html.render(report).encode()) < 5_000_000
