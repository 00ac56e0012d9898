"""A process that multiplies on one GPU until it is killed: `burner.py` with the GPU in CUDA_VISIBLE_DEVICES.

It tells each second how many products it has come to, so that nobody takes a process that waits for one that computes.
"""

import os
import queue
import subprocess
import sys
import threading
import time

SIZE = 8192
BEGIN = 90.0
"""Seconds until the first word of it: torch is loaded, and the GPU is opened."""
SILENCE = 10.0


class Reader:
    """What a burning process tells.

    Attributes:
        process: it.
        follower: reads what it writes, until it ends.
    """

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        """Follow what it writes."""
        self.process = process
        self._lines: queue.Queue[str] = queue.Queue()
        self.follower = threading.Thread(target=self._follow, daemon=True)
        self.follower.start()
        self._since = 0.0
        self._first = self._last = 0
        self._ended = False

    def _follow(self) -> None:
        for line in self.process.stdout or ():
            self._lines.put(line)
        self._lines.put("")

    def begun(self) -> bool:
        """Wait for its first products; report whether there were any."""
        self._first = self._next(BEGIN)
        self._since = time.monotonic()
        return self._first > 0

    def done(self) -> tuple[int, float]:
        """Return how many products it has come to since it had begun, and in how many seconds; 0 if it has ended."""
        while not self._lines.empty():
            self._last = self._next(SILENCE)
        # One more word than there was: it computes still.
        now = self._next(SILENCE)
        return max(0, now - self._first) if now > self._last else 0, time.monotonic() - self._since

    def _next(self, seconds: float) -> int:
        try:
            line = "" if self._ended else self._lines.get(timeout=seconds)
        except queue.Empty:
            return 0
        self._ended = self._ended or not line
        return int(line) if line.strip().isdigit() else 0


def burn() -> None:
    """Multiply for ever."""
    import torch

    left = torch.randn(SIZE, SIZE, dtype=torch.bfloat16, device="cuda")
    out = torch.empty_like(left)
    products, told = 0, time.monotonic()
    while True:
        for _ in range(50):
            torch.mm(left, left, out=out)
        torch.cuda.synchronize()
        products += 50
        if time.monotonic() - told >= 1.0:
            told = time.monotonic()
            print(products, flush=True)


def start(uuid: str, search: dict[str, str]) -> "subprocess.Popen[str]":
    """Start it on a GPU."""
    environment = {**os.environ, **search, "CUDA_VISIBLE_DEVICES": uuid}
    command = [sys.executable, __file__]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


if __name__ == "__main__":
    burn()
