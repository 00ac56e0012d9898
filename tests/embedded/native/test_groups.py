"""Groups in the default scheduler: held, tried as one unit, tried again, and each defect of that."""

import pytest

from pytest_gpucluster.embedded.controllers.batch_job import NAME as JOBS
from pytest_gpucluster.embedded.native import defects, names
from pytest_gpucluster.embedded.native.plan import NOT_TRIED, plan
from tests.embedded.native.replay import GATES
from tests.embedded.support import bound, cluster, end_pod, job, node, pod, run, settle, until

SHORT = (
    "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining, pod group preemption: No preemption victims found for "
    "incoming preemptor"
)
FULL = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."


def gang(name, least, **spec):
    """Return a PodGroup; a least of 0 means the basic policy."""
    policy = {"gang": {"minCount": least}} if least else {"basic": {}}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"schedulingPolicy": policy, **spec}}


def member(name, group, gpus=1, **spec):
    """Return a pod of a group."""
    return pod(name, gpus, schedulingGroup={"podGroupName": group}, **spec)


def said(store, group):
    """Return status, reason and message of a group's condition, None where it has none."""
    listed = store.get(names.POD_GROUP, "default", group)["status"].get("conditions") or []
    found = [
        (c["status"], c["reason"], c["message"]) for c in listed if c["type"] == names.INITIALLY_SCHEDULED
    ]
    return found[0] if found else None


def refusals(store):
    """Return the text of the newest refusal of each pod."""
    out = {}
    for event in store.list("Event"):
        if event["reason"] == "FailedScheduling":
            out[event["involvedObject"]["name"]] = event["message"]
    return out


def groups(**config):
    """Run a control plane in which the gates of native gangs are on."""
    return cluster(feature_gates=GATES, scheduler_period=0.01, **config)


async def three_where_two_fit(store):
    """Create a gang of three on a node of two GPUs."""
    store.create("Node", node("n0", 2))
    store.create(names.POD_GROUP, gang("g", 3))
    for n in range(3):
        store.create("Pod", member(f"p{n}", "g"))


def free_room(store):
    """Let the node have another GPU."""

    def grow(obj):
        obj["status"]["allocatable"]["nvidia.com/gpu"] = "3"

    store.mutate("Node", None, "n0", grow, subresource="status")


def test_pods_of_a_group_that_is_missing_or_small_wait_in_silence():
    """Without a PodGroup, or with fewer pods than its minCount, pods have no condition and no event."""

    async def scene():
        async with groups() as runtime:
            store = runtime.store
            store.create("Node", node("n0", 8))
            for n in range(2):
                store.create("Pod", member(f"p{n}", "g"))
            await settle()
            store.create(names.POD_GROUP, gang("g", 3))
            await settle()
            assert bound(store) == {}
            assert all(not p["status"].get("conditions") for p in store.list("Pod"))
            assert store.list("Event") == []
            assert said(store, "g") is None
            store.create("Pod", member("p2", "g"))
            await until(runtime, lambda: len(bound(store)) == 3)

    run(scene())


def test_group_that_is_short_is_refused_whole_and_bound_whole_when_room_appears():
    """Nothing is bound while one member does not fit; then all are; the condition says so and stays."""

    async def scene():
        async with groups() as runtime:
            store = runtime.store
            await three_where_two_fit(store)
            await until(runtime, lambda: said(store, "g"))
            assert said(store, "g") == ("False", "Unschedulable", SHORT)
            assert refusals(store) == {
                "p0": f"pod group is unschedulable, {SHORT}",
                "p1": f"pod group is unschedulable, {SHORT}",
                "p2": FULL,
            }
            assert bound(store) == {}
            free_room(store)
            await until(runtime, lambda: len(bound(store)) == 3)
            assert said(store, "g") == ("True", "Scheduled", "")
            end_pod(store, "p0", "Failed")
            store.delete("Pod", "default", "p1", grace=0)
            await settle()
            assert said(store, "g") == ("True", "Scheduled", "")

    run(scene())


