"""Lives of Jobs that no recording shows: delays, restarts of parts, scaling, a queue that is not ready."""

import asyncio

from pytest_gpucluster.embedded.cluster import build
from pytest_gpucluster.embedded.objects import name_of
from tests.embedded.volcano.kubelet import SimulatedKubelet, new_node
from tests.embedded.volcano.virtual_time import run_virtually, wall

JOB = "Job.batch.volcano.sh"


class Cluster:
    """A cluster of two nodes in virtual time."""

    def __init__(self, **config):
        """Start it with a configuration."""
        self.runtime = build({"defects": [], **config})
        self.store = self.runtime.store
        self.store.clock = wall
        for index in range(2):
            self.store.create("Node", new_node(f"gpu-{index}"))
        self.store.create("Namespace", {"metadata": {"name": "n"}})
        self.runtime.spawn(SimulatedKubelet(self.runtime).run(), "kubelets")

    def submit(self, name="j", *, gpus=1, replicas=2, annotations=None, task=None, **spec):
        """Create a Job of one task."""
        container = {"name": "c", "image": "i:1", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
        if not gpus:
            container.pop("resources")
        template = {
            "metadata": {"annotations": annotations or {}},
            "spec": {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 1},
        }
        tasks = [{"name": "w", "replicas": replicas, "template": template, **(task or {})}]
        body = {"metadata": {"name": name, "namespace": "n"}, "spec": {"tasks": tasks, **spec}}
        return self.store.create(JOB, body)

    def phase(self, name="j"):
        """Return a Job's phase."""
        return ((self.store.get(JOB, "n", name).get("status") or {}).get("state") or {}).get("phase")

    def pods(self):
        """Return the pods by name."""
        return {name_of(p): p for p in self.store.list("Pod", "n")}

    def reasons(self, about):
        """Return the reasons of events about a kind."""
        return {e["reason"] for e in self.store.list("Event", "n") if e["involvedObject"]["kind"] == about}


def run(story, **config):
    """Run a story in a new cluster and return what it returns."""

    async def main():
        cluster = Cluster(**config)
        await asyncio.sleep(1)
        out = await story(cluster)
        crashed = cluster.runtime.crashed.is_set()
        await cluster.runtime.stop()
        assert not crashed
        return out

    return run_virtually(main())


def test_a_policy_with_a_timeout_acts_later():
    """PodFailed with a timeout aborts the Job only after that time."""

    async def story(cluster):
        policies = [{"event": "PodFailed", "action": "AbortJob", "timeout": "5s"}]
        cluster.submit(
            policies=policies,
            minAvailable=1,
            replicas=2,
            annotations={"sim/exit-after": "1s", "sim/exit-code": "1"},
        )
        await asyncio.sleep(3)
        before = cluster.phase()
        await asyncio.sleep(5)
        return before, cluster.phase()

    before, after = run(story)
    assert before != "Aborted"
    assert after in ("Aborted", "Failed")


def test_a_pod_that_stays_pending_can_end_the_job():
    """PodPending with a timeout terminates a Job whose pods find no room."""

    async def story(cluster):
        cluster.submit(
            replicas=3, gpus=5, policies=[{"event": "PodPending", "action": "TerminateJob", "timeout": "4s"}]
        )
        await asyncio.sleep(3)
        before = cluster.phase()
        await asyncio.sleep(4)
        return before, cluster.phase()

    assert run(story) == ("Pending", "Terminated")


def test_restarting_one_pod_leaves_the_others():
    """RestartPod replaces the failed pod alone, costs one retry and keeps the version."""

    async def story(cluster):
        cluster.submit(replicas=2, policies=[{"event": "PodEvicted", "action": "RestartPod"}])
        await asyncio.sleep(2)
        before = {k: p["metadata"]["uid"] for k, p in cluster.pods().items()}
        cluster.store.delete("Pod", "n", "j-w-0")
        await asyncio.sleep(4)
        after = {k: p["metadata"]["uid"] for k, p in cluster.pods().items()}
        return before, after, cluster.store.get(JOB, "n", "j")["status"], cluster.phase()

    before, after, status, phase = run(story)
    assert before["j-w-1"] == after["j-w-1"]
    assert before["j-w-0"] != after["j-w-0"]
    assert (status["retryCount"], status.get("version"), phase) == (1, None, "Running")


def test_a_job_can_be_scaled():
    """More replicas make more pods, fewer replicas end the surplus ones."""

    async def story(cluster):
        cluster.submit(replicas=2, minAvailable=1, task={"minAvailable": 1})
        await asyncio.sleep(2)
        sizes = []
        for wanted in (4, 1):
            cluster.store.mutate(
                JOB, "n", "j", lambda job, n=wanted: job["spec"]["tasks"][0].update(replicas=n)
            )
            await asyncio.sleep(2)
            sizes.append(sorted(cluster.pods()))
        return sizes

    assert run(story) == [["j-w-0", "j-w-1", "j-w-2", "j-w-3"], ["j-w-0"]]


def test_pods_without_requests_are_placed_one_by_one():
    """Members that ask for nothing are placed by backfill and count towards the minimum."""

    async def story(cluster):
        cluster.submit(gpus=0, replicas=3)
        await asyncio.sleep(3)
        return cluster.phase(), [p["spec"].get("nodeName") for p in cluster.pods().values()]

    phase, nodes = run(story)
    assert phase == "Running"
    assert all(nodes)


def test_a_job_waits_for_its_queue_to_open():
    """While the default queue has no state yet, admission refuses Jobs."""

    async def story(cluster):
        state = (cluster.store.get("Queue", None, "default").get("status") or {}).get("state")
        await asyncio.sleep(3)
        cluster.submit()
        await asyncio.sleep(2)
        return state, cluster.phase()

    assert run(story, default_queue_ready_delay=2) == (None, "Running")


def test_an_unknown_plugin_without_admission_stops_the_job():
    """Without admission an unknown plugin is reported by an event and no PodGroup is made."""

    async def story(cluster):
        cluster.submit(plugins={"nosuch": []}, schedulerName="volcano", minAvailable=2)
        await asyncio.sleep(2)
        return cluster.phase(), cluster.reasons("Job"), cluster.store.list("PodGroup")

    assert run(story, defects=["admission.down"]) == ("Pending", {"PluginError"}, [])


def test_without_admission_there_is_no_gang():
    """Without admission a Job that states no minAvailable has minMember 0 and runs at once."""

    async def story(cluster):
        cluster.submit(schedulerName="volcano")
        await asyncio.sleep(0.01)
        (group,) = cluster.store.list("PodGroup")
        return group["spec"]["minMember"], cluster.phase()

    assert run(story, defects=["admission.down"]) == (0, "Running")


def test_room_that_is_being_freed_is_kept_for_the_gang():
    """Members that fit once ending pods are gone are Pipelined, and bound when they are."""

    async def story(cluster):
        cluster.store.create("Queue", {"metadata": {"name": "other"}, "spec": {}})
        cluster.submit("first", replicas=1, gpus=8)
        await asyncio.sleep(2)
        hold = {"finalizers": ["test/hold"]}
        cluster.store.mutate("Pod", "n", "first-w-0", lambda pod: pod["metadata"].update(hold))
        cluster.store.delete(JOB, "n", "first")
        cluster.submit("second", replicas=2, gpus=5, queue="other")
        await asyncio.sleep(2)
        waiting = {
            c["message"]
            for p in cluster.pods().values()
            for c in p["status"].get("conditions") or []
            if (c["type"], c.get("reason")) == ("PodScheduled", "Unschedulable")
        }
        cluster.store.mutate("Pod", "n", "first-w-0", lambda pod: pod["metadata"].pop("finalizers"))
        await asyncio.sleep(2)
        return waiting, cluster.phase("second")

    waiting, phase = run(story)
    assert any("once resource is released and minAvailable is satisfied" in text for text in waiting)
    assert phase == "Running"


def test_the_scheduler_ends_whenever_it_is_told_to():
    """Stopping takes effect also at the very moment at which an idle scheduler would begin its next session."""

    async def one(moment):
        runtime = build({})
        await asyncio.sleep(moment)
        await asyncio.wait_for(runtime.stop(), 3)

    for moment in (0.05, 1.0, 1.05, 1.1, 2.0, 2.05, 3.05):
        run_virtually(one(moment))


def test_a_job_of_the_same_name_gets_its_pods_when_those_of_the_last_are_gone():
    """Made again while pods of its predecessor are still ending, a Job is not left without pods."""

    def pins(cluster, finalizers):
        for pod in cluster.pods().values():
            pinned = {**pod, "metadata": {**pod["metadata"], "finalizers": finalizers}}
            cluster.store.update("Pod", pinned)

    def owners(cluster):
        return {pod["metadata"]["ownerReferences"][0]["uid"] for pod in cluster.pods().values()}

    async def story(cluster):
        first = cluster.submit()["metadata"]["uid"]
        await asyncio.sleep(2)
        pins(cluster, ["test/still-ending"])
        cluster.store.delete(JOB, "n", "j")
        await asyncio.sleep(1)
        second = cluster.submit()["metadata"]["uid"]
        await asyncio.sleep(5)
        beside = owners(cluster)
        pins(cluster, [])
        await asyncio.sleep(5)
        return beside == {first}, owners(cluster) == {second}, len(cluster.pods())

    assert run(story) == (True, True, 2)
