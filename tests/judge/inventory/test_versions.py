"""INV-006, INV-009, INV-010: versions, the scheduler's configuration, and defaults of a Job."""

import pytest

from pytest_gpucluster.judge.inventory import job_defaults, scheduler_config, versions
from tests import recordings
from tests.judge.inventory.cluster import decide, evidence, node

# -- INV-006 ---------------------------------------------------------------------------------------------------------


def deployment(image, name="volcano-scheduler", **labels):
    """Return a Deployment."""
    spec = {"containers": [{"name": "c", "image": image}]}
    return {"metadata": {"name": name, "labels": labels}, "spec": {"template": {"spec": spec}}}


def versions_of(*images, told=None, code=200, labels=None):
    """Return the finding of INV-006."""
    items = [deployment(image, **(labels or {})) for image in images]
    found = [
        ("read:version", 200, {"object": {"gitVersion": "v1.34.2+k3s1"}}),
        (
            "read:deployments:volcano-system",
            code,
            {"items": items} if code == 200 else {"status": {"message": "no"}},
        ),
    ]
    seen = evidence(node("a", labels={"nvidia.com/cuda.driver-version.full": "570.172.08"}), answers=found)
    matrix = {"volcano": ["1.14"]} if told is None else told
    return decide(versions.versions_supported, seen, versions.deployments_readable, versions=matrix)


@pytest.mark.parametrize(
    ("images", "told", "verdict", "said"),
    [
        (["docker.io/volcanosh/vc-scheduler:v1.14.4"], None, "pass", "volcano 1.14.4"),
        (["reg:5000/volcanosh/vc-scheduler:v1.14.4@sha256:00"], None, "pass", "volcano 1.14.4"),
        (["volcanosh/vc-scheduler:v1.15.1"], None, "fail", "volcano 1.15.1 is not in 1.14"),
        (["volcanosh/vc-scheduler:v1.1.4"], None, "fail", "volcano 1.1.4 is not in 1.14"),
        (["volcanosh/vc-scheduler:v1.14.4", "volcanosh/vc-webhook-manager:v1.13.0"], None, "fail", "1.13.0 is not in"),
        (["volcanosh/vc-scheduler:latest"], None, "inconclusive", "cannot be read from"),
        (["volcanosh/vc-scheduler"], None, "inconclusive", "cannot be read from"),
        (["reg:5000/volcanosh/vc-scheduler"], None, "inconclusive", "cannot be read from"),
        (["volcanosh/vc-scheduler@sha256:1234"], None, "inconclusive", "cannot be read from"),
        (["example.com/else:v1"], None, "inconclusive", "volcano was not seen"),
        (["volcanosh/vc-scheduler:v1.14.4"], {}, "not_applicable", "kubernetes 1.34.1 and 1.34.2; volcano 1.14.4"),
        (["volcanosh/vc-scheduler:v1.14.4"], {"kubernetes": [">=1.33 <1.35"]}, "pass", "kubernetes 1.34.1"),
        (["volcanosh/vc-scheduler:v1.14.4"], {"kubernetes": ["1.34.2"]}, "fail", "kubelet of a"),
        (["volcanosh/vc-scheduler:v1.14.4"], {"driver": ["570", "580"]}, "pass", "driver 570.172.08"),
        (["volcanosh/vc-scheduler:v1.14.4"], {"driver": ["580"]}, "fail", "Node/a"),
        (["volcanosh/vc-scheduler:v1.14.4"], {"nccl": ["2.27"]}, "inconclusive", "nccl was not seen"),
    ],
)  # fmt: skip
def test_versions(images, told, verdict, said):
    """INV-006: known and within the matrix; unknown is never a pass."""
    finding = versions_of(*images, told=told)
    assert finding.verdict == verdict, finding.observed
    assert said in finding.observed


def test_deployments_that_may_not_be_read_are_the_environment():
    """The verb that is missing is named."""
    finding = versions_of(code=403)
    assert finding.verdict == "environment"
    assert "list on deployments.apps in volcano-system" in finding.observed


def test_a_label_tells_the_version_of_an_image_without_tag():
    """Charts that pin by digest label the Deployment."""
    labels = {"app.kubernetes.io/version": "1.14.4"}
    assert versions_of("volcanosh/vc-scheduler@sha256:1234", labels=labels).verdict == "pass"


# -- INV-009 ---------------------------------------------------------------------------------------------------------

CONF = 'actions: "enqueue, allocate, backfill"\ntiers:\n- plugins:\n  - name: gang\n'


def config(
    text=CONF, code=200, key="volcano-scheduler.conf", request="get configmaps/x in volcano-system", **told
):
    """Return the finding of INV-009."""
    more = (
        {"object": {"metadata": {"name": "x"}, "data": {key: text}}}
        if code == 200
        else {"status": {"message": "no"}}
    )
    seen = evidence(answers=[("read:scheduler-config", code, {**more, "request": request})])
    return decide(scheduler_config.configured, seen, scheduler_config.readable, **told)


