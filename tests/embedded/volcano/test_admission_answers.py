"""Refusals and acceptances of Volcano's admission, to the letter of the recorded answers."""

import re

import pytest

from pytest_gpucluster.embedded.cluster import build
from pytest_gpucluster.embedded.errors import ApiError
from pytest_gpucluster.embedded.events import Recorder
from pytest_gpucluster.embedded.volcano.scheduler.grudges import Grudges
from pytest_gpucluster.embedded.volcano.scheduler.session import Session
from pytest_gpucluster.embedded.volcano.scheduler.settings import Configuration
from pytest_gpucluster.embedded.volcano.schema import prune_job
from pytest_gpucluster.plain.copies import clone
from pytest_gpucluster.plain.names import kind_key_of
from tests.embedded.volcano.replay import Recording
from tests.embedded.volcano.virtual_time import run_virtually

RECORDING = Recording("d-refusals")
MANIFEST = {d["metadata"]["name"]: d for d in RECORDING.manifest()}
ANSWERS = {a["case"]: a for a in RECORDING.responses() if "case" in a}
CREATED = sorted(name for name in ANSWERS if name in MANIFEST)
NAMESPACE = "case-d-refusals"
LISTS = re.compile(r"valid events are \[[^]]*\], valid actions are \[[^]]*\]")


def shown(message):
    """Return a message without the lists whose order changes from call to call."""
    return LISTS.sub("valid events and actions are listed", message or "")


async def cluster(*defects):
    """Return a runtime with the queue of the recording closed."""
    runtime = build({"defects": [*defects, "scheduler.down", "controllers.down"]})
    store = runtime.store
    store.create("Namespace", {"metadata": {"name": NAMESPACE}})
    store.create("Queue", clone(MANIFEST["closed-q"]))
    for name, state in (("default", "Open"), ("closed-q", "Closed")):
        store.mutate(
            "Queue", None, name, lambda q, s=state: q.update(status={"state": s}), subresource="status"
        )
    return runtime


def answer(action, *defects):
    """Return code, reason, message, details and stored object of something done to the store."""

    async def run():
        runtime = await cluster(*defects)
        try:
            made = action(runtime.store)
        except ApiError as error:
            return error.code, error.reason or None, error.message, error.details or None, None
        else:
            return 200, None, None, None, made
        finally:
            await runtime.stop()

    return run_virtually(run())


def create(name):
    """Return an action that creates an object of the manifest as the HTTP API would."""
    doc = clone(MANIFEST[name])

    def act(store):
        if doc["kind"] == "Job":
            prune_job(doc)
        return store.create(kind_key_of(doc), doc)

    return act


@pytest.mark.parametrize("name", CREATED)
def test_creations_are_answered_as_recorded(name):
    """Each recorded creation is refused with the same code, reason and text, or accepted with the same spec."""
    recorded = ANSWERS[name]
    code, reason, message, details, made = answer(create(name))
    if recorded["code"] == 201:
        assert made is not None, message
        assert made["spec"] == recorded["accepted_spec"]
        return
    status = recorded["status"]
    assert (code, reason) == (recorded["code"], status["reason"])
    assert shown(message) == shown(status["message"])
    assert details == status["details"]


def update(**changes):
    """Return an action that creates a Job and changes its spec."""

    def act(store):
        made = create("update-me")(store)
        made["spec"].update(changes)
        return store.update("Job.batch.volcano.sh", made)

    return act


def queue(name, **spec):
    """Return an action that creates a queue."""
    return lambda store: store.create("Queue", {"metadata": {"name": name}, "spec": spec})


OTHERS = {
    "update-queue": update(queue="other"),
    "update-min-available-too-big": update(minAvailable=99),
    "update-max-retry": update(maxRetry=7),
    "update-min-available-ok": update(minAvailable=1),
    "queue-weight-zero": queue("qw", weight=0),
    "queue-guarantee-above-capability": queue(
        "qg", guarantee={"resource": {"nvidia.com/gpu": "4"}}, capability={"nvidia.com/gpu": "2"}
    ),
    "queue-unknown-parent": queue("qp", parent="nosuch"),
    "delete-queue-default": lambda store: store.delete("Queue", None, "default"),
    "delete-queue-root": lambda store: store.delete("Queue", None, "root"),
}


@pytest.mark.parametrize("case", sorted(OTHERS))
def test_other_requests_are_answered_as_recorded(case):
    """Updates of Jobs and requests about queues get the recorded code and text."""
    recorded = ANSWERS[case]
    code, reason, message, _, _ = answer(OTHERS[case])
    if recorded["code"] in (200, 201):
        assert code == 200, message
        return
    assert (code, reason, message) == (recorded["code"], None, recorded["status"]["message"])


def test_every_recorded_answer_is_compared():
    """No recorded case is left out."""
    assert set(ANSWERS) == set(CREATED) | set(OTHERS)


def test_without_admission_only_the_schema_refuses():
    """With the defect admission.down a Job gets the schema's defaults only and no check of the webhook."""
    assert answer(create("min-above-replicas"), "admission.down")[0] == 200
    bare = answer(create("missing-scheduler-name"), "admission.down")[-1]
    assert "schedulerName" not in bare["spec"]
    assert bare["spec"]["maxRetry"] == 3
    assert "minAvailable" not in bare["spec"]["tasks"][0]
    assert answer(create("no-tasks"), "admission.down")[0] == 422


def test_duplicate_tasks_pass_only_with_the_defect():
    """The defect admission.accepts-duplicate-tasks takes away this one check and no other."""
    assert answer(create("duplicate-task"))[0] == 400
    assert answer(create("duplicate-task"), "admission.accepts-duplicate-tasks")[0] == 200
    assert answer(create("unknown-queue"), "admission.accepts-duplicate-tasks")[0] == 400


def test_a_gang_of_a_queue_that_does_not_exist_is_ignored():
    """Where admission let it in, or its queue was deleted since, the scheduler does not see the gang, nor trips."""

    async def play():
        runtime = build({"defects": ["scheduler.down", "controllers.down"]})
        runtime.store.create("Namespace", {"metadata": {"name": NAMESPACE}})
        for queue in ("default", "gone"):
            spec = {"minMember": 1, "queue": queue, "minResources": {"cpu": "1"}}
            meta = {"name": f"of-{queue}", "namespace": NAMESPACE}
            runtime.store.create("PodGroup", {"metadata": meta, "spec": spec})
        recorder = Recorder(runtime.store, "volcano", legacy=True)
        settings = Configuration(runtime.store).now()
        session = Session(runtime.store, recorder, runtime.has, Grudges(runtime.has), settings)
        session.run()
        return [gang.name for gang in session.seen.gangs]

    assert run_virtually(play()) == ["of-default"]
