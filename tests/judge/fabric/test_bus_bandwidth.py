"""Bandwidths and pairs: what the judges make of figures that are good, low, wrong, impossible or missing."""

import dataclasses

import pytest

from pytest_gpucluster.evidence import Evidence, read
from pytest_gpucluster.judge.fabric import bus_bandwidth, pairwise_sweep
from pytest_gpucluster.measure import bus_floors, collective, floors, peaks
from pytest_gpucluster.mutants import base
from pytest_gpucluster.requirement import Verdict
from tests import recordings
from tests.defects import matrix


@pytest.fixture(scope="module")
def fast():
    """Return the constructed evidence of two nodes of four GPUs."""
    return read(matrix.HOST / "collectives.jsonl")


def changed(evidence, event, change):
    """Return the evidence with facts of one kind changed; a change that returns False drops the line."""

    def act(_, told):
        keep = change(told) if told.get("event") == event else True
        return None if keep is False else told

    return base.words(evidence, act)


def declared(evidence, **more):
    """Return the evidence under another declaration of the fabric."""
    given = {**evidence.given, "fabric": {**evidence.given["fabric"], **more}}
    return Evidence(evidence.lines, header={**evidence.header, "given": given}, spans=evidence.spans)


def bandwidth(evidence):
    """Judge FAB-006."""
    return bus_bandwidth.reaches_floor(evidence, evidence.given)


def pairs(evidence):
    """Judge FAB-012."""
    return pairwise_sweep.names_slow(evidence, evidence.given)


def test_floors_that_are_reached_pass_with_their_origin(fast):
    """Three floors of this shape; each figure carries its bound and where that comes from."""
    finding = bandwidth(fast)
    assert finding.verdict is Verdict.PASS
    bounded = [number for number in finding.numbers if number.bound is not None]
    assert {number.origin for number in bounded} == {"constructed: three quarters of the adapters' sum"}
    assert all(number.value >= number.bound for number in bounded)


def test_on_cpus_figures_are_notes():
    """A floor measured on the same CPU would be no floor; wrong data is a fail there too."""
    evidence = recordings.embedded("collectives")
    finding = bandwidth(evidence)
    assert finding.verdict is Verdict.NOT_APPLICABLE
    assert all(number.bound is None for number in finding.numbers)
    assert [number.unit for number in finding.numbers[:3]] == ["s", "s", "GB/s"]
    wrong = changed(evidence, "measured", lambda w: w["results"][3].update(wrong=2))
    assert bandwidth(wrong).verdict is Verdict.FAIL


def test_the_slowest_rank_counts_and_is_named(fast):
    """One rank below the floor is enough."""

    def slow(word):
        if word["rank"] == 5:
            for one in word["results"]:
                one.update(mean=one["mean"] * 4, algbw=one["algbw"] / 4, busbw=one["busbw"] / 4)

    finding = bandwidth(changed(fast, "measured", slow))
    assert finding.verdict is Verdict.FAIL
    assert "below the floor" in finding.observed
    assert len(finding.where) == 1
    assert "rank 5" in finding.where[0]


def test_wrong_data_outweighs_any_figure(fast):
    """One wrong element of an exchange between a pair is a fail, however fast it was."""
    finding = bandwidth(changed(fast, "pairs", lambda w: w["results"][0].update(wrong=1)))
    assert finding.verdict is Verdict.FAIL
    assert finding.violation


def test_a_figure_above_the_wires_is_no_pass(fast):
    """Ten times as fast, in times that agree with it: more than the adapters carry."""

    def fly(word):
        for one in word["results"]:
            one.update({name: one[name] / 10 for name in ("mean", "min", "p50", "p90", "p99") if name in one})
            one.update(algbw=one["algbw"] * 10, busbw=one["busbw"] * 10)

    finding = bandwidth(changed(fast, "measured", fly))
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "the wires carry" in finding.observed


def test_a_figure_that_its_own_time_contradicts_is_none(fast):
    """The bandwidth is not what size, time and world give: a table of another world, or a slip."""
    finding = bandwidth(changed(fast, "measured", lambda w: w["results"][2].update(busbw=190.0, mean=1.0)))
    assert finding.verdict is Verdict.INCONCLUSIVE


def test_a_world_of_one_has_no_bus_bandwidth(fast):
    """Each process measured by itself: the factor is 0, and so is the figure."""

    def alone(word):
        for one in word["results"]:
            one.update(busbw=0.0, factor=0.0)

    assert bandwidth(changed(fast, "measured", alone)).verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None])
