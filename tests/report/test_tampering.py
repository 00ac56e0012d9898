"""What somebody may do to the folder of a run afterwards: each kind is found, and none ends in a traceback."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import pytest_gpucluster
from pytest_gpucluster.acceptance import runs
from pytest_gpucluster.report import record, seal, verify, write
from tests.report import sample

SESSION = "session-main.jsonl"
EVIDENCE = "evidence/gang-scarce.jsonl"
OTHER = "evidence/gang-fits.jsonl"
SITE = "evidence/site/all-reduce.jsonl"
PROBE = "evidence/probe.jsonl"
LOG = "logs/nodes.log"
CONFIG = "kubeconfig"
FILES = (
    record.JOURNAL, *seal.MADE, write.SUMS, SESSION, EVIDENCE, SITE, PROBE, LOG, CONFIG,
)  # fmt: skip
"""One of each sort; the evidence of the probe decided no row, and logs and kubeconfig none either."""
VERSION = pytest_gpucluster.__version__


def lines(path: Path) -> list[str]:
    """Return the lines of a file, with their ends."""
    return path.read_text(encoding="utf-8").splitlines(keepends=True)


def edit(path: Path) -> None:
    """Change one character in the middle."""
    text = path.read_text(encoding="utf-8")
    at = next(n for n in range(len(text) // 2, len(text)) if text[n].isalnum())
    path.write_text(text[:at] + ("x" if text[at] != "x" else "y") + text[at + 1 :], encoding="utf-8")


def remove(path: Path) -> None:
    """Take the file away."""
    path.unlink()


def take_a_line_out(path: Path) -> None:
    """Take out the second line."""
    found = lines(path)
    path.write_text("".join([found[0], *found[2:]]), encoding="utf-8")


def reorder(path: Path) -> None:
    """Exchange the last two lines."""
    *rest, last_but_one, last = [line.rstrip("\n") for line in lines(path)]
    path.write_text("\n".join([*rest, last, last_but_one]) + "\n", encoding="utf-8")


def truncate(path: Path) -> None:
    """Cut the file off inside a line."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])


def empty(path: Path) -> None:
    """Leave nothing of it."""
    path.write_bytes(b"")


def repeat(path: Path) -> None:
    """Write the last line once more."""
    path.write_text("".join([*lines(path), lines(path)[-1]]), encoding="utf-8")


def append(path: Path) -> None:
    """Put an empty line behind it."""
    path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")


def swap(path: Path) -> None:
    """Exchange it with another file."""
    root = next(each for each in path.parents if (each / record.JOURNAL).exists())
    other = root / (OTHER if path.name != OTHER else SESSION)
    mine, theirs = path.read_bytes(), other.read_bytes()
    path.write_bytes(theirs)
    other.write_bytes(mine)


def link_outside(path: Path) -> None:
    """Put a link to the same content elsewhere in its place."""
    away = path.parents[3] / f"away-{path.name}"
    shutil.move(path, away)
    path.symlink_to(away)


def link_inside(path: Path) -> None:
    """Put a link to a file of the same folder in its place."""
    beside = path.with_name(f"real-{path.name}")
    path.rename(beside)
    path.symlink_to(beside.name)


def link_nowhere(path: Path) -> None:
    """Put a link to nothing in its place."""
    path.unlink()
    path.symlink_to("nowhere")


def hard_link(path: Path) -> None:
    """Give the file a second name."""
    os.link(path, path.with_name(f"more-{path.name}"))


def fold_up(path: Path) -> None:
    """Put a folder in its place."""
    path.unlink()
    path.mkdir()


def fifo(path: Path) -> None:
    """Put something in its place that never ends when it is read."""
    path.unlink()
    os.mkfifo(path)


KINDS: tuple[Callable[[Path], None], ...] = (
    edit, remove, take_a_line_out, reorder, truncate, empty, repeat, append, swap, link_outside, link_inside,
    link_nowhere, hard_link, fold_up, fifo,
)  # fmt: skip


def seal_again(folder: Path) -> None:
    """Make the sums anew."""
    (folder / write.SUMS).write_text(seal.text(folder), encoding="utf-8")


def in_journal(folder: Path, old: str, new: str) -> None:
    """Replace something in the journal, then make all that comes of it, and the sums."""
    path = folder / record.JOURNAL
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    write.write_all(folder)


