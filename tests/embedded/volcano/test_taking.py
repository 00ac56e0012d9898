"""The actions preempt and reclaim, and the configuration that they depend on."""

import asyncio
from fractions import Fraction

import pytest

from pytest_gpucluster.embedded.cluster import build
from pytest_gpucluster.embedded.volcano import names
from pytest_gpucluster.embedded.volcano.scheduler import settings
from pytest_gpucluster.embedded.volcano.shipped import SCHEDULER_CONF
from tests.embedded.volcano.kubelet import SimulatedKubelet, new_node
from tests.embedded.volcano.virtual_time import run_virtually, wall

SLOT = "example.com/slot"
ONE_TIER = """\
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins:
  - name: conformance
  - name: priority
  - name: gang
  - name: overcommit
  - name: proportion
"""
"""Every plugin in one tier, so that none is overruled by a later one, and gang after those that must agree with it."""
GANG_EARLY = ONE_TIER.replace("  - name: conformance\n", "").replace(
    "gang\n", "gang\n  - name: conformance\n"
)
GANG_SILENT = ONE_TIER.replace("- name: gang\n", "- name: gang\n    enablePreemptable: false\n")
TWO_TIERS = ONE_TIER.replace("  - name: overcommit\n", "- plugins:\n  - name: overcommit\n")


class Cluster:
    """Two nodes of ten slots, a queue `other` of weight 3, and a class `high`."""

    def __init__(self, conf, defects=()):
        """Build it with a configuration of the scheduler."""
        self.runtime = build(
            {"defects": list(defects), "scheduler_period": 0.05, "volcano_scheduler_conf": conf}
        )
        self.store = self.runtime.store
        self.store.clock = wall
        self.store.create("Namespace", {"metadata": {"name": "n"}})
        self.store.create("PriorityClass", {"metadata": {"name": "high"}, "value": 1000})
        self.store.create("Queue", {"metadata": {"name": "other"}, "spec": {"weight": 3}})
        for index in range(2):
            self.store.create("Node", new_node(f"gpu-{index}", **{SLOT: "10"}))
        self.runtime.spawn(SimulatedKubelet(self.runtime).run(), "kubelets")

    def submit(self, name, replicas, size, **spec):
        """Create a Job whose pods run until they are deleted."""
        container = {"name": "c", "image": "i", "resources": {"limits": {SLOT: str(size)} if size else {}}}
        pod = {"restartPolicy": "Never", "containers": [container]}
        task = {"name": "w", "replicas": replicas, "template": {"spec": pod}}
        self.store.create("Job.batch.volcano.sh", {
            "metadata": {"name": name, "namespace": "n"},
            "spec": {"schedulerName": "volcano", "minAvailable": replicas, "tasks": [task], **spec},
        })  # fmt: skip

    def bound(self, name):
        """Return how many pods of a Job have a node and are not on their way out."""
        pods = [p for p in self.store.list("Pod", "n") if p["metadata"]["labels"][names.JOB_NAME] == name]
        return sum("nodeName" in p["spec"] and "deletionTimestamp" not in p["metadata"] for p in pods)

    def reasons(self, kind, name):
        """Return the reasons of the events about an object."""
        events = self.store.list("Event", "n")
        about = [e for e in events if e["involvedObject"]["kind"] == kind]
        return {(e["reason"], e["message"]) for e in about if e["involvedObject"]["name"].startswith(name)}


def run(story, conf, *defects):
    """Run a story in virtual time."""

    async def play():
        cluster = Cluster(conf, defects)
        await asyncio.sleep(0.5)
        result = await story(cluster)
        crashed = cluster.runtime.crashed.is_set()
        await cluster.runtime.stop()
        assert not crashed
        return result

    return run_virtually(play())


async def urgent_twice(cluster):
    """Let an urgent gang want what an elastic one has above its minimum, then another what it has not."""
    cluster.submit("elastic", 4, 5, minAvailable=3)
    await asyncio.sleep(1)
    cluster.submit("first", 2, 2, minAvailable=1, priorityClassName="high")
    await asyncio.sleep(1)
    then = cluster.bound("elastic"), cluster.bound("first")
    cluster.submit("second", 1, 3, priorityClassName="high")
    await asyncio.sleep(1)
    return then, (cluster.bound("elastic"), cluster.bound("second"))


@pytest.mark.parametrize(
    ("conf", "defects", "after"),
    [
        (ONE_TIER, (), (3, 0)),
        (GANG_SILENT, (), (2, 1)),
        (GANG_EARLY, (), (2, 1)),
        (ONE_TIER, ("preemption.ignores-minimum",), (2, 1)),
    ],
)
def test_preemption_stops_at_the_minimum_where_the_gang_plugin_votes(conf, defects, after):
    """What is above minAvailable is taken; below it only where the gang plugin is not asked, or not listened to.

    Before conformance it is not listened to, as seen on v1.14.4: priority names the elastic gang, gang names the
    surplus of the first urgent one, and once the two agree on nobody conformance decides as if it were the first.
    """
    assert run(urgent_twice, conf, *defects) == ((3, 2), after)


