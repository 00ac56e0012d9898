"""RDZV-009: a stall outside collectives ends within its bound, and names rank and place.

The watchdog of collectives sees only who waits for whom: a rank that stands in an import, a checkpoint or a data
loader makes all others time out in a collective, and is itself silent. So each place has a bound of its own, and what
a rank writes when it is over must say which rank it is and where it stands.
"""

import dataclasses
import re

from pytest_gpucluster.evidence.log import payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = (
    "a rank that hangs outside a collective ends with a non-zero exit code within the bound of its place, and "
    "its log names the rank, the place and the program line; healthy ranks are not named"
)
TOLD_WITHIN = 10.0
"""Seconds in which a kubelet tells the phase of a pod whose process has ended; on busy nodes more than recorded."""
LATE = 3.0
"""Seconds from the bound to the end being seen: the dump, the exit, the status."""

NO_BOUND = Cause(
    "nothing watches a rank outside collectives, so it hangs until someone looks",
    "set a bound for each place (Python: faulthandler.dump_traceback_later(seconds, exit=True) around imports, "
    "restore and the first batch; a time-out of the data loader)",
)
LOST = Cause(
    "the dump goes to standard error, which is not in the container's log, or the process was killed before it wrote",
    "keep the ranks' standard error (torchrun: --tee 3), and make the watchdog write before it ends the process",
)
HIDDEN = Cause(
    "the exit code is lost: a wrapper swallows it, or the node reports another",
    "make the program process 1 of the container (`exec`)",
)
ACCUSED = Cause(
    "the bound of a place is shorter than the place needs on a busy machine",
    "measure how long a healthy rank stays in each place, and set a bound several times as long",
)

FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<function>[\w<>.]+)')
DUMPED = re.compile(r"(?<!\w)Timeout \(\d+:\d{2}:\d{2}")
"""Begins a dump; what collects logs may put a time or a rank before it."""
LIBRARY = re.compile(r"/lib/python3|<frozen|site-packages")


@dataclasses.dataclass(frozen=True)
class Rank:
    """One rank: the last place it entered, whether it left it, what its watchdog wrote, how it ended."""

    pod: PodStory
    rank: int | None
    place: str
    bound: float | None
    entered: float
    left: bool
    frame: str
    ended: float | None
    code: int | None
    key: str

    @property
    def text(self) -> str:
        """Return rank and place in a few words."""
        return f"rank {self.rank} ({self.pod.name}) in {self.place}"


def ranks(evidence: Evidence, gang: Gang) -> list[Rank]:
    """Return what became of each rank that told its places."""
    words = payload_lines.words(evidence)
    found = []
    for pod in gang.pods:
        place = words.last("place", pod.uid)
        if place is None:
            continue
        left = words.last("passed", pod.uid)
        bound = place.data.get("bound")
        codes = [code for _, code in pod.exit_codes]
        found.append(
            Rank(
                pod=pod,
                rank=place.number("rank"),
                place=str(place.data.get("place") or ""),
                bound=float(bound) if isinstance(bound, int | float) else None,
                entered=place.t,
                left=left is not None and left.data.get("place") == place.data.get("place"),
                frame=_frame(evidence, pod),
                ended=min(
                    (t for t in (pod.finished, _log_ended(evidence, pod)) if t is not None), default=None
                ),
                code=max(codes, default=None),
                key=place.key,
            )
        )
    return found


def _log_ended(evidence: Evidence, pod: PodStory) -> float | None:
    """Return when the log of a pod that has ended came to its end, None where it was not followed to there.

    The process ends then; a busy kubelet tells the phase seconds later.
    """
    if pod.finished is None:
        return None
    ends = [
        note.t
        for note in evidence.notes("logs")
        if note.data.get("uid") == pod.uid and note.data.get("ok") and note.data.get("container") == "main"
    ]
    ended = max((t for t in ends if t <= pod.finished), default=None)
    # A log that ended long before is that of a process which closed its output and went on.
    return ended if ended is not None and pod.finished - ended <= TOLD_WITHIN else None


