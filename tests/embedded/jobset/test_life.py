"""The life of a JobSet as v0.10.1 leads it: its Jobs and Service, how it succeeds, fails, restarts, waits, resumes."""

import pytest

from pytest_gpucluster.embedded.errors import ApiError
from pytest_gpucluster.embedded.jobset import names
from pytest_gpucluster.embedded.objects import name_of
from tests.embedded.support import cluster, end_pod, run, until

PLACE = ("default", "s")


def replicated(name, *, replicas=1, pods=1, **more):
    """Return one replicated Job."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}
    spec = {"parallelism": pods, "completions": pods, "backoffLimit": 0, "template": {"spec": pod}}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}, **more}


def jobset(*jobs, **spec):
    """Return a JobSet named `s`."""
    meta = {"name": PLACE[1], "namespace": PLACE[0]}
    return {"metadata": meta, "spec": {"replicatedJobs": list(jobs), **spec}}


def conditions(store):
    """Return status and reason of each condition of the set."""
    found = (store.get(names.JOBSET, *PLACE).get("status") or {}).get("conditions") or []
    return {c["type"]: (c["status"], c["reason"]) for c in found}


def pods_of(store, prefix, **labels):
    """Return the pods of a Job that are not being deleted."""
    return [
        pod
        for pod in store.list("Pod")
        if pod["metadata"]["name"].startswith(f"s-{prefix}-")
        and not pod["metadata"].get("deletionTimestamp")
        and pod["status"]["phase"] not in ("Succeeded", "Failed")
        and all(pod["metadata"]["labels"].get(key) == value for key, value in labels.items())
    ]


def reasons(store):
    """Return the reasons of the controller's events."""
    return [e["reason"] for e in store.list("Event") if e["source"].get("component") == names.REPORTER]


async def there(runtime, prefix, count=1, **labels):
    """Wait for pods of a Job and return them."""
    await until(runtime, lambda: len(pods_of(runtime.store, prefix, **labels)) == count)
    return pods_of(runtime.store, prefix, **labels)


def test_a_set_makes_its_jobs_and_its_service():
    """Jobs and pods say what they are of; the subdomain is the name of the Service."""

    async def scene():
        async with cluster(jobset=True) as runtime:
            store = runtime.store
            store.create(names.JOBSET, jobset(replicated("a"), replicated("b", replicas=2, pods=2)))
            (pod, _) = sorted(await there(runtime, "b-1", 2), key=lambda one: one["metadata"]["name"])
            assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("s-b-1-0", "s")
            labels = pod["metadata"]["labels"]
            assert labels[names.GLOBAL_INDEX] == "2"
            assert (labels[names.REPLICAS], labels[names.ALL_REPLICAS]) == ("2", "3")
            assert (labels[names.JOBSET_NAME], labels[names.ATTEMPT]) == ("s", "0")
            service = store.get("Service", "default", "s")
            assert service["spec"]["selector"] == {names.JOBSET_NAME: "s"}
            assert service["spec"]["publishNotReadyAddresses"] is True
            assert sorted(j["metadata"]["name"] for j in store.list("Job.batch")) == [
                "s-a-0",
                "s-b-0",
                "s-b-1",
            ]

    run(scene())


@pytest.mark.parametrize(
    ("operator", "ends"), [("Any", ["first"]), ("All", ["first", "second"])], ids=["any", "all"]
)
def test_the_targets_end_the_set(operator, ends):
    """What is no target is ended, its pods with it; the Jobs that completed stay."""

    async def scene():
        async with cluster(jobset=True) as runtime:
            store = runtime.store
            policy = {"operator": operator, "targetReplicatedJobs": ["first", "second"]}
            jobs = [replicated(name) for name in ("first", "second", "third")]
            store.create(names.JOBSET, jobset(*jobs, successPolicy=policy))
            for name in ends:
                assert names.COMPLETED not in conditions(store)
                (pod,) = await there(runtime, f"{name}-0")
                end_pod(store, name_of(pod), "Succeeded")
            await until(runtime, lambda: conditions(store).get(names.COMPLETED))
            assert conditions(store)[names.COMPLETED] == ("True", "AllJobsCompleted")
            await until(runtime, lambda: len(store.list("Job.batch")) == len(ends))
            assert store.get(names.JOBSET, *PLACE)["status"]["terminalState"] == "Completed"

    run(scene())


