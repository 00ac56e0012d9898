"""Judges of two Jobs at once: whose ranks met, and whether training steps agree with one process."""

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpucluster import mutants
from pytest_gpucluster.evidence import Evidence
from pytest_gpucluster.judge.rendezvous import training_step, two_worlds
from pytest_gpucluster.mutants import base
from tests import amount, recordings

LEFT_MASTER, RIGHT_WORKER = "two-jobs-left-master-0", "two-jobs-right-worker-0"


def evidence() -> Evidence:
    """Return the recorded run of both Jobs."""
    return recordings.embedded("two-jobs")


def found(judge: Callable[..., Any], changed: Evidence) -> Any:
    """Return what a judge finds."""
    return judge(changed, changed.given)


def on(event: str, change: Callable[[dict[str, Any]], None], pod: str = "") -> Evidence:
    """Return the recording with a fact of the payloads changed, of all pods or of one."""

    def act(line: Any, told: dict[str, Any]) -> dict[str, Any]:
        if told.get("event") == event and pod in str(line.data.get("pod")):
            change(told)
        return told

    return base.words(evidence(), act)


def lines(change: Callable[[Any, str], list[str]]) -> Evidence:
    """Return the recording with each log line replaced by what a change makes of it."""
    told = []
    for line in evidence().lines:
        texts = change(line, str(line.data["line"])) if line.type == "LOG" else None
        told += (
            [line]
            if texts is None
            else [dataclasses.replace(line, data={**line.data, "line": text}) for text in texts]
        )
    return base.with_lines(evidence(), told)


def ended(pod: str, code: int) -> Callable[[dict[str, Any]], None]:
    """Return the change that lets a pod's container end with a code."""

    def change(obj: dict[str, Any]) -> None:
        if obj["metadata"]["name"] == pod and obj["status"]["phase"] in ("Succeeded", "Failed"):
            obj["status"]["phase"] = "Failed"
            obj["status"]["containerStatuses"][0]["state"] = {"terminated": {"exitCode": code}}

    return change


def failed(changed: Evidence, pod: str, code: int = 1) -> Evidence:
    """Return the evidence in which a pod failed."""
    return mutants.each(changed, lambda line: line.kind == "Pod", ended(pod, code))


# --- RDZV-005 ---


def test_two_worlds_pass_and_all_four_ranks_are_placed() -> None:
    """Each world is told with its ranks, and how long both were there."""
    finding = found(two_worlds.apart, evidence())
    assert finding.verdict == "pass"
    assert len(finding.where) == 4
    assert "neither received a nonce of the other" in finding.observed


def test_a_nonce_of_the_other_job_names_who_got_it_and_who_sent_it() -> None:
    """Both ranks with their pods, and the fix that the documents give."""
    act = mutants.MUTANTS["rendezvous.nonce-of-the-other"].act
    finding = found(two_worlds.apart, act(evidence()))
    assert (finding.verdict, finding.violation) == ("fail", True)
    assert "two-jobs-left-" in finding.observed
    assert "two-jobs-right-" in finding.observed
    assert "--rdzv-id" in finding.causes[0].fix


@pytest.mark.parametrize("what", ["addresses", "store"])
def test_a_launcher_at_a_pod_of_the_other_job_is_named(what: str) -> None:
    """The name may lead there, or the connection itself; the Service's selector is blamed."""
    (other,) = {
        word["addresses"][0]
        for word in told("exchanged")
        if "right" in word["pod"] and word["addresses"]
    }  # fmt: skip
    changed = on("exchanged", lambda w: w.update({what: [other]}), LEFT_MASTER)
    finding = found(two_worlds.apart, changed)
    assert finding.verdict == "fail"
    assert f"{other}, a pod of Job.batch.volcano.sh/two-jobs-right" in finding.observed
    assert finding.causes == (two_worlds.WRONG_SELECTOR,)


def told(event: str) -> list[dict[str, Any]]:
    """Return the facts of one kind in the recording."""
    found_, marker = [], "GPUCONF1 "
    for line in evidence().logs():
        text = str(line.data["line"])
        if marker in text and json.loads(text.partition(marker)[2])["event"] == event:
            found_.append(json.loads(text.partition(marker)[2]))
    return found_