def test_no_number_is_no_pass(fast, value):
    """NaN, infinity and nothing are told with the rank that they come from."""
    finding = bandwidth(changed(fast, "measured", lambda w: w["results"][0].update(mean=value)))
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "rank 0" in finding.observed


def test_too_few_times_are_no_measurement(fast):
    """A figure of two iterations is not compared."""

    def few(word):
        for one in word["results"]:
            one["iters"] = 2

    finding = bandwidth(changed(fast, "measured", few))
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "too few times" in finding.observed


def test_a_rank_without_figures_is_missed(fast):
    """One rank died before its line."""
    lost = changed(fast, "measured", lambda w: w["rank"] != 6)
    finding = bandwidth(lost)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "rank 6" in finding.observed
    end = lost.end
    note = dataclasses.replace(
        lost.lines[-1], t=end, type="NOTE", kind="", object={},
        data={"note": "timed-out", "what": "all ranks of collectives have ended", "seconds": 900},
    )  # fmt: skip
    waited = base.with_lines(lost, [*lost.lines, note])
    assert bandwidth(waited).verdict is Verdict.FAIL


def test_a_gpu_that_is_lost_in_the_middle_is_a_fail(fast):
    """The rank says what the driver said, and where it ran."""

    def lose(word):
        if word["rank"] == 3:
            word.clear()
            word.update(
                event="failed", rank=3, error="AcceleratorError: CUDA error: unspecified launch failure"
            )

    finding = bandwidth(changed(fast, "measured", lose))
    assert finding.verdict is Verdict.FAIL
    assert "unspecified launch failure" in finding.observed
    assert "gpu-0" in finding.observed


def test_without_a_floor_of_this_shape_nothing_is_judged(fast):
    """A floor of other nodes, another GPU or another number of adapters is not this cluster's."""
    (floor, *_) = fast.given["fabric"]["floors"]
    for change in ({"nodes": 8}, {"gpus": 8}, {"device": "B200"}, {"nics": 8}):
        finding = bandwidth(declared(fast, floors=[{**floor, **change}]))
        assert finding.verdict is Verdict.NOT_APPLICABLE, change
        assert "no floor is declared for 2 x 4 GPUs" in finding.observed


def test_a_size_that_was_not_measured_leaves_the_floor_undecided(fast):
    """The floor holds from 8 GiB on; the largest size was 1 GiB."""
    (floor, *_) = fast.given["fabric"]["floors"]
    finding = bandwidth(declared(fast, floors=[{**floor, "size": 8 << 30}]))
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "not measured: all_reduce from 8G" in finding.observed


def test_a_published_floor_of_a_size_that_was_not_measured_asks_for_nothing(fast):
    """Nobody declared it: beside a floor that is reached it is nothing, alone it is none."""
    (floor, *_) = fast.given["fabric"]["floors"]
    published = {**floor, "size": 16 << 30, "busbw": 170.0, "of": "bus_bandwidth"}
    assert bandwidth(declared(fast, floors=[floor, published])).verdict is Verdict.PASS
    alone = bandwidth(declared(fast, floors=[published]))
    assert alone.verdict is Verdict.NOT_APPLICABLE
    assert "begin above what was measured: all_reduce from 16G" in alone.observed


@pytest.mark.parametrize(
    ("warn", "told"), [(187.9, "worth a look: all_reduce of 1G"), (160.0, ""), ("much", "")]
)
def test_the_band_above_the_floor_is_told(fast, warn, told):
    """What reaches the floor and not the band passes, with a word about it; a band that is no number is none."""
    (floor, *_) = fast.given["fabric"]["floors"]
    found = bandwidth(declared(fast, floors=[{**floor, "warn": warn}]))
    assert found.verdict is Verdict.PASS
    assert (told or "worth a look") in found.observed if told else "worth a look" not in found.observed