def in_form(folder: Path, name: str, old: str, new: str) -> None:
    """Replace something in what is made from the journal, and make the sums anew."""
    path = folder / name
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    seal_again(folder)


def again(change: Callable[[Path], object]) -> Callable[[Path], None]:
    """Return a change after which the sums are made anew."""

    def do(folder: Path) -> None:
        change(folder)
        seal_again(folder)

    return do


def on(name: str, change: Callable[[Path], None]) -> Callable[[Path], None]:
    """Return a change of one file, after which the sums are made anew."""
    return again(lambda folder: change(folder / name))


def older_evidence(folder: Path) -> None:
    """Let evidence say that it is of a schema that needs no proofs, and make its sums anew in the journal, too."""
    path = folder / EVIDENCE
    old = record.sha256(path)
    path.write_text(path.read_text().replace('"schema": 2', '"schema": 1'))
    in_journal(folder, old, record.sha256(path))


def older_run(folder: Path) -> None:
    """The same, and let the run say that it wrote such evidence."""
    older_evidence(folder)
    in_journal(folder, '"evidence_schema":2', '"evidence_schema":1')


def page_of_another_version(folder: Path) -> None:
    """Change the page of a run that this version cannot make again."""
    in_journal(folder, f'"plugin":"{VERSION}"', '"plugin":"0.0.9"')
    in_form(folder, write.PAGE, "> violation<", "> pass<")


def log_of_another_version(folder: Path) -> None:
    """Change a session log of a run of another version."""
    in_journal(folder, f'"plugin":"{VERSION}"', '"plugin":"0.0.9"')
    edit(folder / SESSION)
    seal_again(folder)


def log_and_its_sum(name: str) -> Callable[[Path], None]:
    """Return a change of the session log that is followed up in one of the two records only."""

    def do(folder: Path) -> None:
        old = record.sha256(folder / SESSION)
        edit(folder / SESSION)
        in_form(folder, name, old, record.sha256(folder / SESSION))

    return do


def files_out_of_the_journal(folder: Path) -> None:
    """Let the end of the journal name no files, and make all reports anew."""
    found = lines(folder / record.JOURNAL)
    end = json.loads(found[-1])
    assert end["files"]
    (folder / record.JOURNAL).write_text("".join([*found[:-1], json.dumps({**end, "files": []}) + "\n"]))
    write.write_all(folder)


def no_files_in_the_report(folder: Path) -> None:
    """Take the sums out of the report."""
    path = folder / record.REPORT
    report = json.loads(path.read_text())
    del report["files"]
    path.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")


def gone_from_sums(folder: Path) -> None:
    """Take the page and its line away, as a person would who has no sums to make."""
    (folder / write.PAGE).unlink()
    sums_to(folder, lambda found: [line for line in found if write.PAGE not in line])


def greener_evidence(folder: Path) -> None:
    """Replace evidence of a violation by good evidence, and make its sums anew everywhere but in the verdict."""
    path = folder / EVIDENCE
    old = record.sha256(path)
    sample.write_evidence(path, sample.evidence_lines("gang-scarce"))
    in_journal(folder, old, record.sha256(path))


def evidence_outside(folder: Path) -> None:
    """Let the journal name evidence outside the folder, which is there and good."""
    shutil.copy(folder / EVIDENCE, folder.parent / "outside.jsonl")
    in_journal(folder, f'"{EVIDENCE}"', '"../outside.jsonl"')


def evidence_elsewhere(folder: Path) -> None:
    """The same with a whole path."""
    shutil.copy(folder / EVIDENCE, folder.parent / "outside.jsonl")
    in_journal(folder, f'"{EVIDENCE}"', json.dumps(str(folder.parent / "outside.jsonl")))


def evidence_of_another_scenario(folder: Path) -> None:
    """Let all rows of one scenario stand on the evidence of another."""
    sums = record.sha256(folder / EVIDENCE), record.sha256(folder / OTHER)
    in_journal(
        folder, f'"evidence":"{EVIDENCE}","sha256":"{sums[0]}"', f'"evidence":"{OTHER}","sha256":"{sums[1]}"'
    )


def linked_folder(folder: Path) -> None:
    """Move the folder of evidence away and link it."""
    shutil.move(folder / "evidence", folder.parent / "evidence")
    (folder / "evidence").symlink_to(folder.parent / "evidence")