def test_members_beyond_the_minimum_are_bound_as_room_allows():
    """With minCount 2, two of three are bound where two fit, and the third when room appears."""

    async def scene():
        async with groups() as runtime:
            store = runtime.store
            store.create("Node", node("n0", 2))
            store.create(names.POD_GROUP, gang("g", 2))
            for n in range(3):
                store.create("Pod", member(f"p{n}", "g"))
            await until(runtime, lambda: len(bound(store)) == 2 and refusals(store))
            assert refusals(store) == {"p2": FULL}
            assert said(store, "g") == ("True", "Scheduled", "")
            free_room(store)
            await until(runtime, lambda: len(bound(store)) == 3)

    run(scene())


def test_basic_policy_binds_pod_by_pod_and_its_condition_says_scheduled():
    """Under the basic policy two of three are bound, and the condition claims what is not so."""

    async def scene():
        async with groups() as runtime:
            store = runtime.store
            store.create("Node", node("n0", 2))
            store.create(names.POD_GROUP, gang("g", 0))
            for n in range(3):
                store.create("Pod", member(f"p{n}", "g"))
            await until(runtime, lambda: refusals(store))
            assert len(bound(store)) == 2
            assert said(store, "g") == ("True", "Scheduled", "")

    run(scene())


def test_lowered_minimum_lets_the_pods_that_are_there_go():
    """A minCount that is lowered later wakes pods that waited for more of them."""

    async def scene():
        async with groups() as runtime:
            store = runtime.store
            store.create("Node", node("n0", 8))
            store.create(names.POD_GROUP, gang("g", 3))
            for n in range(2):
                store.create("Pod", member(f"p{n}", "g"))
            await settle()
            assert bound(store) == {}

            def lower(obj):
                obj["spec"]["schedulingPolicy"]["gang"]["minCount"] = 2

            store.mutate(names.POD_GROUP, "default", "g", lower)
            await until(runtime, lambda: len(bound(store)) == 2)

    run(scene())


def test_pod_with_a_gate_holds_its_whole_group():
    """A scheduling gate on one pod keeps all of its group waiting."""

    async def scene():
        async with groups() as runtime:
            store = runtime.store
            store.create("Node", node("n0", 8))
            store.create(names.POD_GROUP, gang("g", 2))
            store.create("Pod", member("p0", "g"))
            store.create("Pod", member("p1", "g"))
            store.create("Pod", member("p2", "g", schedulingGates=[{"name": "wait"}]))
            await settle()
            assert bound(store) == {}

            def open_gate(obj):
                del obj["spec"]["schedulingGates"]

            store.mutate("Pod", "default", "p2", open_gate)
            await until(runtime, lambda: len(bound(store)) == 3)

    run(scene())


def test_pods_of_another_priority_than_their_group_are_an_error():
    """Pods and group must have one priority; the refusal says so, as an error of the scheduler."""

    async def scene():
        async with groups() as runtime:
            store = runtime.store
            store.create("Node", node("n0", 8))
            store.create("PriorityClass", {"metadata": {"name": "high"}, "value": 10})
            store.create(names.POD_GROUP, gang("g", 2))
            for n in range(2):
                store.create("Pod", member(f"p{n}", "g", priorityClassName="high"))
            await until(runtime, lambda: said(store, "g"))
            status, reason, message = said(store, "g")
            assert (status, reason) == ("False", "SchedulerError")
            assert message.endswith("the pod group's priority, got 10 and 0")
            assert bound(store) == {}
            store.create(names.POD_GROUP, gang("h", 2, priorityClassName="high"))
            for n in range(2):
                store.create("Pod", member(f"q{n}", "h", priorityClassName="high"))
            await until(runtime, lambda: len(bound(store)) == 2)

    run(scene())


def test_trial_changes_nothing_and_says_what_was_not_tried():
    """A trial leaves the nodes as they are; pods after the one that ends it are told only the count."""
    tried = plan([], [], minimum=1, scheduled=0)
    assert (tried.short, tried.error) == (NOT_TRIED, True)
    pods = [{"metadata": {"name": n}, "spec": member(n, "g")["spec"]} for n in "abc"]
    tried = plan(pods, [], minimum=3, scheduled=0)
    assert [text for _, text in tried.refusals] == [
        "no nodes available to schedule pods",
        "minCount (3) cannot be satisfied: 0 scheduled, 2 remaining",
        "minCount (3) cannot be satisfied: 0 scheduled, 2 remaining",
    ]
    assert tried.places == []


