"""A gang written once, for each scheduler."""

import copy
import dataclasses
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.scheduling import gangs
from pytest_gpucluster.plain import names, schedulers
from pytest_gpucluster.workload import (
    DIALECTS,
    GangSpec,
    Role,
    Sidecar,
    WorkloadError,
    apply_overlay,
    dialect_for,
    filler,
    has_ended,
)
from pytest_gpucluster.workload.overlay import pod_templates
from tests import recordings

SPEC = GangSpec(
    "smoke",
    roles=(
        Role("master", 1, ("python", "x"), ends_job=True),
        Role("worker", 3, ("python", "x"), sidecars=(Sidecar("watch", ("true",)),)),
    ),
    resources={"nvidia.com/gpu": 4},
    image="python",
    plugins={"pytorch": ("--master=master",)},
    policies=(("PodEvicted", "RestartJob"),),
    payload="files",
)


def test_volcano_gets_a_job_with_the_scheduler_named_everywhere():
    """The schedulerName stands on the Job and on every task template, as the documents ask."""
    job = dialect_for("volcano", "team-a").write(SPEC)
    assert job["apiVersion"] == "batch.volcano.sh/v1alpha1"
    assert (job["spec"]["schedulerName"], job["spec"]["queue"], job["spec"]["minAvailable"]) == (
        "volcano",
        "team-a",
        4,
    )
    for _, pod in pod_templates(job):
        assert pod["schedulerName"] == "volcano"
        assert pod["restartPolicy"] == "Never"
    assert job["spec"]["tasks"][0]["policies"] == [{"event": "TaskCompleted", "action": "CompleteJob"}]
    assert "policies" not in job["spec"]["tasks"][1]


def test_every_member_asks_for_something():
    """A member without requests is best-effort, which the gang plugin does not protect."""
    for _, pod in pod_templates(dialect_for("volcano").write(SPEC)):
        for container in pod["containers"]:
            assert container["resources"]["requests"]["cpu"]
        assert pod["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "4"}


def test_the_default_scheduler_gets_an_indexed_job():
    """The contrast is written with what Kubernetes alone has."""
    spec = GangSpec("c", roles=(Role("worker", 4, ("sleep", "1")),), resources={"x/y": 4}, image="python")
    job = dialect_for("default-scheduler").write(spec)
    assert (job["apiVersion"], job["spec"]["completionMode"], job["spec"]["parallelism"]) == (
        "batch/v1",
        "Indexed",
        4,
    )


def test_what_a_scheduler_cannot_express_is_said():
    """An Indexed Job has one role and no plugins; an unknown scheduler is answered with the known ones."""
    with pytest.raises(WorkloadError, match="has one role, this gang has 2"):
        dialect_for("default-scheduler").write(SPEC)
    with pytest.raises(WorkloadError, match="did you mean 'volcano'"):
        dialect_for("volcanoe")


def read_back(dialect, spec):
    """Return the gang that evidence finds in what a dialect creates, as a controller would complete it."""
    lines, manifest = [], dialect.write(spec)
    manifest["metadata"]["uid"] = "own"
    lines.append({"type": "ADDED", "t": 0.0, "object": manifest})
    template = manifest["spec"].get("template", {}).get("spec")
    pods = dialect.members(spec)
    if template is not None:
        # The Job controller, with the feature WorkloadWithJob where the Job asks for a gang.
        asked = manifest["spec"].get("scheduling")
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": spec.name, "uid": "own", "controller": True}
        if asked is not None:
            group = {
                "apiVersion": "scheduling.k8s.io/v1beta1",
                "kind": "PodGroup",
                "metadata": {"name": "made", "uid": "group", "ownerReferences": [owner]},
                "spec": asked,
            }
            lines.append({"type": "ADDED", "t": 0.1, "object": group})
        pods = [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"{spec.name}-{index}",
                    "ownerReferences": [owner],
                    "annotations": {"batch.kubernetes.io/job-completion-index": str(index)},
                },
                "spec": {**template, **({"schedulingGroup": {"podGroupName": "made"}} if asked else {})},
            }
            for index in range(manifest["spec"]["parallelism"])
        ]
    for pod in pods:
        pod["metadata"]["uid"] = pod["metadata"]["name"]
        lines.append({"type": "ADDED", "t": 0.2, "object": pod})
    (gang,) = gangs.gangs(recordings.evidence_of(lines))
    return gang


RESOURCES = st.dictionaries(
    st.sampled_from(["nvidia.com/gpu", "slots.gpucluster.dev/a"]), st.integers(1, 16), min_size=1
)


