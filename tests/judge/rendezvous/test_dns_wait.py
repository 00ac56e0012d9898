"""Judges of Indexed Jobs: their members' names, waits for names, and the interface between them."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_gpucluster import mutants
from pytest_gpucluster.evidence import Evidence, read
from pytest_gpucluster.judge.fabric import gloo_interface
from pytest_gpucluster.judge.plugins import name_resolution
from pytest_gpucluster.judge.rendezvous import dns_wait, indexed_job
from pytest_gpucluster.judge.rendezvous.presuppositions import members_find_each_other
from pytest_gpucluster.mutants import base
from tests import recordings

INDEX = "batch.kubernetes.io/job-completion-index"


def waited() -> Evidence:
    """Return the recorded waits for names."""
    return recordings.embedded("name-wait")


def world() -> Evidence:
    """Return the recorded Indexed Job that trained."""
    return recordings.embedded("indexed-world")


def judged(judge: Callable[..., Any], evidence: Evidence, **more: Any) -> Any:
    """Return what a judge finds, with something else declared."""
    return judge(evidence, {**evidence.given, **more})


def pods(change: Callable[[dict[str, Any]], None], name: str = "") -> Callable[[Evidence], Evidence]:
    """Return the change of each state of the pods whose name contains a text."""

    def act(evidence: Evidence) -> Evidence:
        return mutants.each(evidence, lambda line: line.kind == "Pod" and name in line.name, change)

    return act


def real(name: str) -> Evidence:
    """Return what a scenario of these rows left on a kind cluster."""
    return read(recordings.FOLDER / "kind" / "v1.37.2" / f"{name}.jsonl")


@pytest.mark.parametrize(
    ("scenario", "judge", "well", "without_dns"),
    [
        ("indexed-world", indexed_job.finds_its_members, "pass", "fail"),
        ("name-wait", dns_wait.bounded, "pass", "fail"),
        ("indexed-world", gloo_interface.on_declared_interface, "pass", "inconclusive"),
    ],
)
def test_real_kubelets_and_coredns(
    scenario: str, judge: Callable[..., Any], well: str, without_dns: str
) -> None:
    """The same scenario on a kind cluster, and once more with CoreDNS scaled to zero: bounded, and explained."""
    assert judged(judge, real(scenario)).verdict == well
    finding = judged(judge, real(f"{scenario}-no-dns"))
    assert finding.verdict == without_dns
    if without_dns == "fail":
        assert "CoreDNS" in finding.causes[0].text


def test_without_dns_members_are_known_not_to_have_found_each_other() -> None:
    """What FAB-013 stands on was seen to be false, and the DNS servers are blamed."""
    state = members_find_each_other(real("indexed-world-no-dns"), {})
    assert state.held is False
    assert state.causes == (name_resolution.NO_SERVER,)
    assert members_find_each_other(real("indexed-world"), {}).held is True


# --- RDZV-002 ---


def test_members_that_trained_pass_and_are_named() -> None:
    """Indexes, host names, look-ups and the step were told by both."""
    finding = judged(indexed_job.finds_its_members, world())
    assert finding.verdict == "pass"
    assert "indexed-world-0, indexed-world-1 resolve from all members" in finding.observed


@pytest.mark.parametrize("name", [path.name for path in recordings.folders()])
def test_no_recorded_stream_is_accused(name: str) -> None:
    """Indexed Jobs of recorded streams keep one pod an index, also where pods were made again."""
    finding = indexed_job.finds_its_members(recordings.stream(name), {})
    assert finding.verdict == "inconclusive", finding.observed


def test_an_index_that_is_made_again_after_its_pod_left_is_no_second_one() -> None:
    """A pod that is being deleted and its successor may overlap."""

    def leaves(obj: dict[str, Any]) -> None:
        obj["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    first = pods(leaves, "indexed-world-0")(base_index(world()))
    assert "twice" not in judged(indexed_job.finds_its_members, first).observed


def base_index(evidence: Evidence) -> Evidence:
    """Give both members the index of the first."""
    act = mutants.MUTANTS["rendezvous.index-twice"].act
    return act(evidence)


def test_two_pods_of_one_index_are_named() -> None:
    """Both pods and the time from which they were two."""
    finding = judged(indexed_job.finds_its_members, base_index(world()))
    assert finding.verdict == "fail"
    assert "index 0 of Job.batch/indexed-world exists twice" in finding.observed


def test_a_name_that_leads_elsewhere_is_named_with_both_addresses() -> None:
    """The address that was found, and that of the pod."""

    def elsewhere(word: dict[str, Any]) -> None:
        for told in word["names"].values():
            told["addresses"] = ["10.9.9.9"]

    finding = judged(indexed_job.finds_its_members, base.on("waited", elsewhere)(world()))
    assert finding.verdict == "fail"
    assert "is 10.9.9.9 from indexed-world-0" in finding.observed


def test_a_pod_without_subdomain_has_no_name_and_the_fix_says_so() -> None:
    """The names are unknown to DNS, and the template names no Service."""

    def unknown(word: dict[str, Any]) -> None:
        for told in word["names"].values():
            told.update(addresses=[], kind="unknown", error="Name or service not known")

    lost = base.on("waited", unknown)(world())
    finding = judged(indexed_job.finds_its_members, lost)
    assert finding.verdict == "fail"
    assert finding.causes == (indexed_job.NOT_PUBLISHED,)
    bare = pods(lambda obj: obj["spec"].pop("subdomain", None))(lost)
    assert judged(indexed_job.finds_its_members, bare).causes == (indexed_job.NO_SUBDOMAIN,)


def test_a_member_that_failed_before_it_trained_is_a_failure() -> None:
    """Its exit code is named; where no log was read nothing is decided."""

    def fails(obj: dict[str, Any]) -> None:
        for status in obj["status"].get("containerStatuses") or []:
            if "terminated" in status.get("state", {}):
                status["state"] = copy.deepcopy(status["state"])
                status["state"]["terminated"]["exitCode"] = 1

    failed = pods(fails, "indexed-world-1")(base.drop("trained")(world()))
    finding = judged(indexed_job.finds_its_members, failed)
    assert finding.verdict == "fail"
    assert "ended with 1" in finding.observed
    silent = base.without(failed, lambda line: line.type == "LOG")
    assert judged(indexed_job.finds_its_members, silent).verdict == "inconclusive"


def test_nothing_to_judge() -> None:
    """No Indexed Job in a Volcano stream."""
    assert indexed_job.finds_its_members(recordings.healthy(), {}).verdict == "inconclusive"


# --- RDZV-003 ---


def test_the_wait_is_told_apart_from_scheduling() -> None:
    """Two numbers, the wait with its bound and where it was measured."""
    finding = judged(dns_wait.bounded, waited())
    assert finding.verdict == "pass"
    wait, scheduling, vain = finding.numbers
    assert wait.name == "wait for names"
    assert wait.bound == 10.0
    assert wait.value is not None
    assert wait.value > 0.5
    assert "in the container" in wait.origin
    assert scheduling.bound is None
    assert "not part of the wait" in scheduling.origin
    assert vain.value is not None
    assert vain.value < wait.value


def test_a_server_that_does_not_answer_is_told_from_a_name_that_is_not_there() -> None:
    """CoreDNS scaled to zero, beside a Service that is missing or publishes only what is ready."""
    lost = mutants.MUTANTS["rendezvous.names-unanswered"].act
    down = judged(dns_wait.bounded, lost(waited()))
    assert down.verdict == "fail"
    assert "no answer from DNS (10.88.0.1)" in down.observed
    assert "CoreDNS" in down.causes[0].text

    def unknown(word: dict[str, Any]) -> None:
        word.update(ok=False)
        for told in word["names"].values():
            told.update(addresses=[], kind="unknown", error="Name or service not known")

    nameless = base.on("waited", unknown)(waited())
    assert judged(dns_wait.bounded, nameless).causes[0] is name_resolution.DNS

    def ready_only(obj: dict[str, Any]) -> None:
        obj["spec"].pop("publishNotReadyAddresses", None)

    hidden = mutants.each(nameless, lambda line: line.kind == "Service", ready_only)
    assert judged(dns_wait.bounded, hidden).causes[0] is dns_wait.NOT_PUBLISHED
    gone = base.without(nameless, lambda line: line.kind == "Service")
    assert judged(dns_wait.bounded, gone).causes[0] is dns_wait.NO_SERVICE


def test_a_wait_that_never_ends_is_found_without_its_last_word() -> None:
    """It began, told its bound, and is still there when the evidence ends."""
    endless = base.drop("waited", alone=True)(waited())
    later = [{"t": endless.end + 60.0, "type": "NOTE", "note": "end"}]
    lines = [o for o in recordings.ingest.lines_of(endless) if o["type"] not in ("HEADER", "SPAN")]
    running = [
        o for o in lines
        if not (o.get("object", {}).get("kind") == "Pod" and "never" in o["object"]["metadata"]["name"]
                and o["object"].get("status", {}).get("phase") != "Pending")
    ]  # fmt: skip
    evidence = recordings.evidence_of([*running, *later], header=endless.header)
    finding = judged(dns_wait.bounded, evidence)
    assert finding.verdict == "fail"
    assert "the bound is 1 s" in finding.observed


def test_going_on_without_the_name_is_a_failure() -> None:
    """The init container's code was swallowed: the main container ran."""

    def swallowed(obj: dict[str, Any]) -> None:
        status = obj.get("status", {})
        if status.get("phase") == "Failed":
            status["phase"] = "Succeeded"
            for init in status["initContainerStatuses"]:
                init["state"] = {"terminated": {"exitCode": 0}}

    finding = judged(dns_wait.bounded, pods(swallowed, "never")(waited()))
    assert finding.verdict == "fail"
    assert "went on without the name" in finding.observed


