"""The journal of a run: written as things happen, by every process of the run, and outliving each of them."""

import contextlib
import dataclasses
import fcntl
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pytest_gpucluster.plain import private, redact, times, visible
from pytest_gpucluster.report import seal, site, suites
from pytest_gpucluster.report.seal import JOURNAL, sha256
from pytest_gpucluster.requirement import Finding, Requirement

SCHEMA = 1
"""Version of journal and report. A reader refuses a newer one and says so."""

__all__ = ["EVENTS", "JOURNAL", "SCHEMA", "Journal", "RecordError", "judge_name", "sha256"]

EVENTS = frozenset(
    {
        "run-start",
        "declared",
        "scenario",
        "requirement",
        "not-run",
        "site-test",
        "cleanup",
        "decision",
        "run-end",
    }
)


class RecordError(Exception):
    """A record that cannot be read; the text says which file, where and why."""


@dataclasses.dataclass(frozen=True)
class Journal:
    """The append-only journal of a run; any number of processes may write to one file.

    Attributes:
        path: the file, usually `<run>/run.jsonl`.
        redactor: takes secrets out of everything that is written.
        clock: gives the time of an event; tests replace it.
    """

    path: Path
    redactor: redact.Redactor = dataclasses.field(default_factory=redact.Redactor)
    clock: Callable[[], datetime] = times.now

    def write(self, event: str, **fields: Any) -> bytes:
        """Append one event: one line, one write, under a lock, so that lines of processes never mix.

        Returns:
            The line.

        Raises:
            ValueError: an event that `fold` does not know.
        """
        if event not in EVENTS:
            raise ValueError(f"unknown event {event!r} (allowed: {', '.join(sorted(EVENTS))})")
        entry = {"event": event, "at": times.format_time(self.clock(), micro=True), **fields}
        told = visible.data(self.redactor.clean(entry))
        text = json.dumps(told, ensure_ascii=False, default=str, separators=(",", ":"))
        line = text.encode("utf-8", "backslashreplace") + b"\n"
        self._append(line)
        return line

    def _append(self, line: bytes) -> None:
        with _locked(self.path) as descriptor:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                # A process was killed inside its write: keep its fragment on a line of its own.
                line = b"\n" + line
            while line:
                line = line[os.write(descriptor, line) :]

    def run_start(
        self,
        *,
        run: str,
        plugin: str,
        command: Sequence[str],
        cluster: Mapping[str, Any],
        profile: Mapping[str, Any],
        sources: Mapping[str, str],
        defects: Sequence[str] = (),
        versions: Mapping[str, str] | None = None,
        asked: Sequence[str] = (),
        evidence_schema: int | None = None,
        by: str = "",
        policy: Mapping[str, Any] | None = None,
    ) -> None:
        """Record the start: what ran, against which cluster, and what was declared about it.

        Args:
            run: id of the run.
            plugin: version of this package.
            command: the command line.
            cluster: name, provider, context and `facts` (or beside them): `versions` (component to version), `nodes`
                (mappings with `name`), the server, and whatever else identifies it.
            profile: the effective profile as plain data.
            sources: dotted leaf of the profile to where its value comes from.
            defects: planted defects, for a run that is meant to fail.
            versions: versions of pytest, Python and so on.
            asked: areas that were asked for by name; one of which no row applies is no yes.
            evidence_schema: schema of the evidence of the run; None if nobody knows it.
            by: who ran it, and on which machine.
            policy: what must be shown for the answer yes, as plain data (`acceptance.policy`); None without one.
        """
        self.write(
            "run-start",
            schema=SCHEMA,
            evidence_schema=evidence_schema,
            run=run,
            plugin=plugin,
            command=list(command),
            cluster=dict(cluster),
            profile=dict(profile),
            sources=dict(sources),
            defects=list(defects),
            versions=dict(versions or {}),
            asked=list(asked),
            by=by,
            policy=dict(policy) if policy is not None else None,
        )

    def declared(self, requirements: Iterable[Requirement]) -> None:
        """Record which requirements have a test, so that what never ran is listed as not run."""
        self.write("declared", rows=[_declaration(item) for item in requirements])

    def scenario(
        self,
        name: str,
        *,
        seconds: float,
        requests: Mapping[str, int],
        evidence: Path | None = None,
        problem: Mapping[str, str] | None = None,
        summary: str = "",
        seen: Mapping[str, Any] | None = None,
    ) -> None:
        """Record a scenario that was run to its end, with the requests to the API that it cost.

        Args:
            name: its name.
            seconds: how long it took.
            requests: what it asked of the API, by verb and kind.
            evidence: the file with its evidence.
            problem: what kept it from its end: verdict and text.
            summary: what it does, in one line.
            seen: what its evidence shows of the cluster (`evidence.objects.clusters.plain`).
        """
        self.write(
            "scenario",
            name=name,
            summary=summary,
            seconds=seconds,
            requests=dict(requests),
            problem=dict(problem) if problem else None,
            seen=dict(seen or {}),
            **self._evidence(evidence),
        )

    def requirement(
        self,
        requirement: Requirement,
        finding: Finding,
        *,
        presupposed: Sequence[Mapping[str, Any]] = (),
        seconds: float = 0.0,
        evidence: Path | None = None,
        nodeid: str = "",
        text: str = "",
    ) -> None:
        """Record a decision with its evidence file and the file's SHA-256.

        Args:
            requirement: the declaration.
            finding: what was decided.
            presupposed: what became of the presuppositions, see `deciding.presupposed`.
            seconds: how long the test took.
            evidence: the file that was judged.
            nodeid: pytest's name of the test.
            text: the failure text that was shown, "" for a pass.
        """
        self.write(
            "requirement",
            **_declaration(requirement),
            finding=finding.as_dict(),
            presupposed=[dict(item) for item in presupposed],
            seconds=seconds,
            nodeid=nodeid,
            failure_text=text,
            **self._evidence(evidence),
        )

    def not_run(self, requirement: Requirement, why: str) -> None:
        """Record a requirement that has a test which was not run, and why."""
        self.write("not-run", why=why, **_declaration(requirement))

    def site_tests_ahead(
        self, declared: Mapping[str, Mapping[str, Any]], left_out: Mapping[str, str]
    ) -> None:
        """Write down which tests are to run, as not run until they have: a run may be killed before them.

        Args:
            declared: node id -> what `site_test` takes of its declaration.
            left_out: node id -> why it is not run although it was selected.
        """
        for nodeid, declaration in declared.items():
            why = left_out.get(nodeid, "it did not finish: the run or its worker stopped")
            self.site_test(nodeid, "not_run", **declaration, text=why)

    def site_test(
        self,
        nodeid: str,
        outcome: str,
        *,
        title: str,
        area: str = "",
        level: str = "must",
        seconds: float = 0.0,
        needs: Mapping[str, Any] | None = None,
        scenarios: Sequence[str] = (),
        text: str = "",
        evidence: Path | None = None,
    ) -> None:
        """Record what a test of the site's own asserted; no judge decides it.

        A test that is repeated is written again: the last attempt counts, the outcomes before it are kept. `not_run`
        is no attempt, so it may be written ahead of the test, for a run that is killed before it.

        Args:
            nodeid: pytest's name of the test.
            outcome: one of `site.OUTCOMES`.
            title: first line of the docstring, or the test's name.
            area: name of the area that it is marked with, "" for none.
            level: must, should or control.
            seconds: how long the test took.
            needs: what it needs of the cluster: `capabilities` (names), `nodes`, `gpus`, `seconds`.
            scenarios: shipped scenarios whose evidence it looked at.
            text: why it failed, was not run or does not apply, as it was shown; "" for a pass.
            evidence: the file with its own evidence.

        Raises:
            ValueError: an outcome or a level that no reader knows.
        """
        site.check(outcome, level)
        self.write(
            "site-test",
            nodeid=nodeid,
            outcome=outcome,
            title=title,
            area=area,
            level=str(level),
            seconds=seconds,
            needs=dict(needs or {}),
            scenarios=list(scenarios),
            text=text,
            **self._evidence(evidence),
        )

    def cleanup(
        self,
        left_overs: Sequence[str],
        requests: Mapping[str, int] | None = None,
        proof: Sequence[str] = (),
    ) -> None:
        """Record what was left on the cluster after cleanup; an empty list says that nothing was.

        Args:
            left_overs: one line each.
            requests: what this process asked of the API beside its scenarios, by verb and kind.
            proof: how it is known that nothing is left, a line each.
        """
        self.write("cleanup", left_overs=list(left_overs), requests=dict(requests or {}), proof=list(proof))

    def decision(self, decided: Mapping[str, Any]) -> bytes:
        """Record what the run comes to by its policy, see `acceptance.own`; return the line."""
        return self.write("decision", decision=dict(decided))

    def run_end(self, *, exit_status: int, interrupted: bool) -> bytes:
        """Record the end, with the sums of all that the run wrote; return the line."""
        files = seal.lines(seal.inventory(self.path.parent))
        return self.write("run-end", exit_status=exit_status, interrupted=interrupted, files=files)

    def _evidence(self, path: Path | None) -> dict[str, Any]:
        if path is None or not path.is_file():
            return {"evidence": None, "sha256": None}
        folder = self.path.resolve().parent
        full = path.resolve()
        name = str(full.relative_to(folder)) if full.is_relative_to(folder) else str(full)
        return {"evidence": name, "sha256": sha256(full)}


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[int]:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, private.FILE)
    try:
        # Closing the descriptor releases the lock, also when the process is killed.
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def _declaration(requirement: Requirement) -> dict[str, Any]:
    return {
        "id": requirement.id,
        "area": requirement.area,
        "level": requirement.level.value,
        "documents": list(requirement.documents),
        "title": requirement.title,
        "text": requirement.text,
        "scenario": requirement.scenario.name,
        "judge": judge_name(requirement.judge),
        "defects": list(suites.defects(requirement)),
        "where": requirement.where,
    }


def judge_name(judge: object) -> str:
    """Return `module.function` of a judge, for the reader of a record."""
    module = getattr(judge, "__module__", "")
    name = getattr(judge, "__qualname__", type(judge).__name__)
    return f"{module}.{name}".removeprefix("pytest_gpucluster.judge.")