@settings(deadline=None)
@given(
    st.sampled_from([name for name in DIALECTS if name != "volcano"]),
    st.lists(st.integers(1, 5), min_size=1, max_size=3),
    st.data(),
    RESOURCES,
)
def test_what_is_written_reads_back_as_the_same_gang(scheduler, replicas, data, resources):
    """Members, minimum and what each member asks for survive the way through a scheduler's manifest."""
    total = sum(replicas)
    minimum = data.draw(st.none() | st.integers(1, total))
    spec = GangSpec(
        "gang",
        roles=tuple(Role(f"r{n}", count, ("true",)) for n, count in enumerate(replicas)),
        resources=resources,
        min_available=minimum,
        image="python",
    )
    dialect = dialect_for(scheduler, "team-a")
    # Only native gangs know roles or a minimum.
    if scheduler != "native" and (len(replicas) > 1 or spec.minimum != total):
        with pytest.raises(WorkloadError, match="gang 'gang'"):
            dialect.write(spec)
        return
    gang = read_back(dialect, spec)
    assert (gang.size, gang.minimum) == (total, spec.minimum)
    assert len(gang.pods) == total
    for pod in gang.pods:
        asked = {one: int(fields.requested(pod.last, one)) for one in resources}
        assert asked == resources
        assert pod.scheduler == schedulers.POD_NAMES[scheduler] == dialect.scheduler
    assert gang.queue == dialect.queue


def test_a_volcano_job_reads_back_as_the_same_gang():
    """Members and minimum of the Job itself: its pods are its controller's matter."""
    job = dialect_for("volcano", "team-a").write(SPEC)
    job["metadata"]["uid"] = "own"
    (gang,) = gangs.gangs(recordings.evidence_of([{"type": "ADDED", "t": 0.0, "object": job}]))
    assert (gang.size, gang.minimum, gang.queue, gang.scheduler) == (4, 4, "team-a", "volcano")


def test_native_gangs_of_several_roles_are_a_podgroup_and_pods():
    """Where an Indexed Job cannot express the gang its pods name the group; what only a Job can do is refused."""
    spec = GangSpec(
        "mixed",
        roles=(Role("leader", 1, ("a",)), Role("worker", 2, ("b",))),
        min_available=2,
        subdomain="names",
    )
    dialect = dialect_for("native")
    group = dialect.write(spec)
    assert (group["kind"], group["spec"]["schedulingPolicy"]) == ("PodGroup", {"gang": {"minCount": 2}})
    pods = dialect.members(spec)
    assert [pod["metadata"]["name"] for pod in pods] == ["mixed-leader-0", "mixed-worker-0", "mixed-worker-1"]
    assert {pod["spec"]["schedulingGroup"]["podGroupName"] for pod in pods} == {"mixed"}
    assert (pods[0]["spec"]["hostname"], pods[0]["spec"]["subdomain"]) == ("leader-0", "names")
    for more in (
        {"leads": True},
        {"max_retry": 1},
        {"plugins": {"env": ()}},
        {"policies": (("PodFailed", "X"),)},
    ):
        with pytest.raises(WorkloadError, match="gang 'mixed'"):
            dialect.write(dataclasses.replace(spec, **more))


def test_an_indexed_job_carries_what_it_can():
    """Its first member's end, its retries and its time to live are fields of the Job."""
    spec = GangSpec("j", roles=(Role("worker", 3, ("a",)),), leads=True, max_retry=2, time_to_live=5)
    for scheduler in ("native", "kueue", "default-scheduler"):
        body = dialect_for(scheduler).write(spec)["spec"]
        assert body["successPolicy"]["rules"][0]["succeededIndexes"] == "0"
        assert (body["backoffLimit"], body["ttlSecondsAfterFinished"]) == (2, 5)
    job = dialect_for("kueue", "team-a").write(spec)
    assert job["metadata"]["labels"] == {names.LABEL_KUEUE_QUEUE: "team-a"}
    assert "suspend" not in job["spec"]


@pytest.mark.parametrize(
    ("scheduler", "obj", "looked"),
    [
        ("volcano", {"status": {"phase": "Pending"}}, True),
        ("volcano", {"status": {}}, False),
        (
            "native",
            {"status": {"conditions": [{"type": "PodGroupInitiallyScheduled", "status": "False"}]}},
            True,
        ),
        ("native", {}, False),
        ("kueue", {"status": {"conditions": [{"type": "QuotaReserved", "status": "False"}]}}, True),
        ("kueue", {"status": {"conditions": [{"type": "Admitted", "status": "False"}]}}, False),
        ("default-scheduler", {"status": {"conditions": [{"type": "PodScheduled", "status": "True"}]}}, True),
    ],
)
def test_a_scheduler_shows_that_it_has_looked(scheduler, obj, looked):
    """Each on its own object; that the object is there shows nothing."""
    assert dialect_for(scheduler).looked_at(obj) is looked