def sums_to(folder: Path, change: Callable[[list[str]], list[str]]) -> None:
    """Change the lines of the sums."""
    path = folder / write.SUMS
    path.write_text("".join(change(lines(path))), encoding="utf-8")


def outside_sum(folder: Path) -> None:
    """Let the sums name a file outside."""
    (folder.parent / "x").write_text("x")
    sums_to(folder, lambda found: [*found, f"{record.sha256(folder.parent / 'x')}  ../x\n"])


def a_lock_that_holds_something(folder: Path) -> None:
    """Hide a file among those that no sum covers."""
    (folder / "evidence" / "more.lock").write_text("{}\n")


def a_form_gone_and_sealed(folder: Path) -> None:
    """Take the evidence away and its line out of the sums."""
    (folder / EVIDENCE).unlink()
    seal_again(folder)


WHOLE: dict[str, Callable[[Path], None]] = {
    "a file more": lambda folder: (folder / "more.txt").write_text("x") and None,
    "evidence more": lambda folder: (
        shutil.copy(folder / EVIDENCE, folder / "evidence" / "more.jsonl") and None
    ),
    "a link more": lambda folder: (folder / "more").symlink_to("/etc/passwd"),
    "a link to a folder more": lambda folder: (folder / "more").symlink_to("/etc"),
    "a lock that holds something": a_lock_that_holds_something,
    "the folder of evidence linked": linked_folder,
    "a sum for a file outside": outside_sum,
    "a sum that is none": lambda folder: sums_to(folder, lambda found: [*found, "poem\n"]),
    "a sum for an absolute path": lambda folder: sums_to(
        folder, lambda f: [*f, f"{'0' * 64}  /etc/passwd\n"]
    ),
    "all sums exchanged": lambda folder: sums_to(
        folder, lambda f: [a[:64] + b[64:] for a, b in zip(f, [*f[1:], f[0]], strict=True)]
    ),
    "sums turned around": lambda folder: sums_to(folder, lambda found: found[::-1]),
    "evidence gone, sealed again": a_form_gone_and_sealed,
    "evidence greener, sealed again": greener_evidence,
    "evidence outside, sealed again": evidence_outside,
    "evidence elsewhere, sealed again": evidence_elsewhere,
    "evidence of another scenario, sealed again": evidence_of_another_scenario,
    "verdict in the journal, sealed again": lambda folder: in_journal(
        folder, '"finding":{"verdict":"fail"', '"finding":{"verdict":"pass"'
    ),
    "figure in the journal, sealed again": lambda folder: in_journal(folder, "121 GB/s", "191 GB/s"),
    "answer in the report, sealed again": lambda folder: in_form(
        folder, record.REPORT, '"word": "no"', '"word": "yes"'
    ),
    "left-over in the report, sealed again": lambda folder: in_form(
        folder, record.REPORT, '"left_overs": [', '"left_overs": [], "": ['
    ),
    "verdict on the page, sealed again": lambda folder: in_form(
        folder, write.PAGE, "> violation<", "> pass<"
    ),
    "answer on the page, sealed again": lambda folder: in_form(
        folder, write.PAGE, "</svg> No</p>", "</svg> Yes</p>"
    ),
    "failure in JUnit, sealed again": lambda folder: in_form(folder, write.JUNIT, "<failure", "<system-out"),
    "counts in JUnit, sealed again": lambda folder: in_form(
        folder, write.JUNIT, 'failures="', 'failures="0" was="'
    ),
    "members of a lease": lambda folder: (folder / "lease.members").write_text("1\n") and None,
    "cluster.json": lambda folder: (folder / "cluster.json").write_text('{"kubeconfig": "/x"}\n') and None,
    "a worker that never was": lambda folder: (folder / "worker-gw7.pid").write_text("1\n") and None,
    "an empty folder": lambda folder: (folder / "evidence" / "more").mkdir(),
    "folders in folders": lambda folder: (folder / "a" / "b").mkdir(parents=True),
    "a folder of locks": again(lambda folder: ((folder / "x").mkdir(), (folder / "x" / "y.lock").touch())),
    "a file more, sealed again": again(lambda folder: (folder / "more.txt").write_text("x")),
    "another session, sealed again": again(
        lambda folder: shutil.copy(folder / SESSION, folder / "session-gw0.jsonl")
    ),
    "a log under another name, sealed again": again(
        lambda folder: (folder / LOG).rename(folder / "logs" / "other.log")
    ),
    "page gone from sums": gone_from_sums,
    "log and its sum in the report": log_and_its_sum(record.REPORT),
    "log and its sum in the journal": log_and_its_sum(record.JOURNAL),
    "no files in the journal": files_out_of_the_journal,
    "no files in the report": again(no_files_in_the_report),
    "evidence of an older schema": older_evidence,
    "a run of an older schema": older_run,
    "page of another version": page_of_another_version,
    "log of another version": log_of_another_version,
}
"""Name of a kind that is of more than one file -> what does it."""


