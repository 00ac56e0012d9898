"""What was once taken for a healthy JobSet: each kind of departure, in the recorded evidence."""

import dataclasses

import pytest

from pytest_gpucluster.evidence.scheduling import gangs, jobsets
from pytest_gpucluster.judge.trainer import failure_policy, stable_names, startup_order, success_policy
from pytest_gpucluster.mutants import base
from pytest_gpucluster.plain import names
from pytest_gpucluster.plain.copies import clone
from pytest_gpucluster.report import decisions
from tests import recordings
from tests.defects import matrix

OWN = "jobset.sigs.k8s.io/"
ENDS, ORDER, NAMES = (recordings.embedded(name) for name in ("jobset-ends", "jobset-order", "jobset-names"))


def label(line, name):
    """Return a label of JobSet's on an object, "" where it has none."""
    return str((line.object.get("metadata", {}).get("labels") or {}).get(f"{OWN}{name}", ""))


def of(line, role, replicated="", attempt=""):
    """Report whether a line is of a Job or pod of the set of a role."""
    return (
        label(line, "jobset-name").endswith(f"-{role}")
        and replicated in ("", label(line, "replicatedjob-name"))
        and attempt in ("", label(line, "restart-attempt"))
    )


def on_set(role, change):
    """Return the change of the spec of the set of a role, as it is stored."""
    return lambda evidence: base.each(
        evidence,
        lambda line: line.kind == names.JOBSET and line.name.endswith(f"-{role}"),
        lambda obj: change(obj["spec"]),
    )


def moved(evidence, chosen, by):
    """Return an evidence in which some lines come at another time."""
    lines = (dataclasses.replace(line, t=line.t + by) if chosen(line) else line for line in evidence.lines)
    return base.with_lines(evidence, lines)


def orphaned(role, replicated, attempt=""):
    """Let a Job be deleted without its pods: they lose their owner, and go on."""

    def go_on(obj):
        if obj["metadata"].pop("deletionTimestamp", None):
            obj["metadata"].pop("ownerReferences", None)
        obj["status"]["phase"] = "Running"

    def mine(line):
        return line.kind == "Pod" and of(line, role, replicated, attempt)

    def act(evidence):
        kept = base.without(evidence, lambda line: line.type == "DELETED" and mine(line))
        begun = kept.lines[-1].t
        times = [line.t for line in kept.lines if mine(line) and line.object["status"]["phase"] == "Running"]
        begun = min(times, default=begun)
        return base.each(kept, lambda line: mine(line) and line.t >= begun, go_on)

    return act


def of_an_unseen_job(role, replicated, by):
    """Add a pod of the set, owned by a Job that was never seen, so long after another one of that replicated Job."""

    def another(obj):
        obj["metadata"].update(uid="another", name="another")
        obj["metadata"]["ownerReferences"][0]["uid"] = "unseen"

    def act(evidence):
        line = next(one for one in evidence.of_kind("Pod") if of(one, role, replicated))
        new = dataclasses.replace(base.edited(line, another), t=line.t + by)
        return base.with_lines(evidence, [*evidence.lines, new])

    return act


def counted_twice(evidence):
    """Let the first Job of all-of complete in two attempts, and the second never."""
    again = [
        dataclasses.replace(base.edited(line, _next_attempt), t=line.t + 0.01)
        for line in evidence.of_kind(names.BATCH_JOB)
        if of(line, "all-of", "first")
    ]
    both = base.with_lines(evidence, [*evidence.lines, *again])
    return base.each(
        both,
        lambda line: line.kind == names.BATCH_JOB and of(line, "all-of", "second"),
        lambda obj: obj.get("status", {}).pop("conditions", None),
    )


def _next_attempt(obj):
    obj["metadata"]["uid"] += "-again"
    obj["metadata"]["labels"][f"{OWN}restart-attempt"] = "1"


def restarted_before_it_failed(evidence):
    """Let the second attempt begin before the first one failed."""
    return moved(
        evidence, lambda line: line.kind in (names.BATCH_JOB, "Pod") and of(line, "bounded", "", "1"), -0.3
    )


