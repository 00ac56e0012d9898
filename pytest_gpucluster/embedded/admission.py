"""Admission: what changes or refuses an object before it is stored."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from pytest_gpucluster.embedded.objects import Obj

Operation = Literal["CREATE", "UPDATE", "DELETE"]
Phase = Literal["mutating", "validating"]
Store = TypeVar("Store")


@dataclass(frozen=True)
class AdmissionHook(Generic[Store]):
    """One admission webhook, called inside the process.

    Attributes:
        kind_key: Kind whose writes are admitted.
        operation: CREATE, UPDATE or DELETE.
        call: `(obj, old, store)` returns the object to store or raises ApiError. On DELETE `obj` is the
            stored object and the return value is ignored.
        phase: `mutating` hooks run before schema defaults and validation, `validating` ones after.
    """

    kind_key: str
    operation: Operation
    call: Callable[[Obj, Obj | None, Store], Obj]
    phase: Phase = "mutating"


def admit(
    hooks: Iterable[AdmissionHook[Store]],
    store: Store,
    key: str,
    *,
    operation: Operation,
    phase: Phase,
    obj: Obj,
    old: Obj | None,
) -> Obj:
    """Run the hooks of one phase in their order and return the object they leave."""
    for hook in hooks:
        if hook.kind_key == key and hook.operation == operation and hook.phase == phase:
            obj = hook.call(obj, old, store)
    return obj
