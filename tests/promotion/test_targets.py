"""Which queue is meant: by the profile, by what there is, and in one line if it is not clear."""

import types

import pytest

from pytest_gpucluster.kube import errors
from pytest_gpucluster.promotion import records, targets

from .conftest import make_cluster_queue, make_queue


def profile(**more):
    """Return what of a profile says which queues there are."""
    known = {
        "name": "prod",
        "scheduler": "volcano",
        "further_schedulers": (),
        "kueue": None,
        "queue": "training",
    }
    return types.SimpleNamespace(**{**known, **more})


def kueue(cluster_queue=None):
    """Return what a profile says of Kueue."""
    return types.SimpleNamespace(cluster_queue=cluster_queue)


def test_the_scheduler_that_is_declared_decides(raw, api, name):
    """Of two queues of one name the other one is not looked at."""
    make_queue(raw, name)
    make_cluster_queue(raw, name)
    assert targets.find(api, name, profile()).kind == "Queue"
    assert targets.find(api, name, profile(scheduler="kueue", kueue=kueue())).kind == "ClusterQueue"
    assert targets.find(api, f"clusterqueue/{name}", profile()).kind == "ClusterQueue"


def test_where_both_are_declared_what_the_profile_names_decides(raw, api, name):
    """The queue of training, or the ClusterQueue that it names; of two equals nobody guesses."""
    make_queue(raw, name)
    make_cluster_queue(raw, name)
    both = profile(kueue=kueue())
    with pytest.raises(targets.NotFoundError, match=f"say queue/{name} or clusterqueue/{name}"):
        targets.find(api, name, both)
    assert targets.find(api, name, profile(kueue=kueue(), queue=name)).kind == "Queue"
    assert targets.find(api, name, profile(kueue=kueue(name))).kind == "ClusterQueue"
    with pytest.raises(targets.NotFoundError, match="say queue/"):
        targets.find(api, name, profile(kueue=kueue(name), queue=name))
    assert targets.find(api, f"Queue/{name}", profile(kueue=kueue(name), queue=name)).kind == "Queue"


@pytest.mark.parametrize(
    ("more", "meant"),
    [
        ({"scheduler": "kueue", "further_schedulers": ("volcano",), "kueue": kueue()}, "ClusterQueue"),
        ({"scheduler": "kueue", "further_schedulers": ("volcano",), "kueue": kueue("other")}, ""),
        ({"scheduler": "volcano", "kueue": kueue("other")}, "Queue"),
        ({"scheduler": "volcano", "kueue": kueue()}, "Queue"),
    ],
)
def test_a_name_of_both_kinds_is_the_one_that_training_goes_through(raw, api, name, more, meant):
    """Under Kueue a queue that is not declared otherwise is a ClusterQueue; a name that nobody declared is asked."""
    make_queue(raw, name)
    make_cluster_queue(raw, name)
    declares = profile(queue=name, **more)
    if meant:
        assert targets.find(api, name, declares).kind == meant
    else:
        with pytest.raises(targets.NotFoundError, match=f"say queue/{name} or clusterqueue/{name}"):
            targets.find(api, name, declares)


def test_where_one_is_there_it_is_meant(raw, api, name):
    """Both schedulers are declared, one has a queue of that name."""
    make_cluster_queue(raw, name)
    assert targets.find(api, name, profile(kueue=kueue())).kind == "ClusterQueue"


@pytest.mark.parametrize(
    ("word", "more", "line"),
    [
        ("trainin", {}, "there is no Queue 'trainin'"),
        ("trainin", {"kueue": kueue()}, "there is no Queue and no ClusterQueue 'trainin'"),
        ("cluster/x", {}, "'cluster' is no kind of queue; did you mean 'clusterqueue'?"),
        ("queue/", {}, "the name of the queue is empty"),
        ("x", {"scheduler": "native"}, "declares no scheduler with queues .scheduler native, no `kueue`"),
    ],
)
def test_a_mistake_is_one_line(api, word, more, line):
    """What, where and what there is instead."""
    with pytest.raises(targets.NotFoundError, match=line) as caught:
        targets.find(api, word, profile(**more))
    assert "\n" not in str(caught.value)


def test_the_nearest_name_is_told(raw, api, name):
    """Of the queues that there are."""
    make_queue(raw, f"training-{name}", closed=False)
    with pytest.raises(targets.NotFoundError, match=f"did you mean 'training-{name}'"):
        targets.find(api, f"trainin-{name}", profile())


def answering(api, monkeypatch, code, reason):
    """Let every request for a queue be answered so."""

    def call(ask):
        raise errors.ApiError(code, reason, "as it is", request=ask.about)

    monkeypatch.setattr(api.connection, "call", call)


def test_a_kueue_without_its_kinds_is_one_line(api, monkeypatch):
    """The API does not serve them: is it installed?"""
    answering(api, monkeypatch, 404, "NotFound")
    with pytest.raises(
        targets.NotFoundError, match=r"the API serves no ClusterQueue \(is Kueue installed\?\)"
    ):
        targets.find(api, "x", profile(scheduler="kueue", kueue=kueue()))


def test_a_queue_that_may_not_be_read_is_no_missing_queue(api, monkeypatch):
    """403 says what to grant, and nothing is opened."""
    answering(api, monkeypatch, 403, "Forbidden")
    with pytest.raises(targets.Refused, match=r"Queue/x cannot be read: .*403.*grant it"):
        targets.find(api, "x", profile())


@pytest.mark.parametrize(
    ("environment", "who"),
    [
        (
            {"GITHUB_ACTOR": "ann", "GITHUB_REPOSITORY": "a/b", "GITHUB_RUN_ID": "7"},
            "ann, GitHub run a/b/actions/runs/7",
        ),
        ({"GITLAB_USER_LOGIN": "bob", "CI_JOB_URL": "https://g/1"}, "bob, GitLab job https://g/1"),
    ],
)
def test_a_pipeline_is_named_as_the_promoter(environment, who):
    """With what leads to its log."""
    assert records.promoter(environment) == who


def test_a_person_is_named_with_the_machine():
    """Outside of a pipeline."""
    assert " on " in records.promoter({})
