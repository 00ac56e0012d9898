"""Admission checks, as Kueue has them: quota first, then every check, and no controller of theirs in the cluster."""

import pytest

from pytest_gpucluster.embedded.errors import ApiError
from pytest_gpucluster.embedded.kueue import names
from tests.embedded.kueue.stage import stage, virtually

STRATEGY = {"admissionChecks": [{"name": "fit"}]}


def make(on, name="fit", *, active=True):
    """Create an AdmissionCheck as its controller leaves it."""
    on.store.create(
        names.ADMISSION_CHECK, {"metadata": {"name": name}, "spec": {"controllerName": "example.com/fit"}}
    )
    if active is not None:
        activate(on, name, active=active)


def activate(on, name="fit", *, active=True):
    """Write its condition Active."""
    condition = {"type": "Active", "status": str(active), "reason": "ByTest", "message": ""}
    on.store.mutate(
        names.ADMISSION_CHECK,
        None,
        name,
        lambda c: c.update(status={"conditions": [condition]}),
        subresource="status",
    )


def say(on, job, state, name="fit", **more):
    """Write the state of a Workload's check, as its controller does."""

    def write(workload):
        for check in workload["status"]["admissionChecks"]:
            if check["name"] == name:
                check.update(state=state, lastTransitionTime=on.store.now(), message="by test", **more)

    on.store.mutate(
        names.WORKLOAD, "default", on.workload(job)["metadata"]["name"], write, subresource="status"
    )


def checks(on, job):
    """Return name -> state of a Workload's checks."""
    listed = (
        (on.workload(job).get("status") or {}).get("admissionChecks") or [] if on.has_workload(job) else []
    )
    return {check["name"]: check["state"] for check in listed}


def active(on, queue="q"):
    """Return status, reason and message of a ClusterQueue's condition Active."""
    (found,) = on.store.get(names.CLUSTER_QUEUE, None, queue)["status"]["conditions"]
    return found["status"], found["reason"], found["message"]


@virtually
async def test_a_workload_reserves_quota_and_waits_for_its_check():
    """Nobody writes Ready: it stays Pending, and its Job suspended, for as long as that takes."""
    async with stage() as on:
        make(on)
        on.queue("q", 4, admissionChecksStrategy=STRATEGY)
        on.job("a", "q", 2)
        await on.until(lambda: on.is_so("a", names.QUOTA_RESERVED))
        await on.rest(60)
        assert checks(on, "a") == {"fit": "Pending"}
        assert on.condition("a", names.ADMITTED) is None
        assert on.suspended("a")
        counts = on.store.get(names.CLUSTER_QUEUE, None, "q")["status"]
        assert (counts["reservingWorkloads"], counts["admittedWorkloads"]) == (1, 0)
        say(on, "a", "Ready")
        await on.until(lambda: on.running("a") == 2)
        assert on.condition("a", names.ADMITTED) == ("True", "Admitted", "The workload is admitted")
        assert any("wait time since reservation was 60s" in text for text in on.events("Admitted"))


@virtually
async def test_a_check_that_is_not_active_keeps_its_queue_inactive():
    """With or without the condition; what runs goes on, and what waits says why."""
    async with stage() as on:
        make(on, active=None)
        on.queue("q", 4, admissionChecksStrategy=STRATEGY)
        on.job("a", "q", 1)
        await on.until(lambda: on.condition("a", names.QUOTA_RESERVED) is not None)
        text = "Can't admit new workloads: references inactive AdmissionCheck(s): fit."
        assert active(on) == ("False", "AdmissionCheckInactive", text)
        assert on.condition("a", names.QUOTA_RESERVED) == (
            "False",
            "Inadmissible",
            "ClusterQueue q is inactive",
        )
        activate(on)
        await on.until(lambda: on.is_so("a", names.QUOTA_RESERVED))
        say(on, "a", "Ready")
        await on.until(lambda: on.running("a") == 1)
        activate(on, active=False)
        await on.until(lambda: active(on)[0] == "False")
        await on.rest(5)
        assert on.running("a") == 1
        assert on.is_so("a", names.ADMITTED)


@virtually
async def test_a_check_that_is_added_evicts_nothing():
    """What is admitted lists it as Pending and runs on; what comes later waits for it."""
    async with stage() as on:
        make(on)
        on.queue("q", 4)
        on.job("a", "q", 1)
        await on.until(lambda: on.running("a") == 1)
        on.store.mutate(
            names.CLUSTER_QUEUE, None, "q", lambda q: q["spec"].update(admissionChecksStrategy=STRATEGY)
        )
        await on.until(lambda: checks(on, "a") == {"fit": "Pending"})
        on.job("b", "q", 1)
        await on.until(lambda: on.is_so("b", names.QUOTA_RESERVED))
        await on.rest(5)
        assert on.running("a") == 1
        assert on.is_so("a", names.ADMITTED)
        assert not on.running("b")


@virtually
async def test_all_checks_have_to_be_ready():
    """Of two, one is not enough."""
    async with stage() as on:
        make(on)
        make(on, "budget")
        rules = {"admissionChecks": [{"name": "fit"}, {"name": "budget"}]}
        on.queue("q", 4, admissionChecksStrategy=rules)
        on.job("a", "q", 1)
        await on.until(lambda: on.is_so("a", names.QUOTA_RESERVED))
        await on.until(lambda: len(checks(on, "a")) == 2)
        say(on, "a", "Ready")
        await on.rest(2)
        assert not on.is_so("a", names.ADMITTED)
        say(on, "a", "Ready", "budget")
        await on.until(lambda: on.running("a") == 1)


