"""A rank that goes through the places before and between collectives, and stands still in one of them when told to.

Places: `import` (a module on a share that does not answer), `restore` (a checkpoint that cannot be read), `data` (a
loader that hands over nothing). Each place has a bound: when it is over the rank writes where it stands and ends, also
when its interpreter is held by foreign code, since the watchdog (faulthandler) needs nothing of it.

Standard library only. Lines as in `lines.py`: one for each place entered and left.
"""

import argparse
import faulthandler
import importlib
import os
import pathlib
import queue
import sys
import tempfile

from lines import say

PLACES = ("import", "restore", "data")


def source(folder: pathlib.Path, name: str, text: str, *, stalls: bool) -> pathlib.Path:
    """Make a file to read from; one that stalls is a pipe that nobody writes to, like a share that hangs."""
    path = folder / name
    if stalls:
        os.mkfifo(path)
    else:
        path.write_text(text, encoding="utf-8")
    return path


def import_module(folder: pathlib.Path, *, stalls: bool) -> None:
    """Import a module that reads its settings when it is imported."""
    settings = source(folder, "settings", "{}", stalls=stalls)
    text = f"import pathlib\n\nSETTINGS = pathlib.Path({str(settings)!r}).read_text()\n"
    source(folder, "shard_reader.py", text, stalls=False)
    sys.path.insert(0, str(folder))
    importlib.import_module("shard_reader")


def restore_checkpoint(folder: pathlib.Path, *, stalls: bool) -> None:
    """Read the step from a checkpoint."""
    int(source(folder, "checkpoint", "7", stalls=stalls).read_text(encoding="utf-8"))


def next_batch(_: pathlib.Path, *, stalls: bool) -> None:
    """Take a batch from the loader's queue."""
    batches: queue.Queue[int] = queue.Queue()
    if not stalls:
        batches.put(0)
    batches.get()


WORK = {"import": import_module, "restore": restore_checkpoint, "data": next_batch}


def main() -> int:
    """Go through the places in order."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rank", type=int, default=int(os.environ.get("RANK", "0")))
    parser.add_argument("--bound", type=float, default=1.0, help="seconds that each place may take")
    parser.add_argument(
        "--stall", action="append", default=[], metavar="RANK:PLACE", help="where a rank stands still"
    )
    args = parser.parse_args()
    stalls = dict(entry.split(":", 1) for entry in args.stall)
    with tempfile.TemporaryDirectory() as name:
        for place in PLACES:
            say("place", rank=args.rank, place=place, bound=args.bound)
            faulthandler.dump_traceback_later(args.bound, exit=True)
            WORK[place](pathlib.Path(name), stalls=stalls.get(str(args.rank)) == place)
            faulthandler.cancel_dump_traceback_later()
            say("passed", rank=args.rank, place=place)
    return 0


if __name__ == "__main__":
    sys.exit(main())
