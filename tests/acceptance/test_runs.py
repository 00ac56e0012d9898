"""Recorded runs as a gate reads them: what their evidence says of itself outweighs what the record says."""

import dataclasses
import functools
import shutil

import pytest

from pytest_gpucluster.acceptance import runs
from pytest_gpucluster.report import verify, write
from tests.acceptance.toy import attempt, decide, run, wants
from tests.report import sample

NAME = "20261128-093000-ab12"
LINES = sample.evidence_lines


def read(folder):
    """Read a run of the sample suite."""
    return runs.read(folder, sample.make_suite().registry)


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Give what makes a sealed run whose evidence says this of itself."""

    def make(name="run", **source):
        def lines(scenario, *, partial=False):
            header, *rest = LINES(scenario, partial=partial)
            return [{**header, "source": source}, *rest]

        monkeypatch.setattr(sample, "evidence_lines", lines)
        folder = tmp_path / name
        sample.make_run(folder)
        write.write_all(folder)
        return folder

    return make


def test_a_run_is_read(made):
    """Its rows, and what speaks against it."""
    found = read(made(run=NAME))
    assert (found.id, found.planted) == (NAME, ())
    assert [line.partition(":")[0] for line in found.distrust] == ["the run left something on the cluster"]
    assert found.attempts


def test_evidence_of_a_cluster_that_is_wrong_on_purpose_says_so_whatever_the_record_says(made):
    """A record that names no planted defect does not hold: nothing of it counts."""
    folder = made(run=NAME, defects=["gang.binds-partially"])
    (line,) = {
        each.partition(": ")[2]
        for each in verify.verify(folder, registry=sample.make_suite().registry).problems
    }
    assert line == "was taken with planted defects of which the record does not tell: gang.binds-partially"
    with pytest.raises(runs.RunError, match=r"planted defects .*gang\.binds-partially") as caught:
        read(folder)
    assert caught.value.status == verify.TAMPERED


def test_evidence_of_another_run_is_no_evidence_of_this_one(made):
    """Its passes do not count, and it is named."""
    found = read(made(run="20261127-000000-ffff"))
    assert "evidence of another run: 20261127-000000-ffff" in found.distrust[-1]


def test_a_copy_of_a_run_counts_once(made, tmp_path):
    """However often it is named."""
    folder = made(run=NAME)
    copy = shutil.copytree(folder, tmp_path / "copy")
    (found,) = runs.each_once([read(folder), read(copy)])
    assert found.folder == folder


def test_two_runs_of_one_name_that_differ_are_refused(made):
    """One of them is not what was run; which one, nobody can tell."""
    found = [read(made("one", run=NAME)), read(made("other", run=NAME, worker="gw1"))]
    with pytest.raises(
        runs.RunError, match=rf"one and .*other are both the run {NAME}, and differ"
    ) as caught:
        runs.each_once(found)
    assert caught.value.status == verify.TAMPERED


@pytest.mark.parametrize("end", ["and 4 more", "and 4 others"])
@pytest.mark.parametrize("place", ["observed", "where"])
def test_a_list_that_was_cut_names_every_node(place, end):
    """A node that is not named because the list was too long has failed, too, until it passes."""
    nodes = [f"gpu-{number}" for number in range(8)]
    told = {"observed": "slow: gpu-0, gpu-1", "where": ["Node/gpu-2"]}
    whole = {**told, "where": ["Node/gpu-2"]}
    assert runs._red(whole, nodes) == {"gpu-0", "gpu-1", "gpu-2"}
    cut = {**told, place: f"{told[place]} {end}" if place == "observed" else [*told[place], end]}
    assert runs._red(cut, nodes) == {*nodes}


def test_a_failure_whose_list_was_cut_is_not_cleared_by_the_nodes_it_names():
    """All of them must pass."""
    nodes = ("gpu-0", "gpu-1", "gpu-2")
    red = functools.partial(runs._red, {"observed": "slow: gpu-0 and 2 more", "where": ()})
    bad = dataclasses.replace(attempt("FAB-003", "fail"), red=red(nodes))
    early = dataclasses.replace(bad, at=bad.at.replace(hour=1))
    good = attempt("FAB-003", nodes=["gpu-0"])
    assert not decide([run("bad", early), run("good", good)], wants("FAB-003")).open
