"""Reach every verdict of a run again from its files alone, on any machine, without the cluster."""

import dataclasses
import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest_gpucluster
from pytest_gpucluster.evidence import Evidence
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import SCHEMA as EVIDENCE_SCHEMA
from pytest_gpucluster.evidence.objects import clusters
from pytest_gpucluster.plain import plurals, redact
from pytest_gpucluster.report import answer, decisions, modules, record, scope, seal, suites, whole, write
from pytest_gpucluster.requirement import (
    DeclarationError,
    Finding,
    Registry,
    Verdict,
    catalogue,
    is_site,
)

_UNDECIDED = frozenset({Verdict.ENVIRONMENT.value, Verdict.INCONCLUSIVE.value})

Read = Callable[[Path], Evidence]


YES, NO, OPEN_MODULE, TAMPERED = 0, 1, 2, 3
"""Exit statuses of all that tells the answer of a run; 0 to 3, as `gpucluster verify --help` lists them."""


@dataclasses.dataclass(frozen=True)
class Verification:
    """What became of a verification.

    Attributes:
        problems: one line for each file that is missing, changed or added and each verdict that is not reached again.
        notes: what could not be checked, and does not speak against the run.
        decided_again: how many verdicts were reached again.
        unnamed: one line for each row that could not be decided again, since its module was not named.
        files: how many files are as they were sealed.
        rendered: names of the forms that were made again from the journal and are the same.
        word: the answer of the journal.
        banner: it in one line.
        digest: SHA-256 of `report.json`, which stands for all files, "" without one.
        killed: the run ended before it could write its report and its sums.
    """

    problems: tuple[str, ...]
    notes: tuple[str, ...]
    decided_again: int
    unnamed: tuple[str, ...] = ()
    files: int = 0
    rendered: tuple[str, ...] = ()
    word: str = ""
    banner: str = ""
    digest: str = ""
    killed: bool = False

    @property
    def ok(self) -> bool:
        """Report whether all was verified, whatever the answer is."""
        return not self.problems and not self.unnamed

    @property
    def status(self) -> int:
        """Return the exit status: that of the answer where all was verified."""
        if self.problems:
            return TAMPERED
        if self.unnamed:
            return OPEN_MODULE
        return status_of(self.word)


def status_of(word: str) -> int:
    """Return the exit status of an answer; what is undecided is no yes."""
    return YES if word == "yes" else NO


def verify(
    run_folder: Path,
    *,
    registry: Registry | None = None,
    read: Read | None = None,
    digest: str | None = None,
) -> Verification:
    """Check the files of a run against their sums and decide every row again from its evidence.

    Args:
        run_folder: the folder with `report.json` or `run.jsonl`.
        registry: where the judges are; by default the shipped suites are imported.
        read: reads an evidence file; by default `evidence.ingest.read`.
        digest: what `report.json` must have for its SHA-256, as it was told at the end of the run; None if nobody
            kept it.

    Raises:
        RecordError: the folder holds no record that can be read.
        SuiteError: a module of the suites cannot be imported.
    """
    folder = run_folder.resolve()
    for name in (record.REPORT, record.JOURNAL):
        if (folder / name).is_symlink():
            raise record.RecordError(f"{run_folder / name}: is a link: links are not followed")
    report = record.load(folder)
    registry = suites.load_suites() if registry is None else registry
    try:
        return _Check(folder, report, registry, read or _reader()).run(digest)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        # A report that was changed may have any shape; a judge's own error is told by its row.
        raise record.RecordError(
            f"{run_folder / record.REPORT}: is not a report of a run: {error!r}"
        ) from None


def _reader() -> Read:
    from pytest_gpucluster.evidence.log import ingest  # noqa: PLC0415 - not needed to write a record

    return ingest.read


def changed_evidence(run_folder: Path, report: Mapping[str, Any]) -> list[str]:
    """Return which evidence files of a run are not those of which its record tells, one line each."""
    return _Check(run_folder.resolve(), report, Registry(), _reader()).changed_files()