def test_one_address_of_both_jobs_on_the_host_network_accuses_nobody() -> None:
    """Pods of both Jobs on one node share its address there: only ids and nonces tell them apart."""

    def shared(obj: dict[str, Any]) -> None:
        if obj["status"].get("podIP"):
            obj["status"].update(podIP="10.0.0.7", podIPs=[{"ip": "10.0.0.7"}])

    one = mutants.each(evidence(), lambda line: line.kind == "Pod", shared)
    changed = base.on("exchanged", lambda w: w.update(addresses=["10.0.0.7"], store=["10.0.0.7"]))(one)
    assert found(two_worlds.apart, changed).verdict == "pass"


def test_a_shared_endpoint_with_an_id_each_is_two_rendezvous() -> None:
    """A store pod serves many Jobs: the id tells them apart."""
    changed = on("exchanged", lambda w: w.update(addresses=["10.96.0.9"], store=["10.96.0.9"]))
    assert found(two_worlds.apart, changed).verdict == "pass"


def test_a_member_that_failed_before_it_exchanged_fails_the_row() -> None:
    """Rank, Job, pod, node and code are named."""
    lost = base.drop("exchanged", alone=True)(evidence())
    finding = found(two_worlds.apart, failed(lost, RIGHT_WORKER))
    assert finding.verdict == "fail"
    assert "rank 1 of 2 exchanged nothing" in finding.observed
    assert RIGHT_WORKER in finding.observed
    assert "ended with 1" in finding.observed


def test_half_a_line_is_no_word_and_no_fail() -> None:
    """Half a line says that something was said: what it was is not known."""
    changed = lines(
        lambda line, text: (
            [text[: len(text) // 2]] if "exchanged" in text and line.data["pod"] == RIGHT_WORKER else [text]
        )
    )
    finding = found(two_worlds.apart, failed(changed, RIGHT_WORKER))
    assert finding.verdict == "inconclusive"
    assert f"a line of {RIGHT_WORKER} is cut" in finding.observed


def test_a_line_told_twice_is_one_rank() -> None:
    """A log collector may repeat a line."""
    assert found(two_worlds.apart, lines(lambda _, text: [text, text])).verdict == "pass"


def test_two_processes_of_one_rank_are_two_worlds() -> None:
    """Both members of one Job call themselves rank 0."""
    finding = found(two_worlds.apart, on("exchanged", lambda w: w.update(rank=0), "right"))
    assert finding.verdict == "fail"
    assert "two worlds" in finding.observed


def test_a_world_of_all_four_is_mixed() -> None:
    """Both Jobs in one world: each rank got the nonces of the others."""
    nonces = [word["nonce"] for word in told("exchanged")]

    def joined(word: dict[str, Any]) -> None:
        word.update(world=4, got=[[rank, nonce] for rank, nonce in enumerate(nonces)])

    finding = found(two_worlds.apart, on("exchanged", joined))
    assert finding.verdict == "fail"
    assert "got as rank" in finding.observed


# --- RDZV-006 ---


def test_steps_that_agree_tell_how_far_they_are_apart() -> None:
    """The number has its bound and where that comes from."""
    finding = found(training_step.agrees, evidence())
    assert finding.verdict == "pass"
    (number,) = finding.numbers
    assert 0 <= number.value < number.bound
    assert "fp32" in number.origin


@pytest.mark.parametrize("way", ["ddp", "fsdp"])
@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "", None, float("nan"), True], ids=repr)
def test_what_is_no_number_fails_and_names_the_rank(way: str, value: object) -> None:
    """NaN, infinity or nonsense as a loss."""
    changed = on("stepped", lambda w: w[way].update(losses=[value] * 2), LEFT_MASTER)
    finding = found(training_step.agrees, changed)
    assert (finding.verdict, finding.violation) == ("fail", True)
    assert f"rank 0 on {LEFT_MASTER}" in finding.observed
    assert training_step.WAYS[way] in finding.observed
    assert finding.numbers[0].value is None


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda w: w["ddp"].update(far=2e-5), "with DDP a parameter is 2e-05 from a single process"),
        (lambda w: w["fsdp"].update(far=1.0), "with FSDP2 a parameter is 1 from a single process"),
        (lambda w: w["fsdp"]["losses"].__setitem__(1, 0.5), "the loss of step 2 is 0.5 with FSDP2"),
        (lambda w: w["fsdp"].update(own=808), "holds all 808 parameters"),
        (lambda w: w.update(rank=1), "rank 1 trained twice"),
        (lambda w: w.update(world=4), "worlds of"),
    ],
)
def test_each_departure_is_named(change: Callable[[dict[str, Any]], None], text: str) -> None:
    """What differs, where, and by how much."""
    finding = found(training_step.agrees, on("stepped", change, LEFT_MASTER))
    assert finding.verdict == "fail"
    assert text in finding.observed