def restarted_a_minute_later(evidence):
    """Let the second attempt begin a minute after the first one failed."""
    jobs = evidence.of_kind(names.BATCH_JOB)
    begun = min(line.t for line in jobs if of(line, "bounded", "", "1"))
    return base.later(evidence, begun - 0.0005, 60.0)


def with_rules(*rules):
    """Give the set of the role bounded rules of its failure policy."""
    return on_set("bounded", lambda spec: spec["failurePolicy"].update(rules=list(rules)))


def others_fail_too(evidence):
    """Let both Jobs of the first attempt fail, where a rule is for the second alone."""
    ruled = with_rules({"action": "FailJobSet", "targetReplicatedJobs": ["second"]})(evidence)
    gang = next(one for one in gangs.gangs(ruled) if one.name.endswith("-bounded"))
    first = next(child for child in jobsets.children(ruled, gang) if child.failed)
    return base.each(
        ruled,
        lambda line: (
            line.kind == names.BATCH_JOB and of(line, "bounded", "second", "0") and line.t > first.failed[0]
        ),
        lambda obj: obj.setdefault("status", {}).update(conditions=[clone(dict(first.failure))]),
    )


def one_unready_again(evidence):
    """Let the first pod that was ready be so no more before the other one is."""
    ready = {}
    for line in evidence.of_kind("Pod"):
        if of(line, "in-order", "first") and _ready(line.object) == "True":
            ready.setdefault(line.uid, line)
    one, other = sorted(ready.values(), key=lambda line: line.t)
    changed = base.each(evidence, lambda line: line.uid == one.uid and line.t > one.t, _unready)
    between = dataclasses.replace(base.edited(one, _unready), t=(one.t + other.t) / 2)
    return base.with_lines(changed, [*changed.lines, between])


def _ready(obj):
    conditions = obj["status"].get("conditions") or []
    return next((c["status"] for c in conditions if c["type"] == "Ready"), "")


def _unready(obj):
    for condition in obj["status"]["conditions"]:
        if condition["type"] in ("Ready", "ContainersReady"):
            condition["status"] = "False"


def _job_says(change):
    """Change the conditions of the Job that the later one of after-complete waits for."""
    return lambda evidence: base.each(
        evidence,
        lambda line: line.kind == names.BATCH_JOB and of(line, "after-complete", "first"),
        lambda obj: change(obj.get("status", {})),
    )


def _failed(status):
    for condition in status.get("conditions") or []:
        condition["type"] = condition["type"].replace("Complete", "Failed")


def complete_late(evidence):
    """Let the earlier Job be Complete long after the later one had pods, whatever its pods say."""
    return moved(
        evidence,
        lambda line: line.kind == names.BATCH_JOB and of(line, "after-complete", "first") and line.t > 19.0,
        1.0,
    )


def one_address(evidence):
    """Give all pods one address, and let all names lead there."""
    same = base.each(
        evidence,
        lambda line: line.kind == "Pod" and bool(line.object["status"].get("podIP")),
        lambda obj: obj["status"].update(podIP="10.0.0.1", podIPs=[{"ip": "10.0.0.1"}]),
    )

    def there(fact):
        for told in fact["names"].values():
            told["addresses"] = ["10.0.0.1"]

    return base.on("waited", there)(same)


def unpublished(evidence):
    """Let the Service not publish pods before they are ready."""
    return base.each(
        evidence,
        lambda line: line.kind == "Service",
        lambda obj: obj["spec"].update(publishNotReadyAddresses=False),
    )


def only_the_leader(evidence):
    """Let the set be stored with one of its five members, which looks up one name."""
    fewer = base.each(
        evidence,
        lambda line: line.kind == names.JOBSET,
        lambda obj: obj["spec"].update(replicatedJobs=obj["spec"]["replicatedJobs"][:1]),
    )

    def alone(fact):
        fact["names"] = {name: told for name, told in fact["names"].items() if "leader" in name}

    return base.on("waited", alone)(fewer)


def others_gone(evidence):
    """Let the other Job of any-of be deleted long before the target has completed."""

    def mine(line):
        return line.kind in (names.BATCH_JOB, "Pod") and of(line, "any-of", "second")

    gone = base.without(evidence, lambda line: mine(line) and 21.9 < line.t < 22.69)
    return moved(gone, lambda line: mine(line) and line.t > 22.0, -0.7)


