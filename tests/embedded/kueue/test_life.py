"""Life of Workloads beyond the recordings: readiness, stopped queues, finished and deleted Jobs, unfit queues."""

from pytest_gpucluster.embedded.kueue import names
from tests.embedded.kueue.stage import GPU, stage, virtually


def waiting(timeout="1s", **more):
    """Return the configuration of a Kueue that waits for pods."""
    again = {k: more.pop(k) for k in ("backoffLimitCount", "backoffBaseSeconds") if k in more}
    return {"waitForPodsReady": {"timeout": timeout, "requeuingStrategy": again, **more}}


@virtually
async def test_an_evicted_workload_runs_once_there_is_room():
    """It is queued again after its backoff, and admitted; Evicted then says what was before."""
    async with stage(kueue=waiting(backoffBaseSeconds=0.5), nodes=1) as on:
        on.queue("q", 16)
        on.job("hog", None, 1, 1)
        on.job("a", "q", 8)
        await on.until(lambda: on.is_so("a", names.EVICTED))
        await on.until(lambda: on.condition("a", names.REQUEUED) is not None)
        assert on.condition("a", names.REQUEUED)[:2] == ("False", names.TIMEOUT)
        on.store.delete("Job.batch", "default", "hog")
        await on.until(lambda: on.running("a") == 8)
        status, reason, text = on.condition("a", names.EVICTED)
        assert (status, reason) == ("False", names.QUOTA_RESERVED)
        assert text.startswith("Previously: Exceeded the PodsReady timeout default/job-a-")
        assert on.condition("a", names.REQUEUED)[:2] == ("True", "BackoffFinished")
        await on.until(lambda: on.is_so("a", names.PODS_READY))
        await on.rest(3)
        assert on.running("a") == 8


@virtually
async def test_a_workload_is_deactivated_when_it_had_its_chances():
    """After the limit of evictions it is given up: inactive, evicted for good, without quota."""
    async with stage(kueue=waiting(backoffLimitCount=1, backoffBaseSeconds=0.5), nodes=1) as on:
        on.queue("q", 16)
        on.job("a", "q", 9)
        await on.until(lambda: on.has_workload("a") and on.workload("a")["spec"]["active"] is False)
        await on.until(lambda: not on.pods("a"))
        await on.rest(2)
        assert not on.pods("a")
        status, reason, text = on.condition("a", names.EVICTED)
        assert (status, reason) == ("True", "DeactivatedDueToRequeuingLimitExceeded")
        assert text == "The workload is deactivated due to exceeding the maximum number of re-queuing retries"
        assert not on.is_so("a", names.QUOTA_RESERVED)
        assert on.condition("a", names.DEACTIVATION_TARGET) is None
        evictions = on.workload("a")["status"]["schedulingStats"]["evictions"]
        assert [(e["reason"], e["underlyingCause"], e["count"]) for e in evictions] == [
            (names.TIMEOUT, names.WAIT_FOR_START, 1),
            (names.DEACTIVATED, "RequeuingLimitExceeded", 1),
        ]
        on.store.mutate(
            names.WORKLOAD,
            "default",
            on.workload("a")["metadata"]["name"],
            lambda w: w["spec"].update(active=True),
        )
        await on.until(lambda: on.running("a") == 8)
        assert on.condition("a", names.REQUEUED)[:2] == ("True", "Reactivated")


@virtually
async def test_a_lost_pod_has_the_time_of_recovery():
    """After all pods were ready, a missing one is waited for as long as recoveryTimeout says."""
    async with stage(kueue=waiting(recoveryTimeout="1s", backoffBaseSeconds=60), nodes=1) as on:
        on.queue("q", 16)
        on.job("a", "q", 8, podReplacementPolicy="TerminatingOrFailed", backoffLimit=6)
        await on.until(lambda: on.is_so("a", names.PODS_READY))
        on.store.mutate("Node", None, "gpu-0", lambda n: n["spec"].update(unschedulable=True))
        on.store.delete("Pod", "default", on.pods("a")[0]["metadata"]["name"])
        await on.until(lambda: on.condition("a", names.PODS_READY)[1] == names.WAIT_FOR_RECOVERY)
        await on.until(lambda: on.is_so("a", names.EVICTED))
        cause = on.workload("a")["status"]["schedulingStats"]["evictions"][0]["underlyingCause"]
        assert cause == names.WAIT_FOR_RECOVERY


@virtually
async def test_a_long_timeout_ends_up_to_a_second_early():
    """Kueue counts from whole seconds, and so does the double where the limit is long enough."""
    async with stage(kueue=waiting("3s", backoffBaseSeconds=60), nodes=1) as on:
        await on.rest(0.9)
        on.queue("q", 16)
        on.job("a", "q", 9)
        await on.until(lambda: on.is_so("a", names.ADMITTED))
        began = on.store.clock()
        await on.until(lambda: on.is_so("a", names.EVICTED))
        assert 1.9 < (on.store.clock() - began).total_seconds() < 2.3


