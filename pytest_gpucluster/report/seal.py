"""The sums of a run: which files of its folder they cover, and what became of them since."""

import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path, PurePosixPath

from pytest_gpucluster.report.journal import sha256

SUMS = "SHA256SUMS"

PASSING = frozenset({"cluster.json", "lease.members"})
"""Files by which the processes of a run find each other: they are no part of its record, and go with the cluster."""

_LOCK, _WORKER = ".lock", re.compile(r"worker-[\w-]+\.pid")
_LINE = re.compile(r"([0-9a-f]{64})  (\S.*)")


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
        name: "is a link: links are not followed" if what == "link" else "is no regular file"
        for name, what in found.items()
        if what != "file"
    }
    if SUMS in wrong:
        return wrong
    if SUMS not in found:
        return {**wrong, SUMS: "the file is missing: nothing says what the run wrote"}
    lines = (folder / SUMS).read_text(encoding="utf-8", errors="replace").splitlines()
    told: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        match = _LINE.fullmatch(line)
        if match is None:
            wrong.setdefault(SUMS, f"line {number} is no sum of a file")
        elif not inside(match[2]):
            wrong.setdefault(SUMS, f"line {number} leads out of the run's folder: {match[2]}")
        elif match[2] in told:
            wrong.setdefault(SUMS, f"line {number} names a file that an earlier one names, too: {match[2]}")
        else:
            told[match[2]] = match[1]
    if [*told] != sorted(told):
        wrong.setdefault(SUMS, "its lines are not in the order in which a run writes them")
    return {**wrong, **_compared(folder, told, found, but)}


def _compared(
    folder: Path, told: Mapping[str, str], found: Mapping[str, str], but: Collection[str]
) -> dict[str, str]:
    wrong: dict[str, str] = {}
    for name, sum_ in told.items():
        if name in but or found.get(name, "file") != "file":
            continue
        if name not in found:
            wrong[name] = "the file is missing"
        elif sha256(folder / name) != sum_:
            wrong[name] = "the file was changed since the run"
    for name, what in found.items():
        if what == "file" and name not in told and name != SUMS and not _passes(folder, name):
            wrong[name] = f"the file was added after the run, or its line was taken out of {SUMS}"
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
    """Return all that lies in a folder but folders: name -> file, link or other."""
    found: dict[str, str] = {}
    for root, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(root, name)
            mode = path.lstat().st_mode
            if stat.S_ISDIR(mode):
                continue
            kind = "link" if stat.S_ISLNK(mode) else "file" if stat.S_ISREG(mode) else "other"
            found[path.relative_to(folder).as_posix()] = kind
    return dict(sorted(found.items()))


def _passes(folder: Path, name: str) -> bool:
    if name.endswith(_LOCK):
        # A lock is empty; what holds something is no lock.
        return (folder / name).stat().st_size == 0
    return name in PASSING or _WORKER.fullmatch(name) is not None or name == SUMS