def test_a_wait_that_ends_without_a_word_is_a_failure() -> None:
    """Its log was read and does not say what became of the wait."""

    def fails(obj: dict[str, Any]) -> None:
        for init in obj.get("status", {}).get("initContainerStatuses") or []:
            if "terminated" in init.get("state", {}):
                init["state"] = {"terminated": {"exitCode": 2}}

    mute = pods(fails, "late-1")(
        base.words(
            waited(), lambda line, told: None if told["event"] == "waited" and "late-1" in line.data["pod"] else told
        )
    )  # fmt: skip
    finding = judged(dns_wait.bounded, mute)
    assert finding.verdict == "fail"
    assert "without reporting a result" in finding.observed


def test_one_half_alone_is_not_enough() -> None:
    """A wait that worked says nothing of one in vain."""
    half = {**waited().given}
    half["roles"] = {role: who for role, who in half["roles"].items() if role != "unanswered"}
    assert dns_wait.bounded(waited(), half).verdict == "inconclusive"


@settings(deadline=None)
@given(st.floats(0.0, 1000.0))
def test_only_what_outlasts_its_bound_fails(seconds: float) -> None:
    """Ten seconds are allowed, and three more for the end to be seen."""

    def lasts(word: dict[str, Any]) -> None:
        if word["ok"]:
            word["seconds"] = seconds

    finding = judged(dns_wait.bounded, base.on("waited", lasts)(waited()))
    assert (finding.verdict == "fail") == (seconds > 10.0 + dns_wait.LATE)


