"""MFU-003: a figure that is impossible, or of which nobody can say what it means, is not a pass."""

from pytest_gpucluster.evidence.hardware.throughput import Rank, Told
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.mfu import plausibility, shared, simultaneous
from pytest_gpucluster.judge.mfu.shared import Doubt
from pytest_gpucluster.measure import samples
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = (
    "every figure is finite, follows from its own counts and is not above the dense peak of its GPU; the GPU is "
    "known, there are enough windows or steps, and no clock was held back"
)
ABOVE_PRODUCTS = Cause(
    "training cannot be faster than the matrix products in it: a step was left out, or its clock is wrong",
    "compare both lines; the payload counts no recomputation and half of attention in tflops_causal",
)


@subjects.judge
def possible(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge MFU-003."""
    products, gang = shared.told(evidence, given, "gemm", "gemm")
    training, trained = shared.told(evidence, given, "train", "train")
    known = subjects.roles(evidence, given)
    doubts: list[Doubt] = []
    for told, role, key in ((products, "gemm", "world"), (training, "train", "training_world")):
        if told.ranks or role in known:
            failed = [rank for rank in told.ranks if rank.failed is not None and rank.line is None]
            doubts += [Doubt(_failure(rank), rank, shared.NO_LINE) for rank in failed]
            doubts += shared.incomplete(told, shared.world(given, told, key))
    ranks = [*products.measured, *training.measured]
    if not ranks:
        nothing = shared.nobody(evidence, products, gang or trained, REQUIRED, "figures")
        if nothing is not None and nothing.verdict is Verdict.FAIL:
            # A lost GPU is another row's violation; of figures there are none.
            return shared.undecided(doubts, REQUIRED, gang) if doubts else nothing
        return nothing or shared.undecided(doubts, REQUIRED, gang)
    for rank in products.measured:
        doubts += plausibility.of_products(rank, given)
    for rank in training.measured:
        doubts += plausibility.of_training(rank, given)
    if shared.mfu(given).get("device") == "gpu":
        blind = [rank for rank in ranks if rank.cpu]
        doubts += [Doubt(f"{rank.place} computed on a CPU", rank, shared.BLIND) for rank in blind]
    for rank in ranks:
        doubts += shared.of_clocks(rank, given, readable=True)
    doubts += [*simultaneous.of_devices(products), *simultaneous.of_devices(training)]
    doubts += _faster_than_products(products, training)
    count = sum(len(plausibility.formats(rank)) for rank in products.measured) + len(training.measured)
    keys = (*shared.keys(products), *shared.keys(training))
    impossible = [doubt for doubt in doubts if doubt.impossible]
    numbers = (
        Number("figures that are impossible or unknown", float(len(doubts)), "figures", 0.0, "catalogue"),
    )
    if impossible:
        text = "; ".join(doubt.text for doubt in impossible[:4])
        where = shared.places([doubt.rank for doubt in impossible if doubt.rank is not None])
        return wording.finding(
            Verdict.FAIL, REQUIRED, text, gang, violation=True, where=where, evidence=keys, numbers=numbers,
            causes=tuple(dict.fromkeys(doubt.cause for doubt in impossible))[:3],
        )  # fmt: skip
    if doubts:
        return shared.undecided(doubts, REQUIRED, gang, evidence=keys, numbers=numbers)
    if all(rank.cpu for rank in ranks):
        text = f"{wording.count(count, 'figure')} of {wording.count(len(ranks), 'rank')} on CPUs"
        tail = "no share of a peak is given, since CPUs have no declared peak"
    else:
        text = f"{wording.count(count, 'figure')} of {wording.count(len(ranks), 'rank')}"
        tail = "none is above the dense peak of its GPU, and no clock was held back"
    return wording.finding(
        Verdict.PASS, REQUIRED, f"{text}, each finite and following from its own counts; {tail}", gang,
        where=shared.places(ranks), evidence=keys, numbers=numbers,
    )  # fmt: skip


def _failure(rank: Rank) -> str:
    error = rank.failed.data.get("error") if rank.failed is not None else None
    return f"{rank.place} failed: {error}"


def _faster_than_products(products: Told, training: Told) -> list[Doubt]:
    """Return whether training is told to be faster than the fastest product of its format on any GPU."""
    speeds = [fields.sub(rank.told, "results", "bf16", "tflops").get("max") for rank in products.measured]
    fastest = max(samples.finite(speeds), default=None)
    if fastest is None:
        return []
    doubts = []
    for rank in training.measured:
        value = samples.number(rank.told.get("tflops_causal"))
        if value is not None and value > fastest * (1 + shared.SLACK):
            text = f"{rank.place}: training at {value:g} TFLOP/s, products at {fastest:g} at most"
            doubts.append(Doubt(text, rank, ABOVE_PRODUCTS, impossible=True))
    return doubts
