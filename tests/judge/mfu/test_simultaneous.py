"""Figures of several GPUs: each rank has one of its own, and all measure at one time; figures that cannot be true."""

import dataclasses
import math

import pytest

from pytest_gpucluster.evidence.hardware import own_gpus, throughput
from pytest_gpucluster.judge.mfu import baseline, gemm, possible_figures, simultaneous, train_step
from pytest_gpucluster.mutants import base
from pytest_gpucluster.mutants import mfu as mutants
from tests.defects import matrix

NOW = 1_790_000_000.0
UUID = "GPU-00000002-5d3f-4e29-9f0a-c0ffee000000"
"""Of the third rank's GPU."""


@pytest.fixture(scope="module")
def gpus():
    """Return constructed evidence of four H100 on which all is well."""
    return matrix.evidence("speed")


def verdicts(evidence):
    """Return what each row says."""
    judges = {
        "MFU-001": gemm.reach_the_floor,
        "MFU-002": train_step.reaches_the_floor,
        "MFU-003": possible_figures.possible,
        "MFU-006": baseline.not_fallen,
    }
    return {row: str(judge(evidence, evidence.given).verdict) for row, judge in judges.items()}


def of_ranks(event, change):
    """Return the mutant that changes a fact of every rank, told its number."""

    def mutant(evidence):
        def act(_, told):
            if told.get("event") == event and isinstance(told.get("rank"), int):
                change(told, told["rank"])
            return told

        return base.words(evidence, act)

    return mutant


def device(event, **told):
    """Return the mutant that lets the last rank tell something else of its device."""
    return mutants.last(event, lambda w: w.update(device={**w["device"], **told}))


@pytest.mark.parametrize(
    "told",
    [
        {"uuid": UUID},
        {"uuid": UUID.upper()},
        {"uuid": UUID.removeprefix("GPU-")},
        {"uuid": f"MIG-{UUID}/1/0"},
        {"uuid": UUID.replace("GPU", "MIG")},
        {"uuid": UUID, "index": 7, "name": "NVIDIA H100 80GB HBM3"},
    ],
)
@pytest.mark.parametrize("event", ["gemm", "train"])
def test_two_ranks_on_one_gpu(gpus, event, told):
    """However its UUID is written: both ranks are named, and no row about their figures passes."""
    odd = device(event, **told)(gpus)
    found = verdicts(odd)
    wrong = {"gemm": "MFU-001", "train": "MFU-002"}[event]
    assert {found[row] for row in (wrong, "MFU-003", "MFU-006")} == {"inconclusive"}
    finding = {"MFU-001": gemm.reach_the_floor, "MFU-002": train_step.reaches_the_floor}[wrong](odd)
    assert "2 ranks are on one GPU, 00000002-5d3f" in finding.observed
    assert [place.split(",")[0] for place in finding.where] == ["rank 2", "rank 3"]
    assert finding.causes[0] is simultaneous.SHARED


@pytest.mark.parametrize("address", ["00000000:1B:00.0", "0000:1b:00.0", "1b:00.0"])
def test_two_ranks_at_one_place_of_the_bus(gpus, address):
    """One address on one node is one GPU, whatever UUIDs are told, and also where none is."""
    both = of_ranks(
        "gemm", lambda w, n: w.update(device={**w["device"], "bus": address if n else "00000000:1b:00.0"})
    )
    assert verdicts(both(gpus))["MFU-001"] == "inconclusive"
    bare = of_ranks("gemm", lambda w, n: w["device"].update(uuid="", bus=f"0000:{n + 1:02x}:00.0"))
    assert verdicts(bare(gpus))["MFU-001"] == "pass"


def test_one_address_on_two_nodes_is_two_gpus(gpus):
    """Machines of a kind have their GPUs at the same places."""
    ranks = throughput.read(gpus, "gemm").measured

    def at(rank, host):
        data = {**rank.line.data, "host": host, "device": {**rank.device, "bus": "00000000:1b:00.0"}}
        return dataclasses.replace(rank, pod=None, line=dataclasses.replace(rank.line, data=data))

    assert own_gpus.shared([at(ranks[0], "a"), at(ranks[1], "b")]) == []
    assert own_gpus.shared([at(ranks[0], "a"), at(ranks[1], "a")]) != []


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("MIG-GPU-0a0a/1/0", "MIG-GPU-0a0a/2/0", False),
        ("MIG-GPU-0a0a/1/0", "MIG-GPU-0a0a/1/0", True),
        ("MIG-0a0a", "MIG-0b0b", False),
        ("MIG-0a0a", "MIG-0a0a", True),
        ("GPU-0a0a", "MIG-GPU-0a0a/2/0", True),
        ("GPU-0a0a", "GPU-0b0b", False),
    ],
)
def test_slices_of_one_gpu_are_two(gpus, one, other, same):
    """Two slices are told apart, a GPU and a slice of it are not."""
    uuids = {2: one, 3: other}
    odd = of_ranks("gemm", lambda w, n: w["device"].update(uuid=uuids.get(n, f"GPU-{n}")))(gpus)
    assert bool(own_gpus.shared(throughput.read(odd, "gemm").measured)) is same