def test_job_without_a_policy_gets_a_basic_group_before_its_pods():
    """A Job that says nothing gets Workload and PodGroup too, of the basic policy, and its pods name the group."""

    async def scene():
        async with groups() as runtime:
            store = runtime.store
            store.create("Node", node("n0", 2))
            store.create("Job.batch", job("j", 3, 1))
            await until(runtime, lambda: len(bound(store)) == 2)
            (group,) = store.list(names.POD_GROUP)
            (workload,) = store.list(names.WORKLOAD)
            assert group["spec"]["schedulingPolicy"] == {"basic": {}}
            assert group["spec"]["workloadRef"] == {
                "workloadName": workload["metadata"]["name"],
                "templateName": "j-pgt-0",
            }
            named = {p["spec"]["schedulingGroup"]["podGroupName"] for p in store.list("Pod")}
            assert named == {group["metadata"]["name"]}
            reasons = [e["reason"] for e in store.list("Event") if e["reportingComponent"] == JOBS]
            assert {"WorkloadCreated", "PodGroupCreated"} < set(reasons)

    run(scene())


def test_deleted_job_takes_its_groups_along():
    """Workload, PodGroup and pods go with their Job; the PodGroup stays as long as a pod needs it."""

    async def scene():
        async with groups() as runtime:
            store = runtime.store
            store.create("Node", node("n0", 2))
            policy = {"schedulingPolicy": {"gang": {}}}
            store.create("Job.batch", job("j", 2, 1, scheduling=policy))
            await until(runtime, lambda: len(bound(store)) == 2)
            (group,) = store.list(names.POD_GROUP)
            assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 2}}
            store.delete("Job.batch", "default", "j")
            await until(runtime, lambda: not store.list(names.WORKLOAD))
            await settle()
            (group,) = store.list(names.POD_GROUP)
            assert group["metadata"]["finalizers"] == [names.PROTECTION]
            for each in store.list("Pod"):
                store.delete("Pod", "default", each["metadata"]["name"], grace=0)
            await until(runtime, lambda: not store.list(names.POD_GROUP) and not store.list("Pod"))

    run(scene())


def test_suspended_job_has_its_group_before_it_runs():
    """A Job that begins suspended gets its group at once and its pods when it is resumed."""

    async def scene():
        async with groups() as runtime:
            store = runtime.store
            store.create("Node", node("n0", 2))
            policy = {"schedulingPolicy": {"gang": {"minCount": 2}}}
            store.create("Job.batch", job("j", 2, 1, scheduling=policy, suspend=True))
            await until(runtime, lambda: store.list(names.POD_GROUP))
            await settle()
            assert store.list("Pod") == []

            def resume(obj):
                obj["spec"]["suspend"] = False

            store.mutate("Job.batch", "default", "j", resume)
            await until(runtime, lambda: len(bound(store)) == 2)
            assert all(p["spec"].get("schedulingGroup") for p in store.list("Pod"))

    run(scene())


def test_job_whose_minimum_changes_carries_it_over():
    """A changed minCount of a Job reaches its Workload and its PodGroup."""

    async def scene():
        async with groups() as runtime:
            store = runtime.store
            store.create("Node", node("n0", 2))
            policy = {"schedulingPolicy": {"gang": {"minCount": 3}}}
            store.create("Job.batch", job("j", 3, 1, scheduling=policy))
            await until(runtime, lambda: refusals(store))

            def lower(obj):
                obj["spec"]["scheduling"]["schedulingPolicy"]["gang"]["minCount"] = 2

            store.mutate("Job.batch", "default", "j", lower)
            await until(runtime, lambda: len(bound(store)) == 2)
            (workload,) = store.list(names.WORKLOAD)
            (template,) = workload["spec"]["podGroupTemplates"]
            assert template["schedulingPolicy"] == {"gang": {"minCount": 2}}

    run(scene())


