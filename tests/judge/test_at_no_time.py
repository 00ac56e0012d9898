"""What is forbidden is forbidden however short, early or uncounted; and what is healthy stays so."""

import dataclasses

import pytest

from pytest_gpucluster import mutants
from pytest_gpucluster.evidence import Evidence
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.scheduling import gangs, half_placement
from pytest_gpucluster.judge import controls
from pytest_gpucluster.judge.gang import stated_minimum
from pytest_gpucluster.plain import names
from tests import recordings


def judged(row: str, evidence: Evidence):
    """Return the finding of a row on evidence of a scenario of ours."""
    return recordings.JUDGES[row](evidence, evidence.given)


def gang_of(evidence: Evidence, ending: str) -> gangs.Gang:
    """Return the gang whose name ends so."""
    return next(gang for gang in gangs.gangs(evidence) if gang.name.endswith(ending))


ROWS = [("GANG-002", "scarce"), ("GANG-003", "minimums"), ("GANG-004", "two-gangs")]


@pytest.mark.parametrize(("row", "scenario"), ROWS)
def test_a_part_that_was_bound_and_taken_back_is_a_violation(row, scenario):
    """Less than any tolerance of a bind on its way: what ends otherwise than whole was none."""
    finding = judged(row, mutants.MUTANTS["moment.part-bound"].act(recordings.embedded(scenario)))
    assert finding.verdict == "fail"
    assert finding.violation


@pytest.mark.parametrize(("row", "scenario"), ROWS)
def test_a_part_that_we_took_ourselves_in_the_midst_of_its_bind_is_no_violation(row, scenario):
    """Whoever deletes the gang ends its bind: that is not decided, and is no pass either."""
    flickered = mutants.MUTANTS["moment.part-bound"].act(recordings.embedded(scenario))
    phantoms = [line for line in flickered.of_kind("Pod") if line.uid.startswith("phantom-")]
    gone = next(line for line in phantoms if line.type == "DELETED")
    owner = fields.text(fields.owner(gone.object), "uid")
    note = dataclasses.replace(
        gone, t=gone.t - 0.01, type="NOTE", kind="", object={},
        data={"note": "deleted-by-us", "kind": names.VC_JOB, "uid": owner},
    )  # fmt: skip
    finding = judged(row, mutants.with_lines(flickered, (*flickered.lines, note)))
    assert finding.verdict == "inconclusive"
    assert "deleted while it was being bound" in finding.observed


@pytest.mark.parametrize(
    "name", ["a-gang-fits", "b3-room-for-n-minus-one-then-room", "f1-podfailed-restartjob-maxretry"]
)
def test_binds_of_real_gangs_on_their_way_end_whole(name):
    """On real Volcano members of a gang are bound some hundredths of a second apart: none of that is a retreat."""
    evidence = recordings.stream(name)
    found = [half for gang in gangs.gangs(evidence) for half in half_placement.halves(evidence, gang)]
    assert all(half.whole for half in found)


def test_members_left_over_on_their_way_out_do_not_excuse_a_new_attempt():
    """An attempt whose old members are going is judged by what was made anew."""
    base = recordings.stream("f2-podevicted-restartjob")
    gang = next(gang for gang in gangs.gangs(base) if len(gang.generations) > 1)
    second = gang.generations[1]
    fresh = half_placement.afresh(second)
    assert fresh is not None
    assert all(
        pod.created >= second.start or pod.bound is None or pod.bound >= second.start for pod in fresh.members
    )


@pytest.mark.parametrize("reason", ["ImagePullBackOff", "CrashLoopBackOff", "CreateContainerConfigError"])
def test_a_control_that_was_bound_and_could_not_start_did_not_run(reason):
    """Bound is no run: whatever keeps the containers from starting is named."""
    evidence = mutants.MUTANTS["control.never-runs"].act(recordings.embedded("over-large"))

    def say(obj):
        for status in obj.get("status", {}).get("containerStatuses") or []:
            status["state"] = {"waiting": {"reason": reason}}

    uids = {pod.uid for pod in gang_of(evidence, "-control").pods}
    changed = mutants.each(evidence, lambda line: line.uid in uids, say)
    ran, why = controls.ran(changed, changed.given, gang_of(changed, "-control"))
    assert not ran
    assert reason in why


def test_a_control_that_is_bound_and_never_starts_did_not_run():
    """Containers that are being created for longer than a start may take are no run either."""
    base = recordings.embedded("over-large")
    control = gang_of(base, "-control")
    uids = {pod.uid for pod in control.pods}

    def creating(obj):
        obj["status"] = {"phase": "Pending"}

    waiting = mutants.each(
        base, lambda line: line.uid in uids and bool(line.object.get("spec", {}).get("nodeName")), creating
    )
    early = [
        line
        for line in waiting.lines
        if line.uid in uids and line.object["metadata"].get("deletionTimestamp")
    ]
    start = min(line.t for line in early) - 1e-6
    later = [dataclasses.replace(line, t=line.t + 90.0) if line.t > start else line for line in waiting.lines]
    other = dataclasses.replace(base.of_kind("Pod")[0], object=_running())
    told = mutants.with_lines(waiting, [*later, other])
    ran, why = controls.ran(told, told.given, gang_of(told, "-control"))
    assert not ran
    assert "did not start for" in why


