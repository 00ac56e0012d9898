"""The decision of a gate: what closes it, what each purpose comes to, and what was not shown."""

import contextlib
import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from typing import Any

from pytest_gpucluster.acceptance import held
from pytest_gpucluster.acceptance.policy import ACCEPTED, ALL, Asked, Policy, asked
from pytest_gpucluster.acceptance.purposes import PURPOSES
from pytest_gpucluster.acceptance.runs import Run
from pytest_gpucluster.acceptance.shown import EVERY_NODE, Shown, Together
from pytest_gpucluster.evidence.objects import clusters
from pytest_gpucluster.plain import plurals, times
from pytest_gpucluster.report import identity
from pytest_gpucluster.report.scope import SECTIONS
from pytest_gpucluster.requirement import AREAS, Registry, Requirement, catalogue, is_site

NOT_COMPARED = (
    "name", "connection", "waivers", "claims", "kind", "host", "addons", "lease_namespace", "namespace", held.KEY,
)  # fmt: skip
"""Keys of a profile that change nothing in what is judged."""

_FIXES = {
    "undecided": "run it again; its cause is in the run's report",
    "old": "run it again",
    "not run": "run it: pytest --cluster={cluster} -k {row}",
    "incomplete": "run it on the nodes named, or remove them from the cluster",
    "not applicable": "declare what it needs in the profile, or list it under not_applicable with a reason",
}


@dataclasses.dataclass(frozen=True)
class Closer:
    """One thing that closes the gate.

    Attributes:
        what: id of a row, or the name of a run, or `cluster`.
        why: in one line.
        fix: what to do, in one line.
        stage: the stage of the row, "" for what is no row.
        ambiguous: the earlier stages that are red, so that this may be their consequence; "" for none.
    """

    what: str
    why: str
    fix: str
    stage: str = ""
    ambiguous: str = ""


@dataclasses.dataclass(frozen=True)
class Decision:
    """Whether the gate is open, and for what.

    Attributes:
        policy: by which it was decided.
        profile: name of the profile for which it was decided.
        at: when.
        closers: what closes it, in the order of stages; none for an open gate.
        purposes: purpose -> `yes`, `no`, `undecided` or `not declared`.
        rows: what was shown of each row that the policy asks for.
        excused: row -> why it closes nothing though it did not pass.
        pending: row -> why only a promotion can show it: the queue is held. It closes nothing, and is no pass.
        unbuilt: rows of the areas asked for that have no test.
        runs: id of each run -> its digest.
        ignored: id of each run that says nothing about this cluster as it is declared -> why.
        compared: with what the identity of the runs was compared: `the cluster`, or the newest run.
        until: when the first evidence becomes too old, or a waiver on which it rests ends; None for a closed gate.
        cluster: the cluster of the decision.
    """

    policy: Policy
    profile: str
    at: datetime
    closers: tuple[Closer, ...]
    purposes: Mapping[str, str]
    rows: Mapping[str, Shown]
    excused: Mapping[str, str]
    pending: Mapping[str, str]
    unbuilt: tuple[str, ...]
    runs: Mapping[str, str]
    ignored: Mapping[str, str]
    compared: str
    until: datetime | None
    cluster: clusters.Cluster

    @property
    def open(self) -> bool:
        """Report whether the gate is open."""
        return not self.closers

    def as_dict(self) -> dict[str, Any]:
        """Return the decision as plain data."""
        return {
            "open": self.open,
            "policy": self.policy.as_dict(),
            "profile": self.profile,
            "at": times.format_time(self.at),
            "until": times.format_time(self.until) if self.until else None,
            "compared_with": self.compared,
            "cluster_uid": self.cluster.uid,
            "runs": dict(self.runs),
            "runs_ignored": dict(self.ignored),
            "purposes": dict(self.purposes),
            "closers": [dataclasses.asdict(each) for each in self.closers],
            "rows": [_plain(shown) for shown in self.rows.values()],
            "excused": dict(self.excused),
            "pending": dict(self.pending),
            "without_test": list(self.unbuilt),
        }


