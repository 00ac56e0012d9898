"""Evidence of elastic jobs that a broken cluster or a broken program leaves: what it does not show is never a pass."""

import dataclasses
import json

import pytest

from pytest_gpucluster.evidence.log import payload_lines
from pytest_gpucluster.judge.elastic import presuppositions, resume, shrink, storm
from pytest_gpucluster.mutants import MUTANTS, base
from pytest_gpucluster.report.decisions import decide
from pytest_gpucluster.requirement import REGISTRY
from tests import recordings

ROWS = {row.id: row for row in REGISTRY}
TRAINING = ("ELA-001", "ELA-002", "ELA-003", "ELA-006", "ELA-008")
ENDS = ("ELA-004", "ELA-007", "ELA-009")
RESTARTED, LOST, SECOND = "elastic-training-1", "elastic-training-0-nsqkz", "elastic-training-2"


def training():
    """Return the recorded life of an elastic job."""
    return recordings.embedded("elastic-training")


def ends():
    """Return the recorded ends of elastic jobs."""
    return recordings.embedded("elastic-ends")


def names():
    """Return what the four worlds of the job that lives on are called."""
    told = payload_lines.words(training()).of("elastic-formed")
    return list(dict.fromkeys(str(word.data["name"]) for word in told))


def changed(evidence, change):
    """Return the evidence with every fact of payloads changed in place; a change that returns False drops it."""
    return base.words(evidence, lambda _, told: None if change(told) is False else told)


def found(row, evidence, **elastic):
    """Return what becomes of a row."""
    declared = {**evidence.given, "elastic": {**evidence.given["elastic"], **elastic}}
    return decide(ROWS[row], evidence, declared)


def alone(told):
    """Let the second world have one rank, below the minimum."""
    if told.get("name") == names()[1]:
        told["world"] = 1
        return not told["pod"].startswith(SECOND)
    return True


def apart(told):
    """Let each worker that is left form a world of its own."""
    if told.get("name") == names()[1]:
        told.update(world=1, rank=0)
        if told["pod"].startswith(SECOND):
            told["name"] = "other"


def old_goes_on(told):
    """Let the world that lost a worker take steps beside the smaller one."""
    if told["event"] == "elastic-step" and told["name"] == names()[1] and told["step"] > 20:
        told["name"] = names()[0]


def ranks_twice(told):
    """Let both ranks of the second world call themselves rank 0."""
    if told.get("name") == names()[1]:
        told["rank"] = 0


def sizes_differ(told):
    """Let the ranks of the second world speak of different sizes."""
    if told.get("name") == names()[1] and told["pod"].startswith(SECOND):
        told["world"] = 1


def many_restarts(told):
    """Let agents use up more restarts than are declared."""
    if "restarts" in told:
        told["restarts"] += 12


def nothing_found(told):
    """Let no rank find a checkpoint, and worlds go on all the same."""
    if told["event"] == "elastic-formed":
        told["found"] = [0] * len(told["found"])


def found_untold(told):
    """Let no rank say what it found."""
    if told["event"] == "elastic-formed":
        told["found"] = []


def steps_lost(told):
    """Let steps between checkpoints be missing."""
    return told["event"] != "elastic-step" or told["saved"] or told["first"]


def steps_go_back(told):
    """Let the numbers of a world's steps go back in the middle of it."""
    if told["event"] == "elastic-step" and told["name"] == names()[1] and 12 < told["step"] < 20:
        told["step"] -= 6


def steps_of_nobody(told):
    """Let nobody have said that the third world formed, which took steps."""
    return not (told["event"] == "elastic-formed" and told["name"] == names()[2])


def one_silent(told):
    """Let one rank of the last world not say that it formed."""
    mine = told["event"] == "elastic-formed" and told["name"] == names()[3]
    return not (mine and told["rank"] == 1)


def no_torch(told):
    """Let workers call their client whole and name no torch."""
    if told["event"] == "elastic-client":
        told["torch"] = None


def contradicts_itself(told):
    """Let workers call their client whole and name what it lacks."""
    if told["event"] == "elastic-client":
        told["missing"] = {"etcd": "ModuleNotFoundError: No module named 'etcd'"}


