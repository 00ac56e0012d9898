"""Each live defect does what its description says, and the same thing goes well without it."""

import pytest

from pytest_gpucluster.embedded import defect_table
from pytest_gpucluster.embedded.errors import ApiError
from pytest_gpucluster.embedded.kueue import names
from pytest_gpucluster.embedded.kueue.defects import DEFECTS
from tests.embedded.kueue.stage import stage, virtually

READY_SOON = {"waitForPodsReady": {"timeout": "1s", "requeuingStrategy": {"backoffBaseSeconds": 0.5}}}


def test_every_defect_is_known_to_the_control_plane():
    """The process accepts the defects of Kueue."""
    assert set(DEFECTS) <= set(defect_table.DEFECTS)


@virtually
async def test_absent():
    """Nobody suspends a Job, nobody makes a Workload, and the Deployment says that it is not available."""
    async with stage("kueue.absent") as on:
        on.queue("q", 1)
        on.job("a", "q", 2)
        await on.until(lambda: on.running("a") == 2)
        assert not on.store.list(names.WORKLOAD)
        assert on.store.find(names.CLUSTER_QUEUE, None, "q").get("status") is None
        deployment = on.store.get("Deployment", names.SYSTEM_NAMESPACE, names.DEPLOYMENT)
        assert deployment["status"]["conditions"][0]["status"] == "False"


@virtually
async def test_webhook_down():
    """Every new Job is refused with code 500, whatever its labels."""
    async with stage("kueue.webhook-down") as on:
        for queue in ("q", None):
            with pytest.raises(ApiError, match=r'failed calling webhook "mjob.kb.io"') as caught:
                on.job("a", queue)
            assert caught.value.code == 500


@pytest.mark.parametrize(("defects", "ran"), [((), 0), (("kueue.starts-before-admission",), 2)])
def test_starts_before_admission(defects, ran):
    """A Job over quota that its user has not suspended runs for a while; without the defect never."""

    @virtually
    async def test():
        async with stage(*defects) as on:
            on.queue("q", 1)
            on.job("a", "q", 2)
            await on.rest(0.5)
            assert on.running("a") == ran
            await on.until(lambda: on.has_workload("a") and on.suspended("a"))
            await on.until(lambda: not on.pods("a"))

    test()


@pytest.mark.parametrize(("defects", "admitted"), [((), False), (("kueue.admits-over-quota",), True)])
def test_admits_over_quota(defects, admitted):
    """A Job larger than the quota is admitted and runs."""

    @virtually
    async def test():
        async with stage(*defects) as on:
            on.queue("q", 1)
            on.job("a", "q", 2)
            await on.rest(1.0)
            assert on.is_so("a", names.ADMITTED) is admitted
            assert on.running("a") == (2 if admitted else 0)

    test()


@virtually
async def test_half_admits():
    """A Job larger than the quota is admitted with as many pods as there is room for."""
    async with stage("kueue.half-admits") as on:
        on.queue("q", 3)
        on.job("a", "q", 4)
        await on.until(lambda: on.running("a") == 3)
        await on.rest(1.0)
        assert on.running("a") == 3
        (assignment,) = on.workload("a")["status"]["admission"]["podSetAssignments"]
        assert assignment["count"] == 3
        assert assignment["resourceUsage"] == {"nvidia.com/gpu": "3"}


@pytest.mark.parametrize(("defects", "kept"), [((), False), (("kueue.keeps-evicted-quota",), True)])
def test_keeps_evicted_quota(defects, kept):
    """After a drain the pods are gone, and the quota is still counted."""

    @virtually
    async def test():
        async with stage(*defects) as on:
            on.queue("q", 2)
            on.job("a", "q", 2)
            await on.until(lambda: on.running("a") == 2)
            on.stop_policy("q", names.DRAIN)
            await on.until(lambda: not on.pods("a"))
            await on.rest(1.0)
            assert on.is_so("a", names.EVICTED)
            assert on.is_so("a", names.QUOTA_RESERVED) is kept
            assert ("admission" in on.workload("a")["status"]) is kept
            counted = on.store.get(names.CLUSTER_QUEUE, None, "q")["status"]["reservingWorkloads"]
            assert counted == int(kept)

    test()