def test_an_eviction_says_why():
    """The PodGroup and the pod each have an event that names the action."""

    async def story(cluster):
        await urgent_twice(cluster)
        return cluster.reasons("PodGroup", "elastic"), cluster.reasons("Pod", "elastic")

    of_group, of_pods = run(story, ONE_TIER)
    assert ("Evict", "preempt") in of_group
    assert ("Evict", "Pod is evicted, because of preempt") in of_pods


async def asks_for_nothing(cluster):
    """Submit a gang whose members ask for nothing."""
    cluster.submit("free", 2, 0)
    await asyncio.sleep(2)
    return cluster.bound("free")


@pytest.mark.parametrize("conf", [SCHEDULER_CONF, ONE_TIER])
def test_members_that_ask_for_nothing_are_placed_by_backfill(conf):
    """Also where preempt, which comes before backfill, has pipelined them."""
    assert run(asks_for_nothing, conf) == 2


def test_nothing_is_preempted_without_the_action():
    """As shipped no gang is evicted for another."""
    assert run(urgent_twice, SCHEDULER_CONF) == ((4, 0), (4, 0))


async def borrowed(cluster, **spec):
    """Let one queue borrow all and the other ask for its share, one gang of two after the other."""
    cluster.submit("borrower", 10, 2, **spec)
    await asyncio.sleep(1)
    before = cluster.bound("borrower")
    for index in range(4):
        cluster.submit(f"owner-{index}", 2, 2, queue="other")
    await asyncio.sleep(4)
    return before, cluster.bound("borrower"), sum(cluster.bound(f"owner-{i}") for i in range(4))


def test_what_was_borrowed_is_given_back():
    """The owner gets as many whole gangs as its three quarters hold; the borrower keeps the rest."""

    async def story(cluster):
        return await borrowed(cluster, minAvailable=1)

    assert run(story, ONE_TIER) == (10, 4, 6)
    assert run(story, SCHEDULER_CONF) == (10, 10, 0)
    assert run(story, ONE_TIER, "preemption.never-gives-back") == (10, 10, 0)


def test_a_rigid_gang_is_halved_where_proportion_stands_in_a_later_tier():
    """A tier in which gang spares everybody protects nobody from the next (v1.14.4, `Session.Reclaimable`)."""

    async def story(cluster):
        return await borrowed(cluster, minAvailable=10)

    assert run(story, ONE_TIER) == (10, 10, 0)
    assert run(story, TWO_TIERS)[1] < 10


def test_the_configuration_is_read_again_when_it_changes():
    """A changed ConfigMap is in force from the next session on; an invalid one is passed over."""

    async def story(cluster):
        def write(text):
            def change(obj):
                obj["data"][names.SCHEDULER_CONFIG_KEY] = text

            cluster.store.mutate("ConfigMap", names.SYSTEM_NAMESPACE, names.SCHEDULER_CONFIG, change)

        cluster.submit("elastic", 4, 5, minAvailable=3)
        await asyncio.sleep(1)
        cluster.submit("first", 1, 2, priorityClassName="high")
        await asyncio.sleep(1)
        held = cluster.bound("first")
        write(ONE_TIER)
        write("actions: nosuch")
        await asyncio.sleep(2)
        kept = cluster.bound("first")
        write(ONE_TIER)
        await asyncio.sleep(2)
        return held, kept, cluster.bound("first")

    assert run(story, SCHEDULER_CONF) == (0, 0, 1)


@pytest.mark.parametrize(
    "text", ["actions: enqueue, nosuch", "[", "5", "actions: enqueue\ntiers: 3", "tiers: []"]
)
def test_an_invalid_configuration_is_refused(text):
    """What is no configuration, or names an action that does not exist, is refused."""
    with pytest.raises(settings.SettingsError):
        settings.parse(text)


def test_the_shipped_configuration_is_read():
    """Actions in order, plugins by tier, switches and arguments."""
    found = settings.parse(SCHEDULER_CONF)
    assert found.actions == ("enqueue", "allocate", "backfill")
    assert [len(tier) for tier in found.tiers] == [3, 6]
    assert found.tiers_of(["gang", "priority"], "enablePreemptable") == [["priority"], []]
    assert found.overcommit_factor() == Fraction(6, 5)
    wide = "actions: enqueue\ntiers:\n- plugins:\n  - name: overcommit\n    arguments:\n      overcommit-factor: 2.5\n"
    assert settings.parse(wide).overcommit_factor() == Fraction(5, 2)
