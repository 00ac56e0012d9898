"""REF-009: queues share by weight under contention, and what was borrowed is given back."""

import dataclasses
from fractions import Fraction
from typing import Any

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.scheduling import queue_shares
from pytest_gpucluster.evidence.scheduling.queue_shares import Tenant
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = (
    "two queues that both want more share the resource by their weights, within one gang's size; what one "
    "borrowed while the other wanted nothing is given back"
)

NOT_GIVEN_BACK = Cause(
    "borrowed resources are not given back: the action reclaim is missing or finds no pod that it may take",
    "put reclaim into `actions` of volcano-scheduler.conf, leave `reclaimable` of the borrowing queue true, and "
    "give its gangs members above minAvailable: the gang plugin lets only these be taken",
)
REFUSED = Cause(
    "the gangs of the queue that is short are refused at enqueue: overcommit allows promises of 1.2 x the "
    "cluster, counting everything that is held",
    "keep the gangs of a lending queue below a fifth of the cluster, or raise overcommit-factor in "
    "volcano-scheduler.conf",
)
NO_WEIGHTS = Cause(
    "the scheduler does not share by weight",
    "keep the proportion plugin in volcano-scheduler.conf (if capacity replaces it, spec.deserved of the queues "
    "counts)",
)


@dataclasses.dataclass(frozen=True)
class Contest:
    """Queues that all wanted more, over a span of time.

    Attributes:
        total: of the resource, of which they hold everything or are kept from it.
        tolerance: the size of the largest gang among them.
    """

    tenants: tuple[Tenant, ...]
    resource: str
    total: Fraction
    start: float
    end: float
    tolerance: Fraction

    def share(self, tenant: Tenant) -> Fraction:
        """Return what a queue is due."""
        return self.total * tenant.weight / sum(one.weight for one in self.tenants)

    def off(self, tenant: Tenant, t: float) -> Fraction:
        """Return by how much a queue holds more than it is due, at a time."""
        return tenant.held(self.resource, t) - self.share(tenant)

    def fair(self, t: float) -> bool:
        """Report whether every queue holds what it is due, one gang's size tolerated."""
        return all(abs(self.off(one, t)) <= self.tolerance for one in self.tenants)


