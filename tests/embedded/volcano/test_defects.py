"""Each live defect does what its description says, and leaves alone what it does not name."""

import pytest

from pytest_gpucluster.embedded.volcano.defects import DEFECTS
from pytest_gpucluster.embedded.volcano.plugins.registry import plugins_of
from tests.embedded.volcano.replay import Recording, play

JOB = "Job.batch.volcano.sh"


def run(scenario, *defects):
    """Replay a scenario with defects, with the embedded cluster's own period."""
    recording = Recording(scenario) if isinstance(scenario, str) else scenario
    return Seen(play(recording, period=0.05, defects=defects).stream)


class Altered(Recording):
    """A recorded scenario of which one Job was written otherwise."""

    def __init__(self, name, job, change):
        """Change a Job of the manifest."""
        super().__init__(name)
        self._job, self._change = job, change

    def manifest(self):
        """Return the objects that are applied."""
        found = super().manifest()
        for doc in found:
            if doc["metadata"]["name"] == self._job:
                self._change(doc)
        return found


class Seen:
    """Questions about what was seen."""

    def __init__(self, stream):
        """Ask about a stream."""
        self.stream = stream

    def of(self, kind, prefix=""):
        """Return the lines about objects of a kind whose name begins so."""
        return [
            line
            for line in self.stream
            if line["kind"] == kind and line["object"]["metadata"]["name"].startswith(prefix)
        ]

    def bound(self, prefix, before=1e9):
        """Return the names of pods that were bound by some time."""
        return {
            line["object"]["metadata"]["name"]
            for line in self.of("Pod", prefix)
            if line["object"]["spec"].get("nodeName") and line["t"] <= before
        }

    def phases(self, name, kind=JOB):
        """Return the distinct phases of a Job or PodGroup."""
        out = []
        for line in self.of(kind, name):
            status = line["object"].get("status") or {}
            phase = status.get("phase") if kind == "PodGroup" else (status.get("state") or {}).get("phase")
            if phase not in out:
                out.append(phase)
        return out

    def minimums(self):
        """Return (name, minimum) of Jobs and, with the Job's name and a dash, of PodGroups."""
        jobs = {
            (x["object"]["metadata"]["name"], x["object"]["spec"].get("minAvailable")) for x in self.of(JOB)
        }
        groups = {
            (x["object"]["metadata"]["name"].partition("-")[0] + "-", x["object"]["spec"]["minMember"])
            for x in self.of("PodGroup")
        }
        return jobs | groups

    def env(self, pod):
        """Return the literal environment of a pod's container, the last entry of a name counting."""
        (container,) = self.of("Pod", pod)[0]["object"]["spec"]["containers"]
        return {e["name"]: e["value"] for e in container.get("env") or [] if "value" in e}

    def events(self, prefix):
        """Return the events about objects whose name begins so."""
        return [e for e in self.of("Event") if e["object"]["involvedObject"]["name"].startswith(prefix)]


def test_every_defect_has_one_line():
    """Every defect is named area.words and described in one line."""
    for name, text in DEFECTS.items():
        area, _, words = name.partition(".")
        assert area
        assert words == words.lower()
        assert "\n" not in text


def test_a_gang_is_bound_in_part():
    """gang.binds-partially: with room for two of three, two are bound; without the defect none is."""
    assert len(run("b2-fragmentation", "gang.binds-partially").bound("frag-")) == 2
    assert not run("b2-fragmentation").bound("frag-")


def test_a_role_starts_without_the_other():
    """gang.ignores-task-minimum: the workers start although their ps has no room; without the defect none does."""

    def larger(job):
        for task in job["spec"]["tasks"]:
            limits = task["template"]["spec"]["containers"][0]["resources"]
            for part in ("limits", "requests"):
                limits.setdefault(part, {})["nvidia.com/gpu"] = "9" if task["name"] == "ps" else "1"

    scenario = Altered("b5-per-task-minimum", "roles2", larger)
    started = run(scenario, "gang.ignores-task-minimum").bound("roles2-")
    assert started == {f"roles2-worker-{n}" for n in range(4)}
    assert not run(scenario).bound("roles2-")


def test_templates_get_the_scheduler_of_their_job():
    """admission.overwrites-scheduler: a template that names another scheduler loses it; otherwise it keeps it."""

    def other(job):
        job["spec"]["tasks"][0]["template"]["spec"]["schedulerName"] = "default-scheduler"

    scenario = Altered("a-gang-fits", "fits", other)
    names = []
    for defects in (("admission.overwrites-scheduler",), ()):
        pods = run(scenario, *defects).of("Pod", "fits-master-0")
        names.append(pods[0]["object"]["spec"]["schedulerName"])
    assert names == ["volcano", "default-scheduler"]


