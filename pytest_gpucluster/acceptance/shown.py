"""What several runs show of one row together: the latest decided verdict, per node where rows speak of machines."""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from pytest_gpucluster.acceptance.runs import Attempt, Run
from pytest_gpucluster.evidence.objects import clusters
from pytest_gpucluster.plain import plurals
from pytest_gpucluster.report import identity
from pytest_gpucluster.requirement import AREAS

EVERY_NODE = (
    "INV-002",
    "INV-003",
    "INV-004",
    "INV-008",
    "NUMA-001",
    "NUMA-006",
    "FAB-012",
    "MFU-001",
    "HLT-001",
    "HLT-002",
    "HLT-003",
)
"""Rows that speak of every GPU node: tried on some nodes, they say nothing of the others."""

AHEAD = timedelta(minutes=5)
"""How far the clock of a run may be ahead of the gate's."""

STANDING = 2
"""Machines of a pass that must still be as they were: what was shown between machines needs two of them."""


@dataclasses.dataclass(frozen=True)
class OnNode:
    """What is known of one row on one node.

    Attributes:
        state: `pass`, `fail`, `undecided`, `not applicable`, `old`, `replaced` or `not tested`.
        why: in a few words, "" for a pass or a fail that needs none.
        run: id of the run that tells, "" without one.
        at: when its evidence was frozen.
    """

    state: str
    why: str = ""
    run: str = ""
    at: datetime | None = None


@dataclasses.dataclass(frozen=True)
class Shown:
    """What the runs show of one row.

    Attributes:
        row: its id.
        state: `pass`, `fail`, `undecided`, `old`, `not applicable`, `not run` or `incomplete` (a row of every node
            that missed one, or one that passed on machines that are there no longer).
        why: in one line, "" for a pass.
        run: id of the deciding run, "" without one.
        at: when the deciding evidence was frozen.
        nodes: node -> what is known of the row there; empty for a row that does not speak of machines.
        conflict: runs that decided otherwise, with their nodes, in one line; "" if none did.
        fix: what the judge proposes.
    """

    row: str
    state: str
    why: str = ""
    run: str = ""
    at: datetime | None = None
    nodes: Mapping[str, OnNode] = dataclasses.field(default_factory=dict)
    conflict: str = ""
    fix: str = ""


