"""Quota: cohorts, flavors, order, and what may be taken back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpucluster.embedded.kueue import names
from pytest_gpucluster.embedded.kueue.amounts import canonical, show
from pytest_gpucluster.embedded.kueue.quota import Limit, Queue, Snapshot
from pytest_gpucluster.plain.quantities import parse_quantity
from tests.embedded.kueue.stage import GPU, stage, virtually

KEY = ("any", GPU)


def queue(name, nominal, used=0, *, cohort="", **limits):
    """Return a queue of one flavor."""
    numbers = {k: None if v is None else parse_quantity(v) for k, v in limits.items()}
    limit = Limit(parse_quantity(nominal), **numbers)
    return Queue(name, cohort, [(frozenset({GPU}), ["any"])], {KEY: limit}, {KEY: parse_quantity(used)})


@pytest.mark.parametrize(
    ("queues", "available", "capacity"),
    [
        ([queue("a", 8, 3)], 5, 8),
        ([queue("a", 4, cohort="c"), queue("b", 4, cohort="c")], 8, 8),
        ([queue("a", 4, 1, cohort="c"), queue("b", 4, 4, cohort="c")], 3, 8),
        ([queue("a", 4, cohort="c"), queue("b", 4, cohort="d")], 4, 4),
        ([queue("a", 4, cohort="c", borrowing=2), queue("b", 4, cohort="c")], 6, 6),
        ([queue("a", 4, 5, cohort="c", borrowing=2), queue("b", 4, cohort="c")], 1, 6),
        ([queue("a", 4, cohort="c"), queue("b", 4, cohort="c", lending=1)], 5, 5),
        ([queue("a", 4, cohort="c", lending=1), queue("b", 4, 5, cohort="c")], 3, 8),
        ([queue("a", 4, cohort="c"), queue("b", 4, 6, cohort="c")], 2, 8),
    ],
)
def test_what_a_queue_may_have(queues, available, capacity):
    """Its own, and what others of its cohort lend, within its borrowing limit and their lending limits."""
    now = Snapshot(queues, {})
    assert now.available(queues[0], KEY) == available
    assert now.capacity(queues[0], KEY) == capacity


@given(
    st.lists(
        st.tuples(st.integers(0, 8), st.integers(0, 8), st.one_of(st.none(), st.integers(0, 8))),
        min_size=1,
        max_size=4,
    )
)
def test_available_is_what_can_be_added_without_overuse(rows):
    """Taking all that is available leaves nothing, and never more than the cohort has in all is in use."""
    queues = []
    for index, (nominal, used, lending) in enumerate(rows):
        lend = None if lending is None else min(lending, nominal)
        queues.append(queue(f"q{index}", nominal, min(used, nominal), cohort="c", lending=lend))
    now = Snapshot(queues, {})
    first = queues[0]
    free = now.available(first, KEY)
    assert 0 <= free <= now.capacity(first, KEY)
    now.add(first.name, {KEY: free})
    assert now.available(first, KEY) == 0
    total = sum((q.limits[KEY].nominal for q in queues), parse_quantity(0))
    assert sum((q.used[KEY] for q in queues), parse_quantity(0)) <= total


def test_amounts_are_written_as_go_clients_do():
    """Decimal units for counts, binary ones for bytes, and no unit where it does not divide."""
    assert canonical("cpu", "1000") == "1k"
    assert canonical("cpu", "1500") == "1500"
    assert canonical("cpu", "0.5") == "500m"
    assert canonical("memory", "10240Gi") == "10Ti"
    assert canonical("memory", "1000") == "1000"
    assert show(GPU, parse_quantity(0)) == "0"


@virtually
async def test_the_next_flavor_is_tried():
    """What does not fit the first flavor takes the second; a taint or a selector rules a flavor out."""
    async with stage() as on:
        on.flavor("gold", nodeLabels={"tier": "gold"})
        on.flavor("locked", nodeTaints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])
        on.queue("q", [8, 2, 4], flavors=("locked", "gold", "any"))
        on.job("a", "q", 3)
        on.job("b", "q", 2)
        await on.until(lambda: on.is_so("a", names.ADMITTED) and on.is_so("b", names.ADMITTED))
        # Only now: Jobs of one second are queued by uid, and this one might be looked at first.
        on.job("c", "q", 2, pod={"nodeSelector": {"tier": "silver"}})
        await on.until(lambda: on.condition("c", names.QUOTA_RESERVED) is not None)

        def flavor(job):
            (assignment,) = on.workload(job)["status"]["admission"]["podSetAssignments"]
            return assignment["flavors"]

        assert flavor("a") == {GPU: "any"}
        assert flavor("b") == {GPU: "gold"}
        text = on.condition("c", names.QUOTA_RESERVED)[2]
        assert "untolerated taint {k v NoSchedule <nil>} in flavor locked" in text
        assert "flavor gold doesn't match node affinity" in text
        assert f"insufficient unused quota for {GPU} in flavor any, 1 more needed" in text


@pytest.mark.parametrize(("strategy", "small_runs"), [("BestEffortFIFO", True), ("StrictFIFO", False)])
def test_a_refused_workload_blocks_its_queue_only_where_that_is_asked_for(strategy, small_runs):
    """A small Job behind one that waits runs under BestEffortFIFO; under StrictFIFO it waits too."""

    @virtually
    async def test():
        async with stage() as on:
            on.queue("q", 4, queueingStrategy=strategy)
            on.job("a", "q", 3, lasts="4s")
            await on.until(lambda: on.running("a") == 3)
            on.job("big", "q", 4)
            await on.rest(1.1)
            on.job("small", "q", 1)
            await on.rest(1.0)
            assert on.running("small") == int(small_runs)
            assert len(on.events("Pending")) <= 2

    test()


@virtually
async def test_the_higher_priority_goes_first():
    """Of two that wait, that of the higher WorkloadPriorityClass is admitted, whoever came first."""
    async with stage() as on:
        on.store.create(names.PRIORITY_CLASS, {"metadata": {"name": "high"}, "value": 100})
        on.queue("q", 2)
        on.job("a", "q", 2, lasts="3s")
        await on.until(lambda: on.running("a") == 2)
        on.job("low", "q", 2)
        await on.rest(1.1)
        on.job("high", "q", 2, labels={names.PRIORITY_LABEL: "high"})
        await on.until(lambda: on.running("high") == 2)
        assert on.running("low") == 0
        reference = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}
        assert on.workload("high")["spec"]["priorityClassRef"] == reference


@virtually
async def test_a_cohort_lends_and_takes_back():
    """A queue borrows what its neighbour leaves; the neighbour takes it back by preemption where it may."""
    async with stage() as on:
        reclaim = {"reclaimWithinCohort": "Any"}
        on.queue("a", 4, cohortName="c", preemption=reclaim)
        on.queue("b", 4, cohortName="c", preemption=reclaim)
        for index in range(4):
            on.job(f"b{index}", "b", 2)
            await on.rest(1.1)
        assert [on.running(f"b{i}") for i in range(4)] == [2, 2, 2, 2]
        usage = on.store.get(names.CLUSTER_QUEUE, None, "b")["status"]["flavorsUsage"][0]["resources"][0]
        assert usage == {"name": GPU, "total": "8", "borrowed": "4"}
        on.job("mine", "a", 4)
        await on.until(lambda: on.running("mine") == 4)
        await on.rest(1.0)
        assert [on.running(f"b{i}") for i in range(4)] == [2, 2, 0, 0]
        status, reason, text = on.condition("b3", names.PREEMPTED)
        assert (status, reason) == ("True", "InCohortReclamation")
        assert text.endswith("due to reclamation within the cohort")
        assert on.condition("b3", names.EVICTED)[1] == names.PREEMPTED
        assert on.condition("b3", names.REQUEUED)[:2] == ("True", names.PREEMPTED)


@virtually
async def test_without_the_right_nothing_is_taken_back():
    """The default of every preemption rule is Never: the owner waits for what it has lent."""
    async with stage() as on:
        on.queue("a", 4, cohortName="c")
        on.queue("b", 4, cohortName="c")
        on.job("b0", "b", 8, lasts="3s")
        await on.until(lambda: on.running("b0") == 8)
        on.job("mine", "a", 4)
        await on.rest(1.5)
        assert on.running("mine") == 0
        assert on.running("b0") == 8
        await on.until(lambda: on.running("mine") == 4)
        assert on.condition("b0", names.EVICTED) is None


@virtually
async def test_a_lesser_workload_of_the_same_queue_gives_way():
    """The rule LowerPriority within a queue takes as little as is needed, the lowest first."""
    async with stage() as on:
        for name, value in (("low", 1), ("mid", 5), ("high", 9)):
            on.store.create(names.PRIORITY_CLASS, {"metadata": {"name": name}, "value": value})
        on.queue("q", 4, preemption={"withinClusterQueue": "LowerPriority"})
        on.job("mid", "q", 2, labels={names.PRIORITY_LABEL: "mid"})
        on.job("low", "q", 2, labels={names.PRIORITY_LABEL: "low"})
        await on.until(lambda: on.running("mid") == 2 and on.running("low") == 2)
        on.job("high", "q", 2, labels={names.PRIORITY_LABEL: "high"})
        await on.until(lambda: on.running("high") == 2)
        assert on.running("mid") == 2
        assert on.running("low") == 0
        assert on.condition("low", names.PREEMPTED)[1] == "InClusterQueue"
