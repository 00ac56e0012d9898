"""GANG-007: how far apart the members of a gang are bound, and how far apart they start."""

import dataclasses

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.scheduling.gangs import Gang, Generation
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = "bind spread and start spread of the needed members stay under the declared bounds"

BOUNDS = {"bind spread": "bind_spread", "start spread": "start_spread"}
"""Name of a number -> key of the profile that bounds it."""

SLOW_BINDS = Cause(
    "binds of one gang are spread out: the API server or the scheduler's binder is slow, or the gang is bound in parts",
    "look at the latency of binding requests (apiserver_request_duration_seconds) and the scheduler's --kube-api-qps",
)
SLOW_STARTS = Cause(
    "a member's containers start late: an image that its node has yet to pull, a volume, or a busy kubelet",
    "pull images beforehand (a DaemonSet), pin them by digest, and compare `kubectl describe pod` of the last member",
)


@dataclasses.dataclass(frozen=True)
class _Spread:
    """A measured spread.

    Attributes:
        seconds: None: not measured.
        open: it is at least so long: the last member had not come when it could no longer be watched.
        last: the member that came last.
        keys: lines of the first and last member.
    """

    name: str
    seconds: float | None
    open: bool = False
    last: str = ""
    keys: tuple[str, ...] = ()


@subjects.judge
def within(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge GANG-007."""
    named = subjects.cast(evidence, given, "subject")
    gangs = [g for g in (named if named is not None else subjects.placed(evidence)) if g.minimum > 1]
    attempts = [(gang, gen) for gang in gangs for gen in gang.generations if gen.steps]
    if not attempts:
        why = f"no member of {gangs[0].title} was ever bound" if gangs else subjects.nothing(evidence)
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, why, gangs[0] if gangs else None)
    found = [_attempt(evidence, given, gang, gen) for gang, gen in attempts]
    order = [Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS, Verdict.NOT_APPLICABLE]
    return min(
        found, key=lambda f: (order.index(f.verdict), -max(number.value or 0.0 for number in f.numbers))
    )


def _attempt(evidence: Evidence, given: subjects.Given, gang: Gang, gen: Generation) -> Finding:
    measured = [_bind(evidence, gen), _start(evidence, gen)]
    bounds = {spread.name: _bound(given, spread.name) for spread in measured}
    numbers = tuple(
        Number(
            spread.name, spread.seconds, "s", bounds[spread.name], _origin(spread.name, bounds[spread.name])
        )
        for spread in measured
    )
    judged = [
        (_verdict(evidence, gen, spread, bound), spread)
        for spread in measured
        if (bound := bounds[spread.name]) is not None
    ]
    order = [Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS]
    verdict = min((v for v, _ in judged), key=order.index, default=Verdict.NOT_APPLICABLE)
    causes = {"bind spread": SLOW_BINDS, "start spread": SLOW_STARTS}
    blamed = [spread for v, spread in judged if v is Verdict.FAIL]
    return wording.finding(
        verdict,
        REQUIRED,
        f"{gang.title}, {gen.minimum} members needed: {'; '.join(_told(s, bounds[s.name]) for s in measured)}",
        gang,
        violation=verdict is Verdict.FAIL,
        causes=tuple(causes[spread.name] for spread in blamed),
        numbers=numbers,
        evidence=tuple(dict.fromkeys(key for spread in (blamed or measured) for key in spread.keys)),
        currency=subjects.currency(evidence, given, gang),
    )


def _bound(given: subjects.Given, name: str) -> float | None:
    value = given.get(BOUNDS[name])
    return (
        float(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
        else None
    )


def _origin(name: str, bound: float | None) -> str:
    return f"profile {BOUNDS[name]}" if bound is not None else f"no {BOUNDS[name]} declared"


def _told(spread: _Spread, bound: float | None) -> str:
    if spread.seconds is None:
        return f"{spread.name} not measured"
    least = "at least " if spread.open else ""
    last = f", last {spread.last}" if spread.last else ""
    limit = f"bound {bound:.2f} s" if bound is not None else "no bound declared"
    return f"{spread.name} {least}{spread.seconds:.2f} s ({limit}{last})"


def _verdict(evidence: Evidence, gen: Generation, spread: _Spread, bound: float) -> Verdict:
    """Compare, where the clock of the evidence allows it."""
    if spread.seconds is None:
        return Verdict.INCONCLUSIVE
    grain = subjects.OBJECT_CLOCK_GRAIN if evidence.clock == "object" else 0.0
    first = gen.first_bind or gen.start
    if evidence.gaps("Pod", first, first + spread.seconds):
        return Verdict.INCONCLUSIVE
    if spread.seconds - grain > bound:
        return Verdict.FAIL
    return Verdict.INCONCLUSIVE if spread.open or spread.seconds + grain > bound else Verdict.PASS


def _watched_until(evidence: Evidence, gen: Generation) -> float:
    """Return until when a member that has not come yet could have come: until the first one leaves."""
    leaving = [t for pod in gen.members for t in (pod.deleting, pod.deleted, pod.finished) if t is not None]
    return min([evidence.end, gen.end, *leaving])


def _bind(evidence: Evidence, gen: Generation) -> _Spread:
    """Return the time from the first bind to the one that made the gang whole."""
    if gen.whole is None:
        begin, end = gen.steps[0], _watched_until(evidence, gen)
        late = next((pod.where for pod in gen.members if pod.bound is None), "")
        return _Spread("bind spread", max(end - begin.t, 0.0), open=True, last=late, keys=(begin.key,))
    last = next(step for step in gen.steps if step.held >= gen.minimum)
    pod = next((pod.where for pod in gen.members if pod.keys.get("bound") == last.key), "")
    return _Spread("bind spread", gen.spread, last=pod, keys=(gen.steps[0].key, last.key))


def _start(evidence: Evidence, gen: Generation) -> _Spread:
    """Return the time from the first start to that of the last needed member.

    A member that ended before it was seen to run has started at an unknown time.
    """
    first: dict[str, tuple[float, str, str]] = {}
    for pod in gen.members:
        if pod.running is not None and (pod.slot not in first or pod.running < first[pod.slot][0]):
            first[pod.slot] = (pod.running, pod.where, pod.keys["running"])
    starts = sorted(first.values())
    if len(starts) >= gen.minimum:
        (begin, _, one), (end, where, other) = starts[0], starts[gen.minimum - 1]
        return _Spread("start spread", end - begin, last=where, keys=(one, other))
    late = [pod for pod in gen.members if pod.bound is not None and pod.slot not in first]
    if not starts or not late or any(pod.finished is not None or pod.exit_codes for pod in late):
        return _Spread("start spread", None)
    end = _watched_until(evidence, gen)
    if end <= starts[0][0]:
        return _Spread("start spread", None)
    return _Spread("start spread", end - starts[0][0], open=True, last=late[0].where, keys=(starts[0][2],))
