"""What the page tells beside its rows."""

import importlib
import shlex

import pytest

from pytest_gpucluster import profile
from pytest_gpucluster.report import coverage, decisions, html, identity, operator_input, page, record
from tests.defects import matrix
from tests.report import large

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
    matrix = coverage.matrix(report)
    assert [each.name for each in matrix.columns] == ["gpu-0", "gpu-1"]
    (row,) = matrix.rows
    assert (row.id, [cell.tried for cell in row.cells], row.missed) == ("FAB-006", [1, 0], "gpu-1")
    assert not matrix.by_pool


def test_a_row_that_reads_nodes_was_tried_on_all_that_it_saw(report):
    """It needs no pod on them."""
    row = next(row for row in report["requirements"] if row["id"] == "FAB-006")
    row.update(id="INV-002", area="inventory")
    assert identity.coverage(report)["INV-002"] == ["gpu-0", "gpu-1"]


def test_many_nodes_are_shown_by_pool(report):
    """A thousand columns are no table; who was missed is named as far as there is room."""
    report = large.grown(report, 1000)
    matrix = coverage.matrix(report)
    assert [(each.name, len(each.nodes)) for each in matrix.columns] == [
        ("pool-a", 334), ("pool-b", 333), ("pool-c", 333),
    ]  # fmt: skip
    row = next(row for row in matrix.rows if row.id == "FAB-006")
    assert [(cell.tried, cell.of) for cell in row.cells] == [(167, 334), (166, 333), (167, 333)]
    assert row.missed.endswith(" and 495 more")
    page_text = html.render(report)
    assert ">167 of 334</td>" in page_text
    assert "<summary>1000 GPU nodes</summary>" in page_text


def test_nodes_without_a_pool_and_very_many_pools_have_columns(report):
    """Nothing is left out of the sums."""
    report["cluster"]["machines"] = {
        f"n{number}": {**NODE, **({"pool": f"p{number:02}"} if number else {})} for number in range(40)
    }
    matrix = coverage.matrix(report)
    assert len(matrix.columns) == coverage.COLUMNS
    assert sum(len(each.nodes) for each in matrix.columns) == 40
    assert matrix.columns[0] == coverage.Column(coverage.NO_POOL, ("n0",))
    assert matrix.columns[-1].name == "29 further pools"


def test_what_has_no_target_asks_the_operator(report):
    """A clean measurement that nobody declared a bound for; not one with a bound, nor one that was not taken."""
    (one,) = [each for each in operator_input.wanted(report) if each.row == "GANG-007"]
    assert (one.measured, one.declare) == ("start spread: 0.42 s", "start_spread: ...")
    row = next(row for row in report["requirements"] if row["id"] == "GANG-007")
    for change in ({"bound": 1.0}, {"value": None}):
        row["finding"]["numbers"] = [{**row["finding"]["numbers"][0], **change}]
        assert not [each for each in operator_input.wanted(report) if each.row == "GANG-007"]


@pytest.mark.parametrize("row_id", ["MFU-001", "MFU-002", "FAB-006", "GANG-007", "GANG-010"])
def test_what_is_to_be_declared_is_a_part_of_a_profile(row_id):
    """In the shape in which it was measured: with the dots filled in, a profile takes it, and then nothing is asked."""
    declared = next(row for row in matrix.rows() if row.id == row_id)
    finding = decisions.decide(declared, matrix.evidence(declared.scenario.name)).as_dict()
    finding["numbers"] = [{**one, "bound": None, "floor": False} for one in finding["numbers"]]
    for each in finding["facts"].get("bandwidth") or ():
        each.pop("floor", None)
    row = {"id": row_id, "verdict": "pass", "finding": finding}
    wanted = operator_input.wanted({"requirements": [row]})
    assert wanted
    for one in wanted:
        if one.declare:
            key, _, rest = one.declare.partition(":")
            text = rest.strip().replace("origin: ...", "origin: offer").replace("...", "0.5")
            loaded = profile.load("embedded", env={}, cli=[f"{key}={text}"])
            assert loaded.profile.model_dump(exclude_defaults=True)[key]


def test_figures_that_are_no_clean_measurement_ask_nobody(report):
    """Of CPUs, and of rows that are red."""
    row = next(row for row in report["requirements"] if row["id"] == "GANG-007")
    row["finding"]["observed"] = "the ranks computed on CPUs; no bound is declared"
    assert not [each for each in operator_input.wanted(report) if each.row == "GANG-007"]
    row["finding"]["observed"], row["verdict"] = "no bound is declared", "inconclusive"
    assert not [each for each in operator_input.wanted(report) if each.row == "GANG-007"]


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


@pytest.fixture
def unjudged(report):
    """Give the report with a training that nobody declared a floor for."""
    row = next(row for row in report["requirements"] if row["id"] == "GANG-007")
    figure = {"name": "model FLOPs utilisation", "value": 0.5, "unit": "", "bound": None, "origin": ""}
    finding = {**row["finding"], "numbers": [figure]}
    report["requirements"].append({**row, "id": "MFU-002", "area": "mfu", "finding": finding})
    return report


def test_floors_are_proposed_only_where_the_command_has_some(report):
    """A spread of starts has no target either, but `gpucluster floors` knows nothing of it."""
    assert operator_input.wanted(report)
    assert not [command for _, command in page.next_steps(report) if command.startswith("gpucluster floors")]


def test_next_steps_are_commands(unjudged):
    """Red rows again as they were run, floors for what has no target, verify, and the gate."""
    report = unjudged
    report["run"]["command"] = [
        "pytest",
        "suites",
        "--cluster=prod-a",
        "-k",
        "GANG",
        "-mmust",
        "--gpucluster-set=a=1",
    ]
    commands = [command for _, command in page.next_steps(report)]
    assert commands == [
        "pytest suites --cluster=prod-a --gpucluster-set=a=1 -k 'GANG-002 or REF-002 or PLG-003 or FAB-006'",
        "gpucluster floors --from report.json",
        "gpucluster verify .",
        f"gpucluster gate . --policy acceptance --for {report['cluster']['name']}",
    ]


def test_commands_of_the_page_are_understood(run, unjudged, monkeypatch):
    """By the program itself: each of ours is carried out in the folder of the run, and is no usage error."""
    monkeypatch.chdir(run)
    own = [
        shlex.split(command) for _, command in page.next_steps(unjudged) if command.startswith("gpucluster ")
    ]
    assert [words[1] for words in own] == ["floors", "verify", "gate"]
    for _, name, *arguments in own:
        importlib.import_module(f"pytest_gpucluster.cli.{name}").parser().parse_args(arguments)


def test_equal_declarations_have_equal_digests(report):
    """Whatever the order of their keys; another value, another digest."""
    digest = page.profile_digest(report)
    values = report["profile"]["values"]
    assert page.profile_digest({"profile": {"values": dict(reversed(values.items()))}}) == digest
    assert page.profile_digest({"profile": {"values": {**values, "window": 99}}}) != digest


@pytest.mark.parametrize("until", ["2026-12-05T09:30:00Z", None])
def test_the_first_screen_says_until_when(report, until):
    """By the policy; without one it says of when the evidence is, and promises nothing."""
    report["decision"] = None if until is None else {"until": until}
    assert page.until(report) == (until or "", report["run"]["ended"])


def test_a_thousand_nodes_are_a_page_of_less_than_five_megabytes(report):
    """As the largest clusters are, with every row of the catalogue decided and every GPU's figures."""
    grown = large.grown(report, 1000)
    assert len(grown["requirements"]) >= 132
    assert len(html.render(grown).encode()) < 5_000_000
