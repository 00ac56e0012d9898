"""The sums of a run: which files of its folder they cover, and what became of them since.

Each file has its sum at three places. The end of the journal has those of all that the run wrote; `report.json` has
these, and those of the journal and of the other forms; `SHA256SUMS` has all in the form of `sha256sum --check`. So the
SHA-256 of `report.json` alone stands for the whole folder.
"""

import contextlib
import hashlib
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

JOURNAL, REPORT, PAGE, JUNIT, SUMS = "run.jsonl", "report.json", "report.html", "junit.xml", "SHA256SUMS"
CTRF, MARKDOWN = "ctrf.json", "report.md"

EVER_MADE = (REPORT, PAGE, JUNIT)
"""The forms that a run of any version has."""
MADE = (*EVER_MADE, CTRF, MARKDOWN)
OF_THE_RECORD = frozenset({JOURNAL, SUMS, *MADE})
"""What is not there yet when the journal ends, or still grows by its end."""

PASSING = frozenset({"cluster.json", "lease.members"})
"""Files by which the processes of a run find each other: they may go with the cluster, and never change or come."""

_LOCK, _WORKER = ".lock", re.compile(r"worker-[\w-]+\.pid")
_LINE = re.compile(r"([0-9a-f]{64})  (\S.*)")
_FOLDER = "-"
"""What stands for the sum of a folder."""


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def inventory(folder: Path) -> dict[str, str]:
    """Return the sums of what a run wrote beside its record, by name; a folder ends with `/` and has none."""
    found: dict[str, str] = {}
    for name, what in _found(folder).items():
        if what == "folder":
            found[f"{name}/"] = _FOLDER
        elif what == "file" and name not in OF_THE_RECORD and not _is_lock(folder, name):
            # What cannot be read, or went meanwhile, is not part of the record, which must come to its end.
            with contextlib.suppress(OSError):
                found[name] = sha256(folder / name)
    return found


def told(lines: Iterable[object]) -> dict[str, str]:
    """Return the sums of an inventory that was written down line by line, each the sum and the name.

    Raises:
        ValueError: a line is none.
    """
    found: dict[str, str] = {}
    for line in lines:
        sum_, gap, name = str(line).partition("  ")
        if not gap or not name or name in found:
            raise ValueError(f"not the sum of a file: {line!r}")
        found[name] = sum_
    return found


def lines(sums: Mapping[str, str]) -> list[str]:
    """Return an inventory line by line, as `told` reads it."""
    return [f"{sum_}  {name}" for name, sum_ in sorted(sums.items())]


def differs(folder: Path, recorded: Mapping[str, str], *, but: Collection[str] = ()) -> dict[str, str]:
    """Return what of a folder is not as the record of the run has it: name -> what is wrong with it.

    An empty folder that is gone is no loss: what carries files from one machine to another often leaves it out.

    Args:
        folder: the run's folder.
        recorded: sums by name, as `inventory` returns them, perhaps with those of journal and forms.
        but: names that are not compared.
    """
    wrong: dict[str, str] = {}
    found = _found(folder)
    for name, sum_ in recorded.items():
        what = found.get(name.rstrip("/"))
        if name in but or sum_ == _FOLDER:
            continue
        if what is None and not _may_go(name):
            wrong[name] = "the file is missing, but it is in the record of the run"
        elif what == "folder":
            wrong[name] = "is not a regular file"
        elif what == "file" and sha256(folder / name) != sum_:
            wrong[name] = "the file was changed: its SHA-256 is not the one in the record of the run"
    for name, what in found.items():
        if name in OF_THE_RECORD or name in but or name in recorded:
            continue
        if what == "folder" and f"{name}/" not in recorded:
            wrong[f"{name}/"] = "the folder is not in the record of the run"
        elif what == "file" and not _is_lock(folder, name):
            wrong[name] = "the file is not in the record of the run"
    return wrong