@pytest.fixture(scope="module")
def as_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the sample run as a run leaves it, with what the cluster and its session wrote."""
    folder = tmp_path_factory.mktemp("sealed") / "run"
    for name in (SESSION, PROBE):
        sample.write_evidence(folder / name, sample.evidence_lines("session"))
    for name in ("logs", "empty"):
        (folder / name).mkdir()
    (folder / LOG).write_text("".join(f"node gpu-{number} is ready\n" for number in range(9)))
    (folder / CONFIG).write_text("kind: Config\nclusters: []\nusers: []\n")
    for name in ("begin.lock", "evidence/gang-fits.lock", "lease.members"):
        (folder / name).touch()
    (folder / "cluster.json").write_text("{}\n")
    sample.make_run(folder)
    journal = folder / record.JOURNAL
    journal.write_text(journal.read_text().replace('"plugin":"0.1.0"', f'"plugin":"{VERSION}"'))
    assert len(write.write_all(folder)) == 6
    return folder


@pytest.fixture
def sealed(as_run: Path, tmp_path: Path) -> Path:
    """Give a copy of it."""
    return shutil.copytree(as_run, tmp_path / "run")


def check(folder: Path) -> verify.Verification | str:
    """Verify with the sample suite; of a record that cannot be read return the one line, which has the same status."""
    try:
        return verify.verify(folder, registry=sample.make_suite().registry)
    except record.RecordError as error:
        return str(error)


def test_what_nobody_touched_is_whole(sealed: Path) -> None:
    """All files are covered but those that pass with the cluster; also over a link to the folder, as `latest` is."""
    latest = sealed.with_name("latest")
    latest.symlink_to(sealed.name)
    for folder in (sealed, latest):
        found = verify.verify(folder, registry=sample.make_suite().registry)
        assert (found.problems, found.unnamed, found.status) == ((), (), verify.NO)
        assert found.files == 15
        assert found.rendered == seal.MADE
    for name in ("cluster.json", "begin.lock", "lease.members"):
        (sealed / name).unlink()
    (sealed / "empty").rmdir()  # what carries files from place to place often leaves it out
    assert verify.verify(sealed, registry=sample.make_suite().registry).ok
    assert gate_status(sealed) == 0


def test_there_are_many_kinds() -> None:
    """The promise of the documentation: at least thirty, each for each sort of file."""
    assert len(KINDS) + len(WHOLE) >= 30
    assert len(KINDS) * len(FILES) + len(WHOLE) == 237


def gate_status(folder: Path) -> int:
    """Return the status with which a gate refuses a run as evidence, 0 if it takes it."""
    try:
        runs.read(folder, sample.make_suite().registry)
    except runs.RunError as error:
        return error.status
    return 0


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_kind_of_change_to_each_file_is_found(
    sealed: Path, kind: Callable[[Path], None], name: str
) -> None:
    """Status 3, and a line that names the file; also where whoever did it made the sums anew."""
    kind(sealed / name)
    for again in (False, True):
        if again and name == write.SUMS:
            return  # it is as it was
        if again:
            seal_again(sealed)
        found = check(sealed)
        assert isinstance(found, str) or found.status == verify.TAMPERED
        said = [found] if isinstance(found, str) else found.problems
        assert any(Path(name).name in line for line in said)
        assert not again or gate_status(sealed) == verify.TAMPERED


@pytest.mark.parametrize("kind", WHOLE)
def test_each_kind_of_change_to_the_whole_is_found(sealed: Path, kind: str) -> None:
    """Also where whoever did it made all sums anew: verdicts and forms are reached again."""
    WHOLE[kind](sealed)
    found = check(sealed)
    assert isinstance(found, str) or (found.status == verify.TAMPERED and found.problems)
    assert gate_status(sealed) == verify.TAMPERED