def _plain(shown: Shown) -> dict[str, Any]:
    found = dataclasses.asdict(shown)
    for each in (found, *found["nodes"].values()):
        each["at"] = times.format_time(each["at"]) if each["at"] else None
    return found


def decide(
    runs: Sequence[Run],
    policy: Policy,
    profile: Any,
    at: datetime,
    *,
    registry: Registry,
    now: clusters.Cluster | None = None,
) -> Decision:
    """Decide whether runs open the gate of a policy for a cluster.

    Args:
        runs: recorded runs that were judged again.
        policy: what must be shown.
        profile: the profile for which it is asked (`profile.Profile`).
        at: the time of the decision.
        registry: the rows that have a test.
        now: the cluster as it is; None if it was not asked: the newest run stands in for it.
    """
    own = [
        run for run in runs if run.profile.get("name") == profile.name and not run.planted and not run.reused
    ]
    newest = max(own or runs, key=lambda run: run.ended)
    gate = _Gate(tuple(runs), policy, profile, at, registry, now or newest.cluster)
    return gate.decision("the cluster as it is" if now is not None else f"the newest run, {newest.id}")


@dataclasses.dataclass(frozen=True)
class _Gate:
    runs: tuple[Run, ...]
    policy: Policy
    profile: Any
    at: datetime
    registry: Registry
    now: clusters.Cluster

    @functools.cached_property
    def values(self) -> Mapping[str, Any]:
        """Return the profile as a record has it."""
        found: Mapping[str, Any] = self.profile.model_dump(mode="json")
        return found

    @functools.cached_property
    def ignored(self) -> Mapping[str, str]:
        """Return the runs that say nothing about this cluster as it is declared, each with the reason."""
        return {run.id: why for run in self.runs if (why := self._refuses(run))}

    @functools.cached_property
    def together(self) -> Together:
        """Return the runs that count; of one that cannot be trusted only what failed does."""
        usable = [held.in_queue(self.profile, run) for run in self.runs if run.id not in self.ignored]
        return Together(
            [run.only_failures() if run.distrust else run for run in usable],
            self.now,
            self.at,
            self.policy.age,
        )

    @functools.cached_property
    def waivers(self) -> Mapping[str, Any]:
        """Return the waivers that are in force, by row."""
        return {each.id: each for each in self.profile.waivers if each.expires >= self.at.date()}

    @functools.cached_property
    def _declared(self) -> Mapping[str, Requirement]:
        return {row.id: row for row in self.registry}

    def _has_test(self, row_id: str) -> bool:
        return row_id in self._declared

    def decision(self, compared: str) -> Decision:
        declared = [area for area in SECTIONS if self.values.get(area) is not None]
        site_rows = sorted({row for run in self.runs for row in run.built if is_site(row)})
        rows = asked(self.policy, declared=declared, site_rows=site_rows)
        shown = {each.id: self._shown(each.id) for each in rows}
        counted = [run for run in self.runs if run.id not in self.ignored]
        # What is too old closes the gate, whatever a promotion would show.
        fresh = [each.id for each in rows if shown[each.id].state != "old"]
        pending = held.pending(self.profile, fresh, counted)
        excused, unbuilt, red = self._sorted(rows, shown, pending)
        doubted = {run.id: run.distrust[0] for run in self.runs if run.distrust}
        if len(self.ignored) == len(self.runs):
            doubted |= self.ignored
        closers = [
            Closer(name, why, "leave this run out, or make a new one") for name, why in doubted.items()
        ]
        wants_site = any("site" in (*stage.areas, *stage.if_declared) for stage in self.policy.stages)
        if wants_site and not site_rows:
            closers.append(
                Closer("site", "the policy asks for the site's own rows, and no run has one", "run them, too")
            )
        closers += self._closers(red, shown)
        if not any(each.state == "pass" for each in shown.values()) and not closers:
            closers.append(
                Closer("policy", "no row that it asks for passed", "ask for what the profile declares")
            )
        for name, node in sorted(self.now.nodes.items()):
            if self.policy.nodes == ALL and node.state and self._of_nodes(rows):
                closers.append(
                    Closer(name, f"the node is {node.state}", "bring it back or remove it, then run again")
                )
        return Decision(
            policy=self.policy,
            profile=self.profile.name,
            at=self.at,
            closers=tuple(closers),
            purposes=self._purposes(rows, shown, excused, pending, unbuilt),
            rows={row: each for row, each in shown.items() if row not in unbuilt},
            excused=excused,
            pending=pending,
            unbuilt=tuple(unbuilt),
            runs={run.id: run.digest for run in self.runs},
            ignored=self.ignored,
            compared=compared,
            until=None if closers else min(self._ends(shown, excused), default=None),
            cluster=self.now,
        )

    def _shown(self, row_id: str) -> Shown:
        found = self.together.row(row_id)
        tried = [run.id for run in self.runs if run.id in self.ignored and row_id in run.attempts]
        if found.state != "not run" or not tried:
            return found
        return dataclasses.replace(found, why=f"{', '.join(tried)} tried it and is not counted")

    def _ends(self, shown: Mapping[str, Shown], excused: Mapping[str, str]) -> Iterator[datetime]:
        """Yield when each thing ends on which an open gate rests: evidence gets too old, a waiver its last day."""
        for row_id, each in shown.items():
            if each.state == "fail" and row_id in excused:
                # Past the last year that there is, a waiver does not end.
                with contextlib.suppress(OverflowError):
                    after = self.waivers[row_id].expires + timedelta(days=1)
                    yield datetime.combine(after, time(), tzinfo=UTC)
            taken = [each.at] if each.state in {"pass", "incomplete"} else []
            if each.row in EVERY_NODE and self.policy.nodes == ALL:
                taken += [on.at for on in each.nodes.values() if on.state == "pass"]
            yield from (at + self.policy.age for at in taken if at is not None)

    @staticmethod
    def _of_nodes(rows: Iterable[Asked]) -> bool:
        return any(_area(each.id) in identity.OF_MACHINES for each in rows)

    def _refuses(self, run: Run) -> str:
        """Return why a run says nothing about this cluster as it is declared, "" if it does."""
        name = str(run.profile.get("name") or "")
        if name != self.profile.name:
            return f"it was made for the profile {name!r}, not for {self.profile.name!r}"
        if run.planted:
            return f"defects were planted: {', '.join(run.planted)}"
        if run.reused:
            # Its profile is that of the judging: the evidence may be of another one, and of another cluster.
            return f"it only judged the evidence of another run; name that one: {run.reused}"
        other = clusters.another(run.cluster, self.now)
        if other:
            return f"it is of another cluster: {other}"
        changed = _changed(self.values, run.profile)
        if changed:
            return f"the profile says otherwise since: {', '.join(changed)}"
        outdated = clusters.outdated(run.cluster, self.now)
        return f"it was made under another version: {outdated}" if outdated else ""

    def _sorted(
        self, rows: Iterable[Asked], shown: Mapping[str, Shown], pending: Mapping[str, str]
    ) -> tuple[dict[str, str], list[str], list[Asked]]:
        """Return what is excused and why, what has no test, and what is left to close the gate."""
        excused: dict[str, str] = {}
        unbuilt: list[str] = []
        red: list[Asked] = []
        for each in rows:
            found = shown[each.id]
            if not self._has_test(each.id) and found.state == "not run":
                unbuilt.append(each.id)
                if each.named:
                    red.append(each)
                continue
            if found.state == "pass" or each.id in pending:
                continue
            excuse = self._excuse(each.id, found)
            if excuse:
                excused[each.id] = excuse
            else:
                red.append(each)
        return excused, unbuilt, red

    def _excuse(self, row_id: str, found: Shown) -> str:
        shows = any(on.state == "pass" for on in found.nodes.values())
        if found.state == "incomplete" and self.policy.nodes != ALL and shows:
            return f"the policy asks for one node: {found.why}"
        if found.state == "not applicable":
            reason = self.policy.not_applicable.get(row_id) or self.policy.not_applicable.get(_area(row_id))
            if reason:
                return f"does not apply: {reason}"
            declared = self._declared.get(row_id)
            if (
                declared is not None
                and declared.schedulers
                and self.profile.scheduler not in declared.schedulers
            ):
                return f"does not apply: {found.why}"
            return ""
        waiver = self.waivers.get(row_id)
        if found.state == "fail" and waiver is not None and self.policy.waivers == ACCEPTED:
            return f"waived by {waiver.owner} until {waiver.expires}: {waiver.reason}"
        return ""

    def _closers(self, red: Sequence[Asked], shown: Mapping[str, Shown]) -> Iterable[Closer]:
        order = [stage.name for stage in self.policy.stages]
        stages = [name for name in order if any(each.stage == name for each in red)]
        for each in red:
            found = shown[each.id]
            before = stages[: stages.index(each.stage)]
            ambiguous = f"the earlier stage {before[0]} is red" if before and found.state == "fail" else ""
            unbuilt = not self._has_test(each.id) and found.state == "not run"
            why = "it has no test" if unbuilt else f"{found.state}: {found.why}" if found.why else found.state
            fix = "leave it out of the policy" if unbuilt else self._fix(found)
            yield Closer(each.id, why, fix, each.stage, ambiguous)

    def _fix(self, found: Shown) -> str:
        if found.state == "fail":
            waived = found.row in self.waivers
            hint = " (its waiver counts only under `waivers: accepted`)" if waived else ""
            return f"{found.fix or 'see its finding in the run'}{hint}"
        if found.state == "incomplete" and found.row not in EVERY_NODE:
            return "run it again"
        return _FIXES[found.state].format(cluster=self.profile.name, row=found.row)

    def _purposes(
        self,
        rows: Sequence[Asked],
        shown: Mapping[str, Shown],
        excused: Mapping[str, str],
        pending: Mapping[str, str],
        unbuilt: Sequence[str],
    ) -> dict[str, str]:
        found: dict[str, str] = {}
        wanted = {area for stage in self.policy.stages for area in (*stage.areas, *stage.if_declared)}
        wanted |= {_area(each.id) for each in rows}
        for purpose, every in PURPOSES.items():
            areas = [area for area in every if area in wanted]
            if not areas:
                continue
            states = [
                "pending" if each.id in pending else _state(shown[each.id], excused.get(each.id))
                for each in rows
                if _area(each.id) in areas and (each.named or each.id not in unbuilt)
            ]
            found[purpose] = _word(states)
        return found


