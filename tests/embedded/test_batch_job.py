"""The batch Job controller: pods with indexes, counting, failing, completing, suspending."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpucluster.embedded.controllers.job_pods import format_indexes, parse_indexes
from pytest_gpucluster.embedded.errors import ApiError
from tests.embedded.support import cluster, empty_store, end_pod, job, node, run, settle, until

INDEX = "batch.kubernetes.io/job-completion-index"


def pods_of(store, *, phase=None):
    """Return the pods that are not being deleted."""
    found = [p for p in store.list("Pod") if not p["metadata"].get("deletionTimestamp")]
    return [p for p in found if phase is None or p["status"]["phase"] == phase]


def conditions(store, name="j"):
    """Return status and reason of each condition of a Job."""
    listed = store.get("Job.batch", "default", name)["status"].get("conditions") or []
    return {c["type"]: (c["status"], c["reason"]) for c in listed}


def status(store, name="j"):
    """Return the status of a Job."""
    return store.get("Job.batch", "default", name)["status"]


def event_reasons(store):
    """Return the reasons of the Job controller's events."""
    return [e["reason"] for e in store.list("Event") if e["source"].get("component") == "job-controller"]


def test_indexed_pods_are_made_as_recorded():
    """Each pod of an Indexed Job has its index as label, annotation, environment and part of its host name."""

    async def scene():
        async with cluster() as runtime:
            store = runtime.store
            made = store.create("Job.batch", job("ring", 3))
            await until(runtime, lambda: status(store, "ring").get("active") == 3)
            uid = made["metadata"]["uid"]
            pods = sorted(pods_of(store), key=lambda p: p["spec"]["hostname"])
            for i, pod in enumerate(pods):
                meta, spec = pod["metadata"], pod["spec"]
                assert meta["name"].startswith(f"ring-{i}-")
                assert (meta["generateName"], spec["hostname"]) == (f"ring-{i}-", f"ring-{i}")
                assert meta["annotations"] == {INDEX: str(i)}
                assert meta["labels"] == {
                    INDEX: str(i),
                    "batch.kubernetes.io/controller-uid": uid,
                    "batch.kubernetes.io/job-name": "ring",
                    "controller-uid": uid,
                    "job-name": "ring",
                }
                assert meta["finalizers"] == ["batch.kubernetes.io/job-tracking"]
                assert [(r["kind"], r["uid"]) for r in meta["ownerReferences"]] == [("Job", uid)]
                (env,) = spec["containers"][0]["env"]
                assert env["name"] == "JOB_COMPLETION_INDEX"
                assert env["valueFrom"]["fieldRef"]["fieldPath"] == f"metadata.labels['{INDEX}']"
            assert status(store, "ring") == {
                "active": 3,
                "ready": 0,
                "startTime": status(store, "ring")["startTime"],
                "terminating": 0,
                "uncountedTerminatedPods": {},
            }
            assert made["metadata"]["labels"]["job-name"] == "ring"
            assert made["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}

    run(scene())


def test_job_completes_in_the_recorded_steps():
    """When all indexes have succeeded the Job gets SuccessCriteriaMet, then Complete, then its event."""

    async def scene():
        async with cluster() as runtime:
            store = runtime.store
            store.create("Job.batch", job("j", 3))
            await until(runtime, lambda: status(store).get("active") == 3)
            with store.subscribe(["Job.batch"]) as changes:
                for pod in pods_of(store):
                    end_pod(store, pod["metadata"]["name"], "Succeeded")
                await until(runtime, lambda: "Completed" in event_reasons(store))
                steps = [
                    sorted(c["type"] for c in o["status"].get("conditions") or [])
                    for _, _, o in changes.pending()
                ]
            assert steps[-2:] == [["SuccessCriteriaMet"], ["Complete", "SuccessCriteriaMet"]]
            final = status(store)
            assert (final["succeeded"], final["completedIndexes"]) == (3, "0-2")
            assert final["completionTime"]
            assert "active" not in final
            assert conditions(store)["Complete"] == ("True", "CompletionsReached")
            assert all("finalizers" not in p["metadata"] for p in store.list("Pod"))

    run(scene())


def test_failed_pod_is_replaced_until_the_limit():
    """A failed index is tried again; one failure more than backoffLimit fails the Job and ends its pods."""

    async def scene():
        async with cluster() as runtime:
            store = runtime.store
            store.create("Job.batch", job("j", 2, backoffLimit=1))
            await until(runtime, lambda: status(store).get("active") == 2)
            first = next(p for p in pods_of(store) if p["metadata"]["annotations"][INDEX] == "1")
            end_pod(store, first["metadata"]["name"], "Failed")
            await until(
                runtime, lambda: status(store).get("failed") == 1 and status(store).get("active") == 2
            )
            again = [p for p in pods_of(store, phase="Pending") if p["metadata"]["annotations"][INDEX] == "1"]
            assert len(again) == 1
            end_pod(store, again[0]["metadata"]["name"], "Failed")
            await until(runtime, lambda: "Failed" in conditions(store))
            assert conditions(store) == {
                "FailureTarget": ("True", "BackoffLimitExceeded"),
                "Failed": ("True", "BackoffLimitExceeded"),
            }
            assert status(store)["failed"] == 2
            await until(runtime, lambda: not pods_of(store, phase="Pending"))
            assert "BackoffLimitExceeded" in event_reasons(store)

    run(scene())


def test_non_indexed_job_counts_to_its_completions():
    """A Job without indexes runs `parallelism` pods at a time until `completions` have succeeded."""

    async def scene():
        async with cluster() as runtime:
            store = runtime.store
            store.create("Job.batch", job("j", 3, completionMode="NonIndexed", parallelism=2))
            for done in range(3):
                await until(runtime, lambda d=done: len(pods_of(store, phase="Pending")) == min(2, 3 - d))
                end_pod(store, pods_of(store, phase="Pending")[0]["metadata"]["name"], "Succeeded")
            await until(runtime, lambda: "Complete" in conditions(store))
            assert status(store)["succeeded"] == 3
            assert len(store.list("Pod")) == 3

    run(scene())


def test_suspended_job_runs_no_pods():
    """A suspended Job has no pods; resumed it has; suspended again they go and none counts as failed."""

    async def scene():
        async with cluster() as runtime:
            store = runtime.store
            store.create("Job.batch", job("j", 2, suspend=True))
            await until(runtime, lambda: "Suspended" in conditions(store))
            await settle()
            assert store.list("Pod") == []
            assert "startTime" not in status(store)

            def suspend(*, value):
                store.mutate("Job.batch", "default", "j", lambda o: o["spec"].update(suspend=value))

            suspend(value=False)
            await until(runtime, lambda: status(store).get("active") == 2)
            assert conditions(store)["Suspended"] == ("False", "JobResumed")
            (resumed,) = [e for e in store.list("Event") if e["reason"] == "Resumed"]
            assert resumed["count"] == 1
            begun = status(store)["startTime"]
            suspend(value=True)
            await until(runtime, lambda: store.list("Pod") == [])
            await until(runtime, lambda: conditions(store)["Suspended"] == ("True", "JobSuspended"))
            assert "failed" not in status(store)
            assert status(store)["startTime"] == begun, (
                "the real controller keeps it until the Job is resumed"
            )
            assert {"Suspended", "Resumed", "SuccessfulDelete"} <= set(event_reasons(store))

    run(scene())


def test_deleting_a_job_deletes_its_pods():
    """The pods of a deleted Job go, although each has the tracking finalizer."""

    async def scene():
        async with cluster() as runtime:
            store = runtime.store
            store.create("Job.batch", job("j", 3))
            await until(runtime, lambda: len(pods_of(store)) == 3)
            store.delete("Job.batch", "default", "j")
            await until(runtime, lambda: store.list("Pod") == [])

    run(scene())


def test_a_job_that_is_deleted_after_its_pods_lets_them_go():
    """Foreground deletion waits for the pods, and nobody counts them any more: their finalizers must not hold them."""

    async def scene():
        async with cluster() as runtime:
            store = runtime.store
            store.create("Job.batch", job("j", 2))
            await until(runtime, lambda: status(store).get("active") == 2)
            store.delete("Job.batch", "default", "j", propagation="Foreground")
            await until(runtime, lambda: store.find("Job.batch", "default", "j") is None)
            assert store.list("Pod") == []

    run(scene())


def test_evicted_pod_counts_as_failed_and_is_replaced():
    """A pod that is deleted while it runs counts as failed and its index gets a new pod."""

    async def scene():
        async with cluster() as runtime:
            store = runtime.store
            store.create("Node", node("n"))
            store.create("Job.batch", job("j", 1, backoffLimit=3))
            await until(runtime, lambda: status(store).get("active") == 1)
            name = pods_of(store)[0]["metadata"]["name"]
            await until(runtime, lambda: store.get("Pod", "default", name)["spec"].get("nodeName"))
            store.delete("Pod", "default", name)
            await until(
                runtime, lambda: status(store).get("failed") == 1 and status(store).get("active") == 1
            )
            assert status(store)["terminating"] == 1

    run(scene())


@pytest.mark.parametrize(("defects", "again"), [((), False), (("lifecycle.job-forgets-finished",), True)])
def test_a_finished_index_is_remembered_without_its_pod(defects, again):
    """lifecycle.job-forgets-finished: the index of a finished pod that was deleted is made again; else it is not."""

    async def scene():
        async with cluster(defects=list(defects)) as runtime:
            store = runtime.store
            store.create("Job.batch", job("j", 2))
            await until(runtime, lambda: len(pods_of(store)) == 2)
            first = next(p for p in pods_of(store) if p["metadata"]["annotations"][INDEX] == "0")
            end_pod(store, first["metadata"]["name"], "Succeeded")
            await until(runtime, lambda: status(store).get("completedIndexes") == "0")
            await settle()
            store.delete("Pod", "default", first["metadata"]["name"])
            if again:
                await until(runtime, lambda: len(pods_of(store)) == 2)
            else:
                await settle()
                assert len(pods_of(store)) == 1
                assert status(store)["completedIndexes"] == "0"

    run(scene())


def test_deadline_fails_a_job():
    """A Job that is active for longer than its deadline fails with that reason."""

    async def scene():
        async with cluster() as runtime:
            store = runtime.store
            store.create("Job.batch", job("j", 1, activeDeadlineSeconds=1))
            await until(runtime, lambda: conditions(store).get("Failed") == ("True", "DeadlineExceeded"))

    run(scene())


def test_two_jobs_created_together_mix():
    """Pods of two Jobs created at once come in turns, so neither has all of its pods first."""

    async def scene():
        async with cluster() as runtime:
            store = runtime.store
            for name in ("a", "b"):
                store.create("Job.batch", job(name, 6))
            await until(runtime, lambda: len(pods_of(store)) == 12)
            order = sorted(store.list("Pod"), key=lambda p: int(p["metadata"]["resourceVersion"]))
            owners = "".join(p["metadata"]["labels"]["job-name"] for p in order)
            assert owners not in ("a" * 6 + "b" * 6, "b" * 6 + "a" * 6)

    run(scene())


def test_a_success_policy_ends_the_job_with_its_first_member():
    """Index 0 succeeds: the others are deleted, and the Job is Complete for that reason."""

    async def scene():
        async with cluster() as runtime:
            store = runtime.store
            rules = [{"succeededIndexes": "0", "succeededCount": 1}]
            store.create("Job.batch", job("j", 3, successPolicy={"rules": rules}))
            await until(runtime, lambda: len(pods_of(store)) == 3)
            first, second = (
                p["metadata"]["name"] for p in sorted(pods_of(store), key=lambda p: p["spec"]["hostname"])[:2]
            )
            end_pod(store, second, "Succeeded")
            await settle()
            assert "SuccessCriteriaMet" not in conditions(store)
            end_pod(store, first, "Succeeded")
            await until(runtime, lambda: "Complete" in conditions(store))
            assert conditions(store)["SuccessCriteriaMet"] == ("True", "SuccessPolicy")
            assert conditions(store)["Complete"] == ("True", "SuccessPolicy")
            assert not pods_of(store, phase="Pending")
            assert status(store)["completedIndexes"] == "0,1"

    run(scene())


def test_a_finished_job_goes_when_its_time_is_up():
    """The time to live counts from the end; a Job without one, or one that runs, stays."""

    async def scene():
        async with cluster() as runtime:
            store = runtime.store
            for name, more in (
                ("j", {"ttlSecondsAfterFinished": 0}),
                ("runs", {"ttlSecondsAfterFinished": 0}),
                ("k", {}),
            ):
                store.create("Job.batch", job(name, 1, **more))
            await until(runtime, lambda: len(pods_of(store)) == 3)
            for pod in pods_of(store):
                if pod["metadata"]["labels"]["job-name"] != "runs":
                    end_pod(store, pod["metadata"]["name"], "Succeeded")
            await until(
                runtime, lambda: {j["metadata"]["name"] for j in store.list("Job.batch")} == {"k", "runs"}
            )
            await until(runtime, lambda: len(pods_of(store)) == 2)

    run(scene())


def test_many_created_pods_are_told_in_combined_events():
    """Nine creations get an event each, further ones are combined into one with a count, as recorded."""

    async def scene():
        async with cluster() as runtime:
            store = runtime.store
            store.create("Job.batch", job("j", 17))
            await until(runtime, lambda: status(store).get("active") == 17)
            found = [e for e in store.list("Event") if e["reason"] == "SuccessfulCreate"]
            combined = [e for e in found if e["message"].startswith("(combined from similar events): ")]
            assert len(found) == 10
            assert [(e["count"], e["reportingComponent"]) for e in combined] == [(8, "")]

    run(scene())


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"completions": None}, "spec.completions"),
        ({"completionMode": "Sorted"}, "spec.completionMode"),
        ({"parallelism": -1}, "spec.parallelism"),
        ({"template": {"spec": {"containers": []}}}, "spec.template.spec.containers"),
    ],
)
def test_malformed_jobs_are_invalid(change, field):
    """Everyday mistakes are refused with 422 at their field."""
    body = job("j", 2)
    body["spec"].update(change)
    with pytest.raises(ApiError) as refused:
        empty_store().create("Job.batch", body)
    assert refused.value.code == 422
    assert field in [c["field"] for c in refused.value.details["causes"]]


