"""RDZV-006: steps with DDP and with FSDP2 agree with the same steps in one process, in loss and in every parameter."""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.log.payload_lines import Word
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.rendezvous import two_worlds
from pytest_gpucluster.requirement import Cause, Finding, Number, Presupposed

REQUIRED = (
    "every rank takes its steps with DDP and with fully_shard; the loss of each step and every parameter after them "
    "agree with a single process that trains on the whole batch"
)
TOLERANCE = 1e-5
ORIGIN = "fp32: 2^-23 per operation, sums of at most 64 terms in another order"
SEEN = 10.0
"""A step must move parameters by so many times the tolerance, or agreement shows nothing."""
WAYS = {"ddp": "DDP", "fsdp": "FSDP2"}

GRADIENTS = Cause(
    "gradients were summed instead of averaged, or a rank's part of the batch was lost or taken twice",
    "run the same program with all ranks in one pod; equal results point to the network or its plugin, different "
    "ones to the image's torch build",
)
NOT_A_NUMBER = Cause(
    "a kernel or a collective of this image returns values that are not numbers (a library built for other "
    "devices, a broken GPU)",
    "run the same program on one GPU after another, and look for Xid and ECC errors on the named node",
)
WHOLE_COPIES = Cause(
    "fully_shard left a whole copy on each rank: the world has one rank, or the mesh does not cover the world",
    "give fully_shard a mesh over all ranks (init_device_mesh), and look at the torch version of the image",
)
ENDED = Cause(
    "a rank ended, or waits for one that ended: an exception in a step, out of memory, a cut connection",
    "read the last log lines of the member named first, and of the one that ended before it",
)


@dataclasses.dataclass(frozen=True)
class Told:
    """What one rank told of its steps."""

    word: Word
    rank: int
    reference: tuple[float, ...]
    losses: Mapping[str, tuple[float, ...]]
    far: Mapping[str, float]
    moved: float
    own: int | None
    of: int | None

    @property
    def where(self) -> str:
        """Return rank and pod."""
        return f"rank {self.rank} on {self.word.pod or self.word.data.get('host')}"

    @property
    def apart(self) -> float:
        """Return how far loss or parameters are from one process at most; what is no number is infinitely far."""
        differences = [
            abs(one - other)
            for losses in self.losses.values()
            for one, other in zip(losses, self.reference, strict=False)
        ]
        found = [*differences, *self.far.values()]
        return max((d if math.isfinite(d) else math.inf for d in found), default=math.inf)


def _number(value: object) -> float:
    """Return a number that a payload told; what is none is not a number."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return math.nan
    try:
        return float(value)
    except (ValueError, OverflowError):
        return math.nan


def _losses(value: object) -> tuple[float, ...]:
    return tuple(_number(one) for one in value) if isinstance(value, list) else ()


def read(words: Sequence[Word]) -> tuple[list[Told], list[Word]]:
    """Return what ranks told of their steps, and the words that lack a part."""
    told, lacking = [], []
    for word in words:
        rank = word.number("rank")
        ways: dict[str, Mapping[str, Any]] = {way: fields.sub(word.data, way) for way in WAYS}
        reference = _losses(word.data.get("reference"))
        losses = {way: _losses(part.get("losses")) for way, part in ways.items()}
        if rank is None or not reference or any(len(ls) != len(reference) for ls in losses.values()):
            lacking.append(word)
            continue
        told.append(
            Told(
                word, rank, reference, losses, {way: _number(part.get("far")) for way, part in ways.items()},
                _number(word.data.get("moved")), fields.number(ways["fsdp"], "own"), fields.number(ways["fsdp"], "of"),
            )
        )  # fmt: skip
    return told, lacking


@subjects.judge
def agrees(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge RDZV-006: of the gang that told steps, all ranks of its world."""
    gang, words = _steps(evidence, given)
    told, lacking = read(words)
    keys = tuple(word.key for word in words)[:12]
    far = max((one.apart for one in told), default=math.inf)
    number = Number(
        "difference from one process",
        far if math.isfinite(far) else None,
        "",
        bound=TOLERANCE,
        origin=ORIGIN,
    )
    found = wording.Findings(
        REQUIRED, gang, where=tuple(one.where for one in told[:16]), evidence=keys, numbers=(number,)
    )

    for one in told:
        for text, cause in _faults(one):
            return found.fail(text, cause, violation=True, where=(one.where,))
    for text in _between(told):
        return found.fail(text, GRADIENTS, violation=True)
    world = (
        max((one.word.number("world") or 0 for one in told), default=0) or subjects.count(given, "world") or 0
    )
    ranks = {one.rank for one in told}
    missing = [rank for rank in range(world) if rank not in ranks]
    if lacking or missing or not told:
        return _short(evidence, gang, found, missing, lacking)
    small = [one for one in told if not one.moved > SEEN * TOLERANCE]
    if small:
        text = (
            f"{small[0].where}: the steps moved parameters by {small[0].moved:g} at most, so agreement proves "
            "nothing"
        )
        return found.inconclusive(text)
    if any(one.own is None or not one.of for one in told):
        return found.inconclusive("no rank reported its share of the model under fully_shard")
    last = told[0]
    text = (
        f"{len(told)} ranks, {len(last.reference)} steps: loss {last.reference[0]:.4g} to {last.reference[-1]:.4g} "
        f"alone, with DDP and with FSDP2, at most {far:.1e} apart in loss and parameters; "
        f"each rank held {max(one.own or 0 for one in told)} of {last.of} parameters under fully_shard"
    )
    return found.passed(text)


