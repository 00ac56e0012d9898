"""Programs are run from lists of arguments; what one says on failure is what the caller is told."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO


class Failed(SystemExit):
    """A program that did not do what it was run for."""


def run(
    *argv: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: int | IO[bytes] | None = subprocess.DEVNULL,
) -> str:
    """Run a program to its end and return what it wrote; end with its last words where it fails."""
    try:
        done = subprocess.run(
            [str(each) for each in argv],
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        raise Failed(
            f"dev/kind: {argv[0]} is not installed; dev/kind/README.md names what the kit needs"
        ) from None
    if done.returncode:
        words = (done.stderr or done.stdout).strip().splitlines()[-12:]
        raise Failed("\n".join([f"dev/kind: {argv[0]} {argv[1]} ended with {done.returncode}:", *words]))
    return done.stdout


def need(program: str) -> str:
    """Return where a program is; system folders are searched too, which are not on every user's path."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    found = shutil.which(program, path=path)
    if found is None:
        raise Failed(f"dev/kind: {program} is not installed; dev/kind/README.md names what the kit needs")
    return found


def say(text: str) -> None:
    """Tell the user what happens; standard output is for what `env` prints."""
    print(text, file=sys.stderr, flush=True)
