"""A report folder that takes no more: the run ends with one line, and what cannot be written is said."""

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from pytest_gpucluster.plain.full_disk import REFUSED


def line(error: OSError, folder: Path) -> str:
    """Return what happened, where, and what that means, in one line."""
    where = error.filename or folder
    why = os.strerror(error.errno or 0)
    return (
        f"gpucluster: {where}: {why}: the run ends here, since its evidence could not be kept; rows decided "
        f"before are in {folder / 'run.jsonl'}"
    )


@contextlib.contextmanager
def ending_the_run(folder: Path) -> Iterator[None]:
    """End the whole run, with cleanup, where its folder takes no more.

    Raises:
        pytest.exit.Exception: with the line and exit status 2.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in REFUSED:
            raise
        pytest.exit(line(error, folder), returncode=int(pytest.ExitCode.INTERRUPTED))


@contextlib.contextmanager
def telling(path: Path, lost: Sequence[str] = ()) -> Iterator[None]:
    """Say on standard error what could not be recorded at the end of a run, and go on."""
    try:
        yield
    except OSError as error:
        if error.errno not in REFUSED:
            raise
        sys.stderr.write(f"gpucluster: {path}: not written: {os.strerror(error.errno or 0)}\n")
        for each in lost:
            sys.stderr.write(f"gpucluster: left over: {each}\n")
