"""RDZV-005: two Jobs at once form two worlds, and nothing of one is in the other.

What came by a collective decides: each rank draws a nonce and tells it to its world, so that a rank of another Job is
seen by what it brought, whatever ids and names say. Ids, endpoints and addresses then say how it got in.
"""

import dataclasses
from collections.abc import Iterator, Sequence

from pytest_gpucluster.evidence.log import payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.log.payload_lines import Word
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.plugins import name_resolution
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = (
    "two Jobs that run at the same time form two worlds: each has its own ranks 0 to N-1 once, its own "
    "rendezvous, and receives in collectives only what its own ranks sent"
)
SAME_RENDEZVOUS = Cause(
    "both Jobs meet under the same id at the same endpoint: the default id (`none`) with a shared endpoint, or "
    "an id fixed in a shared template",
    'give every Job its own id, --rdzv-id="${JOB_ID}" (the Job\'s name or uid), even at a shared endpoint',
)
WRONG_SELECTOR = Cause(
    "the endpoint's name leads to a pod of another Job: the Service selects the pods of both, or both Jobs use "
    "one Service or one host name",
    "make the Service select by the Job's own label (job-name), with one headless Service per Job; on the host "
    "network give each Job its own port",
)
NOT_FORMED = Cause(
    "members of one of the Jobs did not meet: their name did not resolve when the launcher started, the port was taken "
    "by the other Job (both on the host's network), or members of one were never placed",
    "look at the last lines of the named launchers; make names resolve before pods are ready "
    "(publishNotReadyAddresses), and gang-schedule both Jobs",
)


@dataclasses.dataclass(frozen=True)
class World:
    """What the ranks of one Job told."""

    gang: Gang
    began: tuple[Word, ...]
    exchanged: tuple[Word, ...]

    @property
    def nonces(self) -> dict[int, Word]:
        """Return the nonces that its own ranks drew."""
        drawn = {word.number("nonce"): word for word in self.exchanged}
        return {nonce: word for nonce, word in drawn.items() if nonce is not None}

    @property
    def size(self) -> int:
        """Return the world that its ranks say they are in, 0 for none."""
        return max((word.number("world") or 0 for word in (*self.exchanged, *self.began)), default=0)

    @property
    def meetings(self) -> set[tuple[str, str]]:
        """Return (id, endpoint) of its ranks; the address where it is known, since names repeat in other namespaces."""
        return {
            (str(word.data.get("id")), str(address))
            for word in self.exchanged
            if word.data.get("id") and word.data.get("endpoint")
            for address in (word.data.get("addresses") or ())
        }

    @property
    def span(self) -> tuple[float, float] | None:
        """Return from when to when its ranks were there, None where no rank got through."""
        if not self.exchanged:
            return None
        return min(word.t for word in (*self.began, *self.exchanged)), max(word.t for word in self.exchanged)


def _rank(word: Word) -> str:
    return f"rank {word.number('rank')} on {word.pod or word.data.get('host')}"


def worlds(evidence: Evidence, given: subjects.Given) -> list[World]:
    """Return the Jobs under judgement, each with what its ranks told."""
    said = payload_lines.words(evidence)
    named = subjects.cast(evidence, given, "left", "right")
    found = []
    for gang in subjects.everyone(evidence) if named is None else named:
        uids = {pod.uid for pod in (gang.generations[-1].members if gang.generations else gang.pods)}
        began, exchanged = (
            tuple(word for word in said.of(event) if word.uid in uids) for event in ("began", "exchanged")
        )
        if named is not None or began or exchanged:
            found.append(World(gang, began, exchanged))
    return found


