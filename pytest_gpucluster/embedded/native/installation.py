"""Putting native gangs into a runtime, or what the API server does where their gates are off."""

from collections.abc import Callable

from pytest_gpucluster.embedded import errors
from pytest_gpucluster.embedded.admission import AdmissionHook, Operation
from pytest_gpucluster.embedded.errors import Cause
from pytest_gpucluster.embedded.native import names, rules
from pytest_gpucluster.embedded.native.gates import Gates
from pytest_gpucluster.embedded.native.protection import protect, release
from pytest_gpucluster.embedded.objects import Obj, name_of
from pytest_gpucluster.embedded.runtime import Runtime
from pytest_gpucluster.embedded.store import Store

_WRITES: tuple[Operation, ...] = ("CREATE", "UPDATE")


def install(runtime: Runtime) -> None:
    """Add native gangs to a runtime as its gates say. Needs a running event loop.

    The scheduler's part is `groups.Groups`, the Job controller's `job_groups.JobGroups`.
    """
    gates = Gates.of(runtime.config)
    hooks = runtime.admission
    if not gates.with_jobs:
        hooks[:0] = [AdmissionHook("Job.batch", op, _dropping("spec", "scheduling")) for op in _WRITES]
    if not gates.groups:
        template = ("spec", "template", "spec", "schedulingGroup")
        hooks[:0] = [AdmissionHook("Pod", op, _dropping("spec", "schedulingGroup")) for op in _WRITES]
        hooks[:0] = [AdmissionHook("Job.batch", op, _dropping(*template)) for op in _WRITES]
        return
    table = runtime.store.table
    table.hook(
        names.POD_GROUP, default=rules.default_group, validate=rules.validate_group, prune=rules.prune_group
    )
    table.hook(names.WORKLOAD, validate=rules.validate_workload, prune=rules.prune_workload)
    if gates.with_jobs:
        jobs = table["Job.batch"]
        table.hook(
            "Job.batch",
            validate=_both(jobs.validate, rules.validate_scheduling),
            prune=_both_pruned(jobs.prune, rules.prune_scheduling),
        )
    hooks += [
        AdmissionHook(names.POD_GROUP, "CREATE", protect),
        AdmissionHook(names.POD_GROUP, "CREATE", _priority),
    ]
    runtime.spawn(release(runtime), "podgroup protection")


def _dropping(*path: str) -> Callable[[Obj, Obj | None, Store], Obj]:
    """Return a call that removes a field whose gate is off, without a word, unless it was there before."""

    def drop(obj: Obj, old: Obj | None, store: Store) -> Obj:
        del store
        if old is None or _at(old, path) is None:
            holder = _at(obj, path[:-1])
            if isinstance(holder, dict):
                holder.pop(path[-1], None)
        return obj

    return drop


def _at(obj: Obj, path: tuple[str, ...]) -> object:
    value: object = obj
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _both(
    first: Callable[[Obj, Obj | None], list[Cause]], second: Callable[[Obj, Obj | None], list[Cause]]
) -> Callable[[Obj, Obj | None], list[Cause]]:
    def validate(obj: Obj, old: Obj | None) -> list[Cause]:
        return first(obj, old) + second(obj, old)

    return validate


def _both_pruned(
    first: Callable[[Obj], list[str]], second: Callable[[Obj], list[str]]
) -> Callable[[Obj], list[str]]:
    def prune(obj: Obj) -> list[str]:
        return first(obj) + second(obj)

    return prune


def _priority(group: Obj, old: Obj | None, store: Store) -> Obj:
    """Give a new PodGroup the priority of its class, or of the default one (an admission call)."""
    del old
    spec = group.setdefault("spec", {})
    name = spec.get("priorityClassName")
    if name:
        found = store.peek("PriorityClass", None, name)
        if found is None:
            why = f"no PriorityClass with name {name} was found"
            raise errors.forbidden("podgroups", names.GROUP, name_of(group), why)
    else:
        classes = store.peek_all("PriorityClass", None, lambda c: bool(c.get("globalDefault")))
        found = max(classes, key=lambda c: int(c.get("value") or 0), default=None)
    if found is not None:
        spec["priorityClassName"] = name_of(found)
    spec["priority"] = int((found or {}).get("value") or 0)
    return group
