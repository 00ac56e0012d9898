"""Copies a checkpoint from the disk of its node to a volume that outlives the node, while training goes on.

One runs beside the ranks of each node. A checkpoint counts as saved here when its `MANIFEST.json` is there: it names
the files of all nodes, and the moment on this node's monotonic clock, which does not jump. Each copies the files of its
own node and synchronises them; the one with the commit mark waits until those of all nodes are there in full, and
copies it last: nobody who looks takes half a checkpoint for a whole one. Standard library only.
"""

import argparse
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import checkpoint_storage as storage
from lines import digits, say

MARK, MANIFEST = ".metadata", "MANIFEST.json"
PERIOD = 0.1
"""Seconds between two looks: a volume over a network tells nobody of its changes."""


def copied(source: Path, target: Path) -> int:
    """Copy a file so that under its name it is whole; returns its bytes."""
    side = target.with_name(f".{target.name}.part")
    with source.open("rb") as reading, side.open("wb") as writing:
        shutil.copyfileobj(reading, writing, 16 << 20)
        writing.flush()
        os.fsync(writing.fileno())
    side.replace(target)
    return source.stat().st_size


def awaited(look: Any, until: float) -> Any:
    """Return what a look finds, None where it finds nothing in time."""
    while True:
        found = look()
        if found or time.monotonic() >= until:
            return found
        time.sleep(PERIOD)


def manifest_of(local: Path) -> tuple[Path, dict[str, Any]] | None:
    """Return the checkpoint that was saved on this node, with its manifest."""
    for path in sorted(local.glob(f"step-*/{MANIFEST}")):
        return path.parent, json.loads(path.read_text(encoding="utf-8"))
    return None


def flush(source: Path, manifest: dict[str, Any], target: Path, until: float) -> dict[str, Any]:
    """Copy what this node has of a checkpoint; returns what became of it."""
    target.mkdir(parents=True, exist_ok=True)
    sizes: dict[str, int] = manifest["files"]
    own = [name for name in sizes if name != MARK and (source / name).is_file()]
    moved = sum(copied(source / name, target / name) for name in own)
    marked = (source / MARK).is_file()

    def missing() -> list[str]:
        return [
            name for name, size in sizes.items()
            if name != MARK and not ((target / name).is_file() and (target / name).stat().st_size == size)
        ]  # fmt: skip

    if marked:
        awaited(lambda: not missing(), until)
        if not missing():
            moved += copied(source / MARK, target / MARK)
            storage.move(target.parent / "latest", target.name)
    return {
        "files": len(own), "bytes": moved, "marked": marked, "missing": missing()[:8] if marked else [],
        "seconds": digits(time.monotonic() - float(manifest["at"])),
    }  # fmt: skip


def main() -> int:
    """Wait for a checkpoint, copy it, say how long it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--local", required=True, help="folder on the disk of this node")
    parser.add_argument("--durable", required=True, help="folder on the volume that outlives it")
    parser.add_argument("--wait", type=float, default=600.0, help="seconds to wait for a checkpoint")
    parser.add_argument("--within", type=float, default=300.0, help="seconds in which it must be copied")
    args = parser.parse_args()
    node = os.environ.get("GPUCLUSTER_NODE", "")
    found = awaited(lambda: manifest_of(Path(args.local)), time.monotonic() + args.wait)
    if found is None:
        say(
            "flushed",
            ok=False,
            node=node,
            problem=f"no checkpoint within {args.wait:g} s",
            step=-1,
            seconds=None,
        )
        return 1
    source, manifest = found
    step = int(source.name.partition("-")[2])
    try:
        told = flush(source, manifest, Path(args.durable) / source.name, time.monotonic() + args.within)
    except OSError as error:
        say("flushed", ok=False, node=node, problem=f"{error}"[:300], step=step, seconds=None)
        return 1
    say(
        "flushed",
        ok=not told["missing"],
        node=node,
        problem="",
        step=step,
        mount=storage.mount(Path(args.durable)),
        **told,
    )
    return 0 if not told["missing"] else 1


if __name__ == "__main__":
    sys.exit(main())