def _running():
    meta = {"name": "other", "namespace": "x", "uid": "other"}
    return {"kind": "Pod", "metadata": meta, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}}


def _alone(evidence: Evidence, *, some: bool) -> Evidence:
    """Return evidence in which one worker, or all, had ended by themselves before anybody asked for it."""
    gang = gang_of(evidence, "healthy")
    workers = [pod.uid for pod in gang.pods if "worker" in pod.task]
    uids = set(workers[:1] if some else workers)

    def end(obj):
        obj["metadata"].pop("deletionTimestamp", None)
        obj["status"] = {**obj["status"], "phase": "Succeeded"}

    master = max(pod.finished for pod in gang.pods if pod.finished is not None)
    late = {id(line) for line in evidence.lines if line.uid in uids and line.t > master}
    kept = [line for line in evidence.lines if id(line) not in late or line.type != "DELETED"]
    return mutants.with_lines(evidence, [mutants.edited(ln, end) if id(ln) in late else ln for ln in kept])


def test_members_that_ended_by_themselves_are_no_test_of_the_policy():
    """LIFE-001: only a member that was asked to end shows what the master's end does; one such is enough."""
    base = recordings.embedded("healthy")
    assert judged("LIFE-001", _alone(base, some=True)).verdict == "pass"
    finding = judged("LIFE-001", _alone(base, some=False))
    assert finding.verdict == "inconclusive"
    assert "was not tested" in finding.observed


def _with_sidecar(evidence: Evidence, name: str = "istio-proxy") -> Evidence:
    """Return evidence in which admission put a regular container beside those of every pod of a Volcano Job."""

    def inject(obj):
        obj["spec"].setdefault("containers", []).append({"name": name, "image": "mesh", "resources": {}})
        status = obj.setdefault("status", {})
        if status.get("containerStatuses"):
            told = {"name": name, "ready": True, "restartCount": 0, "state": {"running": {}}}
            status["containerStatuses"].append(told)

    return mutants.each(evidence, lambda line: line.kind == "Pod", inject)


@pytest.mark.parametrize(
    ("row", "scenario"),
    [("PLG-001", "healthy"), ("PLG-002", "waiting"), ("PLG-004", "healthy"), ("PLG-006", "healthy"),
     ("PLG-007", "healthy"), ("GANG-001", "healthy"), ("LIFE-001", "healthy"), ("PLG-005", "miswired")],
)  # fmt: skip
def test_what_admission_injects_is_no_container_of_the_task(row, scenario):
    """The plugins act on the template: the proxy of a mesh has none of their variables, and need not."""
    finding = judged(row, _with_sidecar(recordings.embedded(scenario)))
    assert finding.verdict == "pass", finding.observed


def test_a_side_container_of_the_template_is_one_of_the_task():
    """What the task itself asks for beside its main container must have the variables."""
    base = recordings.embedded("healthy")

    def forget(obj):
        for container in obj["spec"]["containers"]:
            if container["name"] == "watch":
                container["env"] = []

    bare = mutants.each(base, lambda line: line.kind == "Pod", forget)
    mute = mutants.without(bare, lambda line: line.type == "LOG" and line.data.get("container") == "watch")
    assert judged("PLG-001", mute).verdict == "fail"


@pytest.mark.parametrize("name", ["f1-podfailed-restartjob-maxretry", "r4-real-kubelet-podfailed-maxretry"])
def test_attempts_of_real_jobs_are_counted_alike_by_pods_and_by_marks(name):
    """Counting what ran agrees with what real controllers count."""
    assert recordings.JUDGES["LIFE-004"](recordings.stream(name), {}).verdict == "pass"


@pytest.mark.parametrize(
    ("row", "scenario", "kind"),
    [
        ("GANG-001", "healthy", "PodGroup"),
        ("GANG-001", "healthy", names.VC_JOB),
        ("REF-004", "closed-queue", "Queue"),
        ("KUE-003", "kueue-teams", "Workload"),
        ("KUE-004", "kueue-promised", "Pod"),
        ("KUE-005", "kueue-drained", "Pod"),
    ],
)
def test_what_a_row_speaks_of_must_have_been_seen(row, scenario, kind):
    """A PodGroup, queue, pod or Job that nobody saw agrees with nothing."""
    base = recordings.embedded(scenario)
    assert judged(row, base).verdict == "pass"
    finding = judged(row, mutants.without(base, lambda line: line.kind == kind))
    assert finding.verdict == "inconclusive", finding.observed


