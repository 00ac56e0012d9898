"""HLT-003: the metrics of every GPU are there, and renewed in time."""

import dataclasses
import difflib
import math
from collections.abc import Iterator, Mapping, Sequence

from pytest_gpucluster.evidence.hardware import gpu_metrics
from pytest_gpucluster.evidence.hardware.gpu_metrics import Asked, Page
from pytest_gpucluster.evidence.log import api_answers, fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects import labelled_gpus, node_status
from pytest_gpucluster.evidence.objects.node_status import Machine
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.health.problems import Problem, decided
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = "the exporter of each GPU node has the declared metrics of every GPU, and renews them in time"
LOOKS = 10
"""Pages that the pod asks for in the time within which values must be renewed."""
NEAR = 0.6
"""Likeness from which on another name is shown for one that is missing."""

NOT_THERE = Cause(
    "no exporter runs on the node, or it answers at another port or path",
    "look at the pods of its DaemonSet (kubectl get pods -A -o wide | grep -i exporter) and at the profile's "
    "`metrics.service`, `metrics.port` and `metrics.path`",
)
HUNG = Cause(
    "the exporter waits for a host engine or a driver that does not answer",
    "look at the exporter's log and at nvidia-smi on the node; a GPU that is lost keeps both waiting",
)
SHUT_OFF = Cause(
    "a network policy or a firewall keeps pods of this namespace from the exporter, or the node is down",
    "allow the namespace of the runs to reach the exporter's port, or run it where Prometheus runs (overlay)",
)
LOST = Cause(
    "the exporter does not see the GPU: it is lost, or was added or reset after the exporter started",
    "compare nvidia-smi -L on the node with the page; restart the exporter, and drain the node if the GPU is lost",
)
NOT_CONFIGURED = Cause(
    "the exporter is not configured to collect the metric, or its release gives it another name",
    "add it to the exporter's list of metrics (a file in a ConfigMap), or name the metrics that your dashboards use "
    "under `metrics.required` in the profile",
)
CREDENTIALS = Cause(
    "something before the exporter asks for credentials or TLS, which the pod of the run does not have, such as "
    "kube-rbac-proxy",
    "ask the exporter as your Prometheus does and compare; name a port under `metrics.port` that answers without",
)
ASKING = ("HTTP 400", "HTTP 401", "HTTP 403", "HTTP 407", "HTTP 426", "HTTP 495", "HTTP 496", "HTTP 497")
"""Answers by which a server asks for credentials or TLS: they say nothing of the metrics behind it."""
GARBLED = Cause(
    "the exporter writes lines that are not of the format, such as a label with a quote in it, or its page was cut",
    "look at the page with curl, and at the log of the exporter and of what stands before it (a proxy); Prometheus "
    "takes no value of such a page",
)
NO_VALUE = Cause(
    "the exporter has the metric and its driver or host engine gives it no value: the GPU does not support it, or does "
    "not answer",
    "compare nvidia-smi -q on the node with the page",
)
JUST_STARTED = Cause(
    "the exporter has just started and has not collected yet, or sees no GPU at all",
    "look at its log, and at nvidia-smi -L on the node; repeat when it has collected",
)
TWICE = Cause(
    "two exporters write one page, or the exporter hands on values of an earlier start",
    "look at the page with curl; Prometheus takes one of the two values and drops the other",
)
STALLED = Cause(
    "the exporter collects less often than declared, or not at all any more",
    "look at its collection interval and its log, restart it, or set `metrics.fresh` in the profile to the interval "
    "that you want",
)
ANOTHER = Cause(
    "the address leads to the exporter of another node: a Service spreads requests over all of them",
    "name the Service under `metrics.service`, so that each exporter is asked at its own endpoint",
)
CLOCK = Cause(
    "the exporter hands on old samples with their times, or the clocks of two nodes differ",
    "switch the times of samples off in the exporter; compare the clocks of the nodes (chronyc tracking)",
)
RESET = Cause(
    "the counter began anew: the driver was loaded again, or the GPU was reset",
    "run this row again when nobody works on the node",
)
UNCOUNTED = Cause(
    "no label says how many GPUs the node has, and it may offer shares or slices of them",
    "run feature discovery for GPUs, whose labels count them",
)


_Series = tuple[str, str, str]
"""Metric, GPU, part of the GPU."""


