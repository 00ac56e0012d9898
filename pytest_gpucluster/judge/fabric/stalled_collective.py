"""FAB-011: a collective that one rank does not enter ends within its bound, and the diagnosis says who, where and what.

Every rank must end by itself: a hang is a fail, and so is an end that leaves one to guess.
"""

import math

from pytest_gpucluster.evidence.hardware import collectives
from pytest_gpucluster.evidence.hardware.collectives import Rank, Told
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.fabric import plausibility, shared
from pytest_gpucluster.measure import samples
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = (
    "if a collective hangs, every waiting rank ends within the bound and names the missing rank, the collective "
    "and the transport"
)

SLACK = 10.0
"""Seconds beyond the bound in which a rank has to notice and to end."""
UNBOUNDED = Cause(
    "nothing bounds the wait: the group's timeout is longer than declared, or its watchdog is off "
    "(TORCH_NCCL_BLOCKING_WAIT=1, TORCH_NCCL_ASYNC_ERROR_HANDLING=0) or hangs itself",
    "give init_process_group a timeout, leave the watchdog on, and set TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC",
)
UNNAMED = Cause(
    "the ranks end without naming the rank they waited for",
    "record in the store which rank entered which collective, or set TORCH_FR_BUFFER_SIZE and dump on timeout; "
    "the culprit is the rank with the smallest last collective, not the one that reports first",
)


@subjects.judge
def ends_named(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge FAB-011."""
    gang = shared.subject(evidence, given)
    told = shared.told(evidence, gang)
    nothing = shared.nobody(evidence, told, gang, REQUIRED)
    if nothing is not None:
        return nothing
    bound = subjects.seconds(given, "stall_bound")
    absent = given.get("absent")
    if bound is None or not isinstance(absent, int):
        return wording.finding(
            Verdict.INCONCLUSIVE, REQUIRED, "no rank was kept outside of a collective", gang
        )
    return _decided(evidence, (told, gang), bound, absent, shared.expected(given, told) or len(told.ranks))


def _decided(
    evidence: Evidence, seen: tuple[Told, Gang | None], bound: float, absent: int, world: int
) -> Finding:
    told, gang = seen
    waits = [(rank, _waited(rank)) for rank in told.ranks if rank.stalled is not None]
    odd = next((why for rank, _ in waits if (why := _impossible(rank, bound))), "")
    longest = max((seconds for _, seconds in waits if seconds is not None), default=None)
    number = Number(
        "longest wait in a collective", longest, "s", bound + SLACK, "fabric.stall_bound and 10 s"
    )
    keys = tuple(rank.stalled.key for rank, _ in waits if rank.stalled is not None)[:12]
    found = wording.Findings(REQUIRED, gang, evidence=keys or shared.keys(told), numbers=(number,))

    expired = subjects.timed_out(evidence)
    silent = [rank for rank in told.ranks if rank.stalled is None and rank.failed is None]
    if expired is not None:
        text = f"{silent[0].where if silent else 'a rank'} did not end; waited for {expired[0]}"
        where = shared.places(silent or list(told.ranks))
        return found.fail(text, UNBOUNDED, violation=True, where=where)
    missing = shared.missing(told, world)
    if missing:
        return found.inconclusive(f"rank {wording.listed([str(n) for n in missing])} of {world} said nothing")
    killed = shared.killed(told, shared.SIGKILL)
    if killed:
        return found.inconclusive(shared.lost(killed), shared.KILLED, where=shared.places(killed))
    late = [rank for rank, seconds in waits if seconds is not None and seconds > bound + SLACK]
    if late:
        text = f"{late[0].where} waited {_waited(late[0]):g} s; the bound is {bound:g} s"
        return found.fail(text, UNBOUNDED, violation=True, where=shared.places(late))
    if odd:
        return found.inconclusive(odd, plausibility.CONTRADICTS)
    if not waits:
        return found.inconclusive("no collective hung: nothing was tried")
    if silent:
        text = f"{silent[0].where} ended without naming the collective"
        verdict = Verdict.INCONCLUSIVE if told.torn else Verdict.FAIL
        return found.of(verdict, text, UNNAMED, where=shared.places(silent))
    unended = _unended(told)
    if unended:
        text = f"{unended[0].where} reported a hang and never ended: its pod ran until it was deleted"
        where = shared.places(unended)
        if any(rank.pod is None for rank in unended) or evidence.gaps("Pod", unended[0].word.t, evidence.end):
            return found.inconclusive(f"the end of the pod of {unended[0].where} was not seen", where=where)
        return found.fail(text, UNBOUNDED, violation=True, where=where)
    unnamed = [(rank, why) for rank, _ in waits if (why := _unnamed(rank, absent))]
    if unnamed:
        where = shared.places([rank for rank, _ in unnamed])
        text = f"{unnamed[0][0].where}: {unnamed[0][1]}"
        return found.fail(text, UNNAMED, violation=True, where=where)
    culprit = next((rank.where for rank in told.ranks if rank.rank == absent), f"rank {absent}")
    word = waits[0][0].stalled
    what = "" if word is None else f"{word.data.get('collective')} over {word.data.get('transport')}"
    text = f"all {world} ranks ended after at most {longest:g} s (bound {bound:g} s): {what} waited for {culprit}"
    return found.passed(text, where=(culprit,))


def _unended(told: Told) -> list[Rank]:
    """Return the ranks whose pod was not seen to end by itself."""
    return [rank for rank in told.ranks if rank.pod is None or rank.pod.ended is None]


def _waited(rank: Rank) -> float | None:
    """Return the seconds that a rank stood still."""
    return None if rank.stalled is None else samples.number(rank.stalled.data.get("waited"))


def _impossible(rank: Rank, bound: float) -> str:
    """Return why a rank cannot have waited for as long as it says, "" where it can.

    It stops waiting when its own bound is over and not before, and cannot have waited for longer than it ran.
    """
    waited = _waited(rank)
    if waited is None or rank.stalled is None:
        return ""
    own = samples.number(rank.stalled.data.get("bound"))
    if own is None or not math.isclose(own, bound, rel_tol=0.01):
        return (
            f"{rank.where} reports a bound of {rank.stalled.data.get('bound')!r} s, but {bound:g} s was set"
        )
    if waited < own * 0.99:
        return f"{rank.where} says that it waited for {waited:g} s, but its limit is {own:g} s"
    ran = collectives.lasted(rank.word, rank.stalled)
    if ran is not None and waited > ran + SLACK:
        return f"{rank.where} says that it waited for {waited:g} s, but it had run for {ran:.3g} s only"
    return ""


def _unnamed(rank: Rank, absent: int) -> str:
    """Return what a diagnosis lacks, "" where it names all."""
    data = {} if rank.stalled is None else rank.stalled.data
    if data.get("absent") != [absent]:
        return f"it says that {data.get('absent') or 'no rank'} is missing, but rank {absent} is"
    if not data.get("collective"):
        return "it does not say which collective"
    if not data.get("transport"):
        return "it does not say over which transport"
    return "it does not say how long it waited" if _waited(rank) is None else ""