@virtually
async def test_a_local_queue_can_be_held_and_drained():
    """Its stopPolicy does for its own Workloads what that of a ClusterQueue does for all."""
    async with stage() as on:
        on.queue("q", 4)
        on.job("a", "q", 2)
        await on.until(lambda: on.running("a") == 2)
        on.stop_policy("q", names.HOLD, names.LOCAL_QUEUE)
        on.job("b", "q", 2)
        await on.until(lambda: on.condition("b", names.QUOTA_RESERVED) is not None)
        assert on.condition("b", names.QUOTA_RESERVED) == (
            "False",
            "Inadmissible",
            "LocalQueue q is inactive",
        )
        assert on.running("a") == 2
        local = on.store.get(names.LOCAL_QUEUE, "default", "q")["status"]["conditions"][0]
        assert (local["status"], local["reason"]) == ("False", "Stopped")
        on.stop_policy("q", names.DRAIN, names.LOCAL_QUEUE)
        await on.until(lambda: not on.pods("a"))
        await on.until(lambda: not on.is_so("a", names.ADMITTED))
        assert on.condition("a", names.EVICTED)[1] == names.LOCAL_QUEUE_STOPPED
        on.stop_policy("q", names.NONE, names.LOCAL_QUEUE)
        await on.until(lambda: on.running("a") == 2 and on.running("b") == 2)
        assert on.condition("a", names.REQUEUED)[:2] == ("True", "LocalQueueRestarted")


@virtually
async def test_a_failed_job_finishes_its_workload_and_frees_its_quota():
    """The Workload says Failed with the Job's message; the next Job is admitted."""
    async with stage() as on:
        on.queue("q", 1)
        on.job("a", "q")
        await on.until(lambda: on.running("a") == 1)
        on.job("b", "q")

        def fail(pod):
            pod["status"]["phase"] = "Failed"

        on.store.mutate("Pod", "default", on.pods("a")[0]["metadata"]["name"], fail, subresource="status")
        await on.until(lambda: on.running("b") == 1)
        text = "Job has reached the specified backoff limit"
        assert on.condition("a", names.FINISHED) == ("True", "Failed", text)


@virtually
async def test_a_deleted_job_frees_its_quota():
    """Its Workload goes with it, finalizer and all, and the next Job is admitted."""
    async with stage() as on:
        on.queue("q", 1)
        on.job("a", "q")
        await on.until(lambda: on.running("a") == 1)
        on.job("b", "q")
        await on.until(lambda: on.condition("b", names.QUOTA_RESERVED) is not None)
        on.store.delete("Job.batch", "default", "a")
        await on.until(lambda: on.running("b") == 1)
        assert not on.has_workload("a")


@virtually
async def test_a_deleted_workload_stops_its_job():
    """The Job is suspended, gets a new Workload, and is admitted again."""
    async with stage() as on:
        on.queue("q", 1)
        on.job("a", "q")
        await on.until(lambda: on.running("a") == 1)
        first = on.workload("a")
        on.store.delete(names.WORKLOAD, "default", first["metadata"]["name"])
        await on.until(lambda: "Workload is deleted" in on.events("Stopped"))
        await on.until(lambda: on.running("a") == 1)
        assert on.workload("a")["metadata"]["uid"] != first["metadata"]["uid"]


@virtually
async def test_a_suspended_job_may_change_its_queue_and_its_size():
    """Its Workload follows, as long as it holds no quota."""
    async with stage() as on:
        on.queue("q", 1)
        on.queue("r", 4)
        on.job("a", "q", 4)
        await on.until(lambda: on.condition("a", names.QUOTA_RESERVED) is not None)
        on.store.mutate("Job.batch", "default", "a", lambda j: j["spec"].update(parallelism=2))
        await on.until(lambda: on.workload("a")["spec"]["podSets"][0]["count"] == 2)
        assert on.events("UpdatedWorkload")
        on.store.mutate(
            "Job.batch", "default", "a", lambda j: j["metadata"]["labels"].update({names.QUEUE_LABEL: "r"})
        )
        await on.until(lambda: on.running("a") == 2)
        assert on.workload("a")["spec"]["queueName"] == "r"


@virtually
async def test_a_queue_without_its_flavor_says_so_until_it_is_there():
    """The ClusterQueue names the missing flavor and admits once it exists."""
    async with stage() as on:
        on.queue("q", 1, flavors=("gold",))
        on.job("a", "q")
        await on.until(lambda: on.condition("a", names.QUOTA_RESERVED) is not None)
        assert on.condition("a", names.QUOTA_RESERVED)[1:] == ("Inadmissible", "ClusterQueue q is inactive")
        active = on.store.get(names.CLUSTER_QUEUE, None, "q")["status"]["conditions"][0]
        assert (active["status"], active["reason"]) == ("False", "FlavorNotFound")
        assert active["message"] == "Can't admit new workloads: references missing ResourceFlavor(s): gold."
        on.flavor("gold")
        await on.until(lambda: on.running("a") == 1)