def test_a_set_restarts_as_a_whole_and_then_fails():
    """Each failure makes all Jobs anew, until maxRestarts is used up; attempts are told on labels and in the status."""

    async def scene():
        async with cluster(jobset=True) as runtime:
            store = runtime.store
            policy = {"maxRestarts": 1}
            store.create(names.JOBSET, jobset(replicated("a"), replicated("b"), failurePolicy=policy))
            for attempt in ("0", "1"):
                await there(runtime, "b-0", 1, **{names.ATTEMPT: attempt})
                (pod,) = await there(runtime, "a-0", 1, **{names.ATTEMPT: attempt})
                end_pod(store, name_of(pod), "Failed")
            await until(runtime, lambda: conditions(store).get(names.FAILED))
            assert conditions(store)[names.FAILED] == ("True", "ReachedMaxRestarts")
            status = store.get(names.JOBSET, *PLACE)["status"]
            assert (status["restarts"], status["restartsCountTowardsMax"]) == (1, 1)
            assert reasons(store) == ["RestartJobSetFailurePolicyAction", "ReachedMaxRestarts"]
            await until(runtime, lambda: not pods_of(store, "b-0"))

    run(scene())


@pytest.mark.parametrize(
    ("rule", "reason", "restarts"),
    [
        ({"action": "FailJobSet", "targetReplicatedJobs": ["a"]}, "FailJobSetFailurePolicyAction", 0),
        ({"action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}, "ReachedMaxRestarts", 0),
        (
            {"action": "FailJobSet", "onJobFailureMessagePatterns": ["limit"]},
            "FailJobSetFailurePolicyAction",
            0,
        ),
    ],
    ids=["target", "other-reason", "message"],
)
def test_the_first_rule_that_fits_decides(rule, reason, restarts):
    """Rules are asked by target, reason and message; where none fits, the set is restarted, here no time at all."""

    async def scene():
        async with cluster(jobset=True) as runtime:
            store = runtime.store
            policy = {"maxRestarts": 0, "rules": [rule]}
            store.create(names.JOBSET, jobset(replicated("a"), failurePolicy=policy))
            (pod,) = await there(runtime, "a-0")
            end_pod(store, name_of(pod), "Failed")
            await until(runtime, lambda: conditions(store).get(names.FAILED))
            assert conditions(store)[names.FAILED] == ("True", reason)
            assert int(store.get(names.JOBSET, *PLACE)["status"].get("restarts") or 0) == restarts

    run(scene())


def test_without_a_failure_policy_the_first_failure_ends_the_set():
    """Nobody restarts what nobody asked to restart."""

    async def scene():
        async with cluster(jobset=True) as runtime:
            store = runtime.store
            store.create(names.JOBSET, jobset(replicated("a")))
            (pod,) = await there(runtime, "a-0")
            end_pod(store, name_of(pod), "Failed")
            await until(runtime, lambda: conditions(store).get(names.FAILED))
            assert conditions(store)[names.FAILED] == ("True", "FailedJobs")

    run(scene())


def test_a_later_job_waits_for_what_it_depends_on():
    """Complete is the end of all its Jobs; until then the later one has no Job at all."""

    async def scene():
        async with cluster(jobset=True) as runtime:
            store = runtime.store
            after = [{"name": "a", "status": "Complete"}]
            store.create(names.JOBSET, jobset(replicated("a"), replicated("b", dependsOn=after)))
            (pod,) = await there(runtime, "a-0")
            assert store.find("Job.batch", "default", "s-b-0") is None
            end_pod(store, name_of(pod), "Succeeded")
            await there(runtime, "b-0")

    run(scene())


def test_a_suspended_set_has_jobs_and_no_pods_and_resumes_with_its_changed_template():
    """As Kueue uses it: it changes node selectors while the set is suspended, and lets it go on."""

    async def scene():
        async with cluster(jobset=True) as runtime:
            store = runtime.store
            store.create(names.JOBSET, jobset(replicated("a"), suspend=True))
            await until(runtime, lambda: conditions(store).get(names.SUSPENDED))
            assert conditions(store) == {names.SUSPENDED: ("True", "SuspendedJobs")}
            assert store.list("Pod") == []

            def admit(obj):
                pod = obj["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
                pod["spec"]["nodeSelector"] = {"pool": "a"}
                obj["spec"]["suspend"] = False

            store.mutate(names.JOBSET, *PLACE, admit)
            (pod,) = await there(runtime, "a-0")
            assert pod["spec"]["nodeSelector"] == {"pool": "a"}
            await until(runtime, lambda: conditions(store)[names.SUSPENDED][0] == "False")

    run(scene())


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (jobset(replicated("a", dependsOn=[{"name": "a", "status": "Ready"}])), "DependsOn can't be set"),
        (
            jobset(replicated("a"), successPolicy={"operator": "Any", "targetReplicatedJobs": ["b"]}),
            "invalid replicatedJob name 'b'",
        ),
        (jobset(replicated("a" * 62)), "job names generated for this JobSet will exceed 63"),
        (
            jobset(replicated("a"), failurePolicy={"rules": [{"action": "Restart"}]}),
            'Unsupported value: "Restart"',
        ),
        (jobset(replicated("a"), successPolicy={"operator": "Some"}), 'Unsupported value: "Some"'),
    ],
)
def test_what_the_webhook_and_the_schema_refuse(made, said):
    """A mistake in a JobSet is an answer of the API, not a set that never ends."""

    async def scene():
        async with cluster(jobset=True) as runtime:
            with pytest.raises(ApiError) as refused:
                runtime.store.create(names.JOBSET, made)
            assert said in refused.value.message

    run(scene())


def test_a_finished_set_goes_when_its_time_is_up():
    """With all that it owns: its Jobs and its Service."""

    async def scene():
        async with cluster(jobset=True) as runtime:
            store = runtime.store
            store.create(names.JOBSET, jobset(replicated("a"), ttlSecondsAfterFinished=0))
            (pod,) = await there(runtime, "a-0")
            end_pod(store, name_of(pod), "Succeeded")
            await until(runtime, lambda: store.find(names.JOBSET, *PLACE) is None)
            assert store.list("Job.batch") == []

    run(scene())


@pytest.mark.parametrize(
    ("defect", "shows"),
    [
        ("jobset.absent", lambda store: not store.list("Job.batch")),
        ("jobset.no-service", lambda store: not store.list("Service")),
        ("jobset.ignores-order", lambda store: len(store.list("Job.batch")) == 2),
    ],
)
def test_defects_that_show_at_the_start(defect, shows):
    """Each departs in the way that its line says."""

    async def scene():
        async with cluster(jobset=True, defects=[defect]) as runtime:
            store = runtime.store
            after = [{"name": "a", "status": "Complete"}]
            store.create(names.JOBSET, jobset(replicated("a"), replicated("b", dependsOn=after)))
            if defect != "jobset.absent":
                await there(runtime, "a-0")
            assert shows(store)

    run(scene())


@pytest.mark.parametrize("defect", ["jobset.keeps-others", "jobset.restarts-without-end"])
def test_defects_that_show_at_the_end(defect):
    """A set that leaves its other Jobs running, and one that restarts beyond its bound."""

    async def scene():
        async with cluster(jobset=True, defects=[defect]) as runtime:
            store = runtime.store
            jobs = (replicated("a"), replicated("b"))
            store.create(names.JOBSET, jobset(*jobs, failurePolicy={"maxRestarts": 0}))
            (pod,) = await there(runtime, "a-0")
            end_pod(store, name_of(pod), "Failed")
            if defect == "jobset.keeps-others":
                await until(runtime, lambda: conditions(store).get(names.FAILED))
                assert len(pods_of(store, "b-0")) == 1
            else:
                await there(runtime, "a-0", 1, **{names.ATTEMPT: "1"})

    run(scene())
