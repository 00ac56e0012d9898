"""Each way in which a job hangs, planted into a healthy one: the cause comes first, with names, numbers and fix."""

import pytest

from pytest_gpucluster import diagnose
from pytest_gpucluster.diagnose import Kind, State
from tests import recordings
from tests.diagnose import before, running
from tests.diagnose.building import Cluster
from tests.diagnose.planting import Dump

MODES = {**before.MODES, **running.MODES}

RIGHT = {
    "over-capability",
    "queue-full",
    "over-cluster",
    "room-taken",
    "member-too-large",
    "grace",
    "suspended",
}
"""Codes of what works as it should."""


@pytest.mark.parametrize("mode", sorted(MODES))
def test_the_mode_is_found(mode: str):
    """The planted trouble is the likeliest cause, and the text carries what a person needs to act."""
    plant, code, words = MODES[mode]
    found = plant().diagnose()
    text = " ".join(diagnose.render(found).split())
    assert found.suspects, text
    assert found.suspects[0].code == code, text
    for word in words:
        assert word in text, text
    assert found.state in (State.TROUBLE, State.REFUSED)


def test_the_unspoilt_job_is_healthy():
    """Nothing is suspected where nothing was planted; what was looked at is said."""
    found = Dump().diagnose()
    assert found.state is State.HEALTHY
    assert not found.suspects
    assert "4 pods" in found.looked


@pytest.mark.parametrize(
    "mode",
    sorted(
        m
        for m, (_, code, _) in MODES.items()
        if code
        in {
            "over-capability",
            "queue-full",
            "over-cluster",
            "room-taken",
            "member-too-large",
            "grace",
            "suspended",
        }
    ),
)
def test_what_works_as_it_should_is_no_fault(mode: str):
    """A refusal for want of room is correct behaviour: told, with what would change it, and called no fault."""
    found = MODES[mode][0]().diagnose()
    assert found.state is State.REFUSED
    assert found.suspects[0].kind is Kind.REFUSAL


def test_a_name_that_was_unknown_at_first_is_not_blamed():
    """A look-up that failed before the members met is over; so is a refused connection."""
    dump = Dump()
    fact = 'GPUCONF1 {"event": "barrier", "ok": true, "world": 4}'
    dump.say(
        dump.workers[0], running.UNKNOWN, "connect to torch-master-0.torch:23456: Connection refused", fact
    )
    assert dump.diagnose().state is State.HEALTHY


def test_a_job_that_needs_no_plugin_is_not_told_to_have_one():
    """A program that never reads the variables is not blamed for their absence."""
    assert running.no_use().diagnose().state is State.HEALTHY


def test_templates_win_over_the_job():
    """Pods go where their template says; a name on the Job that no pod carries holds nobody up."""
    dump = Dump()
    dump.job["spec"]["schedulerName"] = "default-scheduler"
    dump.task(0)["schedulerName"] = dump.task(1)["schedulerName"] = "volcano"
    assert dump.diagnose().state is State.HEALTHY


def test_a_wrong_scheduler_is_noted_before_it_hurts():
    """A gang that the wrong scheduler happened to place whole runs, and the field is named all the same."""
    dump = Dump()
    dump.task(1)["schedulerName"] = "default-scheduler"
    for pod in dump.workers:
        pod["spec"]["schedulerName"] = "default-scheduler"
    found = dump.diagnose()
    assert found.state is State.HEALTHY
    assert [one.code for one in found.notes] == ["scheduler-name"]


def test_in_a_crowd_only_the_job_itself_is_judged():
    """A cluster of a thousand jobs is no reason to wait: rows that compare jobs are left out, and that is said."""
    dump = before.MODES["room taken"][0]()
    for number in range(50):
        dump.add({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": f"j{number}-w-0", "namespace": "team-c", "uid": f"j{number}",
                         "labels": {"volcano.sh/job-name": f"j{number}", "volcano.sh/task-spec": "w"}},
            "spec": {"nodeName": "node-1", "schedulerName": "volcano", "containers": [{"name": "c"}]},
            "status": {"phase": "Running"},
        })  # fmt: skip
    evidence = diagnose.unfold(dump.objects, now=dump.now)
    (subject,) = diagnose.subjects(evidence, dump.name)
    found = diagnose.diagnose(subject, recordings.JUDGES)
    assert found.suspects[0].code == "room-taken"
    assert not [row for row in found.rows if row.startswith(("GANG", "REF"))]
    assert any("rows that compare jobs" in line for line in found.missing)


def test_a_young_job_is_not_called_stuck():
    """Before the scheduler may be called silent, a job without anything is only starting."""
    dump = Dump("l1-scheduler-not-running", 5.0)
    assert dump.diagnose().state is State.STARTING


def test_the_first_mount_of_a_fresh_config_map_is_no_trouble():
    """A mount that failed once while the pod started is not blamed on a pod that runs."""
    dump = Dump()
    text = 'MountVolume.SetUp failed for volume "torch-svc" : failed to sync configmap cache: timed out'
    assert dump.event(dump.workers[0], "FailedMount", text, by="kubelet").diagnose().state is State.HEALTHY


