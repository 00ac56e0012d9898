"""Plays faulty hardware under torch: imported by Python itself in containers of nodes with such a defect.

What torch calls is wrapped once torch has been imported, so that a program computes as always and finds one element
wrong. Standard library only; programs without torch notice nothing.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
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


ACTS: dict[str, tuple[str, Callable[[Any], None]]] = {
    "node.corrupts-collectives": ("torch.distributed", collectives),
    "node.corrupts-products": ("torch", products),
}
"""Defect -> the module that must have been imported, and what is done to it then."""


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
        wanted.setdefault(module, []).append(act)
    if wanted:
        sys.meta_path.insert(0, After(wanted))


plant()