@subjects.judge
def present_and_fresh(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge HLT-003."""
    told = fields.sub(given, "metrics")
    resource = str(given.get("gpu_resource") or "nvidia.com/gpu")
    required = told.get("required")
    wanted = gpu_metrics.asked(resource, tuple(map(str, required)) if isinstance(required, list) else ())
    fresh = subjects.seconds(told, "fresh")
    if wanted is None or fresh is None:
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, "what is asked of the exporters was not told")
    pages = gpu_metrics.pages(evidence, wanted, given)
    of = wording.Findings(REQUIRED, repeat=_repeat(pages))
    nodes = node_status.gpu_nodes(evidence, resource)
    if not nodes:
        return of.inconclusive("no GPU node was seen")
    faults = {
        m.name: tuple(_faults(evidence, m, pages, _Terms(wanted, fresh, resource, given))) for m in nodes
    }
    faults = _of_two_nodes(pages, faults)
    bad = sum(any(not one.open for one in each) for each in faults.values())
    found = decided(of, faults, _numbers(pages, bad, nodes))
    if found is not None:
        return found
    gpus = sum(len(pages[m.name][-1].gpus) for m in nodes)
    return of.passed(
        f"{wanted.exporter} on {wording.count(len(nodes), 'node')} has {wording.listed(list(wanted.groups), 6)} of "
        f"{wording.count(gpus, 'GPU')}, and renewed them while it was watched{_renamed(pages, wanted)}",
        where=wording.shown([f"Node/{m.name}" for m in nodes]),
        evidence=tuple(page.key for m in nodes for page in pages[m.name])[: wording.MANY],
        numbers=_numbers(pages, 0, nodes),
    )


@dataclasses.dataclass(frozen=True)
class _Terms:
    """What a node is judged by."""

    wanted: Asked
    fresh: float
    resource: str
    given: subjects.Given


def _faults(
    evidence: Evidence, machine: Machine, pages: Mapping[str, tuple[Page, ...]], terms: _Terms
) -> Iterator[Problem]:
    """Yield what is wrong with the metrics of one node."""
    found = pages.get(machine.name, ())
    if machine.name not in gpu_metrics.targets(terms.given):
        yield _without_address(evidence, terms.given)
        return
    if len(found) != 2:
        yield Problem("its exporter's pages were not told", (), open=True)
        return
    first, last = found
    none = _no_page(first, machine) or _no_page(last, machine)
    if none is not None:
        yield none
        return
    others = {m.name for m in node_status.machines(evidence)} - {machine.name}
    for page in found:
        strangers = _strangers(page, machine.name, others)
        if strangers:
            text = f"the page that stands for it is of {wording.listed(strangers, 2)}"
            yield Problem(text, (ANOTHER,), open=True, key=page.key)
            return
        if page.contradictory:
            text = f"the page has two values of the same {wording.listed(list(page.contradictory), 2)}"
            yield Problem(text, (TWICE,), open=True, key=page.key)
            return
    yield from _absent(machine, last, terms)
    yield from _stale(first, last, terms)
    yield from _wrong_times(last, terms)


def _strangers(page: Page, own: str, others: set[str]) -> list[str]:
    """Return the other nodes that a page names, by their names or by these with or without a domain."""
    short = {name.partition(".")[0]: name for name in others}
    found = set()
    for name in {s.node for s in page.samples if s.node and s.node != own}:
        first = name.partition(".")[0]
        if name in others:
            found.add(name)
        elif first in short and first != own.partition(".")[0] and not first.isdigit():
            found.add(short[first])
    return sorted(found)


def _without_address(evidence: Evidence, given: subjects.Given) -> Problem:
    service = fields.sub(given, "metrics").get("service")
    answers = api_answers.read(evidence, gpu_metrics.ENDPOINTS)
    if service and answers and answers[-1].ok:
        return Problem(f"the Service {service} has no exporter there", (NOT_THERE,), open=False)
    if service:
        told = answers[-1].message if answers else "they were not read"
        return Problem(
            f"the endpoints of the Service {service} are not known: {wording.short(told)}", (), open=True
        )
    return Problem("no address of it is known", (), open=True)


def _no_page(page: Page, machine: Machine) -> Problem | None:
    """Return why an exporter's page says nothing."""
    if page.problem and not page.failure:
        foreign = page.problem.startswith("it is not in")
        return Problem(f"of the page {page.url} {page.problem}" if not foreign else
                     f"the page {page.url} cannot be read: {page.problem}",
                     (GARBLED,) if foreign else (), open=not foreign, key=page.key)  # fmt: skip
    if not page.failure:
        return None
    text = f"{page.url} gives no page: {page.why or page.failure}"
    if page.failure == "unreachable" or machine.ready is False:
        return Problem(text, (SHUT_OFF, NOT_THERE), open=True, key=page.key)
    if page.failure == "status" and page.why in ASKING:
        return Problem(text, (CREDENTIALS,), open=True, key=page.key)
    known = {
        "refused": (NOT_THERE,),
        "hangs": (HUNG,),
        "status": (NOT_THERE, HUNG),
        "broken": (HUNG, NOT_THERE),
    }
    return Problem(text, known.get(page.failure, ()), open=page.failure not in known, key=page.key)


def _absent(machine: Machine, page: Page, terms: _Terms) -> Iterator[Problem]:
    """Yield GPUs that the page does not have, and metrics that it does not have of a GPU."""
    if not page.samples and not page.others:
        own = all(name.startswith(terms.wanted.prefixes or " ") for name in terms.wanted.names)
        causes = (NOT_THERE, JUST_STARTED, *(() if own else (NOT_CONFIGURED,)))
        expected = labelled_gpus.expected(machine, terms.resource)
        of = "" if expected is None else f": it has 0 of {wording.count(expected, 'GPU')}"
        yield Problem(
            f"the page has no metric of {terms.wanted.exporter}{of}", causes, open=False, key=page.key
        )
        return
    yield from _count(machine, page, terms.resource)
    for what, names in terms.wanted.groups.items():
        having = {s.gpu for s in page.samples if s.name in names and not math.isnan(s.value)}
        lacking = [gpu for gpu in page.gpus if gpu not in having]
        if not page.gpus and not having:
            yield Problem(f"the page has no {_named(what, names)}{_near(names, page.others)}", (NOT_CONFIGURED,),
                        open=False, key=page.key)  # fmt: skip
        elif lacking:
            all_ = "any GPU" if len(lacking) == len(page.gpus) else wording.listed(lacking, 2)
            near = _near(names, page.others) if len(lacking) == len(page.gpus) else ""
            text = f"the page has no {_named(what, names)} of {all_}{near}"
            empty = all(any(s.gpu == gpu and s.name in names for s in page.samples) for gpu in lacking)
            text += "; what stands there is no value" if empty else ""
            missing = NOT_CONFIGURED if near or all_ == "any GPU" else LOST
            yield Problem(text, (NO_VALUE if empty else missing,), open=False, key=page.key)


def _named(what: str, names: Sequence[str]) -> str:
    return names[0] if what == names[0] else f"{what} ({' or '.join(names[:2])})"


def _near(names: Sequence[str], others: Sequence[str]) -> str:
    near = [one for name in names for one in difflib.get_close_matches(name, others, n=1, cutoff=NEAR)]
    return f"; it has {near[0]}" if near else ""


def _count(machine: Machine, page: Page, resource: str) -> Iterator[Problem]:
    """Yield how many GPUs a page has too few, or that this cannot be told."""
    said = labelled_gpus.discovered(machine)
    offered = max(machine.offers(resource))
    found, what = len(page.gpus), "GPU"
    if said.cut and said.count is not None and page.instances:
        expected: int | None = said.count
        found, what = len(page.instances), "slice"
    else:
        expected = labelled_gpus.expected(machine, resource)
    if expected is None and said.whole is None and not said.cut and found == offered:
        expected = offered
    if expected is None:
        counted = "how many it has nobody says" if said.whole is None else f"its labels count {said.whole}"
        text = f"the page has {wording.count(found, what)}; the node offers {offered}, and {counted}"
        yield Problem(text, (UNCOUNTED, LOST), open=True, key=page.key)
    elif found < expected:
        text = f"the page has {found} of {wording.count(expected, what)}"
        yield Problem(text, (LOST,), open=False, key=page.key)
    elif found > expected:
        text = f"the page has {wording.count(found, what)}, and the node has {expected}"
        yield Problem(text, (ANOTHER, UNCOUNTED), open=True, key=page.key)


def _stale(first: Page, last: Page, terms: _Terms) -> Iterator[Problem]:
    """Yield what was not renewed: by counters that a GPU never keeps still, else by any value that differs."""
    before, now = _values(first), _values(last)
    counters = [key for key in before if key[0] in terms.wanted.rising and key in now]
    watched = last.elapsed - first.elapsed
    # A page is asked for when the one before has come: the last look may begin so long after the time is over.
    latest = terms.fresh + min(gpu_metrics.PATIENCE, terms.fresh) + terms.fresh / LOOKS
    fallen = [key for key in counters if now[key] < before[key]]
    still = [key for key in counters if now[key] == before[key]]
    late = watched > latest and not still
    if watched < 0 or late or (not watched and before != now):
        text = f"its pages are {watched:.3g} s apart, which says nothing of the {terms.fresh:g} s that are allowed"
        yield Problem(text, (), open=True, key=last.key)
        return
    if fallen:
        name, gpu, _ = fallen[0]
        text = f"{name} of {gpu} fell from {before[fallen[0]]:g} to {now[fallen[0]]:g}"
        yield Problem(text, (RESET,), open=True, key=last.key)
    if still:
        gpus = wording.listed(sorted({gpu for _, gpu, _ in still}), 2)
        text = f"{still[0][0]} of {gpus} stood still for {watched:.3g} s, {terms.fresh:g} s are allowed"
        yield Problem(text, (STALLED,), open=watched < terms.fresh, key=last.key)
    known = {gpu for _, gpu, _ in counters} | {gpu for gpu in last.gpus if _differs(before, gpu, now)}
    unknown = [gpu for gpu in last.gpus if gpu not in known]
    if unknown:
        text = (
            f"whether {wording.listed(unknown, 2)} is renewed cannot be told: it has no counter that must rise, and no "
            f"value changed in {watched:.3g} s"
        )
        yield Problem(text, (STALLED,), open=True, key=last.key)


def _differs(before: Mapping[_Series, float], gpu: str, now: Mapping[_Series, float]) -> bool:
    return any(key in before and before[key] != value for key, value in now.items() if key[1] == gpu)


def _values(page: Page) -> dict[_Series, float]:
    """Return the values of a page that are there."""
    return {(s.name, s.gpu, s.instance): s.value for s in page.samples if not math.isnan(s.value)}


def _wrong_times(page: Page, terms: _Terms) -> Iterator[Problem]:
    """Yield that the times behind samples, if there are any, are not those at which the page was asked for."""
    away = [(s.time - page.asked, s) for s in page.samples if s.time is not None]
    odd = [(by, s) for by, s in away if not abs(by) <= terms.fresh]
    if odd:
        by, sample = max(odd, key=lambda one: abs(one[0]))
        side = "after" if by > 0 else "before"
        text = (
            f"{sample.name} carries a time {abs(by):.3g} s {side} the request, {terms.fresh:g} s are allowed"
        )
        yield Problem(text, (CLOCK,), open=True, key=page.key)


def _of_two_nodes(
    pages: Mapping[str, tuple[Page, ...]], faults: Mapping[str, tuple[Problem, ...]]
) -> dict[str, tuple[Problem, ...]]:
    """Return the faults, with GPUs that the pages of two nodes have."""
    owners: dict[str, list[str]] = {}
    for node, each in pages.items():
        for gpu in each[-1].identities if each and node in faults else ():
            owners.setdefault(gpu, []).append(node)
    found = dict(faults)
    for gpu, nodes in owners.items():
        if len(nodes) > 1 and not any(one.open for one in found[nodes[-1]]):
            text = f"its page has {gpu}, which the page of {nodes[0]} has too"
            found[nodes[-1]] = (*found[nodes[-1]], Problem(text, (ANOTHER,), open=True))
    return found


def _renamed(pages: Mapping[str, tuple[Page, ...]], wanted: Asked) -> str:
    """Return which metrics go by another name than the first one, for whoever has dashboards of the old name."""
    seen: set[str] = {s.name for each in pages.values() for page in each for s in page.samples}
    new = [f"{names[0]} is {name}" for names in wanted.groups.values() for name in names[1:]
           if name in seen and names[0] not in seen]  # fmt: skip
    return f"; renamed: {wording.listed(new, 4)}" if new else ""


def _numbers(pages: Mapping[str, tuple[Page, ...]], bad: int, nodes: Sequence[Machine]) -> tuple[Number, ...]:
    waited = [each[-1].elapsed for m in nodes if len(each := pages.get(m.name, ())) == 2]
    return (
        Number("nodes whose metrics are not whole and fresh", bad, "nodes", 0, "required"),
        *([Number("longest time until a page was renewed", max(waited), "s")] if waited else []),
    )


def _repeat(pages: Mapping[str, tuple[Page, ...]]) -> tuple[str, ...]:
    url = next((page.url for each in pages.values() for page in each if page.url), "")
    return (f"curl -s {url} | grep -v '^#'",) if url else ()