@pytest.mark.parametrize("owned", ["by another", "by its template"])
def test_job_that_somebody_else_groups_is_left_alone(owned):
    """A Job with a controller of its own, or whose pods name a group, gets none."""

    async def scene():
        async with groups() as runtime:
            store = runtime.store
            store.create("Node", node("n0", 2))
            body = job("j", 1, 1)
            if owned == "by another":
                reference = {
                    "apiVersion": "jobset.x-k8s.io/v1alpha2",
                    "kind": "JobSet",
                    "name": "s",
                    "uid": "u",
                }
                body["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
            else:
                body["spec"]["template"]["spec"]["schedulingGroup"] = {"podGroupName": "mine"}
                store.create(names.POD_GROUP, gang("mine", 1))
            store.create("Job.batch", body)
            await until(runtime, lambda: len(bound(store)) == 1)
            assert store.list(names.WORKLOAD) == []

    run(scene())


# -- defects -----------------------------------------------------------------------------------------


def test_every_defect_has_one_line():
    """Every defect is named native.words and described in one line."""
    for name, text in defects.DEFECTS.items():
        assert name.startswith("native.")
        assert "\n" not in text


def gang_job(least=3):
    """Return a Job of three pods that asks for a gang."""
    return job("j", 3, 1, scheduling={"schedulingPolicy": {"gang": {"minCount": least}}})


def test_binds_partially_places_a_gang_pod_by_pod():
    """Under native.binds-partially two of a gang of three are bound, and the PodGroup still asks for three."""

    async def scene():
        async with groups(defects=["native.binds-partially"]) as runtime:
            store = runtime.store
            await three_where_two_fit(store)
            await until(runtime, lambda: len(bound(store)) == 2)
            assert said(store, "g") == ("True", "Scheduled", "")

    run(scene())


@pytest.mark.parametrize(
    ("defect", "policy", "placed"),
    [
        ("native.basic-policy", {"basic": {}}, 2),
        ("native.min-count-short", {"gang": {"minCount": 2}}, 2),
    ],
)
def test_policy_of_a_job_is_not_carried_over(defect, policy, placed):
    """Under both defects the PodGroup of a Job asks for less than the Job."""

    async def scene():
        async with groups(defects=[defect]) as runtime:
            store = runtime.store
            store.create("Node", node("n0", 2))
            store.create("Job.batch", gang_job())
            await until(runtime, lambda: len(bound(store)) == placed)
            (group,) = store.list(names.POD_GROUP)
            assert group["spec"]["schedulingPolicy"] == policy

    run(scene())


def test_forgets_room_leaves_a_refused_group_where_it_is():
    """Under native.forgets-room a refused group is not bound when room appears; another one is."""

    async def scene():
        async with groups(defects=["native.forgets-room"]) as runtime:
            store = runtime.store
            await three_where_two_fit(store)
            await until(runtime, lambda: said(store, "g"))
            free_room(store)
            store.create(names.POD_GROUP, gang("h", 2))
            for n in range(2):
                store.create("Pod", member(f"q{n}", "h"))
            await until(runtime, lambda: len(bound(store)) == 2)
            await settle()
            assert set(bound(store)) == {"q0", "q1"}

    run(scene())


def test_never_says_refuses_in_silence():
    """Under native.never-says a refused group has no condition and its pods neither condition nor event."""

    async def scene():
        async with groups(defects=["native.never-says"]) as runtime:
            store = runtime.store
            await three_where_two_fit(store)
            await settle()
            assert bound(store) == {}
            assert said(store, "g") is None
            assert refusals(store) == {}
            assert all(not p["status"].get("conditions") for p in store.list("Pod"))
            free_room(store)
            await until(runtime, lambda: len(bound(store)) == 3)
            assert said(store, "g") == ("True", "Scheduled", "")

    run(scene())


def test_gate_off_is_what_a_cluster_without_the_gates_does():
    """Under native.gate-off neither the kinds nor the fields are there, and pods are placed one by one."""

    async def scene():
        async with groups(defects=["native.gate-off"]) as runtime:
            store = runtime.store
            assert names.POD_GROUP not in store.table
            store.create("Node", node("n0", 2))
            made = store.create("Job.batch", gang_job())
            assert "scheduling" not in made["spec"]
            await until(runtime, lambda: len(bound(store)) == 2)
            lone = store.create("Pod", member("p", "g"))
            assert "schedulingGroup" not in lone["spec"]

    run(scene())