def _state(shown: Shown, excuse: str | None) -> str:
    if excuse is None:
        return shown.state
    return "waived" if shown.state == "fail" else "excused"


def _word(states: Sequence[str]) -> str:
    if "fail" in states:
        return "no"
    waits = states.count("pending")
    if waits:
        rest = _word([state for state in states if state != "pending"])
        more = f"{plurals.count(waits, 'row')} pending promotion"
        return f"yes, but for {more}" if rest == "yes" else more if rest == "not declared" else rest
    if not states or set(states) <= {"not applicable", "excused"}:
        return "not declared"
    if not set(states) <= {"pass", "excused", "waived"} or "pass" not in states:
        return "undecided"
    waived = states.count("waived")
    return f"yes, but for {plurals.count(waived, 'waived row')}" if waived else "yes"


def _area(row_id: str) -> str:
    known = catalogue.row(row_id)
    return known.area if known is not None else AREAS.get(row_id.partition("-")[0], ("", ""))[0]


def _changed(now: Mapping[str, Any], then: Mapping[str, Any], path: str = "") -> list[str]:
    """Return the dotted keys of a profile that say something else than they did in a run."""
    found: list[str] = []
    for key in {**now, **then}:
        if not path and key in NOT_COMPARED:
            continue
        inner = f"{path}{key}"
        one, other = now.get(key), then.get(key)
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            found += _changed(one, other, f"{inner}.")
        elif one != other:
            found.append(inner)
    return found