@pytest.mark.parametrize(
    "value", ["", None, "N/A", "[Not Supported]", "00000000-0000-0000-0000-000000000000"]
)
@pytest.mark.parametrize("event", ["gemm", "train"])
def test_a_gpu_that_cannot_be_told_from_others(gpus, event, value):
    """Without a UUID or an address nobody knows that it is another one."""
    odd = device(event, uuid=value)(gpus)
    assert verdicts(odd)[{"gemm": "MFU-001", "train": "MFU-002"}[event]] == "inconclusive"
    everyone = of_ranks(event, lambda w, _: w["device"].update(uuid=value))(gpus)
    assert verdicts(everyone)[{"gemm": "MFU-001", "train": "MFU-002"}[event]] == "inconclusive"


def test_half_the_speed_of_a_shared_gpu_is_no_slow_gpu(gpus):
    """What two ranks get of one GPU says nothing of its cooling or power."""
    slow = of_ranks("gemm", lambda w, n: mutants.faster(0.5)(w) if n > 1 else None)(
        device("gemm", uuid=UUID)(gpus)
    )
    finding = gemm.reach_the_floor(slow)
    assert finding.verdict == "inconclusive"
    assert finding.causes[0] is simultaneous.SHARED
    alone = mutants.of_rank("gemm", lambda w: w)(slow)
    assert "slower than others of its kind" not in " ".join(
        cause.text for cause in gemm.reach_the_floor(alone).causes
    )


# -- at one time -----------------------------------------------------------------------------------------------------


def told_at(event, times):
    """Return the mutant in which machines tell when each rank told its figures; it began 100 s before."""

    def mutant(evidence):
        def act(_, told):
            rank = told.get("rank")
            if told.get("event") == event:
                told["t"] = NOW + times[rank]
            elif told.get("event") == "rank":
                told["t"] = NOW - 100.0
            return told

        return base.words(evidence, act)

    return mutant


def read_at(event, times):
    """Return the mutant in which the lines of a rank were read later."""

    def mutant(evidence):
        lines = []
        for line in evidence.lines:
            text = str(line.data.get("line") or "")
            rank = next((n for n in range(4) if line.type == "LOG" and f'"rank":{n},' in text), None)
            late = times[rank] if rank is not None and f'"event":"{event}"' in text else 0.0
            lines.append(dataclasses.replace(line, t=line.t + late))
        return base.with_lines(evidence, sorted(lines, key=lambda line: line.t))

    return mutant


@pytest.mark.parametrize(
    ("told", "read", "wanted"),
    [
        ([0.0, 0.0, 600.0, 0.0], None, "inconclusive"),
        ([0.0, 25.0, 50.0, 75.0], None, "inconclusive"),
        ([0.0, 0.0, 0.0, 15.0], None, "inconclusive"),
        (None, [0.0, 0.0, 600.0, 0.0], "inconclusive"),
        (None, [60.0, 0.0, 0.0, 0.0], "inconclusive"),
        ([0.0, 0.5, 1.0, 2.0], None, "pass"),
        # A log that was fetched late, of a machine that says when.
        ([0.0] * 4, [0.0, 0.0, 0.0, 900.0], "pass"),
    ],
)
def test_products_that_were_not_measured_at_once(gpus, told, read, wanted):
    """Less than half of a stretch in common is one after another: the first and the last are named."""
    odd = gpus if told is None else told_at("gemm", told)(gpus)
    odd = odd if read is None else read_at("gemm", read)(odd)
    assert verdicts(odd)["MFU-001"] == wanted
    finding = gemm.reach_the_floor(odd)
    assert ("not all GPUs worked at the same time" in finding.observed) is (wanted != "pass")


def test_pods_that_ran_one_after_the_other(gpus):
    """One had ended before the other had a node: no clock of theirs can mend that."""
    ranks = throughput.read(gpus, "gemm").measured
    early = dataclasses.replace(ranks[0].pod, bound=1.0, finished=20.0)
    late = dataclasses.replace(ranks[0].pod, bound=30.0, finished=60.0)
    pair = [dataclasses.replace(ranks[0], pod=early), dataclasses.replace(ranks[1], pod=late)]
    assert own_gpus.lives_apart(pair) is not None
    assert simultaneous.of_times(throughput.Told(tuple(pair), 0, 0))
    assert own_gpus.lives_apart([dataclasses.replace(ranks[0], pod=early)]) is None


# -- figures that cannot be true -------------------------------------------------------------------------------------


def tflops(**told):
    """Return the change of the speeds of the first format."""
    return mutants.first_product(lambda one: one["tflops"].update(told))