def test_a_short_gang_keeps_saying_that_it_runs():
    """gang.never-reports-short: the PodGroup stays Running with a member lost; otherwise it is Unknown meanwhile."""
    name = "f10-node-lost-below-min"
    assert run(name, "gang.never-reports-short").phases("lost-", "PodGroup") == [None, "Inqueue", "Running"]
    assert "Unknown" in run(name).phases("lost-", "PodGroup")
    assert len(run(name, "gang.never-reports-short").bound("lost-")) == 16


def test_a_minimum_left_out_stays_out():
    """admission.no-default-minimum: the Job is stored without, its PodGroup has no minimum; otherwise the sum is."""
    scenario = Altered("a-gang-fits", "fits", lambda job: job["spec"].pop("minAvailable", None))
    assert run(scenario, "admission.no-default-minimum").minimums() == {("fits", None), ("fits-", 0)}
    assert run(scenario).minimums() == {("fits", 4), ("fits-", 4)}


@pytest.mark.parametrize("scenario", ["c2-two-gangs-gang-gate-two-nodes", "c-two-gangs-run0"])
def test_the_loser_of_two_gangs_starves(scenario):
    """gang.starves-loser: the second of two gangs is never bound, whichever gate refused it."""
    assert not run(scenario, "gang.starves-loser").bound("right-")
    assert run(scenario).bound("right-")


def test_a_gang_held_by_a_filler_does_not_starve():
    """gang.starves-loser does not touch a gang that only a pod outside any gang holds back."""
    assert len(run("b3-room-for-n-minus-one-then-room", "gang.starves-loser").bound("gang-")) == 16
    assert len(run("b7b-shortfall-filler-same-queue-fragment", "gang.starves-loser").bound("gang-")) == 2


@pytest.mark.parametrize(
    ("scenario", "members"),
    [("b3-room-for-n-minus-one-then-room", 16), ("b7b-shortfall-filler-same-queue-fragment", 2)],
)
def test_freed_room_is_forgotten(scenario, members):
    """gang.forgets-room: a gang that waited for a filler's room is not bound when that room is freed."""
    assert not run(scenario, "gang.forgets-room").bound("gang-")
    assert len(run(scenario).bound("gang-")) == members


def test_two_gangs_do_not_forget():
    """gang.forgets-room does not touch two gangs that contend with each other."""
    seen = run("c2-two-gangs-gang-gate-two-nodes", "gang.forgets-room")
    assert len(seen.bound("right-")) == 3


def test_one_member_fewer_suffices():
    """gang.min-member-short: fifteen of sixteen start while one has no room; a gang that fits is bound whole."""
    seen = run("b3-room-for-n-minus-one-then-room", "gang.min-member-short")
    assert len(seen.bound("gang-", before=3)) == 15
    assert len(run("a-gang-fits", "gang.min-member-short").bound("fits-")) == 4
    assert not run("b1-over-capacity-by-one-gpu", "gang.min-member-short").bound("toobig-")


def test_an_over_large_gang_is_bound_as_far_as_it_fits():
    """refusal.binds-over-large: sixteen of seventeen are bound; gangs that are not too large are judged."""
    assert len(run("b1-over-capacity-by-one-gpu", "refusal.binds-over-large").bound("toobig-")) == 16
    assert not run("b2-fragmentation", "refusal.binds-over-large").bound("frag-")


def test_a_refusal_leaves_no_trace():
    """refusal.silent: the over-large gang has neither phase nor event, and the gang behind it runs."""
    seen = run("b1-over-capacity-by-one-gpu", "refusal.silent")
    assert seen.phases("toobig-", "PodGroup") == [None]
    assert not seen.events("toobig-")
    assert seen.phases("control")[-1] == "Completed"


def test_a_refused_gang_keeps_a_share():
    """refusal.reserves: nobody else is let past the gates at enqueue while a gang is refused there."""
    assert len(run("g1-queue-capability").bound("fitscap-")) == 8
    seen = run("g1-queue-capability", "refusal.reserves")
    assert not seen.bound("fitscap-")
    assert seen.phases("fitscap-", "PodGroup")[-1] == "Pending"


def test_a_capability_is_not_looked_at():
    """queue.ignores-capability: nine of nine are bound in a queue that may have eight; the cluster's total holds."""
    assert len(run("g1-queue-capability", "queue.ignores-capability").bound("overcap-")) == 9
    assert not run("b1-over-capacity-by-one-gpu", "queue.ignores-capability").bound("toobig-")


