"""What a scenario does to what controllers made: removing and evicting pods, commands to Jobs."""

import json

import pytest

from pytest_gpucluster.kube import errors

JOB = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "metadata": {"name": "g"},
    "spec": {"tasks": [{"name": "w", "template": {"spec": {"containers": []}}}]},
}
POD = {"metadata": {"name": "g-w-0", "uid": "u-1"}}


def answers(theatre):
    """Return the recorded answers of the API server."""
    return [json.loads(entry.text) for entry in theatre.log.entries() if entry.type == "RESPONSE"]


def test_a_pod_is_removed_by_uid_and_noted_first(theatre):
    """The note of a removal comes before the request, which names this very pod."""
    theatre.stage.remove_pod(POD)
    assert theatre.api.asked == [("delete", "Pod", "g-w-0")]
    assert theatre.notes() == [
        {"t": 0.0, "note": "deleted-by-us", "kind": "Pod", "name": "g-w-0", "uid": "u-1"}
    ]


def test_an_eviction_is_asked_for_and_recorded(theatre):
    """An eviction that is taken is noted, and its answer kept under its case."""
    assert theatre.stage.evict(POD)
    assert theatre.api.asked == [("evict", "Pod", "g-w-0")]
    assert [note["note"] for note in theatre.notes()] == ["evicted-by-us"]
    assert [(line["case"], line["code"]) for line in answers(theatre)] == [("evict", 201)]


@pytest.mark.parametrize(("code", "reason"), [(403, "Forbidden"), (429, "TooManyRequests")])
def test_a_refused_eviction_is_an_answer(theatre, code, reason):
    """A refusal, by permission or by a disruption budget, does not end the scenario: one row stands on it."""
    theatre.api.answer = errors.ApiError(code, reason, "no", body={"code": code})
    assert not theatre.stage.evict(POD)
    assert [(line["case"], line["code"]) for line in answers(theatre)] == [("evict", code)]


def test_an_api_server_in_trouble_ends_the_scenario(theatre):
    """A 500 is no answer to a question about evictions."""
    theatre.api.answer = errors.ApiError(500, "InternalError", "etcd")
    with pytest.raises(errors.EnvironmentProblem):
        theatre.stage.evict(POD)


def test_a_command_belongs_to_its_job(theatre):
    """A command names the Job as its target and its owner, so that it never outlives it."""
    job = theatre.stage.submit(JOB, role="suspended")
    assert theatre.stage.command(job, "AbortJob")
    made = theatre.api.created[-1]
    assert (made["kind"], made["action"], made["metadata"]["name"]) == ("Command", "AbortJob", "g-abortjob")
    assert made["target"]["uid"] == job.uid == made["metadata"]["ownerReferences"][0]["uid"]
    assert theatre.notes()[-1] == {
        "t": 0.0,
        "note": "commanded",
        "action": "AbortJob",
        "kind": "Job.batch.volcano.sh",
        "name": "g",
        "uid": job.uid,
    }


def test_a_refused_command_is_an_answer(theatre):
    """Without permission for commands the scenario goes on."""
    job = theatre.stage.submit(JOB)
    theatre.api.answer = errors.ApiError(403, "Forbidden", "no")
    assert not theatre.stage.command(job, "AbortJob")
    assert answers(theatre)[-1]["case"] == "command"


def test_a_node_is_restarted_where_the_provider_can(theatre, monkeypatch):
    """The note comes first; without power over the machines the row is not applicable, a failure is trouble."""
    from pytest_gpucluster.provider import ProviderError, power
    from pytest_gpucluster.scenario import NotApplicable

    cluster = theatre.site.cluster
    with pytest.raises(NotApplicable, match="cannot be restarted"):
        theatre.stage.reboot("n1")
    assert theatre.notes() == []
    cluster.features = frozenset({"reboot"})
    cluster.facts = power.by_command("true", "{node}")
    asked = []
    monkeypatch.setattr(power, "reboot", lambda facts, node: asked.append((facts, node)))
    theatre.stage.reboot("n1")
    assert asked == [(cluster.facts, "n1")]
    assert [(note["note"], note["node"]) for note in theatre.notes()] == [("rebooted-by-us", "n1")]

    def fail(facts, node):
        raise ProviderError(f"{node} does not answer")

    monkeypatch.setattr(power, "reboot", fail)
    with pytest.raises(errors.EnvironmentProblem, match="n1 does not answer"):
        theatre.stage.reboot("n1")