class _Check:
    def __init__(self, folder: Path, report: Mapping[str, Any], registry: Registry, read: Read) -> None:
        self.folder = folder
        self.report = report
        self.registry = registry
        self.read = read
        self.same_version = report["run"].get("plugin") == pytest_gpucluster.__version__
        self.problems: list[str] = []
        self.notes: list[str] = []
        self.changed: set[str] = set()
        self.evidence: dict[str, Evidence | None] = {}
        self.again = 0
        self.unnamed: list[str] = []
        self.rendered: list[str] = []
        self.folded: Mapping[str, Any] | None = None

    def run(self, digest: str | None) -> Verification:
        if not self.same_version:
            self.notes.append(
                f"made by version {self.report['run'].get('plugin')}, checked by {pytest_gpucluster.__version__}: "
                "sums and verdicts are compared, but not the wording; page and JUnit are not made again"
            )
        if lacking := self.report.get(record.LACKING):
            self.notes.append(
                f"the record has no {', '.join(lacking)}: it was made before that was kept, and nothing is concluded "
                "from it"
            )
        self.changed_files()
        for row in self.report["requirements"]:
            self._row(row)
        self._site_tests()
        self._seen()
        self._journal()
        sealed = self._sums()
        self._record()
        self._schemas()
        self._planted()
        self._forms()
        answered = self.folded or self.report
        now = whole.digest(self.folder)
        if digest is not None and digest.strip().lower() != now:
            self.problems.append(f"{record.REPORT}: its SHA-256 is {now or 'none'}, not {digest}")
        return Verification(
            tuple(self.problems), tuple(self.notes), self.again, tuple(self.unnamed), sealed,
            tuple(self.rendered), answered["answer"]["word"], scope.banner(answered),
            now, bool(answered["run"]["killed"]),
        )  # fmt: skip

    def changed_files(self) -> list[str]:
        """Return which evidence files are not those that the journal tells of."""
        for item in (*self.report["scenarios"], *self.report["requirements"], *self.report["site_tests"]):
            self._file(item)
        return list(self.problems)

    def _file(self, item: Mapping[str, Any]) -> None:
        name, recorded = item["evidence"], item["sha256"]
        if not name or name in self.changed:
            return
        path = self.folder / name
        if not seal.plain(self.folder, name):
            self.problems.append(f"{name}: leads out of the run's folder or through a link: not read")
        elif not path.is_file():
            self.problems.append(f"{name}: the file is missing")
        elif record.sha256(path) != recorded:
            self.problems.append(f"{name}: the file was changed: its SHA-256 is not the recorded one")
        else:
            return
        self.changed.add(name)

    def _row(self, row: Mapping[str, Any]) -> None:
        row_id, name = row["id"], row["evidence"]
        if not name:
            if row["verdict"] in {"pass", "fail"}:
                self.problems.append(f"{row_id}: {row['verdict']} without evidence")
            else:
                self.notes.append(f"{row_id}: {row['verdict']} without evidence: nothing to decide again")
            return
        evidence = self._read(name)
        if evidence is None:
            return
        try:
            declared = self.registry.get(row_id)
        except DeclarationError:
            unknown = self.unnamed if catalogue.row(row_id) is None else self.problems
            unknown.append(f"{row_id}: cannot be decided again: {_not_declared(row)}")
            return
        if is_site(row_id) and _function(declared.where) != _function(row["where"]):
            self.notes.append(f"{row_id}: recorded from {row['where']}, decided again by {declared.where}")
        try:
            finding = decisions.decide(declared, evidence)
        except Exception as error:  # noqa: BLE001 - a judge that breaks on a changed file is one line, not the end
            self.problems.append(f"{row_id}: the judge failed: {type(error).__name__}: {error}")
            return
        self.again += 1
        if row["verdict"] in _UNDECIDED and finding.verdict is Verdict.PASS:
            # A test that broke or never asked is not a pass whatever the evidence says; the record claims less.
            self.notes.append(f"{row_id}: recorded as {row['verdict']}, but the evidence alone says pass")
            return
        self.problems.extend(self._differences(row, finding))

    def _site_tests(self) -> None:
        count = len(self.report["site_tests"])
        if count:
            self.notes.append(
                f"{plurals.count(count, 'test')} of the site's own: asserted, not decided again"
            )

    def _seen(self) -> None:
        """Compare what the record tells of the cluster with what the evidence shows of it."""
        for scenario in self.report["scenarios"]:
            name = scenario["evidence"]
            if not name or name in self.changed or not scenario["seen"] or not self.same_version:
                continue
            evidence = self._read(name)
            if evidence is None:
                continue
            if json.loads(json.dumps(redact.shown(clusters.plain(evidence)))) != scenario["seen"]:
                self.problems.append(f"{name}: shows another cluster than the record says")

    def _planted(self) -> None:
        """Compare the planted defects of which evidence tells with those of the record."""
        named = {*answer.planted(self.report)}
        for name, evidence in self.evidence.items():
            source = fields.sub(evidence.header, "source") if evidence is not None else {}
            untold = [each for each in map(str, source.get("defects") or ()) if each not in named]
            if untold:
                self.problems.append(
                    f"{name}: was taken with planted defects of which the record does not tell: {', '.join(untold)}"
                )

    def _read(self, name: str) -> Evidence | None:
        if name not in self.evidence:
            path = self.folder / name
            try:
                readable = seal.plain(self.folder, name) and path.is_file()
                self.evidence[name] = self.read(path) if readable else None
            except Exception as error:  # noqa: BLE001 - whatever a changed file does to the reader is one line
                self.problems.append(f"{name}: cannot be read: {type(error).__name__}: {error}")
                self.evidence[name] = None
        return self.evidence[name]

    def _differences(self, row: Mapping[str, Any], finding: Finding) -> Iterator[str]:
        if finding.verdict.value != row["verdict"]:
            yield f"{row['id']}: the record says {row['verdict']}, but the evidence says {finding.verdict.value}"
            return
        if row["finding"]["verdict"] != row["verdict"]:
            yield f"{row['id']}: the record says both {row['verdict']} and {row['finding']['verdict']}"
        if not self.same_version:
            return
        now = json.loads(json.dumps(redact.shown(finding.as_dict()), default=str))
        fields = [name for name in now if now[name] != row["finding"].get(name)]
        if fields:
            yield f"{row['id']}: the verdict is reached again, but not its {', '.join(fields)}"

    def _journal(self) -> None:
        """Compare the report with the journal that it was made from."""
        try:
            self.folded = folded = record.fold(self.folder / record.JOURNAL)
        except record.RecordError as error:
            self.problems.append(str(error))
            return
        if not (self.folder / record.REPORT).is_file():
            return
        now, then = _words(folded), _words(self.report)
        for row_id in sorted({*now, *then}):
            if now.get(row_id) != then.get(row_id):
                self.problems.append(
                    f"{row_id}: {record.REPORT} says {then.get(row_id, 'nothing')}, but {record.JOURNAL} says "
                    f"{now.get(row_id, 'nothing')}"
                )
        if self.same_version and now == then and not self._is_report(folded):
            self.problems.append(f"{record.REPORT}: differs from what {record.JOURNAL} gives")
            self.changed.add(record.REPORT)

    def _is_report(self, folded: Mapping[str, Any]) -> bool:
        # The files are compared by themselves: the journal does not know its own sum and those of the forms.
        return bool(
            json.loads(json.dumps({**folded, "files": self.report["files"]}, default=str)) == self.report
        )

    def _sums(self) -> int:
        """Compare all files of the folder with the sums; return how many are as they were sealed."""
        wrong = seal.check(self.folder)
        named = self.changed - {record.REPORT}
        self.problems += [f"{name}: {what}" for name, what in wrong.items() if name not in named]
        self.changed |= {*wrong}
        if seal.SUMS in wrong:
            return 0
        return sum(name not in wrong for name in seal.covered(self.folder))

    def _record(self) -> None:
        """Compare all files with the sums in journal and report, which outlast sums that were made anew."""
        if self.folded is None:
            return
        wrong = whole.forms_missing(self.folder)
        if self.same_version or self.folded["files"] or self.report["files"]:
            wrong |= whole.differs(self.folder, self.report, self.folded)
        else:
            self.notes.append(
                f"its record does not name its files: only {seal.SUMS} shows whether session logs, logs and page "
                "are unchanged"
            )
        self.problems += [f"{name}: {what}" for name, what in wrong.items() if name not in self.changed]
        self.changed |= {*wrong}

    def _schemas(self) -> None:
        """Hold all evidence to the schema that the run wrote: what an older one lacks is not asked of it."""
        run = self.report["run"]
        wrote = run["evidence_schema"]
        reused = self.report["cluster"].get("reused")
        if reused:
            self.notes.append(f"it judged the evidence of an earlier run: {reused}")
        elif self.same_version and wrote != EVIDENCE_SCHEMA:
            self.problems.append(
                f"{record.JOURNAL}: says that the run wrote evidence of schema {wrote}; version {run['plugin']} "
                f"writes schema {EVIDENCE_SCHEMA}"
            )
        if wrote is None:
            return
        items = (*self.report["scenarios"], *self.report["requirements"], *self.report["site_tests"])
        for name in dict.fromkeys(str(item["evidence"]) for item in items if item["evidence"]):
            evidence = self._read(name) if name not in self.changed else None
            if evidence is not None and evidence.header.get("schema") != wrote:
                self.problems.append(
                    f"{name}: is evidence of schema {evidence.header.get('schema')}, but the run wrote schema {wrote}"
                )

    def _forms(self) -> None:
        """Make the forms again from the journal: sums alone can be made anew by whoever changed a file."""
        if self.folded is None or not self.same_version:
            return
        folded = {**self.folded, "files": self.report["files"]}
        for name, render in write.forms().items():
            path = self.folder / name
            if name in self.changed or not path.is_file():
                continue
            try:
                same = path.read_bytes() == write.as_written(render(folded))
            except Exception as error:  # noqa: BLE001 (a changed journal may break it anywhere)
                why = " ".join(str(error).split()) or type(error).__name__
                self.problems.append(f"{name}: cannot be made again from {record.JOURNAL}: {why}")
                continue
            if same:
                self.rendered.append(name)
            else:
                self.problems.append(f"{name}: differs from what {record.JOURNAL} gives")


def _words(report: Mapping[str, Any]) -> dict[str, str]:
    """Return for each row its verdict, and for each test of the site's own its outcome."""
    return {
        **{row["id"]: row["verdict"] for row in report["requirements"]},
        **{test["nodeid"]: test["outcome"] for test in report["site_tests"]},
    }


def _function(where: str) -> str:
    """Return the test's own name: the module's differs with the folder that it is imported from."""
    return where.rpartition(":")[2]


def _not_declared(row: Mapping[str, Any]) -> str:
    """Say why there is no judge for a row, and what the reader can do about it."""
    if catalogue.row(row["id"]) is not None:
        return f"no suite declares it ({row['where']})"
    module = modules.named(row)
    return f"declared in {module}; name it with --module {shlex.quote(module)}"