def test_a_taint_of_the_control_plane_is_not_the_cause():
    """Where GPUs are short, a taint of a node without GPUs is only possible, and the shortage comes first."""
    dump = Dump("b3-room-for-n-minus-one-then-room", 7.8)
    text = (
        "0/3 nodes are available: 1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, "
        "2 Insufficient nvidia.com/gpu."
    )
    gang = [p for p in dump.of("Pod") if not p["spec"].get("nodeName")]
    assert dump.unbind(*gang, message=text).later().diagnose().suspects[0].code == "room-taken"


def _astray(scheduler: str, *, spoken: str = "", group: str = "Inqueue") -> Cluster:
    """Return a gang that would fit, whose Job and pods name a scheduler; another may speak about its PodGroup."""
    made = Cluster().everywhere()
    made.node("a")
    made.node("b")
    made.queue()
    made.gang(3, 4, group=group, pod={"scheduler": scheduler})
    made.of("Job")[0]["spec"]["schedulerName"] = scheduler
    if spoken:
        made.event(made.of("PodGroup")[0], "Unschedulable", "3/3 tasks in gang unschedulable", by=spoken)
    return made


@pytest.mark.parametrize("scheduler", ["mine", "default-schedulr", "kai-scheduler", "volcano2"])
@pytest.mark.parametrize("spoken", ["", "volcano", "volcano-v2"])
@pytest.mark.parametrize("group", ["Inqueue", "Pending", ""])
def test_causes_of_a_scheduler_that_nobody_runs_do_not_contradict_each_other(scheduler, spoken, group):
    """One name is the right one, in all that is said; and that the gang would fit is no cause where nobody looks."""
    found = _astray(scheduler, spoken=spoken, group=group).diagnose()
    codes = [one.code for one in found.suspects]
    assert "fits-and-waits" not in codes
    assert len({"scheduler-name", "scheduler-unknown"} & set(codes)) == 1
    fixes = " ".join(one.cause.fix for one in found.suspects)
    if spoken and group:
        assert f"to {spoken}" in fixes


def test_pods_without_a_gang_under_an_unknown_scheduler_have_one_cause():
    """Each of them would fit, were anybody to look."""
    made = Cluster().everywhere()
    made.node("a")
    for number in range(2):
        made.pod(f"p-{number}", 4, scheduler="mine")
    assert [one.code for one in made.diagnose().suspects] == ["scheduler-unknown"]


OWNERS = {
    "TrainJob": "trainer.kubeflow.org/v1alpha1", "JobSet": "jobset.x-k8s.io/v1alpha2", "PyTorchJob": "kubeflow.org/v1",
    "RayJob": "ray.io/v1", "Job": "batch/v1",
}  # fmt: skip


@pytest.mark.parametrize(("kind", "api"), [*OWNERS.items(), ("Job", "batch.volcano.sh/v1alpha1")])
@pytest.mark.parametrize(
    ("reason", "said"), [("FailedToStart", "no runtime called torch"), ("Odd", "quorum lost")]
)
def test_a_warning_about_the_job_that_nobody_knows_is_quoted(kind, api, reason, said):
    """Whoever looks after it says why there is no pod; that it looks at it is not denied."""
    made = Cluster().everywhere()
    made.node("a")
    task = {"name": "w", "replicas": 1, "template": {"spec": {"containers": []}}}
    spec = {"minAvailable": 1, "tasks": [task]} if "volcano" in api else {}
    metadata = {"name": "train", "namespace": "ml"}
    owner = made.add({"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec})
    made.event(owner, reason, said, by="its-controller")
    found = made.diagnose()
    assert found.state is State.TROUBLE
    text = found.suspects[0].cause.text
    assert f"its-controller warns of {found.subject}: {reason}: '{said}'" in text
    assert "no controller handles" not in " ".join(one.cause.text for one in found.suspects)


@pytest.mark.parametrize(("host", "policy"), [(True, "Default"), (True, "ClusterFirst"), (False, "Default")])
def test_the_fix_of_a_dns_policy_fits_the_network_of_the_pod(host, policy):
    """ClusterFirst is no fix on the host network, and ClusterFirstWithHostNet none off it."""
    dump = Dump()
    for pod in dump.pods:
        pod["spec"] |= {"dnsPolicy": policy, **({"hostNetwork": True} if host else {})}
    dump.say(dump.workers[0], "socket.gaierror: [Errno -2] Name or service not known: torch-master-0.torch")
    found = dump.diagnose()
    fix = next(one.cause.fix for one in found.suspects if one.code == "name-unresolved")
    assert fix.startswith(
        f"set dnsPolicy {'ClusterFirstWithHostNet' if host else 'ClusterFirst'} in the pod templates"
    )


@pytest.mark.parametrize(("phase", "noted"), [("Running", True), ("Completed", False), ("Failed", False)])
def test_a_configmap_that_went_with_an_ended_job_is_not_missed(phase, noted):
    """A controller takes it back; of a job that runs its values are needed."""
    ended = {"Completed": "Succeeded", "Failed": "Failed"}.get(phase, "Running")
    source = [
        {"name": "VC_W_HOSTS", "valueFrom": {"configMapKeyRef": {"name": "train-svc", "key": "VC_W_HOSTS"}}}
    ]
    made = Cluster().everywhere()
    made.node("a")
    made.gang(2, 4, at=("a", "a"), phase=phase, pod={"phase": ended})
    for pod in made.of("Pod"):
        pod["spec"]["containers"][0]["env"] = source
    assert any("train-svc" in line for line in made.diagnose().missing) is noted