def text(folder: Path) -> str:
    """Return the sums of all files of a run but those that pass, by name, as `sha256sum --check` reads them."""
    return "".join(f"{sha256(folder / name)}  {name}\n" for name in sorted(covered(folder)))


def covered(folder: Path) -> Iterator[str]:
    """Yield the names of the regular files that the sums cover."""
    for name, what in _found(folder).items():
        if what == "file" and not _passes(folder, name):
            yield name


def check(folder: Path, *, but: Collection[str] = ()) -> dict[str, str]:
    """Return what is not as it was sealed: name of a file -> what is wrong with it.

    Links are not followed, and nothing outside the folder is read.

    Args:
        folder: the run's folder.
        but: names of files that are not compared.
    """
    found = _found(folder)
    wrong = {
        name: "is a link: links are not followed" if what == "link" else "is not a regular file"
        for name, what in found.items()
        if what not in {"file", "folder"}
    }
    if found.get(SUMS) == "folder":
        wrong[SUMS] = "is not a regular file"
    if SUMS in wrong:
        return wrong
    if SUMS not in found:
        return {**wrong, SUMS: "the file is missing: nothing shows what the run wrote"}
    sums: dict[str, str] = {}
    text_ = (folder / SUMS).read_text(encoding="utf-8", errors="replace")
    for number, line in enumerate(text_.splitlines(), start=1):
        match = _LINE.fullmatch(line)
        if match is None:
            wrong.setdefault(SUMS, f"line {number} is not the sum of a file")
        elif not inside(match[2]):
            wrong.setdefault(SUMS, f"line {number} leads out of the run's folder: {match[2]}")
        elif match[2] in sums:
            wrong.setdefault(SUMS, f"line {number} names a file that an earlier line names too: {match[2]}")
        else:
            sums[match[2]] = match[1]
    if [*sums] != sorted(sums):
        wrong.setdefault(SUMS, "its lines are not in the order that a run writes")
    return {**wrong, **_compared(folder, sums, found, but)}


def _compared(
    folder: Path, sums: Mapping[str, str], found: Mapping[str, str], but: Collection[str]
) -> dict[str, str]:
    wrong: dict[str, str] = {}
    for name, sum_ in sums.items():
        if name in but or found.get(name, "file") not in {"file", "folder"}:
            continue
        if found.get(name) != "file":
            wrong[name] = "the file is missing"
        elif sha256(folder / name) != sum_:
            wrong[name] = "the file was changed since the run"
    for name, what in found.items():
        if what == "file" and name not in sums and name != SUMS and not _passes(folder, name):
            wrong[name] = f"the file was added after the run, or its line was removed from {SUMS}"
    return wrong


def inside(name: str) -> bool:
    """Report whether a name leads to a file below the folder that it is relative to."""
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts


def plain(folder: Path, name: str) -> bool:
    """Report whether a name leads to a file in the folder without passing any link."""
    if not inside(name):
        return False
    at = folder
    for part in PurePosixPath(name).parts:
        at = at / part
        if at.is_symlink():
            return False
    return True


def _found(folder: Path) -> dict[str, str]:
    """Return all that lies in a folder: name -> file, folder, link or other."""
    found: dict[str, str] = {}
    for root, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(root, name)
            mode = path.lstat().st_mode
            found[path.relative_to(folder).as_posix()] = (
                "folder" if stat.S_ISDIR(mode) else "link" if stat.S_ISLNK(mode)
                else "file" if stat.S_ISREG(mode) else "other"
            )  # fmt: skip
    return dict(sorted(found.items()))


def _passes(folder: Path, name: str) -> bool:
    """Report whether the sums leave a file out: what may go would else be missed by `sha256sum --check`."""
    return name == SUMS or _may_go(name) or _is_lock(folder, name)


def _may_go(name: str) -> bool:
    return name in PASSING or _WORKER.fullmatch(name) is not None


def _is_lock(folder: Path, name: str) -> bool:
    """Report whether a file is a lock, which is empty: what holds something is none."""
    return name.endswith(_LOCK) and (folder / name).stat().st_size == 0
