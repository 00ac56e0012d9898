"""RDZV-001: torchrun over c10d forms one world, and its all-reduce is right."""

from collections import Counter

from pytest_gpucluster.evidence.log import payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.log.payload_lines import Word
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = "one world of nnodes x nproc ranks, each rank once, and the all-reduce gives the right sum on each"

SPLIT = Cause(
    "workers did not meet at one store: another endpoint or id, names that did not resolve at the start, or two stores",
    "give every member the same --rdzv-endpoint (the master's DNS name) and --rdzv-id; make names resolve before "
    "pods are ready (svc plugin with --publish-not-ready-addresses=true) or wait for DNS before torchrun",
)
LOOPBACK = Cause(
    "the agent that hosts the store announces a name or address out of reach of the others (its own host name "
    "resolves to a loopback address, or to nothing)",
    "make every agent announce its pod IP: --local-addr=$(POD_IP) from the field status.podIP",
)
COLLECTIVE = Cause(
    "the collective mixed or lost contributions",
    "look at the backend's log; run the same payload with gloo to compare",
)


@subjects.judge
def one_world(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge RDZV-001: for each role `documented` and `robust`, or for all that printed ranks."""
    known = subjects.roles(evidence, given)
    roles = [role for role in ("documented", "robust") if role in known]
    if not roles:
        named = subjects.cast(evidence, given, "subject")
        return _judge(evidence, given, named[0] if named else None, "")
    findings = []
    for role in roles:
        played = subjects.cast(evidence, given, role)
        if not played:
            findings.append(
                wording.finding(Verdict.INCONCLUSIVE, REQUIRED, f"the gang of role {role} was not seen")
            )
        else:
            findings.append(_judge(evidence, given, played[0], f"{role}: "))
    worst = wording.gravest(findings)
    if worst.verdict is Verdict.PASS:
        text = "; ".join(finding.observed for finding in findings)
        return wording.finding(
            Verdict.PASS, REQUIRED, text, where=tuple(w for f in findings for w in f.where),
            evidence=tuple(k for f in findings for k in f.evidence[:6]), repeat=worst.repeat,
        )  # fmt: skip
    return worst


def _newest(words: list[Word]) -> list[Word]:
    """Return the last word of each process: of the newest attempt, after the last restart by its launcher."""
    newest = max((word.attempt for word in words), default=0)
    last: dict[tuple[str, object], Word] = {}
    for word in words:
        if word.attempt == newest:
            local = word.number("local_rank")
            last[word.uid, word.number("rank") if local is None else f"local {local}"] = word
    return list(last.values())


def _judge(evidence: Evidence, given: subjects.Given, gang: Gang | None, prefix: str) -> Finding:
    said = payload_lines.words(evidence)
    uids = subjects.uids(gang)

    def of(event: str) -> list[Word]:
        return _newest([w for w in said.of(event) if uids is None or w.uid in uids])

    ranks, sums = of("rank"), of("sum")
    keys = tuple(word.key for word in (*ranks, *sums))[:12]
    found = wording.Findings(REQUIRED, gang, start=prefix, evidence=keys)

    expired = _gave_up(evidence, gang)
    if not ranks:
        text = "no rank printed anything readable"
        if expired and gang is not None and all(pod.uid in said.logged for pod in gang.pods):
            return found.fail(f"{text}; no world formed (waited for {expired})", SPLIT, LOOPBACK)
        return found.inconclusive(text)
    worlds = Counter(word.number("world") for word in ranks)
    world = expected_world(given) or max((w for w in worlds if w is not None), default=0)
    strange = [w for w in ranks if w.number("world") != world]
    if strange:
        text = ", ".join(
            f"{w.pod} rank {w.number('rank')} is in a world of {w.number('world')}" for w in strange[:4]
        )
        return found.fail(f"not one world of {world}: {text}", SPLIT, violation=True)
    times = Counter(word.number("rank") for word in ranks)
    twice = sorted(rank for rank, n in times.items() if n > 1 and rank is not None)
    outside = sorted(rank for rank in times if rank is not None and not 0 <= rank < world)
    if twice or outside:
        what = f"rank {twice[0]} exists {times[twice[0]]} times" if twice else f"rank {outside[0]} of {world}"
        where = wording.listed([f"{w.pod} rank {w.number('rank')}" for w in ranks], 8)
        return found.fail(f"{what}: {where}", SPLIT, violation=True)
    # A sum that was wrong in an attempt before was wrong: the next one does not undo it.
    before = [w for w in said.of("sum") if (uids is None or w.uid in uids) and not _right(w, 0)]
    wrong = [w for w in sums if not _right(w, world)] or before
    if wrong:
        text = ", ".join(f"rank {w.number('rank')} on {w.pod} {_got(w)}" for w in wrong[:4])
        return found.fail(f"all-reduce: {text}", COLLECTIVE, violation=True)
    missing = payload_lines.absent(world, times)
    summed = {w.number("rank") for w in sums}
    unsummed = [rank for rank in times if rank not in summed]
    if missing or unsummed:
        part = f"rank {wording.listed([str(r) for r in missing])} of {world} not seen" if missing else ""
        also = f"no sum from rank {wording.listed([str(r) for r in unsummed])}" if unsummed else ""
        text = "; ".join(one for one in (part, also) if one)
        if expired:
            return found.fail(f"{text}; the world did not form (waited for {expired})", SPLIT)
        return found.inconclusive(text)
    zero = next(word for word in ranks if word.number("rank") == 0)
    backend = next((str(w.data["backend"]) for w in sums if w.data.get("backend")), "unknown backend")
    value = sums[0].data.get("got")
    text = f"{world} ranks, each once, sum {value} right on all ({backend}); rank 0 is on {zero.pod}"
    places = tuple(f"rank {w.number('rank')} on {w.pod or w.data.get('host')}" for w in ranks[:16])
    number = Number("world", float(world), "ranks", origin="nnodes x nproc")
    return found.passed(text, where=places, numbers=(number,))


def _gave_up(evidence: Evidence, gang: Gang | None) -> str:
    """Return what was waited for in vain while this gang existed, or how it failed; "" for neither."""
    if gang is None:
        return ""
    gone = gang.job.deleted if gang.job is not None and gang.job.deleted is not None else evidence.end
    expired = subjects.timed_out(evidence, gang.created, gone)
    if expired is not None:
        return expired[0]
    for note in evidence.notes("aborted"):
        if gang.created <= note.t <= gone:
            return f"{note.data.get('what')}: {note.data.get('why')}"
    if gang.job is not None and gang.job.phase in {"Failed", "Aborted", "Terminated"}:
        return f"the Job, which ended {gang.job.phase}"
    return ""


def expected_world(given: subjects.Given) -> int | None:
    """Return the declared world: `world`, else `nnodes` x `nproc`."""
    world, nodes, each = (subjects.count(given, key) for key in ("world", "nnodes", "nproc"))
    return world or (nodes * each if nodes and each else None)


def _right(word: payload_lines.Word, world: int) -> bool:
    """Report whether a rank's sum is right in every element, which it tells beside one of them, and of this world.

    Of any world where none (0) is given.
    """
    same = word.data.get("got") == word.data.get("expected") and word.data.get("ok", True) is True
    return same and (not world or word.number("world") in (world, None))


def _got(word: payload_lines.Word) -> str:
    got, right = word.data.get("got"), word.data.get("expected")
    return f"got {got}, expected {right}" if got != right else f"got an element other than {right}"
