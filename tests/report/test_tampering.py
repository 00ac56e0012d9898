"""What somebody may do to the folder of a run afterwards: each kind is found, and none ends in a traceback."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import pytest_gpucluster
from pytest_gpucluster.report import record, seal, verify, write
from tests.report import sample

SESSION = "session-main.jsonl"
EVIDENCE = "evidence/gang-scarce.jsonl"
OTHER = "evidence/gang-fits.jsonl"
SITE = "evidence/site/all-reduce.jsonl"
LOG = "logs/nodes.log"
FILES = (
    record.JOURNAL, record.REPORT, write.PAGE, write.JUNIT, write.SUMS, SESSION, EVIDENCE, SITE,
    "evidence/probe.jsonl", LOG,
)  # fmt: skip
"""One of each sort; the evidence of the probe decided no row, and the log none either."""


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
}
"""Name of a kind that is of more than one file -> what does it."""


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    """Give the sample run as a run leaves it, with what the cluster and its session wrote."""
    folder = tmp_path / "run"
    sample.make_run(folder)
    journal = folder / record.JOURNAL
    journal.write_text(
        journal.read_text().replace('"plugin":"0.1.0"', f'"plugin":"{pytest_gpucluster.__version__}"')
    )
    for name in (SESSION, "evidence/probe.jsonl"):
        sample.write_evidence(folder / name, sample.evidence_lines("session"))
    (folder / "logs").mkdir()
    (folder / LOG).write_text("".join(f"node gpu-{number} is ready\n" for number in range(9)))
    for name in ("begin.lock", "evidence/gang-fits.lock", "lease.members"):
        (folder / name).touch()
    (folder / "cluster.json").write_text("{}\n")
    assert len(write.write_all(folder)) == 4
    return folder


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
        assert found.files == 12
        assert found.rendered == (record.REPORT, write.PAGE, write.JUNIT)
    for name in ("cluster.json", "begin.lock"):
        (sealed / name).unlink()
    assert verify.verify(sealed, registry=sample.make_suite().registry).ok


def test_there_are_many_kinds() -> None:
    """The promise of the documentation: at least thirty, each for each sort of file."""
    assert len(KINDS) + len(WHOLE) >= 30
    assert len(KINDS) * len(FILES) + len(WHOLE) == 174


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_kind_of_change_to_each_file_is_found(
    sealed: Path, kind: Callable[[Path], None], name: str
) -> None:
    """Status 3, and a line that names the file."""
    kind(sealed / name)
    found = check(sealed)
    assert isinstance(found, str) or found.status == verify.TAMPERED
    said = [found] if isinstance(found, str) else found.problems
    assert any(Path(name).name in line for line in said)


@pytest.mark.parametrize("kind", WHOLE)
def test_each_kind_of_change_to_the_whole_is_found(sealed: Path, kind: str) -> None:
    """Also where whoever did it made all sums anew: verdicts and forms are reached again."""
    WHOLE[kind](sealed)
    found = check(sealed)
    assert isinstance(found, str) or (found.status == verify.TAMPERED and found.problems)
