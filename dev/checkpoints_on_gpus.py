"""The rows of checkpoints and their benchmark on the GPUs of this machine, one after the other, unattended.

    python -m dev.checkpoints_on_gpus --out OUT [--part rows|benchmark|both] [--disk FOLDER] [--within 540]

It looks for a disk (a container's own layer or memory is none), measures it with one gigabyte, and chooses how many of
the 48 layers fit into its time and onto the disk; whatever it leaves out it says. In OUT: `rows.txt`, `benchmark.txt`,
and `checkpoint-report.tar.gz`, the run's folder, which `gpucluster verify` holds. What is written to the disk is
removed. Needs what the suite needs, torch, and root. `--cluster=embedded` rehearses it on CPUs.
"""

import argparse
import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterable, Sequence

ROOT = pathlib.Path(__file__).resolve().parents[1]
LAYERS, WIDTH = 48, 8192
LAYER = WIDTH * WIDTH * 2
"""Bytes of a layer in bf16, without moments: what the built-in profile `host` saves."""
PROBE = 1 << 30
KEPT = 3.2
"""Checkpoints that are on the disk at once, as parts of the model: two whole ones, raw bytes, and a reserve."""
START = 90.0
"""Seconds of a part that no byte is written in: imports, pods, pinned memory, training."""
MOVED = {"rows": 8.0, "benchmark": 15.0}
"""Models that each part writes or reads: rows save twice, read back, write and read raw bytes twice and load twice; the
benchmark has three rounds of two saves, a load, and raw bytes both ways, at the speed of the slower way."""
NO_DISK = ("overlay", "overlayfs", "aufs", "tmpfs", "ramfs", "devtmpfs", "fuse-overlayfs")


@dataclasses.dataclass(frozen=True)
class Disk:
    """A folder that is written to.

    Attributes:
        folder: the folder.
        fs: its file system.
        free: bytes that are free there.
    """

    folder: pathlib.Path
    fs: str
    free: int

    @property
    def real(self) -> bool:
        """Report whether a figure of it is one of a disk."""
        return self.fs not in NO_DISK


def disk_of(folder: pathlib.Path) -> Disk:
    """Return what a folder is on."""
    sys.path.insert(0, str(ROOT / "payloads"))
    import checkpoint_storage as storage  # noqa: PLC0415 - a payload: of the standard library, and of this checkout

    found = storage.mount(folder)
    return Disk(folder, str(found["fs"]), int(str(found["free"])))


def chosen(disks: Sequence[Disk]) -> Disk:
    """Return the disk with most room, a real one if there is any."""
    return max(disks, key=lambda disk: (disk.real, disk.free))