def ranks_met(evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether the ranks that were to train formed a world: what training stands on."""
    name = "the ranks that train formed a world"
    said = payload_lines.words(evidence)
    named = subjects.cast(evidence, given, "left", "subject")
    pods = [pod for gang in (subjects.everyone(evidence) if named is None else named) for pod in gang.pods]
    uids = {pod.uid for pod in pods}
    met = [word for word in (*said.of("exchanged"), *said.of("stepped")) if word.uid in uids]
    if met:
        return wording.presupposed(
            name, held=True, observed=f"{met[0].pod} met others", evidence=(met[0].key,)
        )
    failed = [(pod, code) for pod in pods for _, code in pod.exit_codes if code]
    if failed:
        pod, code = failed[0]
        text = f"no rank met another; {pod.where} ended with {code}"
        return wording.presupposed(name, held=False, observed=text, causes=(two_worlds.NOT_FORMED,))
    return wording.presupposed(name, held=None, observed="no rank reported that it met another")


def _steps(evidence: Evidence, given: subjects.Given) -> tuple[Gang | None, list[Word]]:
    """Return the gang whose ranks trained, and what they told."""
    said = payload_lines.words(evidence)
    named = subjects.cast(evidence, given, "left", "subject")
    gangs = named if named is not None else subjects.everyone(evidence)
    for gang in gangs:
        # Of the newest attempt: after a restart of the whole gang every rank exists anew.
        uids = {pod.uid for pod in (gang.generations[-1].members if gang.generations else gang.pods)}
        words = [word for word in said.of("stepped") if word.uid in uids]
        if words:
            return gang, words
    if named is None:
        return None, list(said.of("stepped"))
    return (gangs[0] if gangs else None), []


def _faults(one: Told) -> Iterator[tuple[str, Cause]]:
    """Yield what is wrong with the steps of one rank."""
    if not all(math.isfinite(loss) for loss in one.reference):
        yield (
            f"{one.where}: the loss of one process is {wording.listed([str(x) for x in one.reference])}",
            NOT_A_NUMBER,
        )
    for way, title in WAYS.items():
        losses, far = one.losses[way], one.far[way]
        if not all(math.isfinite(value) for value in (*losses, far)):
            told = wording.listed([str(value) for value in losses])
            yield (
                f"{one.where}: with {title} the loss is {told}, parameters are {far} from a single process",
                NOT_A_NUMBER,
            )
        for step, (got, right) in enumerate(zip(losses, one.reference, strict=True), start=1):
            if abs(got - right) > TOLERANCE:
                yield (
                    f"{one.where}: the loss of step {step} is {got:.6g} with {title}, {right:.6g} alone",
                    GRADIENTS,
                )
        if far > TOLERANCE:
            yield (
                f"{one.where}: with {title} a parameter is {far:.3g} from a single process (at most {TOLERANCE:g})",
                GRADIENTS,
            )
    world = one.word.number("world") or 0
    if world > 1 and one.own is not None and one.of is not None and one.own >= one.of > 0:
        yield (
            f"{one.where}: holds all {one.of} parameters under fully_shard, in a world of {world}",
            WHOLE_COPIES,
        )


def _between(told: Sequence[Told]) -> Iterator[str]:
    """Yield what is wrong between ranks: one that exists on two members, another world, another reference."""
    places: dict[int, str] = {}
    for one in told:
        if places.setdefault(one.rank, one.word.uid) != one.word.uid:
            yield f"rank {one.rank} trained twice, last on {one.word.pod}"
    worlds = {one.word.number("world") for one in told}
    if len(worlds) > 1:
        yield f"ranks trained in worlds of {wording.listed(sorted(str(world) for world in worlds))}"
    for one in told[1:]:
        if any(abs(a - b) > TOLERANCE for a, b in zip(one.reference, told[0].reference, strict=False)):
            yield f"{one.where} and {told[0].where} differ in the loss of the same steps on a single process"


def _short(
    evidence: Evidence,
    gang: Gang | None,
    found: wording.Findings,
    missing: Sequence[int],
    lacking: Sequence[Word],
) -> Finding:
    """Judge ranks that told nothing, or too little."""
    parts = []
    if missing:
        parts.append(f"rank {wording.listed([str(rank) for rank in missing])} reported no step")
    if lacking:
        parts.append(f"{wording.listed([word.pod for word in lacking])} left out part of its report")
    pods = gang.pods if gang is not None else ()
    torn = [pod.name for pod in pods if payload_lines.words(evidence).torn.get(pod.uid)]
    if torn:
        parts.append(f"a line of {wording.listed(torn)} is cut")
    text = "; ".join(parts) or "no rank reported a step"
    failed = [pod for pod in pods if any(code for _, code in pod.exit_codes)]
    expired = None if gang is None else subjects.timed_out(evidence, gang.created)
    read_some = any(pod.uid in payload_lines.words(evidence).logged for pod in pods)
    if (failed or expired) and read_some and not torn and not lacking:
        ended = (
            f"{failed[0].where} ended with {next(code for _, code in failed[0].exit_codes if code)}"
            if failed
            else f"waited for {expired[0] if expired else ''}"
        )
        return found.fail(f"{text}; {ended}", ENDED, where=wording.places(failed or pods))
    return found.inconclusive(text, where=wording.places(pods))