@subjects.judge
def shares_by_weight(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge REF-009."""
    limits = subjects.of(evidence, given)
    several = queue_shares.tenants(evidence)
    contest = _contest(evidence, given, several)
    if contest is None:
        text = "no two queues wanted more of one resource at the same time"
        return wording.finding(
            Verdict.INCONCLUSIVE, REQUIRED, text if several else subjects.nothing(evidence)
        )
    seconds = contest.end - contest.start
    gaps = evidence.gaps("Pod", min(one.first for one in contest.tenants), contest.end)
    if gaps:
        text = f"pods were not watched from t={gaps[0][0]:.2f} s to {gaps[0][1]:.2f} s"
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text)
    borrower = _borrower(contest)
    settled = _settled(contest)
    if settled is None:
        return _unfair(evidence, given, limits, contest)
    if seconds < limits.window - limits.grain:
        text = f"the queues contended for {seconds:.1f} s, less than the window of {limits.window:.2f} s"
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text)
    kept = contest.end - settled
    if kept < limits.window - limits.grain - subjects.EPSILON:
        text = f"{_held(contest)}, but for {kept:.2f} s only, less than the window of {limits.window:.2f} s"
        return _finding(evidence, given, contest, Verdict.INCONCLUSIVE, text)
    if len({one.weight for one in contest.tenants}) < 2:
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, f"{_held(contest)}; the weights are equal")
    if borrower is None:
        text = f"{_held(contest)}; nothing was borrowed before, so nothing had to be given back"
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text)
    lender, most, since = borrower
    number = Number(
        "given back after", settled - since, "s", None, "no bound is declared: from the lender's first gang"
    )
    text = (
        f"{_held(contest)}; {lender} had held {_plain(most)} and gave it back within {settled - since:.1f} s"
    )
    return _finding(evidence, given, contest, Verdict.PASS, text, numbers=(*_numbers(contest), number))


def _contest(evidence: Evidence, given: subjects.Given, several: tuple[Tenant, ...]) -> Contest | None:
    """Return the last span in which two or more queues wanted more of one resource."""
    resource = str(given.get("resource") or "") or queue_shares.resource_of(several)
    rivals = tuple(one for one in several if one.gang_size(resource) > 0)
    if len(rivals) < 2 or not resource:
        return None
    noted = subjects.windows(evidence)
    end = noted[-1][1] if noted else evidence.end
    start: float | None = None
    spans: list[tuple[float, float]] = []
    for t in queue_shares.moments(rivals, end):
        if all(one.wants(t) for one in rivals) and t < end:
            start = t if start is None else start
        elif start is not None:
            spans.append((start, t))
            start = None
    if not spans:
        return None
    begin, stop = spans[-1]
    held = sum((one.held(resource, stop - 1e-6) for one in rivals), Fraction(0))
    stated = given.get("total")
    total = (
        Fraction(stated) if isinstance(stated, int) and not isinstance(stated, bool) and stated > 0 else held
    )
    return Contest(rivals, resource, total, begin, stop, max(one.gang_size(resource) for one in rivals))


def _settled(contest: Contest) -> float | None:
    """Return since when the queues have held what they are due until the end of the contest, None if they did not."""
    inside = [
        t for t in queue_shares.moments(contest.tenants, contest.end) if contest.start <= t < contest.end
    ]
    since: float | None = None
    for t in [*inside, contest.end - 1e-6]:
        since = (t if since is None else since) if contest.fair(t) else None
    return since


def _borrower(contest: Contest) -> tuple[str, Fraction, float] | None:
    """Return (queue, what it held, when the lender first asked) where one held more than its share before."""
    for one in contest.tenants:
        others = [other for other in contest.tenants if other is not one]
        asked = min(other.first for other in others)
        before = one.held(contest.resource, asked - 1e-6)
        if before > contest.share(one) + contest.tolerance:
            return one.name, before, asked
    return None


def _unfair(evidence: Evidence, given: subjects.Given, limits: subjects.Terms, contest: Contest) -> Finding:
    at = contest.end - 1e-6
    worst = max(contest.tenants, key=lambda one: abs(contest.off(one, at)))
    seconds = contest.end - contest.start
    off = _plain(abs(contest.off(worst, at)))
    text = f"{_held(contest)} after {seconds:.1f} s of contention: {worst.name} is off by {off}"
    expired = subjects.timed_out(evidence, contest.start)
    if expired is None and seconds < limits.window - limits.grain:
        text = f"{text}; less than the window of {limits.window:.2f} s"
        return _finding(evidence, given, contest, Verdict.INCONCLUSIVE, text)
    if expired is not None:
        text = f"{text} (waited for {expired[0]})"
    borrowed = _borrower(contest) is not None
    causes = (NOT_GIVEN_BACK, REFUSED, NO_WEIGHTS) if borrowed else (NO_WEIGHTS, REFUSED)
    return _finding(evidence, given, contest, Verdict.FAIL, text, causes=causes, numbers=_numbers(contest))


def _finding(
    evidence: Evidence, given: subjects.Given, contest: Contest, verdict: Verdict, text: str, **more: Any
) -> Finding:
    gangs = [gang for one in contest.tenants for gang in one.gangs]
    pods = [pod for gang in gangs for pod in gang.pods if pod.bound is not None]
    return wording.finding(
        verdict, REQUIRED, text,
        where=(*(f"Queue/{one.name}" for one in contest.tenants), *wording.places(pods)),
        evidence=tuple(pod.keys["bound"] for pod in pods[-4:]),
        repeat=tuple(f"kubectl get queue {one.name} -o yaml" for one in contest.tenants),
        currency=subjects.currency(evidence, given, gangs[0]),
        **more,
    )  # fmt: skip


def _held(contest: Contest) -> str:
    at = contest.end - 1e-6
    parts = [
        f"{one.name} (weight {one.weight}{'' if one.stated else ', assumed'}) holds "
        f"{_plain(one.held(contest.resource, at))} of {_plain(contest.share(one))} due"
        for one in contest.tenants
    ]
    return f"{', '.join(parts)} ({contest.resource}, {_plain(contest.total)} in all)"


def _numbers(contest: Contest) -> tuple[Number, ...]:
    at = contest.end - 1e-6
    bound = float(contest.tolerance)
    return tuple(
        Number(
            f"{one.name}: off its share",
            float(abs(contest.off(one, at))),
            contest.resource,
            bound,
            "one gang's size",
        )
        for one in contest.tenants
    )


def _plain(amount: Fraction) -> str:
    return f"{float(amount):g}"