@virtually
async def test_missing_admission_checks_and_topologies_keep_a_queue_inactive():
    """Nothing is admitted past a check that does not exist."""
    async with stage() as on:
        on.queue("q", 1, admissionChecksStrategy={"admissionChecks": [{"name": "budget"}]})
        on.flavor("racks", topologyName="rows", nodeLabels={"pool": "gpu"})
        on.queue("r", 1, flavors=("racks",))
        await on.rest(0.5)
        found = {
            name: on.store.get(names.CLUSTER_QUEUE, None, name)["status"]["conditions"][0]
            for name in ("q", "r")
        }
        assert found["q"]["reason"] == "AdmissionCheckNotFound"
        assert found["r"]["reason"] == "TopologyNotFound"
        assert {each["status"] for each in found.values()} == {"False"}


@virtually
async def test_a_missing_cluster_queue_is_said():
    """Both the LocalQueue and the Workload say what is missing."""
    async with stage() as on:
        local = {"metadata": {"name": "q", "namespace": "default"}, "spec": {"clusterQueue": "gone"}}
        on.store.create(names.LOCAL_QUEUE, local)
        on.job("a", "q")
        await on.until(lambda: on.condition("a", names.QUOTA_RESERVED) is not None)
        assert on.condition("a", names.QUOTA_RESERVED)[2] == "ClusterQueue gone doesn't exist"
        status = on.store.get(names.LOCAL_QUEUE, "default", "q")["status"]["conditions"][0]
        assert (status["status"], status["reason"]) == ("False", "ClusterQueueDoesNotExist")


@virtually
async def test_a_namespace_that_a_queue_does_not_serve_is_refused():
    """Without a selector a ClusterQueue serves no namespace at all."""
    async with stage() as on:
        on.queue("q", 1, namespaceSelector=None)
        on.queue("r", 1, namespaceSelector={"matchLabels": {"team": "a"}})
        on.job("a", "q")
        on.job("b", "r")
        await on.until(
            lambda: on.condition("a", names.QUOTA_RESERVED) and on.condition("b", names.QUOTA_RESERVED)
        )
        text = "Workload namespace doesn't match ClusterQueue selector"
        assert on.condition("a", names.QUOTA_RESERVED)[2] == text
        assert on.condition("b", names.QUOTA_RESERVED)[2] == text
        on.store.mutate("Namespace", None, "default", lambda n: n["metadata"]["labels"].update(team="a"))
        await on.until(lambda: on.running("b") == 1)


@virtually
async def test_queues_and_flavors_go_once_nobody_holds_them():
    """A ClusterQueue waits for its Workloads to end, a flavor for its ClusterQueues to go."""
    async with stage() as on:
        on.queue("q", 1)
        on.job("a", "q", lasts="2s")
        await on.until(lambda: on.running("a") == 1)
        on.store.delete(names.CLUSTER_QUEUE, None, "q")
        on.store.delete(names.FLAVOR, None, "any")
        await on.rest(0.5)
        assert (
            on.store.get(names.CLUSTER_QUEUE, None, "q")["status"]["conditions"][0]["reason"] == "Terminating"
        )
        assert on.store.find(names.FLAVOR, None, "any") is not None
        await on.until(lambda: on.store.find(names.CLUSTER_QUEUE, None, "q") is None)
        await on.until(lambda: on.store.find(names.FLAVOR, None, "any") is None)
        assert on.is_so("a", names.FINISHED)


@virtually
async def test_a_local_queue_called_default_takes_jobs_without_one():
    """The admission adds its label to Jobs of its namespace, and to no others."""
    async with stage() as on:
        on.queue("default", 2)
        made = on.job("a", None, 2)
        assert made["metadata"]["labels"][names.QUEUE_LABEL] == "default"
        await on.until(lambda: on.running("a") == 2)
        assert on.is_so("a", names.ADMITTED)


@virtually
async def test_a_restarted_job_gets_its_template_back():
    """What the user wrote is there again after a drain, tolerations and node selector of the flavor are gone."""
    async with stage() as on:
        tolerations = [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}]
        on.flavor("gold", nodeLabels={"tier": "gold"}, tolerations=tolerations)
        for node in ("gpu-0", "gpu-1"):
            on.store.mutate(
                "Node", None, node, lambda n: n["metadata"].setdefault("labels", {}).update(tier="gold")
            )
        on.queue("q", 1, flavors=("gold",))
        on.job("a", "q", pod_labels={"mine": "x"})

        def template():
            return on.store.get("Job.batch", "default", "a")["spec"]["template"]

        await on.until(lambda: on.running("a") == 1)
        assert template()["spec"]["nodeSelector"] == {"tier": "gold"}
        assert tolerations[0] in template()["spec"]["tolerations"]
        on.stop_policy("q", names.DRAIN)
        await on.until(lambda: on.suspended("a") and not on.pods("a"))
        assert "nodeSelector" not in template()["spec"]
        assert tolerations[0] not in (template()["spec"].get("tolerations") or [])
        assert template()["metadata"]["labels"]["mine"] == "x"
        assert names.PODSET_LABEL not in template()["metadata"]["labels"]