class Together:
    """The usable runs of one cluster, to be asked row by row."""

    def __init__(self, runs: Iterable[Run], now: clusters.Cluster, at: datetime, age: timedelta) -> None:
        """Take the runs.

        Args:
            runs: runs of this cluster that may be believed.
            now: the cluster as it is, or as the newest run shows it.
            at: the time of the decision.
            age: how old evidence may be.
        """
        self._runs = tuple(runs)
        self._now = now
        self._at = at
        self._age = age

    def row(self, row_id: str) -> Shown:
        """Return what the runs show of a row."""
        tried = sorted(
            ((run.attempts[row_id], run) for run in self._runs if row_id in run.attempts),
            key=lambda pair: _order(pair[0]),
        )
        if not tried:
            return Shown(row_id, "not run", "no run tried it")
        attempts = [attempt for attempt, _ in tried]
        last = next((each for each in reversed(attempts) if each.decided), attempts[-1])
        later = attempts[attempts.index(last) + 1 :]
        nodes = self._nodes(row_id, tried)
        state, why, run = self._state(row_id, last, nodes)
        if state == "pass" and later:
            why = (
                f"later tried and not decided in {later[-1].run} ({later[-1].verdict}: {later[-1].observed})"
            )
        return Shown(row_id, state, why, run, last.at, nodes, _conflict(attempts, last), last.fix)

    def _state(self, row_id: str, last: Attempt, nodes: Mapping[str, OnNode]) -> tuple[str, str, str]:
        red = {name: on for name, on in nodes.items() if on.state == "fail"}
        if last.verdict == "fail":
            return "fail", last.observed, last.run
        if red:
            name, on = next(iter(red.items()))
            return (
                "fail",
                f"failed on {', '.join(red)} in {on.run}, and no later run passed on {name}",
                on.run,
            )
        if last.verdict == "not_applicable":
            return "not applicable", last.observed, last.run
        if last.verdict != "pass":
            return "undecided", f"{last.verdict}: {last.observed}", last.run
        stale = self.stale(last)
        if stale:
            return "old", stale, last.run
        missed = {name: on for name, on in nodes.items() if on.state != "pass"}
        if row_id in EVERY_NODE and missed:
            text = "; ".join(
                f"{name}: {on.state}{f' ({on.why})' if on.why else ''}" for name, on in missed.items()
            )
            return "incomplete", f"{len(nodes) - len(missed)} of {len(nodes)} GPU nodes: {text}", last.run
        # What speaks of each node by itself holds for those that are left.
        needed = min(1 if row_id in EVERY_NODE else STANDING, len(last.nodes))
        lost = self._lost(last, nodes, needed) if _of_machines(row_id) else ""
        return ("incomplete", lost, last.run) if lost else ("pass", "", last.run)

    @staticmethod
    def _lost(last: Attempt, nodes: Mapping[str, OnNode], needed: int) -> str:
        """Return which machines of a pass are there no longer if too few are left of it, "" if enough are.

        A new driver on every node, or other nodes altogether, leave nothing of what was shown.
        """
        gone = OnNode("not in the cluster")
        lost = {name: on for name in sorted(last.nodes) if (on := nodes.get(name, gone)).state != "pass"}
        if len(last.nodes) - len(lost) >= needed:
            return ""
        text = "; ".join(f"{name}: {on.state}{f' ({on.why})' if on.why else ''}" for name, on in lost.items())
        return f"it passed on {plurals.count(len(last.nodes), 'node')}, and of these: {text}"

    def stale(self, attempt: Attempt) -> str:
        """Return why the evidence of an attempt is too old, "" if it is not."""
        if attempt.at is None:
            return "its evidence does not say when it was taken"
        if attempt.at > self._at + AHEAD:
            return f"its evidence is of the future ({attempt.at:%Y-%m-%d %H:%M} UTC): the clocks differ"
        age = self._at - attempt.at
        return f"{spoken(age)} old, at most {spoken(self._age)} is accepted" if age > self._age else ""

    def _nodes(self, row_id: str, tried: Sequence[tuple[Attempt, Run]]) -> dict[str, OnNode]:
        if not _of_machines(row_id):
            return {}
        every = row_id in EVERY_NODE
        found = {name: self._on(node, tried) for name, node in sorted(self._now.nodes.items())}
        return found if every else {name: on for name, on in found.items() if on.state != "not tested"}

    def _on(self, node: clusters.Node, tried: Sequence[tuple[Attempt, Run]]) -> OnNode:
        """Return what the newest attempt that tells of a node says of it."""
        changed = ""
        undecided: OnNode | None = None
        for attempt, run in reversed(tried):
            if node.name not in attempt.nodes:
                continue
            before = run.cluster.nodes[node.name]
            change = node.changes(before)
            # A failure is of the machine: it is not over because its Node was made again, or has another kubelet.
            if change and not (node.name in attempt.red and node.same_machine(before)):
                changed = changed or f"{change} changed since {attempt.run}"
                continue
            on = self._decided(node.name, attempt)
            other = node.offers_otherwise(before)
            if on is not None and on.state == "pass" and other:
                return OnNode("replaced", f"{other} changed since {attempt.run}")
            if on is not None:
                return on
            undecided = undecided or _open(attempt)
        if undecided is not None:
            return undecided
        return OnNode("replaced", changed) if changed else OnNode("not tested", node.state)

    def _decided(self, name: str, attempt: Attempt) -> OnNode | None:
        if name in attempt.red:
            return OnNode("fail", attempt.observed, attempt.run, attempt.at)
        if attempt.verdict != "pass":
            return None  # the row failed for another node: of this one it says nothing
        stale = self.stale(attempt)
        return (
            OnNode("old", stale, attempt.run, attempt.at)
            if stale
            else OnNode("pass", "", attempt.run, attempt.at)
        )


def _of_machines(row_id: str) -> bool:
    return AREAS.get(row_id.partition("-")[0], ("", ""))[0] in identity.OF_MACHINES


def _open(attempt: Attempt) -> OnNode:
    if attempt.verdict == "not_applicable":
        return OnNode("not applicable", attempt.observed, attempt.run, attempt.at)
    why = f"failed on {', '.join(sorted(attempt.red))}" if attempt.verdict == "fail" else attempt.verdict
    return OnNode("undecided", why, attempt.run, attempt.at)


def _order(attempt: Attempt) -> tuple[float, bool, str]:
    """Order attempts by time; a failure whose time nobody knows may be the newest, and of two at once it counts."""
    fails = attempt.verdict == "fail"
    unknown = math.inf if fails else 0.0
    return (attempt.at.timestamp() if attempt.at is not None else unknown, fails, attempt.run)


def _conflict(attempts: Sequence[Attempt], last: Attempt) -> str:
    others = [each for each in attempts if each.decided and each.verdict != last.verdict]
    if not last.decided or not others:
        return ""
    told = [f"{each.run} says {each.verdict}{_on_nodes(each)}" for each in others]
    return f"{last.run} says {last.verdict}{_on_nodes(last)}, but {' and '.join(told)}"


def _on_nodes(attempt: Attempt) -> str:
    named = sorted(attempt.red or attempt.nodes)
    return f" on {', '.join(named)}" if named else ""


def spoken(time: timedelta) -> str:
    """Return a time in the two largest units that it has, such as `3 d 4 h`."""
    minutes = round(time.total_seconds() / 60)
    days, rest = divmod(minutes, 1440)
    hours, minutes = divmod(rest, 60)
    if days:
        return f"{days} d {hours} h" if hours else f"{days} d"
    if hours:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{minutes} min"