def test_job_needs_a_restart_policy_of_its_own():
    """Always, or no restart policy, is refused with the accepted values."""
    for policy, text in (("Always", "Unsupported value"), (None, "Required value")):
        body = job("j", 1)
        body["spec"]["template"]["spec"]["restartPolicy"] = policy
        if policy is None:
            del body["spec"]["template"]["spec"]["restartPolicy"]
        with pytest.raises(ApiError, match=text):
            empty_store().create("Job.batch", body)


@given(st.sets(st.integers(0, 30)))
def test_index_lists_are_read_as_they_are_written(indexes):
    """A written set of indexes reads back as the same set."""
    assert parse_indexes(format_indexes(indexes)) == indexes


@pytest.mark.parametrize(("defects", "again"), [((), True), (("lifecycle.job-replaces-nobody",), False)])
def test_a_lost_pod_is_made_again(defects, again):
    """lifecycle.job-replaces-nobody: a pod that was deleted is not made again; a larger Job is not served either."""

    async def scene():
        async with cluster(defects=list(defects)) as runtime:
            store = runtime.store
            store.create("Job.batch", job("j", 2, backoffLimit=9))
            await until(runtime, lambda: len(pods_of(store)) == 2)
            await until(runtime, lambda: status(store).get("active") == 2)
            await settle()
            store.delete("Pod", "default", pods_of(store)[0]["metadata"]["name"])
            await (until(runtime, lambda: len(pods_of(store)) == 2) if again else settle())
            assert len(pods_of(store)) == (2 if again else 1)

    run(scene())


def test_a_job_that_ignores_its_limit_makes_failed_pods_again():
    """lifecycle.job-ignores-backoff-limit: more failures than backoffLimit allows end nothing."""

    async def scene():
        async with cluster(defects=["lifecycle.job-ignores-backoff-limit"]) as runtime:
            store = runtime.store
            store.create("Job.batch", job("j", 1, backoffLimit=0))
            for count in range(1, 4):
                await until(runtime, lambda: bool(pods_of(store, phase="Pending")))
                end_pod(store, pods_of(store, phase="Pending")[0]["metadata"]["name"], "Failed")
                await until(runtime, lambda n=count: status(store).get("failed") == n)
            assert "Failed" not in conditions(store)

    run(scene())