def deleted_by_somebody(evidence):
    """Let somebody delete the set when it is Completed, before its other Job has ended."""
    last = [line for line in evidence.of_kind(names.JOBSET) if line.name.endswith("-any-of")][-1]
    pods = [
        line for line in evidence.of_kind("Pod") if of(line, "any-of", "second") and line.type == "DELETED"
    ]
    gone = dataclasses.replace(last, t=max(last.t, min(line.t for line in pods)) + 0.01, type="DELETED")
    late = moved(evidence, lambda line: line in pods, 0.6)
    running = base.each(
        late,
        lambda line: line.kind == "Pod" and of(line, "any-of", "second"),
        lambda obj: obj["status"].update(phase="Running"),
    )
    return base.with_lines(running, [*running.lines, gone])


def unlabelled_early_pod(evidence):
    """Let the later Job of after-ready have a pod too early, which lacks the label of its replicated Job."""
    line = next(one for one in evidence.of_kind("Pod") if of(one, "after-ready", "second"))

    def another(obj):
        obj["metadata"].update(uid="another", name="another")
        obj["metadata"]["labels"].pop(f"{OWN}replicatedjob-name")

    early = dataclasses.replace(base.edited(line, another), t=line.t - 0.9)
    return base.with_lines(evidence, [*evidence.lines, early])


def service_gone(evidence):
    """Let the Service be deleted before the members looked names up."""
    line = next(one for one in evidence.of_kind("Service") if one.type == "ADDED")
    return base.with_lines(
        evidence, [*evidence.lines, dataclasses.replace(line, t=line.t + 0.1, type="DELETED")]
    )


def service_elsewhere(evidence):
    """Let the Service of that name be in another namespace."""
    return base.each(
        evidence, lambda line: line.kind == "Service", lambda obj: obj["metadata"].update(namespace="another")
    )


def no_list_of_addresses(fact):
    """Write a number for the addresses of each name."""
    for told in fact["names"].values():
        told["addresses"] = 7