@pytest.mark.parametrize(
    "change",
    [
        lambda w: w.pop("reference"),
        lambda w: w.pop("ddp"),
        lambda w: w["fsdp"].update(losses=[1.0]),
        lambda w: w.update(rank=None),
        lambda w: w.update(moved=0.0),
        lambda w: w["fsdp"].pop("own"),
    ],
    ids=["no reference", "no ddp", "one loss", "no rank", "nothing moved", "no share"],
)
def test_what_was_not_told_leaves_the_row_open(change: Callable[[dict[str, Any]], None]) -> None:
    """A part that lacks is neither a pass nor a fail."""
    assert found(training_step.agrees, on("stepped", change, LEFT_MASTER)).verdict == "inconclusive"


def test_a_rank_that_died_in_its_steps_fails_with_its_code() -> None:
    """It met the others and told no step."""
    lost = base.drop("stepped", alone=True)(evidence())
    assert found(training_step.agrees, lost).verdict == "inconclusive"
    finding = found(training_step.agrees, failed(lost, "two-jobs-left-worker-0", 137))
    assert finding.verdict == "fail"
    assert "rank 1 reported no step" in finding.observed
    assert "ended with 137" in finding.observed


def test_a_step_line_that_is_cut_leaves_the_row_open() -> None:
    """Also where the member failed afterwards: its line may have said that all was well."""
    changed = lines(
        lambda line, text: [text[:200]] if "stepped" in text and line.data["pod"] == LEFT_MASTER else [text]
    )
    finding = found(training_step.agrees, failed(changed, LEFT_MASTER))
    assert finding.verdict == "inconclusive"
    assert "is cut" in finding.observed


def test_of_two_lines_of_one_rank_the_wrong_one_counts() -> None:
    """A second line does not cover the first."""

    def twice(line: Any, text: str) -> list[str]:
        wrong = text.replace('"ok":true', "").replace('"far":', '"far":0.5,"near":')
        return [wrong, text] if "stepped" in text and line.data["pod"] == LEFT_MASTER else [text]

    assert found(training_step.agrees, lines(twice)).verdict == "fail"
    assert found(training_step.agrees, lines(lambda _, text: [text, text])).verdict == "pass"


def test_ranks_that_never_met_are_a_missing_ground() -> None:
    """Known to be false where a member failed, not known where none did."""
    alone = base.drop("stepped")(base.drop("exchanged")(evidence()))
    assert training_step.ranks_met(alone, alone.given).held is None
    down = failed(alone, LEFT_MASTER)
    state = training_step.ranks_met(down, down.given)
    assert state.held is False
    assert state.causes == (two_worlds.NOT_FORMED,)
    assert training_step.ranks_met(evidence(), evidence().given).held is True


@pytest.mark.parametrize("name", [path.name for path in recordings.folders()])
def test_no_recorded_stream_is_judged(name: str) -> None:
    """Streams of others have no such words."""
    for judge in (two_worlds.apart, training_step.agrees):
        assert judge(recordings.stream(name), {}).verdict == "inconclusive"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@amount.examples(60)
@given(data=st.data())
def test_no_value_makes_a_judge_raise_or_pass(data: st.DataObject) -> None:
    """Whatever stands in a fact: an answer; a pass only where the value is the one that was told."""
    event, judge = data.draw(
        st.sampled_from([("exchanged", two_worlds.apart), ("stepped", training_step.agrees)])
    )
    key = data.draw(st.sampled_from(["got", "nonce", "rank", "world", "reference", "ddp", "fsdp", "moved"]))
    value = data.draw(VALUES)
    changed = on(event, lambda w: w.update({key: value}) if key in w else None)
    before = [word for word in told(event) if key in word]
    verdict = found(judge, changed).verdict
    if before and key in ("got", "reference", "ddp", "fsdp"):
        assert verdict != "pass"