@pytest.mark.parametrize(
    ("part", "device", "fits"),
    [
        ("B200", "NVIDIA B200", True),
        ("B200", "NVIDIA GB200", False),
        ("H200", "NVIDIA GH200 480GB", False),
        ("h100", "NVIDIA H100 80GB HBM3", True),
        ("100", "NVIDIA H100 80GB HBM3", True),
        ("MI300X", "AMD Instinct MI300X OAM", True),
        ("MI300X", "AMD Instinct MI300A", False),
        ("H20", "NVIDIA H200", False),
        ("H20", "NVIDIA H20", True),
        ("A10", "NVIDIA A100-SXM4-80GB", False),
        ("A10", "NVIDIA A10G", False),
        ("L4", "NVIDIA L40S", False),
        ("L40", "NVIDIA L40S", False),
        ("A100-SXM4", "NVIDIA A100-SXM4-80GB", True),
        ("NVIDIA H100", "NVIDIA H100 NVL", True),
        ("", "NVIDIA B200", True),
    ],
)
def test_a_floor_of_another_product_is_none(part, device, fits):
    """A name that is the end or the beginning of another one is not that product, for figures of any kind."""
    assert peaks.named(part, device) is fits
    listed = [{"format": "bf16", "device": part, "tflops": 1.0}]
    assert (floors.of_products(listed, device, "bf16", None) is not None) is fits


@pytest.mark.parametrize(
    ("device", "nodes", "gpus", "declared", "least"),
    [
        ("NVIDIA H100 80GB HBM3", 2, 8, {"nics": 8, "nic_gbps": 400.0, "transport": "NET/IB"}, [423]),
        ("NVIDIA H100 80GB HBM3", 2, 8, {"nics": 8, "nic_gbps": 400.0}, [423]),
        ("NVIDIA H100 80GB HBM3", 2, 8, {"nics": 8}, []),
        ("NVIDIA H100 80GB HBM3", 2, 8, {"transport": "NET/IB"}, []),
        ("NVIDIA H100 80GB HBM3", 2, 8, {}, []),
        ("NVIDIA GB200", 18, 4, {"transport": "MNNVL"}, [751]),
        ("NVIDIA GB200", 18, 4, {"transport": "NET/IB", "nics": 4, "nic_gbps": 400.0}, []),
        ("NVIDIA GB200", 18, 4, {}, []),
        ("NVIDIA H100 80GB HBM3", 1, 8, {}, [333]),
        ("NVIDIA H100 80GB HBM3", 1, 8, {"link_gbs": 450.0}, [333]),
        ("NVIDIA H100 80GB HBM3", 1, 8, {"link_gbs": 64.0}, []),
        ("NVIDIA H100 80GB HBM3 MIG 3g.40gb", 1, 8, {}, []),
        ("NVIDIA H100 PCIe", 1, 8, {}, []),
        ("NVIDIA H100 NVL", 1, 8, {}, []),
        ("NVIDIA A100 80GB PCIe", 1, 8, {}, []),
        ("AMD Instinct MI300X OAM", 1, 8, {"link_gbs": 450.0}, [281]),
    ],
)
def test_a_published_floor_is_one_of_known_wires(device, nodes, gpus, declared, least):
    """Of many clusters of so many nodes and GPUs, one has the same adapters: what is not declared is not guessed."""
    shape = collective.Shape(nodes, gpus, **declared)
    reduced = [one for one in bus_floors.shipped("bus_bandwidth") if one["collective"] == "all_reduce"]
    listed = [(collective.floor_of(one), {**one, "of": "bus_bandwidth"}) for one in reduced]
    found = [floor.busbw for floor, one in listed if bus_bandwidth._fits(floor, one, shape, device)]
    assert found == least


def test_alike_links_pass(fast):
    """Four rails between two nodes."""
    finding = pairs(fast)
    assert finding.verdict is Verdict.PASS
    assert "4 links between 2 nodes" in finding.observed


def times(evidence, share):
    """Return the evidence with links of another speed: (rank, peer) -> factor."""

    def act(word):
        for one in word["results"]:
            factor = share(word["rank"], one["peer"])
            one.update(mean=one["mean"] / factor, algbw=one["algbw"] * factor, busbw=one["busbw"] * factor)

    return changed(evidence, "pairs", act)


def test_a_slow_rail_is_named(fast):
    """All links of one place in the members are slow, in one direction only: the adapter or switch of that rail."""
    finding = pairs(times(fast, lambda rank, _: 0.4 if rank == 2 else 1.0))
    assert finding.verdict is Verdict.FAIL
    assert "slow rail 2" in finding.observed


def test_a_slow_node_is_named(fast):
    """Of four nodes one is slow to all others; each other pair is not."""
    wide = _four_nodes(fast)
    assert pairs(wide).verdict is Verdict.PASS
    finding = pairs(times(wide, lambda rank, peer: 0.3 if 3 in (rank, peer) else 1.0))
    assert finding.verdict is Verdict.FAIL
    assert "slow node gpu-3;" in finding.observed
    assert "Node/gpu-3" in finding.where