@pytest.mark.parametrize(
    ("text", "verdict", "said"),
    [
        (CONF, "pass", "actions enqueue, allocate, backfill; plugins gang"),
        (CONF.replace("enqueue, ", ""), "fail", "no action enqueue"),
        (CONF.replace("gang", "sla"), "fail", "the gang plugin is missing"),
        (CONF + "    enableJobReady: false\n", "fail", "switched off"),
        (CONF + "    enableJobReady: true\n", "pass", "gang"),
        ("actions: [", "inconclusive", "is not valid YAML"),
        ("just text", "inconclusive", "has no line `actions`"),
        ("", "inconclusive", "has no line `actions`"),
        ("actions: allocate\ntiers: null\n", "fail", "the gang plugin is missing; no action enqueue"),
    ],
)  # fmt: skip
def test_the_schedulers_configuration(text, verdict, said):
    """INV-009: read, not assumed."""
    finding = config(text)
    assert finding.verdict == verdict, finding.observed
    assert said in finding.observed


def test_a_configuration_that_cannot_be_read():
    """Not permitted is the environment and names the verb; not there is unknown; another scheduler is not judged."""
    denied = config(code=403)
    assert denied.verdict == "environment"
    assert "get on configmaps in volcano-system" in denied.observed
    assert config(code=404).verdict == "inconclusive"
    assert config(key="other.txt").verdict == "inconclusive"
    assert (
        decide(scheduler_config.configured, evidence(), scheduler_config.readable).verdict == "inconclusive"
    )
    assert config(scheduler="default-scheduler").verdict == "not_applicable"


# -- INV-010 ---------------------------------------------------------------------------------------------------------

SPEC = {
    "schedulerName": "volcano",
    "queue": "default",
    "maxRetry": 3,
    "tasks": [{"name": "default0"}, {"name": "default1"}],
}
OWNED = [
    {
        "manager": "m",
        "operation": "Update",
        "fieldsV1": {"f:spec": {"f:queue": {}, "f:maxRetry": {}, "f:tasks": {}}},
    }
]


def completed(code=201, case="defaults", owned=OWNED, message="", **changes):
    """Return one answer to a dry-run Job."""
    spec = {key: value for key, value in {**SPEC, **changes}.items() if value is not ...}
    obj = {"metadata": {"managedFields": owned} if owned else {}, "spec": spec}
    return (case, code, {"object": obj} if code == 201 else {"status": {"code": code, "message": message}})


def default_of(*answers, **told):
    """Return the finding of INV-010."""
    return decide(
        job_defaults.documented_defaults, evidence(answers=answers), job_defaults.dry_run_allowed, **told
    )


def test_each_default_says_who_filled_it_in():
    """What was noted before admission comes from the schema, what was not from the admission."""
    finding = default_of(completed())
    assert finding.verdict == "pass"
    assert finding.facts == {
        "schedulerName": "admission", "queue": "schema", "maxRetry": "schema", "task names": "admission",
    }  # fmt: skip
    old = [{"fieldsV1": {"f:spec": {"f:maxRetry": {}, "f:tasks": {}}}}]
    assert default_of(completed(owned=old)).facts["queue"] == "admission"
    untold = default_of(completed(owned=None))
    assert untold.verdict == "pass"
    assert untold.facts["queue"] == "schema or admission"


@pytest.mark.parametrize(
    ("changes", "said", "cause"),
    [
        ({"schedulerName": ...}, "schedulerName was not filled in", "no mutating admission"),
        ({"schedulerName": "vc2"}, "schedulerName is vc2 instead of volcano", "default was changed"),
        ({"maxRetry": 5}, "maxRetry is 5 instead of 3", "default was changed"),
        ({"maxRetry": ...}, "maxRetry was not filled in", "CRDs come from another release"),
        ({"queue": "other"}, "queue is other instead of default", "default was changed"),
        ({"tasks": [{}, {"name": "default1"}]}, "task names was not filled in", "no mutating admission"),
        ({"tasks": [{"name": "default0"}, {"name": "x"}]}, "task names is default0, x", "default was changed"),
    ],
)  # fmt: skip
def test_a_default_that_is_not_the_documented_one(changes, said, cause):
    """INV-010 names the field and who should have filled it in."""
    finding = default_of(completed(**changes))
    assert finding.verdict == "fail"
    assert said in finding.observed
    assert cause in finding.causes[0].text


CLOSED = (
    'admission webhook "validatejob.volcano.sh" denied the request: can only submit job to queue with state `Open`, '
    "queue `default` status is `Closed`;"
)


def test_a_closed_default_queue_still_shows_the_defaults():
    """The refusal itself names the queue that was filled in; the second dry run shows the rest."""
    first = completed(400, message=CLOSED)
    assert default_of(first).verdict == "inconclusive"
    finding = default_of(first, completed(case="defaults:queue-named", queue="training"))
    assert finding.verdict == "pass", finding.observed
    assert "queue default" in finding.observed


def test_a_dry_run_that_may_not_be_sent():
    """Not permitted is the environment; not tried is inconclusive; another scheduler is not judged."""
    denied = default_of(completed(403, message="jobs.batch.volcano.sh is forbidden"))
    assert denied.verdict == "environment"
    assert "create on jobs.batch.volcano.sh" in denied.observed
    assert default_of().verdict == "inconclusive"
    assert default_of(completed(), scheduler="default-scheduler").verdict == "not_applicable"


def test_recorded_answers_of_real_admission_are_right():
    """Volcano v1.14.4 filled in what the recorded Jobs left out; task names were never left out there."""
    finding = job_defaults.documented_defaults(recordings.stream("d-refusals"), {})
    assert finding.verdict == "inconclusive"
    assert "not seen: task names" in finding.observed
    assert "schedulerName volcano" in finding.observed
