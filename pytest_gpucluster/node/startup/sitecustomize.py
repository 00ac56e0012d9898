"""Spares an interpreter most of what collecting garbage costs it while it starts and while it ends.

`import torch` makes a million objects that all stay: looking through them for garbage again and again, and once more
at the end, is a third of the CPU time of a program that imports torch and does little else. Standard library only.
"""

import atexit
import gc
import sys
from pathlib import Path

HERE = str(Path(__file__).parent)


def spare() -> None:
    """Look for garbage seldom, and not at all at the end: what is still there then ends with the process."""
    gc.set_threshold(20_000, 50, 10)
    atexit.register(gc.freeze)


def follow() -> None:
    """Import the `sitecustomize` that this one stands in front of, if there is one."""
    own, path = sys.modules.pop(__name__), list(sys.path)
    sys.path[:] = [folder for folder in path if folder != HERE]
    try:
        __import__(__name__)
    except ModuleNotFoundError as error:
        if error.name != __name__:
            raise
        sys.modules[__name__] = own
    finally:
        sys.path[:] = path


if __name__ == "sitecustomize":
    spare()
    follow()