def test_a_slow_link_is_no_slow_node(fast):
    """One pair of four nodes: the link is named, no node."""
    finding = pairs(times(_four_nodes(fast), lambda rank, peer: 0.3 if {rank, peer} == {1, 2} else 1.0))
    assert finding.verdict is Verdict.FAIL
    assert "slow node" not in finding.observed
    assert "rank 1" in finding.observed


def test_one_link_is_compared_with_its_adapter(fast):
    """Two nodes of one GPU: nothing to compare with but the declared rate; without that nothing is decided."""
    one = _of_four(fast, 2)
    assert pairs(declared(one, nics_per_node=1)).verdict is Verdict.PASS
    assert pairs(declared(one, nics_per_node=4)).verdict is Verdict.FAIL
    assert pairs(declared(one, nics_per_node=None)).verdict is Verdict.INCONCLUSIVE


def test_a_pair_that_told_nothing_is_missed(fast):
    """One side of a pair lacks its line."""
    finding = pairs(changed(fast, "pairs", lambda w: w["rank"] != 5))
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "rank 1 and 5" in finding.observed


def test_without_a_sweep_nothing_is_decided(fast):
    """The sweep was left out."""
    finding = pairs(changed(fast, "pairs", lambda _: False))
    assert finding.verdict is Verdict.INCONCLUSIVE


def _of_four(evidence, world):
    """Return the evidence as of so many members of one rank: each on a node of its own, whose pod nobody watched."""

    def act(line, told):
        rank = told.get("rank")
        if rank is None:
            return told
        if rank >= world:
            return None
        told.update(world=world, local_world=1, local_rank=0, node=f"gpu-{rank}", pod=f"member-{rank}")
        if told.get("event") == "pairs":
            (one,) = told["results"]
            told["results"] = [{**one, "peer": peer} for peer in range(world) if peer != rank]
        return told

    narrow = base.words(evidence, act)
    lines = [
        dataclasses.replace(line, data={**line.data, "uid": _member(line), "pod": _member(line)})
        for line in narrow.lines
        if line.type == "LOG" and _member(line)
    ]
    given = {**evidence.given, "world": world, "nodes": world, "nproc": 1, "roles": {}}
    return Evidence(lines, header={**evidence.header, "given": given}, spans=evidence.spans)


def _member(line):
    text = str(line.data.get("line") or "")
    at = text.find('"pod": "member-')
    return text[at + 8 : at + 16] if at >= 0 else ""


def _four_nodes(evidence):
    return _of_four(evidence, 4)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda one: one.pop("wrong"), "nothing shows that the data is right"),
        (lambda one: one.update(wrong=None), "nothing shows that the data is right"),
        (lambda one: one.update(wrong=-1), "nothing shows that the data is right"),
        (
            lambda one: one.update(mean=one["mean"], min=one["mean"] * 1.1, p50=one["mean"] * 1.1),
            "below its own",
        ),
        (lambda one: one.update(p90=one["p99"] * 2), "below its own p90"),
        (lambda one: one.update(p50=one["min"] / 2), "below its own min"),
        (lambda one: one.update(min=0.0), "not a time"),
        (lambda one: one.update(p99=float("nan")), "not a time"),
        (lambda one: one.update(algbw=one["algbw"] * 2), "algorithm bandwidth"),
        (lambda one: one.update(busbw=-1.0), "below zero"),
        (lambda one: one.update(mean=0.0), "below its own min"),
        (lambda one: one.update(mean=one["mean"] * 1.5), "reports"),
        (lambda one: one.update(skipped="too little free memory"), "not reported by all ranks: rank 3 of 8 lacks it"),
    ],
    ids=[
        "not-checked", "check-of-nothing", "below-no-element", "mean-below-min", "p99-below-p90", "p50-below-min",
        "no-time", "no-number", "other-algorithm-bandwidth", "negative", "no-mean", "other-mean", "skipped",
    ],
)  # fmt: skip
def test_one_figure_of_one_rank_that_cannot_count_is_no_pass(fast, change, said):
    """Not checked, out of order, not of its own time, or not there: nothing is decided, and the figure is named."""

    def spoil(word):
        if word["rank"] == 3 and word["part"] == 1:
            change(word["results"][2])

    finding = bandwidth(changed(fast, "measured", spoil))
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert said in finding.observed
    assert "1G" in finding.observed or "1073741824" in finding.observed


