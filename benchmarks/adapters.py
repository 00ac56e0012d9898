"""How long the payload takes to read a node of 16 adapters with two ports each: `python -m benchmarks.adapters`.

Bound: 100 ms. The tree is in memory where the machine has such a folder, as sysfs is.
"""

import contextlib
import io
import os
import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "payloads"))

BOUND = 0.1
ADAPTERS, PORTS, TIMES = 16, 2, 25


def write(root: pathlib.Path) -> None:
    """Write the adapters as sysfs has them."""
    for number in range(ADAPTERS):
        own = root / "class" / "infiniband" / f"mlx5_{number}"
        (own / "device" / "infiniband_verbs" / f"uverbs{number}").mkdir(parents=True)
        for port in range(1, PORTS + 1):
            folder = own / "ports" / str(port)
            folder.mkdir(parents=True)
            told = {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)",
                    "link_layer": "InfiniBand", "sm_lid": "0x1"}  # fmt: skip
            for name, text in told.items():
                (folder / name).write_text(f"{text}\n", encoding="ascii")


def main() -> int:
    """Read them several times; returns 1 if the median is over the bound."""
    import adapters

    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None  # noqa: S108, PTH112
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        root = pathlib.Path(folder)
        write(root)
        took = []
        for _ in range(TIMES):
            began = time.perf_counter()
            with contextlib.redirect_stdout(io.StringIO()):
                found = [adapters.adapter(root / "class" / "infiniband" / name)
                         for name in adapters.names(root / "class" / "infiniband")]  # fmt: skip
            took.append(time.perf_counter() - began)
            assert len(found) == ADAPTERS
    median, most = sorted(took)[TIMES // 2] * 1e3, max(took) * 1e3
    print(f"{ADAPTERS} adapters of {PORTS} ports: median {median:.1f} ms, most {most:.1f} ms")
    return 0 if median < BOUND * 1e3 else 1


if __name__ == "__main__":
    sys.exit(main())