@subjects.judge
def apart(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge RDZV-005."""
    found = worlds(evidence, given)
    keys = tuple(word.key for world in found for word in world.exchanged)[:12]
    where = tuple(_rank(word) for world in found for word in world.exchanged)[:16]
    if len(found) < 2:
        text = subjects.nothing(evidence, "two Jobs with ranks that report what they exchanged")
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text, evidence=keys)
    number = Number("worlds", float(sum(bool(world.exchanged) for world in found)), "", 2.0, "two Jobs")

    def judged(gang: Gang | None = None) -> wording.Findings:
        places = where or wording.places(gang.pods if gang else ())
        return wording.Findings(REQUIRED, gang, where=places, evidence=keys, numbers=(number,))

    for text, cause in (*_mixed(found), *_met(found)):
        return judged(found[0].gang).fail(text, cause, violation=True)
    for world in found:
        fault = _unformed(evidence, given, world)
        if fault is not None:
            verdict, text = fault
            causes = (NOT_FORMED,) if verdict is Verdict.FAIL else ()
            return judged(world.gang).of(verdict, text, *causes, where=wording.places(world.gang.pods))
    spans = [span for world in found if (span := world.span) is not None]
    together = min(end for _, end in spans) - max(start for start, _ in spans)
    if together <= 0:
        return judged().inconclusive(f"one world ended {-together:.1f} s before the other began")
    told = "; ".join(_described(world) for world in found)
    return judged().passed(
        f"{told}; {together:.1f} s at the same time, neither received a nonce of the other"
    )


def _described(world: World) -> str:
    words = sorted(world.exchanged, key=lambda word: word.number("rank") or 0)
    ids = sorted({str(word.data.get("id") or "none") for word in words})
    places = wording.listed([_rank(word) for word in words], 4)
    return f"{world.gang.name}: a world of {world.size} ({places}), id {', '.join(ids)}"


def _mixed(found: Sequence[World]) -> Iterator[tuple[str, Cause]]:
    """Yield what came to a world that none of its ranks sent, and ranks that are there twice."""
    owners = {nonce: (world, word) for world in found for nonce, word in world.nonces.items()}
    for world in found:
        for word in world.exchanged:
            for rank, nonce in _got(word):
                owner = owners.get(nonce)
                if owner is not None and owner[0] is world:
                    continue
                if owner is not None:
                    sender = f"that of {_rank(owner[1])} of {owner[0].gang.title}"
                    yield (
                        f"{_rank(word)} of {world.gang.title} got as rank {rank}'s nonce {sender}",
                        SAME_RENDEZVOUS,
                    )
                elif _all_told(world):
                    text = f"{_rank(word)} of {world.gang.title} got a nonce of rank {rank} that no rank of it sent"
                    yield text, SAME_RENDEZVOUS
        places: dict[int | None, Word] = {}
        for word in world.exchanged:
            other = places.setdefault(word.number("rank"), word)
            if (other.uid, other.number("local_rank")) != (word.uid, word.number("local_rank")):
                text = f"{world.gang.title} has {_rank(other)} and {_rank(word)}: it formed two worlds"
                yield text, NOT_FORMED


def _got(word: Word) -> list[tuple[object, int]]:
    """Return (rank, nonce) of what a rank got."""
    pairs = word.data.get("got")
    whole = (
        pair
        for pair in (pairs if isinstance(pairs, list) else ())
        if isinstance(pair, list) and len(pair) == 2
    )
    return [(rank, nonce) for rank, nonce in whole if isinstance(nonce, int)]


def _all_told(world: World) -> bool:
    """Report whether every rank of a world said what it drew, so that a strange nonce is none of theirs."""
    return bool(world.size) and len({word.number("rank") for word in world.exchanged}) >= world.size


def _met(found: Sequence[World]) -> Iterator[tuple[str, Cause]]:
    """Yield where ranks of one Job met at a pod of another, or under the same id at the same address."""
    homes: dict[str, World] = {}
    for world in found:
        # On the host's network pods of both Jobs may have one address, which then is nobody's own.
        others = {address for other in found if other is not world for address in _addresses(other)}
        homes |= dict.fromkeys(_addresses(world) - others, world)
    for world in found:
        for word in world.exchanged:
            for what in ("store", "addresses"):
                for address in word.data.get(what) or ():
                    home = homes.get(str(address))
                    if home is not None and home is not world:
                        how = (
                            "is connected to" if what == "store" else f"finds as {word.data.get('endpoint')}"
                        )
                        text = f"the launcher of {_rank(word)} of {world.gang.title} {how} {address}"
                        yield f"{text}, a pod of {home.gang.title}", WRONG_SELECTOR
    for number, world in enumerate(found):
        for other in found[number + 1 :]:
            for same, address in sorted(world.meetings & other.meetings):
                names = f"{world.gang.title} and {other.gang.title}"
                yield f"{names} meet at {address} under the same id {same}", SAME_RENDEZVOUS


def _addresses(world: World) -> set[str]:
    return {address for pod in world.gang.pods for address in name_resolution.addresses_of(pod)}


def _unformed(evidence: Evidence, given: subjects.Given, world: World) -> tuple[Verdict, str] | None:
    """Return why it is not known, or known to be false, that a Job's world formed."""
    said, title, pods = payload_lines.words(evidence), world.gang.title, world.gang.pods
    size = subjects.count(given, "world") or world.size
    other = [word for word in world.exchanged if word.number("world") != size]
    if other:
        return (
            Verdict.FAIL,
            f"{title}: {_rank(other[0])} is in a world of {other[0].number('world')}, not {size}",
        )
    lost = [word for word in world.exchanged if len(_got(word)) != size]
    if lost:
        return (
            Verdict.INCONCLUSIVE,
            f"{title}: {_rank(lost[0])} reported {len(_got(lost[0]))} of {size} nonces",
        )
    missing = payload_lines.absent(size, {word.number("rank") for word in world.exchanged})
    if size and not missing:
        return None
    text = f"{title}: rank {wording.listed([str(r) for r in missing])} of {size} exchanged nothing" if size else (
        f"{title}: no rank said anything"
    )  # fmt: skip
    torn = [pod.name for pod in pods if said.torn.get(pod.uid)]
    if torn:
        return Verdict.INCONCLUSIVE, f"{text}; a line of {wording.listed(torn)} is cut"
    failed = [(pod, code) for pod in pods for _, code in pod.exit_codes if code]
    expired = subjects.timed_out(evidence, world.gang.created)
    if failed and any(pod.uid in said.logged for pod in pods):
        pod, code = failed[0]
        return Verdict.FAIL, f"{text}; {pod.where} ended with {code}"
    if expired and any(pod.uid in said.logged for pod in pods):
        return Verdict.FAIL, f"{text}; waited for {expired[0]}"
    return Verdict.INCONCLUSIVE, text