def test_a_size_that_one_rank_does_not_name_is_no_figure(fast):
    """A collective is of all ranks or of none."""

    def leave_out(word):
        if word["rank"] == 5 and word["part"] == 1:
            del word["results"][2]

    finding = bandwidth(changed(fast, "measured", leave_out))
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "rank 5 of 8 lacks it" in finding.observed


def test_figures_of_two_attempts_are_no_measurement(fast):
    """They were not taken at once."""

    def older(word):
        if word["rank"] == 6:
            word["attempt"] = 1

    finding = bandwidth(changed(fast, "who", older))
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "different runs or attempts" in finding.observed


def test_pairs_that_nobody_checked_decide_nothing(fast):
    """Neither does a pair whose times contradict each other."""
    for change in (
        lambda one: one.pop("wrong"),
        lambda one: one.update(min=one["mean"] * 2, p50=one["mean"] * 2),
    ):

        def spoil(word, change=change):
            if word["rank"] == 1:
                change(word["results"][0])

        assert pairs(changed(fast, "pairs", spoil)).verdict is Verdict.INCONCLUSIVE


def on(rank, **figures):
    """Return the change of the largest all-reduce of a rank."""

    def act(word):
        if word["rank"] == rank and word.get("part", 1) == 1:
            word["results"][2].update(figures)

    return act


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (on(3, factor=0.5), "reports a factor of 0.5"),
        (on(3, p50=9719.34, p90=9719.34, p99=9719.34), "allow at most 9719 us"),
        (on(3, iters=True), "was measured True times"),
        (on(3, size=-1), "is of -1 bytes"),
        (on(3, size=10**400), "no such size"),
        (on(3, iters=500, p50=9719.34, p90=9719.34, p99=9719.34), "a few outliers set the mean"),
    ],
)  # fmt: skip
def test_a_figure_at_the_floor_that_its_own_record_contradicts_is_no_pass(fast, change, said):
    """Whatever of it is odd: the factor, the percentiles, the count, the size."""
    finding = bandwidth(changed(fast, "measured", change))
    assert finding.verdict is not Verdict.PASS, said


def test_more_collectives_than_there_was_time_for(fast):
    """By the clock of the rank's machine, where it tells one."""

    def dated(evidence, seconds):
        who = changed(evidence, "who", lambda w: w.update(t=1.8e9))
        return changed(changed(who, "measured", lambda w: w.update(t=1.8e9 + seconds)), "pairs",
                       lambda w: w.update(t=1.8e9 + seconds))  # fmt: skip

    assert bandwidth(dated(fast, 60.0)).verdict is Verdict.PASS
    for seconds in (0.01, -60.0):
        finding = bandwidth(dated(fast, seconds))
        assert finding.verdict is Verdict.INCONCLUSIVE
        assert "after it began" in finding.observed


def test_a_rank_that_began_before_its_pod_is_no_pass(fast):
    """Seconds below zero are none."""
    finding = bandwidth(changed(fast, "measured", lambda w: w.update(first_pod=-3.0)))
    assert finding.verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("nics", [None, 4])
def test_more_than_any_link_carries_is_no_pass(fast, nics):
    """Also where nobody says what the adapters are: no figure is above those of a floor, or of any link there is."""

    def fly(word):
        for one in word["results"]:
            one.update({name: one[name] / 1e4 for name in ("mean", "min", "p50", "p90", "p99")})
            one.update(algbw=one["algbw"] * 1e4, busbw=one["busbw"] * 1e4)

    unknown = declared(fast, nics_per_node=nics)
    assert bandwidth(changed(unknown, "measured", fly)).verdict is Verdict.INCONCLUSIVE
    assert pairs(changed(unknown, "pairs", fly)).verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    "change",
    [
        {"factor": 3.0},
        {"busbw": 400.0},
        {"algbw": 400.0},
        {"p50": 1.0, "min": 1.0},
        {"p99": 1e9},
        {"iters": 0},
    ],
)
def test_a_pair_that_its_own_record_contradicts_is_no_pass(fast, change):
    """A pair has no world's factor, and its bandwidths follow from its time all the same."""
    odd = changed(fast, "pairs", lambda w: w["results"][0].update(change) if w["rank"] == 1 else None)
    assert pairs(odd).verdict is Verdict.INCONCLUSIVE