def layers_that_fit(within: float, speed: float, free: int, part: str) -> int:
    """Return how many layers a part can save.

    Args:
        within: seconds that the part has.
        speed: bytes per second of the slower of writing and reading.
        free: bytes on the disk.
        part: `rows` or `benchmark`.
    """
    of_time = (within - START) * speed / MOVED[part]
    return max(1, min(LAYERS, int(min(of_time, free / KEPT) // LAYER)))


def speed_of(folder: pathlib.Path) -> tuple[float, float]:
    """Return bytes per second of a synchronised write, and of a read with a cold cache, of one gigabyte."""
    import checkpoint_storage as storage  # noqa: PLC0415 - `disk_of` has made it importable

    path = folder / "probe"
    try:
        write = sum(storage.raw_write(path, PROBE, 7)[0])
        left = storage.drop([path])
        read = sum(storage.raw_read(path)[0])
    finally:
        path.unlink(missing_ok=True)
    print(
        f"  {PROBE / write / 1e9:.3g} GB/s written, {PROBE / read / 1e9:.3g} GB/s read, {left} bytes cached before"
    )
    return PROBE / write, PROBE / read


def run(name: str, command: Sequence[str], out: pathlib.Path, within: float) -> int:
    """Run a command whose output goes to the terminal and to a file; it is ended when its time is over."""
    print(f"\n== {name}: {' '.join(command)}", flush=True)
    began = time.monotonic()
    with (out / f"{name}.txt").open("wb") as file:
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        watch = subprocess.Popen(["tee", "-a", "/dev/stderr"], stdin=process.stdout, stdout=file)
        try:
            code = process.wait(within)
        except subprocess.TimeoutExpired:
            # As Ctrl-C: the suite then removes what it has made.
            process.terminate()
            code = process.wait(60)
            print(f"== {name}: ended, its {within:.0f} s were over", flush=True)
        watch.wait()
    print(f"== {name}: exit code {code} after {time.monotonic() - began:.0f} s", flush=True)
    return code


def rows(options: argparse.Namespace, folder: pathlib.Path, layers: int, within: float) -> int:
    """Run the rows; the run's folder comes back as one archive."""
    sized = () if options.cluster != "host" else (f"--gpucluster-set=storage.model.layers={layers}",)
    command = [
        sys.executable, "-m", "pytest", "suites", f"--cluster={options.cluster}", "-m", "checkpoint", "-n", "0",
        "-p", "no:cacheprovider", f"--gpucluster-report-dir={folder / 'reports'}",
        f"--gpucluster-set=budgets.torch={max(60.0, within - 60.0):.0f}", *sized,
    ]  # fmt: skip
    code = run("rows", command, options.out, within)
    latest = folder / "reports" / "latest"
    if latest.exists():
        with tarfile.open(options.out / "checkpoint-report.tar.gz", "w:gz") as archive:
            archive.add(latest.resolve(), arcname=latest.resolve().name)
    return code


def benchmark(options: argparse.Namespace, folder: pathlib.Path, layers: int, within: float) -> int:
    """Run the benchmark."""
    sized = () if options.cluster != "host" else (f"--layers={layers}", f"--width={WIDTH}")
    command = [sys.executable, "benchmarks/checkpoint.py", "--rounds=3", f"--folder={folder}", *sized]
    return run("benchmark", command, options.out, within)


PARTS = {"rows": rows, "benchmark": benchmark}


def arguments(words: Iterable[str] | None = None) -> argparse.Namespace:
    """Return the arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for what is kept")
    parser.add_argument("--part", choices=[*PARTS, "both"], default="both")
    parser.add_argument(
        "--disk", type=pathlib.Path, help="folder on the disk to measure; default: the best found"
    )
    parser.add_argument("--within", type=float, default=540.0, help="seconds of each part")
    parser.add_argument("--cluster", choices=["host", "embedded"], default="host")
    return parser.parse_args(None if words is None else list(words))


def main() -> int:
    """Look at the disks, then run the parts; the exit code is that of the first part that failed."""
    options = arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    options.out = options.out.resolve()
    # The first of equals is taken: not the checkout, where an end without warning would leave checkpoints.
    named = (tempfile.gettempdir(), "/var/tmp", "/mnt", "/data")  # noqa: S108
    known = [*map(pathlib.Path, named), pathlib.Path.home(), pathlib.Path.cwd()]
    places = [options.disk] if options.disk is not None else known
    disks = [disk_of(place) for place in places if place.is_dir() and os.access(place, os.W_OK)]
    for disk in disks:
        print(f"{disk.folder}: {disk.fs}, {disk.free / 1e9:.0f} GB free{'' if disk.real else ': no disk'}")
    best = chosen(disks)
    if not best.real:
        print("no disk was found: CKPT-004 will be undecided, and figures are those of the container's layer")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="checkpoints-", dir=best.folder))
    codes = []
    try:
        print(f"writes to {folder}", flush=True)
        speed = min(speed_of(folder))
        for part in PARTS if options.part == "both" else (options.part,):
            layers = layers_that_fit(options.within, speed, best.free, part)
            if layers < LAYERS:
                print(
                    f"{part}: {layers} of {LAYERS} layers, so that it ends within {options.within:.0f} s and fits"
                )
            codes.append(PARTS[part](options, folder, layers, options.within))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return next((code for code in codes if code), 0)


if __name__ == "__main__":
    sys.exit(main())