@virtually
async def test_a_check_of_some_flavors_is_for_those_alone():
    """Which ones are asked is known when a flavor was given."""
    async with stage() as on:
        make(on)
        on.flavor("spot")
        rules = {"admissionChecks": [{"name": "fit", "onFlavors": ["spot"]}]}
        on.queue("q", (1, 4), flavors=("any", "spot"), admissionChecksStrategy=rules)
        on.job("a", "q", 1)
        await on.until(lambda: on.running("a") == 1)
        on.job("b", "q", 1)
        await on.until(lambda: checks(on, "b") == {"fit": "Pending"})
        await on.rest(2)
        assert not on.running("b")


@virtually
async def test_retry_gives_the_quota_back_and_asks_again():
    """It is evicted, its checks are Pending again, and it queues: once at once, once after the time that was asked."""
    async with stage() as on:
        make(on)
        on.queue("q", 1, admissionChecksStrategy=STRATEGY)
        on.job("a", "q", 1)
        await on.until(lambda: on.is_so("a", names.QUOTA_RESERVED))
        say(on, "a", "Ready")
        await on.until(lambda: on.running("a") == 1)
        on.job("b", "q", 1)
        await on.until(lambda: checks(on, "b") == {"fit": "Pending"})
        say(on, "a", "Retry", requeueAfterSeconds=30)
        await on.until(lambda: on.is_so("b", names.QUOTA_RESERVED))
        status, reason, text = on.condition("a", names.EVICTED)
        assert (status, reason, text) == ("True", "AdmissionCheck", "At least one admission check is false")
        assert on.suspended("a")
        assert not on.is_so("a", names.ADMITTED)
        (check,) = on.workload("a")["status"]["admissionChecks"]
        assert (check["state"], check["retryCount"]) == ("Pending", 1)
        assert check["message"] == "Reset to Pending after eviction. Previously: Retry"
        on.store.delete("Job.batch", "default", "b")
        await on.rest(5)
        assert not on.is_so("a", names.QUOTA_RESERVED)
        await on.rest(30)
        assert on.is_so("a", names.QUOTA_RESERVED)
        assert on.condition("a", names.REQUEUED)[:2] == ("True", "BackoffFinished")
        assert checks(on, "a") == {"fit": "Pending"}


@virtually
async def test_a_stopped_queue_takes_the_quota_of_what_waits_for_a_check():
    """Held or drained, cluster or local; what is admitted stays in a queue that is held."""
    async with stage() as on:
        make(on)
        for name, policy, kind in (
            ("q", names.HOLD, names.CLUSTER_QUEUE),
            ("r", names.DRAIN, names.CLUSTER_QUEUE),
            ("s", names.HOLD, names.LOCAL_QUEUE),
        ):
            on.queue(name, 4, admissionChecksStrategy=STRATEGY)
            on.job(f"runs-{name}", name, 1)
            await on.until(lambda: on.is_so(f"runs-{name}", names.QUOTA_RESERVED))  # noqa: B023
            say(on, f"runs-{name}", "Ready")
            await on.until(lambda: on.running(f"runs-{name}") == 1)  # noqa: B023
            on.job(f"waits-{name}", name, 1)
            await on.until(lambda: on.is_so(f"waits-{name}", names.QUOTA_RESERVED))  # noqa: B023
            on.stop_policy(name, policy, kind)
            await on.until(lambda: not on.is_so(f"waits-{name}", names.QUOTA_RESERVED))  # noqa: B023
            reason, text = on.condition(f"waits-{name}", names.QUOTA_RESERVED)[1:]
            assert (reason, text) in {
                ("Inadmissible", f"{kind} {name} is stopped"),
                ("Inadmissible", f"{kind} {name} is inactive"),
            }
            await on.rest(1)
            assert on.running(f"runs-{name}") == (policy == names.HOLD)


@virtually
async def test_a_rejected_workload_is_deactivated():
    """Its quota goes to others, and it does not come back by itself."""
    async with stage() as on:
        make(on)
        on.queue("q", 1, admissionChecksStrategy=STRATEGY)
        on.job("a", "q", 1)
        await on.until(lambda: on.is_so("a", names.QUOTA_RESERVED))
        say(on, "a", "Rejected")
        await on.until(lambda: on.workload("a")["spec"]["active"] is False)
        await on.until(lambda: not on.is_so("a", names.QUOTA_RESERVED))
        assert on.condition("a", names.EVICTED)[1] == "DeactivatedDueToAdmissionCheck"
        assert on.events("AdmissionCheckRejected") == [
            "Deactivating workload because AdmissionCheck for fit was Rejected: by test"
        ]


@virtually
async def test_a_check_belongs_to_one_controller_and_stays_while_it_is_used():
    """Its controllerName is required and immutable; a finalizer holds it while a queue names it."""
    async with stage() as on:
        with pytest.raises(ApiError, match="Required value"):
            on.store.create(names.ADMISSION_CHECK, {"metadata": {"name": "x"}, "spec": {}})
        make(on)
        with pytest.raises(ApiError, match="immutable"):
            on.store.mutate(
                names.ADMISSION_CHECK, None, "fit", lambda c: c["spec"].update(controllerName="b")
            )
        on.queue("q", 1, admissionChecksStrategy=STRATEGY)
        await on.until(
            lambda: (
                names.IN_USE
                in (on.store.get(names.ADMISSION_CHECK, None, "fit")["metadata"].get("finalizers") or [])
            )
        )