@pytest.mark.parametrize(
    ("rows", "change"),
    [
        (("ELA-001",), alone),
        (("ELA-001",), apart),
        (("ELA-001",), old_goes_on),
        (("ELA-001", "ELA-008"), ranks_twice),
        (("ELA-001", "ELA-008"), sizes_differ),
        (("ELA-001", "ELA-002"), many_restarts),
        (("ELA-008",), nothing_found),
        (("ELA-008",), found_untold),
        (("ELA-008",), steps_lost),
        (("ELA-008",), steps_go_back),
        (("ELA-002", "ELA-008"), steps_of_nobody),
        (("ELA-008",), one_silent),
        (("ELA-006",), no_torch),
        (("ELA-006",), contradicts_itself),
    ],
)
def test_what_ranks_tell_must_fit_together(rows, change):
    """Worlds too small, twice at once or half told; steps out of order; a checkpoint that nobody found."""
    evidence = changed(training(), change)
    verdicts = {row: str(found(row, evidence).verdict) for row in rows}
    assert "pass" not in verdicts.values(), verdicts


def test_a_world_below_the_minimum_is_a_violation():
    """It trains, and must not."""
    finding = found("ELA-001", changed(training(), alone))
    assert (str(finding.verdict), finding.causes) == ("fail", (shrink.TOO_SMALL,))


def of_pod(evidence, name, chosen):
    """Return the evidence in which chosen lines of logs are another pod's."""
    uid = next(w.uid for w in payload_lines.words(evidence).words if w.pod == name)
    lines = []
    for line in evidence.lines:
        text = str(line.data.get("line") or "")
        if line.type == "LOG" and chosen(line, text):
            said = {"pod": name, "uid": uid, "line": text.replace(str(line.data["pod"]), name)}
            lines.append(dataclasses.replace(line, data={**line.data, **said}))
        else:
            lines.append(line)
    return base.with_lines(evidence, lines)


def test_a_newcomer_in_the_place_of_a_worker_that_was_left_is_no_world_of_those_left():
    """The world is smaller, and yet not of the workers that the loss left."""
    fresh = next(w.pod for w in payload_lines.words(training()).of("elastic-formed") if "kx7pf" in w.pod)
    second = names()[1]
    evidence = of_pod(
        training(), fresh, lambda line, text: second in text and line.data["pod"].startswith(SECOND)
    )
    assert str(found("ELA-001", evidence).verdict) == "inconclusive"


def test_steps_that_nobody_formed_a_world_for_are_not_passed_over():
    """Below the minimum the worker that is left takes steps, and the line that its world formed is lost."""
    evidence, last = training(), names()[3]
    left = next(w for w in payload_lines.words(evidence).of("elastic-formed") if w.data["name"] == last)
    steps = [
        line
        for line in evidence.lines
        if line.type == "LOG" and last in str(line.data.get("line")) and "elastic-step" in line.data["line"]
    ]
    more = [
        dataclasses.replace(
            line, t=135.0 + n,
            data={
                **line.data, "pod": left.pod, "uid": left.uid,
                "line": line.data["line"].replace(last, "unformed").replace(line.data["pod"], left.pod),
            },
        )
        for n, line in enumerate(steps)
    ]  # fmt: skip
    spoiled = base.with_lines(evidence, [*evidence.lines, *more])
    assert {row: str(found(row, spoiled).verdict) for row in ("ELA-003", "ELA-008")} == {
        "ELA-003": "inconclusive",
        "ELA-008": "inconclusive",
    }


def test_that_a_worker_waited_in_vain_before_the_loss_says_nothing_of_the_time_after_it():
    """The same line, told before the workers fell below the minimum."""
    lines = [
        dataclasses.replace(line, t=60.0)
        if line.type == "LOG" and "Rendezvous" in str(line.data.get("line"))
        else line
        for line in training().lines
    ]
    assert str(found("ELA-003", base.with_lines(training(), lines)).verdict) != "pass"