CONTRADICTIONS = {
    "a median below the least": ("gemm", tflops(median=690.0, min=695.0), "min of 695 is above its p5"),
    "a percentile above the median": ("gemm", tflops(p5=720.0), "its p5 of 720 is above its median"),
    "a largest below all": ("gemm", tflops(max=600.0), "is above its max of 600"),
    "a negative speed": ("gemm", tflops(median=-1.0), "not a measurement"),
    "negative seconds": (
        "gemm",
        mutants.first_product(lambda one: one.update(seconds=-10.0)),
        "not a measurement",
    ),
    "no product": ("gemm", mutants.first_product(lambda one: one.update(products=0)), "not a measurement"),
    "a fast clock": (
        "gemm",
        mutants.first_product(lambda one: one.update(wall=5.0)),
        "by the device's clock",
    ),
    "no step": ("train", lambda w: w.update(steps=0), "not a measurement"),
    "more than the peak": ("train", lambda w: w.update(tflops=1e4, tokens_per_s=1e7), "is reported"),
    "a step below the least": ("train", lambda w: w["step_s"].update(median=0.4), "is above its median"),
    "a mean below the least": ("train", lambda w: w.update(seconds=6.0), "the mean of the steps is 0.3"),
    "a half above the whole": ("train", lambda w: w.update(tflops_causal=700.0), "with half of attention"),
    "not a number": ("train", lambda w: w.update(tokens_per_s=math.nan), "not a measurement"),
}


@pytest.mark.parametrize("what", CONTRADICTIONS)
def test_a_figure_that_contradicts_itself(gpus, what):
    """A mean below its own least, percentiles out of order, negative or no numbers, more than a clock can have seen."""
    event, change, said = CONTRADICTIONS[what]
    odd = mutants.last(event, change)(gpus)
    found = verdicts(odd)
    assert found["MFU-003"] == "fail"
    assert found[{"gemm": "MFU-001", "train": "MFU-002"}[event]] == "inconclusive"
    assert said in possible_figures.possible(odd).observed


@pytest.mark.parametrize(
    ("began", "said"), [(5.0, "were told 5.0 s before it began"), (-3.0, "3.0 s after it began")]
)
def test_time_that_runs_backwards(gpus, began, said):
    """Figures that are told before the rank began, or sooner than it can have measured."""

    def act(_, told):
        if told.get("event") in ("rank", "gemm"):
            told["t"] = NOW + (began if told["event"] == "rank" else 0.0)
        return told

    odd = base.words(gpus, act)
    finding = possible_figures.possible(odd)
    assert finding.verdict == "fail"
    assert said in finding.observed
    assert verdicts(odd)["MFU-001"] == "inconclusive"


def test_ranks_that_tell_of_another_world(gpus):
    """Half of a world that is told to be larger, or of which one rank tells another size."""
    odd = mutants.last("gemm", lambda w: w.update(world=2))(gpus)
    finding = gemm.reach_the_floor(odd)
    assert finding.verdict == "inconclusive"
    assert "worlds of 2, 4" in finding.observed


WHOLE_LINES = {
    "an error beside right": ("gemm", mutants.first_product(lambda one: one.update(error=1e9)), "fail"),
    "an error of a fraction": ("gemm", mutants.first_product(lambda one: one.update(error=0.02)), "fail"),
    "a wall far beyond": ("gemm", mutants.first_product(lambda one: one.update(wall=1e9)), "inconclusive"),
    "no cv": ("gemm", mutants.first_product(lambda one: one.pop("cv")), "inconclusive"),
    "steady, and not": ("gemm", mutants.first_product(lambda one: one.update(cv=0.4)), "inconclusive"),
    "a window above all": ("gemm", tflops(max=5e4), "inconclusive"),
    "a share of three": ("gemm", lambda w: w["gauges"].update(reasons={"hw_thermal": 3.0}), "inconclusive"),
    "a clock of none": ("gemm", lambda w: w["gauges"].update(sm_mhz=[0, 0, 0]), "inconclusive"),
    "another model": ("train", lambda w: w.update(weights=70e9), "inconclusive"),
    "a wall of no run": ("train", lambda w: w.update(wall=1e-9), "inconclusive"),
    "a start of a year": (
        "train", lambda w: w.update(start_s=3e7, t=1.8e9 + 300.0), "inconclusive",
    ),
    "a negative start": ("train", lambda w: w.update(start_s=-1.0), "inconclusive"),
    "a variation of none": ("train", lambda w: w.update(cv=float("nan")), "inconclusive"),
}  # fmt: skip


@pytest.mark.parametrize("what", WHOLE_LINES)
def test_a_line_with_one_figure_that_cannot_be_never_passes(gpus, what):
    """MFU-003 says that it cannot be; the row of the figure does not pass either."""
    event, change, verdict = WHOLE_LINES[what]
    evidence = base.on("rank", lambda w: w.update(t=1.8e9))(gpus) if "year" in what else gpus
    odd = mutants.last(event, change)(evidence)
    judge = gemm.reach_the_floor if event == "gemm" else train_step.reaches_the_floor
    assert str(judge(odd, odd.given).verdict) == verdict
    assert str(possible_figures.possible(odd, odd.given).verdict) == "fail"


def test_reasons_that_nobody_could_read_are_no_clocks_that_were_free(gpus):
    """A way that tells clocks and no reasons leaves open whether they were held back."""
    mute = mutants.last("gemm", lambda w: w["gauges"].pop("reasons"))(gpus)
    finding = possible_figures.possible(mute, mute.given)
    assert str(finding.verdict) == "inconclusive"
    assert "does not report why" in finding.observed