def _frame(evidence: Evidence, pod: PodStory) -> str:
    """Return the line of the program itself in what the watchdog dumped, "" where it dumped nothing."""
    lines = [str(line.data.get("line") or "") for line in evidence.logs(pod.uid)]
    start = next((n for n, line in enumerate(lines) if DUMPED.search(line)), None)
    if start is None:
        return ""
    frames = [match for line in lines[start:] if (match := FRAME.search(line))]
    own = next((m for m in frames if not LIBRARY.search(m["file"])), frames[0] if frames else None)
    return f"{own['function']} ({own['file']}:{own['line']})" if own is not None else ""


@subjects.judge
def ends_named(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge RDZV-009."""
    named = subjects.cast(evidence, given, "stalled")
    gangs = named if named is not None else subjects.everyone(evidence)
    told = [(gang, found) for gang in gangs if (found := ranks(evidence, gang))]
    if not told:
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, "no rank reported its place")
    gang, found = told[0]
    stood = [rank for rank in found if not rank.left]
    longest = max(((r.ended or evidence.end) - r.entered for r in stood), default=None)
    bound = max((r.bound for r in found if r.bound is not None), default=None)
    number = Number(
        "time from a place to the end of its rank", None if longest is None else round(longest, 3), "s", bound=bound,
        origin="bound of the place",
    )  # fmt: skip
    keys = tuple(rank.key for rank in found)[:8]
    for rank in found:
        fault = _fault(evidence, given, rank)
        if fault is not None:
            text, cause = fault
            return wording.finding(
                Verdict.FAIL, REQUIRED, text, gang, where=(f"rank {rank.rank} on {rank.pod.where}",), causes=(cause,),
                evidence=(rank.key,), numbers=(number,),
            )  # fmt: skip
    missing = _missing(evidence, given, gang, found, stood)
    if missing:
        return wording.finding(
            Verdict.INCONCLUSIVE, REQUIRED, missing, gang, evidence=keys, numbers=(number,)
        )
    stands = wording.listed([f"{rank.text}: {rank.frame}" for rank in stood], 4)
    text = f"{stands}; ended {longest or 0.0:.1f} s at most after they entered"
    where = tuple(f"rank {rank.rank} on {rank.pod.where}" for rank in stood)
    return wording.finding(Verdict.PASS, REQUIRED, text, gang, where=where, evidence=keys, numbers=(number,))


def _fault(evidence: Evidence, given: subjects.Given, rank: Rank) -> tuple[str, Cause] | None:
    """Return what is wrong with how one rank ended, and why."""
    limits = subjects.of(evidence, given)
    if rank.left:
        if rank.frame:
            return f"{rank.text} went on but was named as hanging at {rank.frame}", ACCUSED
        return None
    allowed = (rank.bound or 0.0) + LATE + limits.grain
    lasted = (evidence.end if rank.ended is None else rank.ended) - rank.entered
    if rank.bound is not None and lasted > allowed:
        state = "still stands" if rank.ended is None else "stood"
        return f"{rank.text} {state} there after {lasted:.1f} s, the bound is {rank.bound:g} s", NO_BOUND
    if rank.ended is None:
        return None
    if rank.code == 0:
        return f"{rank.text} did not go on but ended with 0", HIDDEN
    if not rank.frame:
        return f"{rank.text} ended with {rank.code} and no line of its log shows where it hung", LOST
    return None


def _missing(
    evidence: Evidence, given: subjects.Given, gang: Gang, found: list[Rank], stood: list[Rank]
) -> str:
    """Return what was not seen, "" where nothing is missing."""
    wanted = {str(stall) for stall in given.get("stalls") or ()}
    seen = {f"{rank.rank}:{rank.place}" for rank in stood}
    mute = [pod.name for pod in gang.pods if pod.uid not in {rank.pod.uid for rank in found}]
    open_ = [rank.text for rank in stood if rank.ended is None]
    nameless = [rank.pod.name for rank in found if rank.rank is None]
    if subjects.of(evidence, given).arranged and mute:
        return f"{wording.listed(mute)} reported no place"
    if open_:
        return f"{wording.listed(open_)} had not ended when the evidence ends"
    if nameless:
        return f"{wording.listed(nameless)} did not report its rank"
    if not stood or not wanted <= seen:
        return f"{wording.listed(sorted(wanted - seen)) or 'no rank'} was not seen to hang"
    return ""
