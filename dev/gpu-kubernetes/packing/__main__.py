"""`dev/gpu-kubernetes/pack DIR`: make what is missing, and write the archives."""

import argparse
import fcntl
from pathlib import Path

from dev.kind.kit import cache, places
from dev.kind.kit.shell import say

from . import archives

MIB = 1 << 20


def main() -> None:
    """Do what is asked, one at a time for a cache."""
    parser = argparse.ArgumentParser(prog="dev/gpu-kubernetes/pack", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="an empty folder for the archives")
    parser.add_argument("--parts", action="store_true", help="make the parts, and write nothing")
    parser.add_argument("--python", metavar="VERSION", default="3.12", help="of the machine with the GPUs")
    parser.add_argument("--piece", metavar="MIB", type=int, default=1024, help="largest size of a file")
    parser.add_argument(
        "--unpacked",
        action="store_true",
        help="no archives, but what they hold, for this machine and its Python",
    )
    options = parser.parse_args()
    if (options.folder is None) is not options.parts:
        parser.error("name an empty folder for the archives, or --parts")
    places.CACHE.mkdir(parents=True, exist_ok=True)
    with (places.CACHE / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if options.parts:
            for each in (*archives.KUBERNETES.uses, *archives.PROGRAMS.uses):
                each.made()
            return
        if options.unpacked:
            archives.assemble(options.folder)
            return
        made = [archives.KUBERNETES, archives.PROGRAMS, archives.python(options.python), archives.suite()]
        paths = archives.pack(options.folder, made, options.piece * MIB)
        cache.forget_others(made)
    say(f"  {len(paths)} files, {archives.total(paths) / 1e6:.1f} MB, in {options.folder}")


if __name__ == "__main__":
    main()