def test_nothing_is_said_of_evidence_without_a_wait() -> None:
    """A healthy pytorch gang waits for nothing that is told."""
    assert dns_wait.bounded(recordings.healthy(), {}).verdict == "inconclusive"


# --- FAB-013 ---


def test_connections_on_the_declared_interface_pass() -> None:
    """By what the kernel lists, with the interface as the number's origin."""
    finding = judged(gloo_interface.on_declared_interface, world())
    assert finding.verdict == "pass"
    (number,) = finding.numbers
    assert (number.value, number.bound, number.origin) == (2.0, 2.0, "profile interface")


def test_an_undeclared_interface_is_measured_and_not_judged() -> None:
    """Rule 4 of the catalogue."""
    finding = judged(gloo_interface.on_declared_interface, world(), interface=None)
    assert finding.verdict == "not_applicable"
    assert "connected over eth0" in finding.observed


def test_a_wrong_sum_fails_whatever_is_declared() -> None:
    """The result is no matter of interfaces."""
    wrong = mutants.MUTANTS["fabric.wrong-sum"].act
    assert judged(gloo_interface.on_declared_interface, wrong(world()), interface=None).verdict == "fail"


def test_the_variable_alone_is_no_evidence() -> None:
    """It asks for eth0, the connections are elsewhere: the pod and both are named."""
    elsewhere = mutants.MUTANTS["fabric.another-interface"].act
    finding = judged(gloo_interface.on_declared_interface, elsewhere(world()))
    assert finding.verdict == "fail"
    assert "is connected over net1 (GLOO_SOCKET_IFNAME is eth0)" in finding.observed


def test_an_interface_that_pods_do_not_have() -> None:
    """Gloo says so at once; what it says is enough."""
    text = "RuntimeError: [enforce fail at device.cc:83] ifa != nullptr. Unable to find address for: ib7"
    lines = [{"t": 3.0, "type": "LOG", "pod": "w-0", "uid": "u", "line": text}]
    finding = gloo_interface.on_declared_interface(recordings.evidence_of(lines), {"interface": "ib7"})
    assert finding.verdict == "fail"
    assert "ib7" in finding.observed
    assert "no interface" in finding.causes[0].text


def test_members_without_a_connection_decide_nothing() -> None:
    """A world of one, or a look before the connections were there."""
    alone = base.on("reduced", lambda word: word.update(interfaces={}))(world())
    assert judged(gloo_interface.on_declared_interface, alone).verdict == "inconclusive"