def test_promises_are_forgotten():
    """queue.forgets-promises: a gang of another queue is enqueued beside one that is enqueued and has no place."""
    name = "b6-inqueue-gang-blocks-others"
    assert run(name).phases("other-queue-", "PodGroup")[:2] == [None, "Pending"]
    assert run(name, "queue.forgets-promises").phases("other-queue-", "PodGroup")[:2] == [None, "Inqueue"]


def test_pods_of_any_scheduler_are_taken():
    """scheduler.serves-any-name: the scheduler also counts a member that waits for another scheduler."""
    name = "h5-vcjob-fragmented-under-default-scheduler"
    waiting = {
        defect: any("1 Pending" in e["object"]["message"] for e in run(name, *defect).events("nogang-"))
        for defect in ((), ("scheduler.serves-any-name",))
    }
    assert waiting == {(): False, ("scheduler.serves-any-name",): True}


def test_ranks_begin_at_zero_twice():
    """plugins.rank-off-by-one: worker 0 has the rank of the master."""
    seen = run("e2-pytorch", "plugins.rank-off-by-one")
    ranks = [seen.env(f"torch-{pod}")["RANK"] for pod in ("master-0", "worker-0", "worker-1")]
    assert ranks == ["0", "0", "1"]


def test_pytorch_injects_nothing():
    """plugins.no-pytorch-env: no variable of the plugin is set, the svc objects exist."""
    seen = run("e2-pytorch", "plugins.no-pytorch-env")
    assert not seen.env("torch-worker-0").keys() & {"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK"}
    assert seen.of("Service", "torch")


def test_variables_come_unasked():
    """plugins.injects-unasked: a Job without the plugin has its variables."""
    asked = {"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK"}
    seen = run("f6-no-complete-policy-lingers", "plugins.injects-unasked")
    assert asked <= seen.env("linger-worker-0").keys()
    assert not run("f6-no-complete-policy-lingers").env("linger-worker-0")


def test_the_service_is_missing():
    """plugins.svc-without-service: ConfigMap and NetworkPolicy exist, the Service does not."""
    seen = run("e2-pytorch", "plugins.svc-without-service")
    assert seen.of("ConfigMap", "torch-svc")
    assert seen.of("NetworkPolicy", "torch")
    assert not seen.of("Service", "torch")


@pytest.mark.parametrize(
    ("defect", "port", "waits"),
    [
        ("plugins.ignores-port", "23456", '"$waited" -ge 60'),
        ("plugins.no-wait-master", "29500", ""),
        ("plugins.waits-too-long", "29500", '"$waited" -ge 300'),
    ],
)
def test_an_argument_of_the_pytorch_plugin_is_ignored(defect, port, waits):
    """Each defect ignores one argument and no other."""
    tasks = [{"name": "master", "replicas": 1}, {"name": "worker", "replicas": 1}]
    arguments = ["--port=29500", "--wait-master-enabled=true", "--wait-master-timeout=60"]
    job = {
        "metadata": {"name": "j", "namespace": "n"},
        "spec": {"tasks": tasks, "plugins": {"pytorch": arguments}},
    }
    (plugin,) = plugins_of(job, lambda name: name == defect)
    pod = {"metadata": {"name": "j-worker-0"}, "spec": {"containers": [{}]}}
    plugin.on_pod(pod, job, tasks[1], 0)
    (value,) = [e["value"] for e in pod["spec"]["containers"][0]["env"] if e["name"] == "MASTER_PORT"]
    script = "".join(init["command"][-1] for init in pod["spec"].get("initContainers", []))
    assert value == port
    assert (waits in script) if waits else not script


def test_the_hosts_files_are_not_mounted():
    """plugins.no-hosts-files: the variables are there, nothing is mounted."""
    (container,) = run("e2-pytorch", "plugins.no-hosts-files").of("Pod", "torch-worker-0")[0]["object"][
        "spec"
    ]["containers"]
    assert not [mount for mount in container.get("volumeMounts") or [] if mount["name"] == "torch-svc"]
    assert "VC_WORKER_HOSTS" in {entry["name"] for entry in container["env"]}


def test_pods_lack_their_index():
    """plugins.no-index-label: the label is gone, the other labels and the annotation stay."""
    meta = run("e2-pytorch", "plugins.no-index-label").of("Pod", "torch-worker-1")[0]["object"]["metadata"]
    assert "volcano.sh/task-index" not in meta["labels"]
    assert meta["labels"]["volcano.sh/task-spec"] == "worker"
    assert meta["annotations"]["volcano.sh/task-index"] == "1"