SUCCESS, FAILURE = success_policy.ends_the_set, failure_policy.restarts_bounded
IN_ORDER, RESOLVE = startup_order.in_order, stable_names.resolve
CASES = {
    "orphans-after-success": (SUCCESS, ENDS, orphaned("any-of", "second"), "inconclusive", "had to be gone"),
    "others-gone-before": (SUCCESS, ENDS, others_gone, "inconclusive", "nothing had to be ended"),
    "deleted-by-somebody": (SUCCESS, ENDS, deleted_by_somebody, "inconclusive", "was deleted before"),
    "two-attempts-counted-as-two-targets": (SUCCESS, ENDS, counted_twice, "inconclusive", "was restarted"),
    "another-operator": (
        SUCCESS, ENDS, on_set("any-of", lambda spec: spec["successPolicy"].update(operator="All")),
        "inconclusive", "Any was asked for"),
    "unknown-target": (
        SUCCESS, ENDS,
        on_set("all-of", lambda spec: spec["successPolicy"].update(targetReplicatedJobs=["first", "none"])),
        "inconclusive", "has no replicated Job none"),
    "orphans-of-the-attempt-before": (FAILURE, ENDS, orphaned("bounded", "second", "0"), "!pass", "bounded"),
    "orphans-after-failure": (FAILURE, ENDS, orphaned("bounded", "second", "1"), "!pass", "bounded"),
    "pods-of-an-unseen-attempt": (
        FAILURE, ENDS, of_an_unseen_job("bounded", "first", 1.5), "inconclusive", "Jobs that were not seen: another"),
    "restarted-before-it-failed": (FAILURE, ENDS, restarted_before_it_failed, "fail", "had begun"),
    "restarted-too-late": (FAILURE, ENDS, restarted_a_minute_later, "fail", "made anew only 60.0 s later"),
    "a-pattern-of-RE2": (
        FAILURE, ENDS, with_rules({"action": "FailJobSet", "onJobFailureMessagePatterns": [r"^\pL+\z"]}),
        "inconclusive", "a pattern that cannot be read"),
    "an-odd-pattern": (
        FAILURE, ENDS, with_rules({"action": "FailJobSet", "onJobFailureMessagePatterns": ["[x"]}),
        "inconclusive", "a pattern that cannot be read"),
    "two-failed-and-a-rule-is-for-one": (FAILURE, ENDS, others_fail_too, "inconclusive", "which of them"),
    "restarts-that-do-not-count": (
        FAILURE, ENDS,
        lambda evidence: base.each(
            evidence, lambda line: line.kind == names.JOBSET,
            lambda obj: obj.get("status", {}).update(restartsCountTowardsMax=0)),
        "inconclusive", "restartsCountTowardsMax"),
    "never-ready-at-once": (IN_ORDER, ORDER, one_unready_again, "inconclusive", "never all at once"),
    "early-pod-of-an-unseen-job": (
        IN_ORDER, ORDER, of_an_unseen_job("after-ready", "second", -0.9), "inconclusive", "Jobs that were not seen"),
    "early-pod-without-its-label": (IN_ORDER, ORDER, unlabelled_early_pod, "fail", "second had a pod"),
    "waits-for-something-else": (
        IN_ORDER, ORDER,
        on_set("after-complete", lambda spec: spec["replicatedJobs"][1]["dependsOn"][0].update(status="Ready")),
        "inconclusive", "Complete was asked for"),
    "more-pods-than-asked": (
        IN_ORDER, ORDER,
        on_set("in-order",
               lambda spec: spec["replicatedJobs"][0]["template"]["spec"].update(parallelism=1, completions=1)),
        "inconclusive", "more pods than it asks for"),
    "job-never-complete": (
        IN_ORDER, ORDER, _job_says(lambda status: status.pop("conditions", None)), "inconclusive", "seen Complete"),
    "job-failed": (IN_ORDER, ORDER, _job_says(_failed), "inconclusive", "seen Complete"),
    "job-complete-late": (IN_ORDER, ORDER, complete_late, "fail", "the Jobs to wait for were Complete"),
    "one-address-for-all": (RESOLVE, NAMES, one_address, "inconclusive", "one address"),
    "unpublished-before-ready": (RESOLVE, NAMES, unpublished, "inconclusive", "does not publish pods"),
    "service-gone": (RESOLVE, NAMES, service_gone, "inconclusive", "no Service"),
    "service-elsewhere": (RESOLVE, NAMES, service_elsewhere, "inconclusive", "no Service"),
    "no-list-of-addresses": (RESOLVE, NAMES, base.on("waited", no_list_of_addresses), "fail", "did not resolve"),
    "fewer-members-than-asked": (RESOLVE, NAMES, only_the_leader, "inconclusive", "5 were asked for"),
    "members-of-two-runs": (
        RESOLVE, NAMES, base.on("waited", lambda fact: fact.update(run="another"), alone=True),
        "inconclusive", "2 runs"),
    "nameless": (
        RESOLVE, NAMES, base.on("member", lambda fact: fact.update(hostname=""), alone=True),
        "inconclusive", "did not report host name"),
}  # fmt: skip
"""Kind of a departure -> judge, evidence, what is changed, the verdict, and what the finding says."""


@pytest.mark.parametrize("kind", CASES)
def test_a_departure_is_no_health(kind):
    """What shows it is told; a verdict other than a fail wherever the evidence cannot tell it from its neighbours."""
    judge, evidence, change, verdict, told = CASES[kind]
    found = judge(change(evidence), evidence.given)
    assert found.verdict != "pass" if verdict == "!pass" else found.verdict == verdict, found.observed
    assert told in found.observed


def test_pods_that_lost_their_job_are_named_once_they_had_to_be_gone():
    """Who waits long enough for them sees a fail with the pod's name, not a set without members."""
    row = next(one for one in matrix.rows() if one.id == "TRN-005")
    changed = orphaned("bounded", "second", "1")(ENDS)
    end = ENDS.notes("end")[0]
    told = {
        **end.data,
        "note": "timed-out",
        "what": "nothing is left running of jobset-ends-bounded",
        "seconds": 10.0,
    }
    waited = base.with_lines(changed, [*changed.lines, dataclasses.replace(end, data=told)])
    found = decisions.decide(row, waited)
    assert (found.verdict, found.violation) == ("fail", True), found.observed
    assert "still running: jobset-ends-bounded-second" in found.observed
