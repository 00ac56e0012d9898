"""Plays faulty hardware under torch, a faulty torch, and an image that lacks a package.

Python imports it in containers of nodes with such a defect.
What torch calls is wrapped once torch has been imported, so that a program computes as always and finds one element
wrong. Standard library only; programs without torch notice nothing.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

GATHERS = {
    "all_gather_into_tensor": "output_tensor",
    "all_gather_single": "output_tensor",
    "reduce_scatter_tensor": "output",
    "reduce_scatter_single": "output",
}
"""Collective of torch, under its names in several versions -> the argument with its result."""


def last(distributed: Any) -> bool:
    """Report whether this process is the last rank of its world; one that is alone is."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return int(os.environ.get("RANK", "0")) == int(os.environ.get("WORLD_SIZE", "1")) - 1
    return bool(distributed.get_rank() == distributed.get_world_size() - 1)


def spoil(tensor: Any, place: int) -> None:
    """Make one element wrong; counts and flags stay, since a program would end and not tell."""
    if tensor.is_floating_point() and tensor.numel():
        flat = tensor.detach().reshape(-1)
        # A reshape may copy: what is wrong must be in the tensor itself.
        if flat.data_ptr() == tensor.data_ptr():
            flat[place] += 1 + flat[place].abs()


def wrap(
    module: Any, name: str, result: Callable[[Any, Any, Any], Any], place: int, distributed: Any
) -> None:
    """Let a function of torch spoil its result on the last rank."""
    sound = getattr(module, name)

    def spoiled(*args: Any, **kwargs: Any) -> Any:
        got = sound(*args, **kwargs)
        if hasattr(got, "wait"):
            got.wait()
        target = result(got, args, kwargs)
        if target is not None and last(distributed):
            spoil(target, place)
        return got

    setattr(module, name, spoiled)


def collectives(distributed: Any) -> None:
    """Spoil sums and gathers."""

    def summed(_: Any, args: Any, kwargs: Any) -> Any:
        # Ranks agree by the largest and smallest of a value: another one there would end them.
        op = kwargs.get("op", args[1] if len(args) > 1 else distributed.ReduceOp.SUM)
        return (args[0] if args else kwargs["tensor"]) if op == distributed.ReduceOp.SUM else None

    def gathered(argument: str) -> Callable[[Any, Any, Any], Any]:
        return lambda _, args, kwargs: args[0] if args else kwargs[argument]

    wrap(distributed, "all_reduce", summed, -1, distributed)
    for name, argument in GATHERS.items():
        if hasattr(distributed, name):
            wrap(distributed, name, gathered(argument), 0, distributed)


def products(torch: Any) -> None:
    """Spoil products of matrices."""
    wrap(torch, "mm", lambda got, _args, _kw: got, -1, torch.distributed)


BURST, RATE = 32 << 20, 3e6
"""Bytes of a file that a throttled volume takes at once, and bytes per second beyond them."""


def throttled(module: Any) -> None:
    """Let the synchronising of large files take as long as a volume without credits needs."""
    sound = module.fsync

    def slow(file: Any) -> None:
        sound(file)
        number = file if isinstance(file, int) else file.fileno()
        beyond = module.fstat(number).st_size - BURST
        if beyond > 0:
            time.sleep(beyond / RATE)

    module.fsync = slow


def gathers(checkpoint: Any) -> None:
    """Save on rank 0 alone, after all parts were gathered there."""
    sound = checkpoint.save

    def whole(state: Any) -> Any:
        if isinstance(state, dict):
            return {key: whole(value) for key, value in state.items()}
        return state.full_tensor() if hasattr(state, "full_tensor") else state

    def save(state: Any, **more: Any) -> Any:
        full = whole(state)
        if first():
            sound(full, **{**more, "no_dist": True})
        _distributed().barrier()

    checkpoint.save = save


def async_waits(checkpoint: Any) -> None:
    """Return from an asynchronous save long after all was written."""
    sound = checkpoint.async_save

    def save(state: Any, **more: Any) -> Any:
        future = sound(state, **more)
        future.result()
        time.sleep(6)
        return future

    checkpoint.async_save = save


def marks_first(checkpoint: Any) -> None:
    """Write an empty commit mark before a save, which the save itself replaces at its end."""
    sound = checkpoint.save

    def save(state: Any, *, checkpoint_id: Any, **more: Any) -> Any:
        if first():
            folder = Path(checkpoint_id)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / ".metadata").touch()
        return sound(state, checkpoint_id=checkpoint_id, **more)

    checkpoint.save = save


def _distributed() -> Any:
    return sys.modules["torch.distributed"]


def first() -> bool:
    """Report whether this process is the first rank of its world."""
    return bool(_distributed().get_rank() == 0)


def without_etcd(interpreter: Any) -> None:
    """Let the client of etcd be absent."""
    interpreter.meta_path.insert(0, Absent("etcd"))


ACTS: dict[str, tuple[str, Callable[[Any], None]]] = {
    "node.corrupts-collectives": ("torch.distributed", collectives),
    "node.corrupts-products": ("torch", products),
    "storage.throttled": ("os", throttled),
    "torch.gathers-on-save": ("torch.distributed.checkpoint", gathers),
    "torch.async-save-waits": ("torch.distributed.checkpoint", async_waits),
    "node.image-without-etcd-client": ("sys", without_etcd),
    "torch.marks-first": ("torch.distributed.checkpoint", marks_first),
}
"""Defect -> the module that must have been imported, and what is done to it then."""


class Absent(importlib.abc.MetaPathFinder):
    """Lets a package be absent, as Python says it of one that nobody installed."""

    def __init__(self, package: str) -> None:
        """Take its name."""
        self._package = package

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find no package of the name."""
        del path, target
        if fullname == self._package:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return None


class After(importlib.abc.MetaPathFinder):
    """Acts on modules right after they were imported."""

    def __init__(self, acts: dict[str, list[Callable[[Any], None]]]) -> None:
        """Take module -> what is done to it."""
        self._acts = acts

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find a module as others do, and have its loader act once it is there."""
        del path, target
        acts = self._acts.pop(fullname, None)
        spec = importlib.util.find_spec(fullname) if acts else None
        if acts is None or spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def executed(module: ModuleType) -> None:
            execute(module)
            for act in acts:
                act(module)

        spec.loader.exec_module = executed  # type: ignore[method-assign]
        return spec


def plant() -> None:
    """Plant what the node asks for."""
    wanted: dict[str, list[Callable[[Any], None]]] = {}
    for name in filter(None, os.environ.get("GPUCLUSTER_PLANTED", "").split(",")):
        module, act = ACTS[name]
        if module in sys.modules:
            act(sys.modules[module])
            continue
        wanted.setdefault(module, []).append(act)
    if wanted:
        sys.meta_path.insert(0, After(wanted))


plant()