def _stray(evidence: Evidence, gang: gangs.Gang, t: float, **meta):
    """Return the line of a bound pod that nobody owns."""
    donor = next(line for line in evidence.of_kind("Pod") if line.type == "ADDED")
    obj = {
        **donor.object,
        "metadata": {"name": "stray", "uid": "stray", "namespace": gang.namespace, **meta},
        "spec": {**donor.object["spec"], "nodeName": "n"},
        "status": {"phase": "Running"},
    }
    return dataclasses.replace(donor, t=t, object=obj)


@pytest.mark.parametrize("known_by", ["group", "label"])
def test_a_pod_that_nobody_owns_is_a_member_by_what_it_names(known_by):
    """To schedulers it is one: a stray that is bound while the gang of a real Volcano waits is a part of it."""
    base = recordings.stream("b3-room-for-n-minus-one-then-room")
    gang = max(gangs.gangs(base), key=lambda one: one.size)
    gen = gang.generations[-1]
    assert recordings.JUDGES["GANG-002"](base, {}).verdict == "pass"
    names_it = {
        "group": {"annotations": {"scheduling.k8s.io/group-name": gang.groups[0].name}},
        "label": {"labels": {"volcano.sh/job-name": gang.name}},
    }[known_by]
    stray = _stray(base, gang, (gen.made + gen.first_bind) / 2, **names_it)
    told = mutants.with_lines(base, (*base.lines, stray))
    finding = recordings.JUDGES["GANG-002"](told, {})
    assert finding.verdict == "fail"
    assert "stray" in {pod.name for one in gangs.gangs(told) if one.uid == gang.uid for pod in one.pods}


def test_a_pod_of_another_owner_is_no_member():
    """Whoever has an owner of its own belongs to that, whatever group it names."""
    base = recordings.stream("b3-room-for-n-minus-one-then-room")
    gang = max(gangs.gangs(base), key=lambda one: one.size)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": True}
    annotations = {"scheduling.k8s.io/group-name": gang.groups[0].name}
    stray = _stray(base, gang, gang.created + 0.1, annotations=annotations, ownerReferences=[owner])
    told = mutants.with_lines(base, (*base.lines, stray))
    assert "stray" not in {pod.name for one in gangs.gangs(told) if one.uid == gang.uid for pod in one.pods}


def _stating(evidence: Evidence, uid: str, field: str, *told: tuple[float, int]) -> list:
    """Return lines in which an object states other numbers at some times."""
    found = []
    for t, number in told:
        before = next((ln for ln in reversed(evidence.history(uid)) if ln.t <= t), evidence.history(uid)[0])
        line = mutants.edited(before, lambda obj, n=number: obj["spec"].update({field: n}))
        found.append(dataclasses.replace(line, t=t, type="MODIFIED"))
    return found


@pytest.mark.parametrize(
    ("of_group", "of_job", "verdict"),
    [
        pytest.param([(0.2, 3), (0.3, 4)], [], "fail", id="short-for-a-moment"),
        pytest.param([(0.2, 5), (0.3, 4)], [], "fail", id="more-for-a-moment"),
        pytest.param([(0.2, 3)], [(0.1, 3)], "pass", id="both-changed"),
        pytest.param([(0.3, 3), (0.5, 4)], [(0.2, 3), (0.4, 4)], "pass", id="changed-and-back"),
        pytest.param([], [(0.2, 3)], "fail", id="not-carried"),
        pytest.param([(0.2, 2), (0.3, 3)], [(0.1, 3)], "fail", id="past-what-was-asked"),
    ],
)
def test_a_minimum_counts_at_all_times(of_group, of_job, verdict):
    """GANG-001: as the Job's at each time, which its owner may change."""
    base = recordings.stream("a-gang-fits")
    (gang,) = gangs.gangs(base)
    start = gang.groups[0].created

    def later(told):
        return [(start + t, number) for t, number in told]

    lines = [
        *_stating(base, gang.groups[0].uid, "minMember", *later(of_group)),
        *_stating(base, gang.uid, "minAvailable", *later(of_job)),
    ]
    last = {gang.groups[0].uid: ("minMember", of_group), gang.uid: ("minAvailable", of_job)}

    def settle(line):
        field, told = last.get(line.uid, ("", []))
        ago = [number for t, number in told if start + t <= line.t]
        return mutants.edited(line, lambda obj: obj["spec"].update({field: ago[-1]})) if ago else line

    told = mutants.with_lines(base, [*map(settle, base.lines), *lines])
    finding = recordings.JUDGES["GANG-001"](told, {})
    assert finding.verdict == verdict, finding.observed


def test_a_real_change_of_the_minimum_is_carried_over():
    """Volcano's own controllers, when a Job was changed: no departure."""
    found = [g for g in gangs.gangs(recordings.stream("d-refusals")) if g.name == "update-me"]
    assert [[said.value for said in g.groups[0].minimums] for g in found] == [[2, 1]]
    assert all(stated_minimum.departed(g, g.minimum) is None for g in found)