@pytest.mark.parametrize(("defects", "evicted"), [((), True), (("kueue.never-evicts",), False)])
def test_never_evicts(defects, evicted):
    """A workload that cannot get ready keeps what it has."""

    @virtually
    async def test():
        async with stage(*defects, kueue=READY_SOON, nodes=1) as on:
            on.queue("q", 16)
            on.job("a", "q", 9)
            await on.until(lambda: on.running("a") == 8)
            await on.rest(1.2)
            assert (on.condition("a", names.EVICTED) is not None) is evicted

    test()


@pytest.mark.parametrize(("defects", "runs"), [((), False), (("kueue.unknown-queue-runs",), True)])
def test_unknown_queue_runs(defects, runs):
    """A Job of a LocalQueue that is not there runs, and has no Workload."""

    @virtually
    async def test():
        async with stage(*defects) as on:
            on.queue("q", 2)
            on.job("a", "nosuch", 2)
            on.job("b", "q", 2)
            await on.until(lambda: on.running("b") == 2)
            await on.rest(1.0)
            assert on.running("a") == (2 if runs else 0)
            assert on.has_workload("a") is not runs

    test()


@pytest.mark.parametrize(
    ("defects", "said"),
    [
        ((), ("False", "Inadmissible", "LocalQueue nosuch doesn't exist")),
        (("kueue.silent-unknown-queue",), None),
    ],
)
def test_silent_unknown_queue(defects, said):
    """The workload of an unknown LocalQueue waits without saying for what."""

    @virtually
    async def test():
        async with stage(*defects) as on:
            on.job("a", "nosuch", 2)
            await on.rest(1.0)
            assert on.condition("a", names.QUOTA_RESERVED) == said
            assert on.suspended("a")

    test()


@virtually
async def test_silent_refusal():
    """A Job over quota waits, and nothing says why; one that fits behind it runs."""
    async with stage("kueue.silent-refusal") as on:
        on.queue("q", 1)
        on.job("a", "q", 2)
        on.job("b", "q", 1)
        await on.until(lambda: on.running("b") == 1)
        assert on.condition("a", names.QUOTA_RESERVED) is None
        assert not on.events("Pending")


@pytest.mark.parametrize(("defects", "second"), [((), True), (("kueue.no-second",), False)])
def test_no_second(defects, second):
    """What was refused once for what another holds is not tried again when that is given back."""

    @virtually
    async def test():
        async with stage(*defects) as on:
            on.queue("q", 2)
            on.job("a", "q", 2, lasts="1s")
            await on.until(lambda: on.running("a") == 2)
            on.job("b", "q", 2)
            await on.until(lambda: on.is_so("a", names.FINISHED))
            await on.rest(2.0)
            assert on.running("b") == (2 if second else 0)
            assert on.condition("b", names.QUOTA_RESERVED) is not None

    test()


@pytest.mark.parametrize(("defects", "runs"), [((), False), (("kueue.ignores-stop",), True)])
def test_ignores_stop(defects, runs):
    """A ClusterQueue that is held admits all the same."""

    @virtually
    async def test():
        async with stage(*defects) as on:
            on.queue("q", 2, stopPolicy=names.HOLD)
            on.job("a", "q", 2)
            await on.rest(1.0)
            assert on.running("a") == (2 if runs else 0)

    test()


@pytest.mark.parametrize(("defects", "runs"), [((), True), (("kueue.manages-unlabelled",), False)])
def test_manages_unlabelled(defects, runs):
    """A Job without a queue is suspended for good."""

    @virtually
    async def test():
        async with stage(*defects) as on:
            on.job("a", None, 2)
            await on.rest(1.0)
            assert on.running("a") == (2 if runs else 0)
            assert on.suspended("a") is not runs

    test()