def test_workers_outlive_the_completed_job():
    """lifecycle.complete-job-keeps-workers: the Job is Completed and no worker is ever deleted."""
    seen = run("a-gang-fits", "lifecycle.complete-job-keeps-workers")
    assert seen.phases("fits")[-1] == "Completed"
    assert not [w for w in seen.of("Pod", "fits-worker") if w["object"]["metadata"].get("deletionTimestamp")]
    restarts = run("f2-podevicted-restartjob", "lifecycle.complete-job-keeps-workers")
    assert restarts.phases("evict") == run("f2-podevicted-restartjob").phases("evict")


def test_a_job_completes_without_a_policy():
    """lifecycle.completes-without-policy: the first task's end completes the Job, which otherwise runs on."""
    ended = run("f6-no-complete-policy-lingers", "lifecycle.completes-without-policy")
    assert ended.phases("linger")[-1] == "Completed"
    assert run("f6-no-complete-policy-lingers").phases("linger")[-1] == "Running"


def test_a_policy_for_evictions_is_ignored():
    """lifecycle.eviction-ignored: only the lost pod is made again; other policies act."""
    seen = run("f2-podevicted-restartjob", "lifecycle.eviction-ignored")
    made = [line["object"]["metadata"]["name"] for line in seen.of("Pod") if line["type"] == "ADDED"]
    assert sorted(made) == sorted([*(f"evict-worker-{n}" for n in range(4)), "evict-worker-1"])
    assert "Restarting" not in seen.phases("evict")
    assert run("f9-podfailed-abort", "lifecycle.eviction-ignored").phases("pfab")[-1] == "Aborted"


def test_attempts_never_end():
    """lifecycle.restarts-without-end: the third failure of three is followed by a fourth attempt."""
    seen = run("f1-podfailed-restartjob-maxretry", "lifecycle.restarts-without-end")
    starts = [line for line in seen.of("Pod", "retry-bad-0") if line["type"] == "ADDED"]
    assert len(starts) > 3
    assert "Failed" not in seen.phases("retry")


def test_a_finished_job_stays():
    """lifecycle.ttl-ignored: the Job and its pods are there at the end."""
    seen = run("f5-ttl", "lifecycle.ttl-ignored")
    assert not [line for line in seen.of(JOB) + seen.of("Pod") if line["type"] == "DELETED"]
    assert [line for line in run("f5-ttl").of(JOB) if line["type"] == "DELETED"]


def test_enough_successes_decide_nothing():
    """lifecycle.min-success-ignored: one success of one that is needed leaves the Job running."""
    assert run("f7-minsuccess", "lifecycle.min-success-ignored").phases("minsucc")[-1] == "Running"
    assert run("f7-minsuccess").phases("minsucc")[-1] == "Completed"


def test_an_exit_code_sets_nothing_off():
    """lifecycle.exit-code-ignored: the policy for the code is not tried, those for events are."""
    assert "Terminated" not in run("f8-exitcode-terminate", "lifecycle.exit-code-ignored").phases("exitc")
    assert run("f9-podfailed-abort", "lifecycle.exit-code-ignored").phases("pfab")[-1] == "Aborted"


def test_a_suspended_job_stays_so():
    """lifecycle.resume-ignored: ResumeJob leaves the Job Aborted; AbortJob acts."""
    assert run("f4-abort-resume", "lifecycle.resume-ignored").phases("susp")[-1] == "Aborted"
    assert run("f4-abort-resume").phases("susp")[-1] == "Completed"


def test_without_a_scheduler_nothing_moves():
    """scheduler.down: the PodGroup keeps no phase and there is no pod."""
    seen = run("a-gang-fits", "scheduler.down")
    assert seen.phases("fits-", "PodGroup") == [None]
    assert not seen.of("Pod")


def test_without_controllers_there_is_no_podgroup():
    """controllers.down: the Job keeps no status and has no PodGroup."""
    seen = run("a-gang-fits", "controllers.down")
    assert seen.phases("fits") == [None]
    assert not seen.of("PodGroup")


def test_priority_is_not_looked_at():
    """queue.ignores-priority: the gang that came first is placed first, whatever the other's priority."""

    def first(*defects):
        seen = run("g3-priority-order", *defects)
        when = {
            line["object"]["metadata"]["name"]: line["t"]
            for line in reversed(seen.of("Pod"))
            if line["object"]["spec"].get("nodeName")
        }
        return when["high1-worker-0"] < when["low2-worker-0"]

    assert first()
    assert not first("queue.ignores-priority")


def test_nobody_is_preempted():
    """preemption.never-takes: the urgent gang waits beside members that could be spared."""
    assert len(run("g5-preempt-elastic-victim").bound("urgent-")) == 2
    assert not run("g5-preempt-elastic-victim", "preemption.never-takes").bound("urgent-")
