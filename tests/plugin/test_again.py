"""The command that runs rows again: what it carries from the run, and how it is quoted."""

import shlex
from pathlib import Path

import pytest

from pytest_gpucluster import profile
from pytest_gpucluster.hooks import again
from pytest_gpucluster.hooks.settings import Settings


def told(**changes):
    """Return the settings of a run, with where they come from."""
    plain = {
        "cluster": "embedded", "profiles": (), "overrides": {"ini": (), "option": ()}, "plan": False, "defects": (),
        "keep": False, "reuse": None, "report_dir": Path("reports"), "max_gpu_seconds": None, "gate": False, "kind": {},
        "policy": None, "max_nodes": None, "deadline": None, "yes": False,
        "sources": {}, "rootdir": Path("/"),
    }  # fmt: skip
    return Settings(**{**plain, **changes})


def test_it_has_the_cluster_and_what_was_laid_over_it():
    """What the environment or an ini file says is said again by itself; a default needs no words."""
    assert again.options(told(), "embedded") == []
    run = told(
        cluster="prod-a",
        profiles=(Path("/my profiles"),),
        overrides={"ini": ("window=7",), "option": ("overlay={spec: {a: b}}",)},
        defects=("gang.forgets-room",),
        kind={"kind_image": "node:1"},
        sources={"cluster": "option --cluster", "profiles": "option --gpucluster-profiles",
                 "kind_image": "option --gpucluster-kind-image"},
    )  # fmt: skip
    options = again.options(run, "prod-a")
    assert options == [
        "--cluster=prod-a", "--gpucluster-profiles=/my profiles", "--gpucluster-set=overlay={spec: {a: b}}",
        "--gpucluster-kind-image=node:1", "--gpucluster-defect=gang.forgets-room",
    ]  # fmt: skip
    command = again.command(["GANG-002", "REF-001"], ["suites"], options, [])
    assert shlex.split(command) == ["pytest", "suites", "-k", "GANG-002 or REF-001", *options]
    assert "'GANG-002 or REF-001'" in command
    by_variable = told(cluster="prod-a", sources={"cluster": "environment GPUCLUSTER_CLUSTER"})
    assert again.options(by_variable, "prod-a") == ["--cluster=prod-a"]


@pytest.mark.parametrize(
    "reuse", [["--gpucluster-reuse", "reports/latest"], ["--gpucluster-reuse=reports/latest"], []]
)
def test_of_many_rows_the_run_itself_is_repeated(reuse):
    """As it was called; what judges earlier evidence again would come to the same."""
    rows = [f"GANG-{n:03}" for n in range(again.FEW + 1)]
    command = again.command(rows, ["suites"], [], [*reuse, "-m", "gang and must", "--cluster=prod-a"])
    assert command == "pytest -m 'gang and must' --cluster=prod-a"


def test_after_the_run_of_a_cluster_of_its_own_nothing_is_found(tmp_path):
    """On one that stays, what bears the run's id is gone, and what was in a namespace that was lent."""
    run = Path("reports/20260101T000000Z-prod-a-9f3e21")
    assert again.gone(profile.load("embedded"), run, kept=False) == ("*",)
    assert again.kubectl(profile.load("embedded")) == []
    keys = (
        "connection: {kubeconfig: /my/k, context: a}",
        "scheduler: native",
        "queue: q",
        "gpu_resource: a/b",
    )
    (tmp_path / "prod-a.yaml").write_text("\n".join((*keys, "gpus_per_node: 1")), encoding="utf-8")
    there = profile.load("prod-a", [tmp_path])
    assert again.gone(there, run, kept=False) == ("9f3e21",)
    assert again.gone(there, run, kept=True) == ()
    assert again.kubectl(there) == ["--kubeconfig=/my/k", "--context=a"]
    lent = profile.load("prod-a", [tmp_path], cli=["namespace=ml"])
    assert again.gone(lent, run, kept=False) == ("9f3e21", "-n ml ")
    usual = profile.load("prod-a", [tmp_path], cli=["connection.kubeconfig=~/.kube/config"])
    assert again.kubectl(usual) == ["--context=a"]
