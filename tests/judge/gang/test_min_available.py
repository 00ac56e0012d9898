"""GANG-003, 005 and 006: minimums below the number of members."""

from typing import Any

import pytest

from pytest_gpucluster import mutants
from pytest_gpucluster.evidence import Span
from pytest_gpucluster.evidence.scheduling import gangs, gates, would_fit
from pytest_gpucluster.judge import presuppositions
from pytest_gpucluster.judge.gang import job_faults, min_available
from pytest_gpucluster.requirement import Verdict
from tests import recordings


def _own() -> Any:
    return recordings.embedded("minimums")


def _change(kind: str, change: Any) -> Any:
    return mutants.each(_own(), lambda line: line.kind == kind, change)


def test_what_would_fit_is_read_by_role_and_time():
    """The conditions of the pods say, role by role and for how long, which members are held back for others."""
    evidence = _own()
    (gang,) = gangs.gangs(evidence)
    (gen,) = gang.generations
    found = would_fit.outlooks(gen, gates.read(evidence, gang, gen))
    lasting = [(dict(one.fits), one.total) for one in found if one.end - one.start > 0.3]
    assert lasting == [({"leader": 1, "worker": 1}, 2), ({"worker": 3}, 3)]


def test_own_scenario_passes_with_numbers():
    """Both gates are seen to hold for the window, each for its own reason, and the surplus is counted."""
    evidence = _own()
    for_all = min_available.never_below_minimum(evidence, evidence.given)
    assert for_all.verdict == "pass"
    assert "while 2 would have fitted and 3 are needed" in for_all.observed
    assert "2 surplus not bound" in for_all.observed
    by_role = min_available.roles_gated(evidence, evidence.given)
    assert by_role.verdict == "pass"
    assert "3 members would have fitted (3 are needed), but only 0 of 1 leader" in by_role.observed
    assert "diagnosed: Job minimums has minAvailable 2, below the sum 3" in by_role.observed
    for finding in (for_all, by_role):
        (number,) = finding.numbers
        assert number.value is not None
        assert number.bound is not None
        assert number.value >= number.bound
        assert finding.currency == "slots"


@pytest.mark.parametrize("name", ["b4-min-below-replicas", "native-job-min-below-parallelism"])
def test_a_gang_that_was_never_short_of_its_minimum_shows_nothing(name: str):
    """Surplus that comes later is right, but without scarcity nothing was tried."""
    finding = min_available.never_below_minimum(recordings.stream(name), {})
    assert finding.verdict == "inconclusive"
    assert "surplus bound by" in finding.observed
    assert "never room for some members" in finding.observed


def test_a_shortage_of_one_session_is_none():
    """Between the making of its pods and its bind every gang waits for one session: not a test of the gate."""
    finding = min_available.roles_gated(recordings.stream("b5-per-task-minimum"), {})
    assert finding.verdict == "inconclusive"
    assert "every task had room" in finding.observed


@pytest.mark.parametrize(
    "name", ["c3-two-gangs-without-gang-plugin-three-nodes-equal", "h6-volcano-without-gang-plugin"]
)
def test_a_lower_minimum_is_judged_from_the_binds(name: str):
    """Half placed below a minimum that is itself below the replicas is a violation, whoever placed it."""
    base = recordings.stream(name)

    def lower(obj: dict[str, Any]) -> None:
        if "minAvailable" in obj["spec"]:
            obj["spec"]["tasks"][0]["replicas"] += 1

    evidence = mutants.each(base, lambda line: line.kind == "Job.batch.volcano.sh", lower)
    finding = min_available.never_below_minimum(evidence, {})
    assert finding.verdict == "fail"
    assert finding.violation
    assert "members bound" in finding.observed


def test_a_role_that_starts_without_the_other_is_named():
    """Enough members are bound, but of one role only: which, where, and for how long."""
    evidence = mutants.MUTANTS["gang.role-starts-alone"].act(_own())
    assert min_available.never_below_minimum(evidence, evidence.given).verdict == "pass"
    finding = min_available.roles_gated(evidence, evidence.given)
    assert (finding.verdict, finding.violation) == ("fail", True)
    assert "0 of 1 leader" in finding.observed
    assert "minimums-worker-0 on node-early" in finding.observed
    assert "not bound: minimums-leader-0" in finding.observed
    assert "minTaskMember" in finding.causes[0].text


def test_minimums_of_tasks_are_not_judged_where_volcano_ignores_them():
    """A Job whose minAvailable is below the sum is diagnosed, and its workers may start without a leader."""
    evidence = mutants.MUTANTS["gang.role-starts-alone"].act(
        _change("Job.batch.volcano.sh", lambda obj: obj["spec"].update(minAvailable=2))
    )
    finding = min_available.roles_gated(evidence, {})
    assert finding.verdict == "inconclusive"
    assert not finding.violation
    assert "below the sum 3" in finding.observed
    assert "leave it out" in finding.causes[0].fix
    (stored,) = [fault for fault in job_faults.roles_not_gated(evidence, {}) if fault.uid]
    assert (stored.field, stored.value) == ("spec.minAvailable", "2")


@pytest.mark.parametrize("folder", recordings.folders(), ids=lambda folder: folder.name)
def test_no_recorded_job_is_accused(folder: Any):
    """Every Job of the recorded streams has a minAvailable that covers its tasks, or only one task."""
    assert job_faults.roles_not_gated(recordings.stream(folder.name), {}) == ()