def without_codes(evidence, part):
    """Return the evidence in which nobody reports how containers ended."""

    def act(obj):
        for status in obj.get("status", {}).get("containerStatuses", []):
            for key in ("state", "lastState"):
                status.get(key, {}).pop("terminated", None)

    return base.each(evidence, lambda line: line.kind == "Pod" and part in line.name, act)


@pytest.mark.parametrize(
    ("row", "recorded", "part"),
    [("ELA-003", training, "elastic-training"), ("ELA-004", ends, "-storm"), ("ELA-007", ends, "-inert")],
)
def test_an_exit_code_that_nobody_reports_is_not_0(row, recorded, part):
    """A node that was lost, or a pod that was evicted, reports none: no cause can be named for it."""
    finding = found(row, without_codes(recorded(), part))
    assert (str(finding.verdict), "ended with 0" in finding.observed) == ("inconclusive", False)


def test_room_that_comes_back_while_no_worker_is_missing_accuses_nobody():
    """The newcomer took the slot at once, so that no smaller world was there to grow."""
    unshrunk = changed(training(), lambda told: told.get("name") != names()[1])
    assert str(found("ELA-002", base.later(unshrunk, 95.0, 200.0)).verdict) == "inconclusive"


def twice(evidence):
    """Return the evidence in which every line of a payload was read twice."""
    lines = []
    for line in evidence.lines:
        lines.append(line)
        if line.type == "LOG" and payload_lines.MARKER in str(line.data.get("line")):
            lines.append(dataclasses.replace(line, t=line.t + 0.001))
    return base.with_lines(evidence, lines)


def test_a_log_that_was_read_twice_accuses_nobody():
    """The same line at the same time of the same program is one line."""
    found_ = {row: str(found(row, twice(training())).verdict) for row in TRAINING}
    found_ |= {row: str(found(row, twice(ends())).verdict) for row in ENDS}
    assert "fail" not in found_.values(), found_


def crash_once(told, seen=None):
    """Return the change in which the rank that always fails does so once."""
    seen = [] if seen is None else seen
    if told["event"] == "elastic-crash":
        seen.append(told)
        return len(seen) == 1
    return True


def test_a_rank_that_failed_once_is_no_storm():
    """Its agents started it three times, and nobody knows why."""
    for row in ("ELA-004", "ELA-009"):
        seen = []
        evidence = changed(ends(), lambda told, seen=seen: crash_once(told, seen))
        assert str(found(row, evidence).verdict) == "inconclusive", row


def test_two_members_that_fail_are_not_one():
    """Another member failed the second time: none alone is behind it."""
    pods = sorted({w.pod for w in payload_lines.words(ends()).of("elastic-rank") if "-storm" in w.pod})
    crashes = [line for line in ends().lines if "elastic-crash" in str(line.data.get("line") or "")]
    evidence = of_pod(ends(), pods[0], lambda line, _: line.index == crashes[1].index)
    for row in ("ELA-004", "ELA-009"):
        assert str(found(row, evidence).verdict) == "inconclusive", row


def test_restarts_beyond_those_that_were_told_count():
    """The log of an earlier attempt is lost, the number of restarts is not; nor is that of the container."""

    def more(told):
        if told["event"] == "elastic-rank" and "-storm" in told["pod"] and told["restarts"]:
            told["restarts"] += 5

    def again(obj):
        for status in obj.get("status", {}).get("containerStatuses", []):
            status["restartCount"] = 3

    container = base.each(ends(), lambda line: line.kind == "Pod" and "-storm-1" in line.name, again)
    for evidence in (changed(ends(), more), container):
        finding = found("ELA-004", evidence)
        assert (str(finding.verdict), finding.causes[0] in (storm.MORE, storm.OTHER_LIMIT)) == ("fail", True)


def test_the_control_counts_only_if_the_host_of_the_store_was_lost():
    """Another member was killed, or the store was not inside the job at all."""

    def other_member(told):
        if "-inert" in told["pod"] and "index" in told:
            told["index"] = 1 - told["index"]

    def outside(told):
        if told["event"] == "elastic-client" and "-inert" in told["pod"]:
            told["backend"] = "c10d-store-pod"

    for change in (other_member, outside):
        assert str(found("ELA-007", changed(ends(), change)).verdict) == "inconclusive"


