"""The section `workload` of a profile."""

import pytest

from pytest_gpucluster import profile
from pytest_gpucluster.plain import workload_kinds
from pytest_gpucluster.profile import keys
from pytest_gpucluster.workload import dialect


def test_without_a_word_gangs_are_the_schedulers_own_jobs():
    """Nothing changes for profiles that say nothing of it."""
    assert profile.load("embedded").profile.workload.kind == workload_kinds.JOB


def test_the_profile_knows_the_kinds_that_are_written():
    """What a profile may declare is what there is a way to write."""
    assert keys.values(("workload", "kind")) == workload_kinds.NAMES
    assert set(dialect.WORKLOADS) == set(workload_kinds.NAMES)
    assert set(workload_kinds.SCHEDULERS) == set(workload_kinds.NAMES)


def test_further_kinds_that_nobody_declared_leave_out_the_one_that_was():
    """Whoever names another workload kind for a built-in cluster has said all that there is to say."""
    declared = profile.load("embedded", cli=["workload.kind=jobset"]).profile.workload
    assert (declared.kind, declared.further) == ("jobset", ())


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (["workload.kind=jobsets"], "workload.kind = 'jobsets': is not known; did you mean 'jobset'"),
        (
            ["workload.kind=jobset", "workload.further=[jobset]"],
            "must name another workload kind than `kind`",
        ),
        (["workload.further=[jobset, jobset]"], "must name another workload kind than an earlier entry"),
        (["workload.further=[job]"], "is not known"),
        (["workload.kinds=job"], "unknown key"),
    ],
)
def test_mistakes_are_one_line(wanted, said):
    """A kind that is not known, named twice, or under another key."""
    with pytest.raises(profile.ProfileError) as caught:
        profile.load("embedded", cli=wanted)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_combination_that_nobody_wrote_is_one_line():
    """The line names the schedulers that the kind is written for."""
    with pytest.raises(profile.ProfileError) as caught:
        profile.load("embedded", cli=["workload.kind=jobset", "scheduler=kueue"])
    assert "workload.kind" in str(caught.value)
    said = (
        "cannot be written for `scheduler: kueue` (jobset is written for: volcano, native, default-scheduler)"
    )
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