def test_a_minimum_that_admission_filled_in_is_nobodys_wish():
    """An elastic Job of two tasks without minimums of their own is stored with all replicas there: no fault."""
    spec = {"minAvailable": 2, "tasks": [{"name": n, "replicas": 2, "minAvailable": 2} for n in ("a", "b")]}
    metadata = {"name": "j", "uid": "u"}
    job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": metadata, "spec": spec}
    evidence = recordings.evidence_of([{"t": 0.0, "type": "ADDED", "object": job}])
    assert job_faults.roles_not_gated(evidence, {}) == ()


def test_a_window_that_is_too_short_shows_nothing():
    """A profile that lengthens the window makes the shorter stay inconclusive."""
    evidence = _own()
    told = {**evidence.given, "window": 5.0}
    for judge in (min_available.never_below_minimum, min_available.roles_gated):
        finding = judge(evidence, told)
        assert finding.verdict == "inconclusive"
        assert "shorter than the window of 5.00 s" in finding.observed


def test_room_that_is_not_taken_is_a_fail_when_the_driver_waited_in_vain():
    """A scheduler that waits for all members instead of the minimum is found by the expired wait."""
    base = mutants.MUTANTS["gang.never-bound"].act(_own())
    late = {
        "type": "NOTE",
        "t": base.end + 8,
        "note": "timed-out",
        "what": "the minimum is bound",
        "seconds": 8,
    }
    spans = [Span("*", 0.0, base.end + 9, "test")]
    evidence = mutants.with_lines(base, [*base.lines, *recordings.evidence_of([late]).lines], spans=spans)
    for judge in (min_available.never_below_minimum, min_available.roles_gated):
        finding = judge(evidence, evidence.given)
        assert finding.verdict == "fail", finding.observed
        assert "never bound (waited for the minimum is bound after 8 s)" in finding.observed
        assert finding.causes[0].fix


ABSENT = [
    ("Job.batch.volcano.sh", lambda obj: obj["spec"].pop("minAvailable"), "fail", "the Job is no gang"),
    ("Job.batch.volcano.sh", lambda obj: obj["spec"].update(minAvailable=1), "fail", "got 1"),
    ("PodGroup", lambda obj: obj["spec"].update(minMember=2), "fail", "minMember 2"),
]


@pytest.mark.parametrize(("kind", "change", "verdict", "text"), ABSENT)
def test_the_default_is_the_sum(kind: str, change: Any, verdict: str, text: str):
    """A Job that got no minimum, another one, or whose PodGroup asks for another fails, and says who is to blame."""
    evidence = _change(kind, change)
    finding = min_available.minimum_defaulted(evidence, evidence.given)
    assert finding.verdict == verdict
    assert text in finding.observed
    assert finding.causes


def test_a_minimum_that_was_stated_says_nothing_about_the_default():
    """Without word that the field was left out, a right value proves nothing; a missing one is seen all the same."""
    evidence = recordings.stream("a-gang-fits")
    assert min_available.minimum_defaulted(evidence, {}).verdict == "inconclusive"
    assert min_available.minimum_defaulted(evidence, {"omitted": ["minAvailable"]}).verdict == "pass"
    bare = mutants.each(
        evidence,
        lambda line: line.kind == "Job.batch.volcano.sh",
        lambda obj: obj["spec"].pop("minAvailable"),
    )
    finding = min_available.minimum_defaulted(bare, {})
    assert (finding.verdict, finding.violation) == ("fail", True)


def test_a_quota_that_stops_members_is_the_environment():
    """A ResourceQuota that refuses members is named, and accuses no scheduler."""
    evidence = recordings.public_evidence(recordings.public_cases()["ref-resourcequota-counts-waiting-pods"])
    finding = min_available.never_below_minimum(evidence, evidence.given)
    assert not finding.violation
    state = presuppositions.members_made(evidence, evidence.given)
    assert state.held is False
    assert "ResourceQuota ns-cap stops the creation of grid-t8-0, grid-t9-0" in state.observed


def test_a_member_that_came_after_all_was_not_stopped():
    """A refusal that healed is none; other refusals are told without naming a quota."""
    name = "b4-min-below-replicas"
    event = {
        "apiVersion": "v1", "kind": "Event", "type": "Warning", "reason": "FailedCreate",
        "metadata": {"name": "e", "uid": "e"}, "source": {"component": "vc-controller-manager"},
        "involvedObject": {"kind": "Job", "namespace": f"case-{name}", "name": "elastic"},
    }  # fmt: skip
    text = 'pods "{}" is forbidden: exceeded quota: q, requested: x=1'
    healed = {
        "t": 2.0,
        "type": "ADDED",
        "kind": "Event",
        "object": {**event, "message": text.format("elastic-worker-3")},
    }
    assert presuppositions.members_made(recordings.added(name, [healed]), {}).held is True
    other = {**event, "message": 'pods "elastic-worker-99" is forbidden: violates PodSecurity'}
    state = presuppositions.members_made(recordings.added(name, [{**healed, "object": other}]), {})
    assert state.held is False
    assert "the API server refuses the creation of elastic-worker-99: violates PodSecurity" in state.observed


def test_nothing_is_asked_of_an_empty_evidence():
    """No gang, no verdict."""
    empty = recordings.evidence_of([])
    for judge in (
        min_available.never_below_minimum,
        min_available.roles_gated,
        min_available.minimum_defaulted,
    ):
        assert judge(empty, {}).verdict is Verdict.INCONCLUSIVE