def test_a_store_that_asks_for_a_gpu_under_another_name_asks_for_one():
    """A part of a GPU, another vendor's, or a claim of a device."""

    def limits(name):
        return lambda obj: (
            obj["spec"]["containers"][0]
            .setdefault("resources", {})
            .setdefault("limits", {})
            .update({name: "1"})
        )

    def claims(obj):
        obj["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]

    for change, verdict in (
        (limits("nvidia.com/mig-1g.10gb"), "fail"),
        (limits("amd.com/gpu"), "fail"),
        (claims, "inconclusive"),
    ):
        evidence = base.each(training(), lambda line: line.kind == "Pod" and "store" in line.name, change)
        assert str(found("ELA-005", evidence).verdict) == verdict


def test_an_image_without_the_client_of_the_declared_backend_is_no_pass():
    """The worker says that all is well and names no client of etcd."""
    evidence = base.on("elastic-client", lambda told: told.update(backend="etcd-v2"))(training())
    assert str(found("ELA-006", evidence, backend="etcd-v2").verdict) == "inconclusive"


def test_agents_that_end_have_the_causes_that_the_evidence_leaves():
    """Restarts that are left, and a host that was not lost, are no reason to end."""
    evidence = MUTANTS["elastic.survivors-end"].act(training())
    assert shrink.NO_RESTARTS not in found("ELA-001", evidence).causes

    def used_up(told):
        if "restarts" in told:
            told["restarts"] = told["most"]

    assert found("ELA-001", changed(evidence, used_up)).causes[0] == shrink.NO_RESTARTS
    assert found("ELA-001", evidence, backend="c10d").causes[0] == shrink.HOST_LOST

    def moved(told):
        if "index" in told:
            told["index"] = (told["index"] + 1) % 3

    assert shrink.HOST_LOST not in found("ELA-001", changed(evidence, moved), backend="c10d").causes


def test_a_checkpoint_that_its_own_writer_does_not_find_is_not_apart():
    """Where the pod that wrote it finds nothing either, it is gone: that workers share no volume is not told."""

    def gone(told):
        if told["event"] == "elastic-formed" and told["resumed"]:
            told.update(resumed=0, found=[0] * len(told["found"]))

    finding = found(
        "ELA-008", changed(training(), lambda told: gone(told) if told.get("name") in names()[2:3] else None)
    )
    assert str(finding.verdict) == "fail"
    assert resume.NOT_SHARED not in finding.causes


WRONG = (None, "x", [[1]], {"a": []}, -1, 1.5, True)
PARTS = (
    ("ELA-001", "elastic-rank", ("rank", "world", "restarts")),
    ("ELA-001", "elastic-formed", ("rank", "world", "resumed")),
    ("ELA-008", "elastic-formed", ("resumed", "found")),
    ("ELA-008", "elastic-step", ("step", "loss")),
    ("ELA-009", "elastic-crash", ("step",)),
)
"""Row, fact and the parts on which the row rests."""


@pytest.mark.parametrize(("row", "event", "keys"), PARTS)
def test_facts_of_wrong_types_get_a_finding_and_are_no_pass(row, event, keys):
    """Whatever stands where a number or a list should: a finding, and none that passes on it."""
    evidence = ends() if row in ENDS else training()
    for key in keys:
        for wrong in WRONG:
            spoiled = base.on(event, lambda told, k=key, w=wrong: told.update({k: w}))(evidence)
            finding = decide(ROWS[row], spoiled)
            assert str(finding.verdict) != "pass", (key, wrong, finding.observed)


def test_a_loss_that_is_no_number_is_not_that_of_an_unbroken_run():
    """NaN is not near anything."""

    def nan(told):
        if told["event"] == "elastic-step" and told["step"] == 10:
            told["loss"] = json.loads("NaN")

    evidence = changed(training(), nan)
    assert str(resume.continues(evidence).verdict) == "fail"
    assert str(found("ELA-008", evidence).verdict) == "fail"


def test_the_store_of_a_run_that_answers_is_asked_by_all():
    """What is presupposed stays as it is under all of this."""
    assert presuppositions.store_answers(training(), training().given).held is True
