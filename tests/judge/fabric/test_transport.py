"""Ranks, devices and floors: what the judges of the fabric make of good lines and of bad ones."""

import copy
import dataclasses

import pytest

from pytest_gpucluster.evidence import Evidence, read
from pytest_gpucluster.evidence.hardware import collectives
from pytest_gpucluster.judge.fabric import communicator, floor_sanity, rank_devices
from pytest_gpucluster.mutants import base
from pytest_gpucluster.requirement import Verdict
from tests import recordings

UUID = "GPU-{:08d}-0000-0000-0000-000000000000"


@pytest.fixture(scope="module")
def recorded():
    """Return the evidence of a passing run on CPUs."""
    return recordings.embedded("collectives")


def devices(evidence):
    """Judge FAB-014."""
    return rank_devices.own_devices(evidence, evidence.given)


def changed(evidence, event, change):
    """Return the evidence with facts of one kind changed; a change that returns False drops the line."""

    def act(_, told):
        keep = change(told) if told.get("event") == event else True
        return None if keep is False else told

    return base.words(evidence, act)


def test_a_run_on_cpus_has_a_device_for_each_rank(recorded):
    """Four ranks on two nodes, each with one of the devices that the kubelet handed out."""
    finding = devices(recorded)
    assert finding.verdict is Verdict.PASS
    assert "4 ranks on gpu-0, gpu-1" in finding.observed
    assert len(finding.where) == 4


@pytest.mark.parametrize(
    ("pods", "wanted", "verdict"),
    [(2, 3, "inconclusive"), (2, 2, "inconclusive"), (1, 3, "fail"), (1, 2, "pass")],
)
def test_pods_that_share_nodes_lie_as_the_scheduler_likes(recorded, pods, wanted, verdict):
    """That four pods of two nodes went to three is no fault of the cluster: nothing asked for two on each."""
    given = {**recorded.given, "pods_per_node": pods, "nodes": wanted}
    finding = rank_devices.own_devices(recorded, given)
    assert finding.verdict == verdict
    assert finding.violation is (verdict == "fail")
    assert bool(finding.causes) is (verdict != "pass")


def on_sockets(**fabric):
    """Return the finding of FAB-005 on a run whose traffic between nodes went over sockets."""
    evidence = read(recordings.FOLDER / "host" / "sockets.jsonl")
    given = copy.deepcopy(dict(evidence.given))
    given["roles"]["subject"] = given["roles"]["contrast"]
    given["fabric"].update(fabric)
    return communicator.declared_adapters(evidence, given)


def test_sockets_use_no_adapters():
    """Declared sockets leave nothing to judge; a fallback is another row's, and no log that ends too early."""
    declared = on_sockets(transport="NET/Socket")
    assert (declared.verdict, declared.causes) == ("not_applicable", ())
    for fallen in (on_sockets(), on_sockets(transport=None)):
        assert fallen.verdict == "inconclusive"
        assert "are on TCP, which uses no adapters" in fallen.observed
        assert "FAB-003" in fallen.causes[0].fix
        assert fallen.where


def test_real_ids_are_unique_in_the_world(recorded):
    """Two nodes that name the same UUID have one GPU between them; made-up ids are unique on their node only."""
    by_rank = changed(recorded, "who", lambda w: w.update(uuid=UUID.format(w["rank"]), uuid_by="driver"))
    assert devices(by_rank).verdict is Verdict.PASS
    by_place = changed(
        recorded, "who", lambda w: w.update(uuid=UUID.format(w["local_rank"]), uuid_by="driver")
    )
    finding = devices(by_place)
    assert finding.verdict is Verdict.FAIL
    assert finding.violation
    assert "on one device" in finding.observed


def test_a_gpu_that_the_pod_was_not_given(recorded):
    """The driver shows another GPU than those handed out: isolation is broken, whatever is measured."""

    def real(word):
        handed = [UUID.format(10 * word["group_rank"] + n) for n in range(4)]
        own = UUID.format(10 * word["group_rank"] + word["local_rank"] + (5 if word["rank"] == 3 else 0))
        word.update(uuid=own, uuid_by="driver", handed=handed, handed_count=4)

    finding = devices(changed(recorded, "who", real))
    assert finding.verdict is Verdict.FAIL
    assert "rank 3" in finding.observed
    assert "was not allocated" in finding.observed


def test_a_slice_of_a_gpu_is_the_same_by_both_names(recorded):
    """Torch calls the slice GPU-, the device plugin MIG-."""

    def sliced(word):
        ids = [UUID.format(10 * word["group_rank"] + n) for n in range(2)]
        handed = [one.replace("GPU-", "MIG-") for one in ids]
        word.update(uuid=ids[word["local_rank"]], uuid_by="driver", handed=handed, handed_count=2)

    assert devices(changed(recorded, "who", sliced)).verdict is Verdict.PASS