def test_an_end_is_read_by_kind():
    """A PodGroup of ours never ends by itself."""
    done = {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    assert has_ended(names.BATCH_JOB, done)
    assert not has_ended(
        names.BATCH_JOB, {"status": {"conditions": [{"type": "SuccessCriteriaMet", "status": "True"}]}}
    )
    assert has_ended(names.VC_JOB, {"status": {"state": {"phase": "Aborted"}}})
    assert not has_ended(names.NATIVE_POD_GROUP, done)


@pytest.mark.parametrize("scheduler", ["volcano", "native", "default-scheduler"])
def test_members_that_must_not_share_a_node_say_so(scheduler):
    """Required anti-affinity by the label that the controller puts onto the gang's pods; none unless asked for."""
    spec = GangSpec("gang", roles=(Role("worker", 2, ("true",)),), apart="example.org/job-name")
    text = json.dumps(dialect_for(scheduler).write(spec))
    assert '"matchLabels": {"example.org/job-name": "gang"}' in text
    assert '"topologyKey": "kubernetes.io/hostname"' in text
    plain = dataclasses.replace(spec, apart="")
    assert "ffinity" not in json.dumps(dialect_for(scheduler).write(plain))


@pytest.mark.parametrize("scheduler", ["volcano", "native", "default-scheduler"])
def test_members_stay_on_the_nodes_that_are_named(scheduler):
    """One term for each node, beside what keeps members apart."""
    spec = GangSpec("gang", roles=(Role("worker", 2, ("true",)),), apart="a/b", nodes=("n0", "n1"))
    text = json.dumps(dialect_for(scheduler).write(spec))
    assert "podAntiAffinity" in text
    for name in spec.nodes:
        assert f'"matchFields": [{{"key": "metadata.name", "operator": "In", "values": ["{name}"]}}]' in text


def test_the_filler_is_no_pod_of_the_gang_scheduler():
    """What holds room must not count in the queue under test."""
    pod = filler("hold", {"x/y": 1}, "python", ("sleep", "1"))
    assert "schedulerName" not in pod["spec"]


OVERLAY = {
    "metadata": {"annotations": {"net": "ib"}},
    "spec": {"tolerations": [{"key": "gpu"}], "nodeSelector": {"pool": "a"}, "serviceAccountName": "x"},
}


def test_the_overlay_reaches_every_pod():
    """Tolerations, selectors and annotations go onto each template, the manifest itself is not changed."""
    job = dialect_for("volcano").write(SPEC)
    before = json.dumps(job)
    for metadata, pod in pod_templates(apply_overlay(job, OVERLAY)):
        assert metadata["annotations"] == {"net": "ib"}
        assert pod["tolerations"] == [{"key": "gpu"}]
        assert pod["nodeSelector"] == {"pool": "a"}
    assert json.dumps(job) == before


MOUNTED = {
    "spec": {
        "volumes": [{"name": "data", "hostPath": {"path": "/data"}}],
        "containers": [
            {
                "env": [{"name": "NCCL_DEBUG", "value": "WARN"}],
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                "securityContext": {"allowPrivilegeEscalation": False},
            },
            {"name": "exporter", "image": "exporter:1"},
        ],
    }
}


@pytest.mark.parametrize("scheduler", ["volcano", "native", "kueue", "default-scheduler"])
def test_mounts_and_variables_of_the_overlay_reach_every_container(scheduler):
    """Sidecars, init containers and what the overlay adds too; each keeps what is its own."""
    (entry, exporter) = MOUNTED["spec"]["containers"]
    spec = (
        SPEC
        if scheduler == "volcano"
        else dataclasses.replace(SPEC, roles=SPEC.roles[1:], plugins={}, policies=())
    )
    made = json.loads(json.dumps(dialect_for(scheduler).write(spec)))
    for _, pod in pod_templates(made):
        pod["initContainers"] = [{"name": "first", "image": "python"}]
    own = [copy.deepcopy(pod) for _, pod in pod_templates(made)]
    laid = apply_overlay(made, MOUNTED)
    assert apply_overlay(laid, MOUNTED) == laid
    found = [pod for _, pod in pod_templates(laid)]
    assert len(found) == len(own) > 0
    for before, after in zip(own, found, strict=True):
        assert after["volumes"] == before["volumes"] + MOUNTED["spec"]["volumes"]
        assert [each["name"] for each in after["containers"]] == [
            *(each["name"] for each in before["containers"]), exporter["name"],
        ]  # fmt: skip
        every = [*before["initContainers"], *before["containers"], exporter]
        for container, now in zip(every, [*after["initContainers"], *after["containers"]], strict=True):
            assert now == {
                **container,
                "env": container.get("env", []) + entry["env"],
                "volumeMounts": container.get("volumeMounts", []) + entry["volumeMounts"],
                "securityContext": entry["securityContext"],
            }


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=2)
        ),
        max_leaves=6,
    )
)
def test_the_overlay_is_idempotent(value):
    """Applied twice it is as applied once, whatever it holds."""
    job = dialect_for("volcano").write(SPEC)
    overlay = {"spec": {"extra": value, "tolerations": [{"key": "gpu"}]}}
    once = apply_overlay(job, overlay)
    assert apply_overlay(once, overlay) == once