def test_ranks_without_ids_are_not_passed(recorded):
    """A torch that tells no UUID, and no device plugin that does: nothing is known."""
    finding = devices(changed(recorded, "who", lambda w: w.update(uuid="")))
    assert finding.verdict is Verdict.INCONCLUSIVE


def test_a_rank_on_another_node_than_its_pod(recorded):
    """What a rank says of its node must be what the pod's own spec says."""
    finding = devices(changed(recorded, "who", lambda w: w.update(node="gpu-7")))
    assert finding.verdict is Verdict.FAIL


def test_a_rank_that_died_before_its_line(recorded):
    """A rank that is missing is named; nobody waited in vain, so it is not known why."""
    finding = devices(changed(recorded, "who", lambda w: w["rank"] != 2))
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "rank 2 of 4" in finding.observed


def test_a_rank_without_a_gpu_says_so(recorded):
    """Torch sees no GPU for this rank: the payload says it and ends, which is a fail."""
    error = "RuntimeError: torch sees 0 GPUs, this is local rank 0: no device of its own"

    def fail(word):
        word.clear()
        word.update(event="failed", rank=0, error=error)

    assert devices(changed(recorded, "who", fail)).verdict is Verdict.FAIL


def test_half_a_line_is_counted_and_not_read(recorded):
    """A line that was cut in the middle is no rank; it is told."""
    lines = []
    for line in recorded.lines:
        text = str(line.data.get("line") or "")
        if '"event":"who"' in text and '"rank":1,' in text:
            lines.append(dataclasses.replace(line, data={**line.data, "line": text[:120]}))
        else:
            lines.append(line)
    evidence = Evidence(lines, header=recorded.header, spans=recorded.spans)
    finding = devices(evidence)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "1 line cut in the middle" in finding.observed


def told(evidence):
    """Return the ranks."""
    return collectives.read(evidence).ranks


def test_all_figures_of_a_run_are_whole(recorded):
    """Every rank measured four collectives at two sizes, all elements right, and one exchange."""
    for rank in told(recorded):
        assert rank.whole
        assert rank.done
        assert rank.problems == ()
        assert len(rank.results) == 8
        assert {r.wrong for r in (*rank.results, *rank.pairs)} == {0}
        assert len(rank.pairs) == 1


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, None, "fast", True])
def test_what_is_no_figure_is_a_problem(recorded, value):
    """NaN, infinity, a negative figure, none at all, a text: never counted."""
    bad = changed(recorded, "measured", lambda w: w["results"][0].update(busbw=value))
    assert all(rank.problems for rank in told(bad))


def test_the_same_part_twice_is_a_problem_unless_it_is_the_same(recorded):
    """A collector may deliver a line twice; a rank that tells two different tables cannot be counted."""

    def doubled(change):
        lines = []
        for line in recorded.lines:
            lines.append(line)
            text = str(line.data.get("line") or "")
            if '"event":"measured"' in text:
                lines.append(dataclasses.replace(line, data={**line.data, "line": change(text)}))
        return base.with_lines(recorded, lines)

    assert all(not rank.problems for rank in told(doubled(lambda text: text)))
    twice = told(doubled(lambda text: text.replace('"wrong":0', '"wrong":9')))
    assert all("told twice" in rank.problems[0] for rank in twice)


def test_a_missing_part_is_a_problem(recorded):
    """Of two numbered lines one came."""
    half = told(changed(recorded, "measured", lambda w: w.update(parts=2)))
    assert all(not rank.whole and "part 2 of 2" in rank.problems[0] for rank in half)


def test_a_rank_that_was_started_anew_begins_again(recorded):
    """What a process said before it said who it is again does not count."""
    lines = list(recorded.lines)
    end = max(line.t for line in lines)
    who = [line for line in lines if '"event":"who"' in str(line.data.get("line") or "")]
    lines += [dataclasses.replace(line, t=end + 1) for line in who]
    assert all(rank.results == () for rank in told(base.with_lines(recorded, lines)))


def test_floors_are_judged_without_any_rank(recorded):
    """All floors of the shipped list carry their shape and lie within their wires."""
    finding = floor_sanity.plausible(recorded, recorded.given)
    assert finding.verdict is Verdict.PASS
    assert all(number.bound and number.value < number.bound for number in finding.numbers)


def test_no_floor_declared_is_not_applicable(recorded):
    """Nothing to judge."""
    given = {**recorded.given, "fabric": {**recorded.given["fabric"], "floors": []}}
    assert floor_sanity.plausible(recorded, given).verdict is Verdict.NOT_APPLICABLE
    assert floor_sanity.plausible(recorded, {}).verdict is Verdict.INCONCLUSIVE


def test_one_bad_floor_leaves_the_row_undecided(recorded):
    """Whatever the others say; the finding names it and says why."""
    listed = [dict(one) for one in recorded.given["fabric"]["floors"]]
    listed[1]["busbw"] = 5.0
    given = {**recorded.given, "fabric": {**recorded.given["fabric"], "floors": listed}}
    finding = floor_sanity.plausible(recorded, given)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "sockets reach it" in finding.observed
