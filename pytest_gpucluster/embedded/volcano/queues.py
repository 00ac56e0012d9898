"""Queues: the two that always exist, their webhooks, and the controller of their state."""

import asyncio
from collections.abc import Mapping

from pytest_gpucluster.embedded.admission import AdmissionHook
from pytest_gpucluster.embedded.errors import ApiError, denied
from pytest_gpucluster.embedded.objects import Obj, name_of, namespace_of, uid_of
from pytest_gpucluster.embedded.runtime import Runtime
from pytest_gpucluster.embedded.store import Store
from pytest_gpucluster.embedded.volcano import names
from pytest_gpucluster.embedded.volcano.admission import mutate_queue
from pytest_gpucluster.embedded.volcano.amounts import ZERO, amounts

WEBHOOK = "validatequeue.volcano.sh"
PROTECTED = (names.ROOT_QUEUE, names.DEFAULT_QUEUE)
OPEN, CLOSING, CLOSED = "Open", "Closing", "Closed"
CLOSED_BY_PARENT = "volcano.sh/closed-by-parent"
EMPTY_STATUS: Obj = {"allocated": {"cpu": "0", "memory": "0"}, "reservation": {}}


def hooks() -> list[AdmissionHook[Store]]:
    """Return the admission hooks of Queues."""
    return [
        AdmissionHook(names.QUEUE, "CREATE", _mutate, "mutating"),
        AdmissionHook(names.QUEUE, "CREATE", _validate, "validating"),
        AdmissionHook(names.QUEUE, "UPDATE", _validate, "validating"),
        AdmissionHook(names.QUEUE, "DELETE", _validate_delete, "validating"),
    ]


def create_standard_queues(store: Store, *, capability: Mapping[str, str] | None = None) -> None:
    """Create `root` and `default`, which the scheduler of Volcano makes when it starts.

    Args:
        store: where.
        capability: what `default` may have at most; None for no bound.
    """
    for name in PROTECTED:
        if store.peek(names.QUEUE, None, name) is None:
            spec: Obj = {"reclaimable": name != names.ROOT_QUEUE, "weight": 1, "guarantee": {}}
            if capability and name == names.DEFAULT_QUEUE:
                spec["capability"] = dict(capability)
            store.create(names.QUEUE, {"metadata": {"name": name}, "spec": spec})


async def run_queue_controller(runtime: Runtime) -> None:
    """Open new queues, obey OpenQueue and CloseQueue, and close a queue once it is empty.

    The configuration key `default_queue_ready_delay` says how many seconds the queue `default` stays
    without a state after the start.
    """
    store = runtime.store
    delay = float(runtime.config.get("default_queue_ready_delay") or 0)
    if delay:
        runtime.spawn(_open_later(store, delay), "default queue")
    with store.subscribe([names.QUEUE, names.COMMAND, names.POD_GROUP]) as changes:
        async for kind, key, obj in changes:
            if key == names.QUEUE and kind != "DELETED":
                if not (delay and name_of(obj) == names.DEFAULT_QUEUE):
                    _begin(store, name_of(obj))
            elif key == names.COMMAND and kind == "ADDED":
                _obey(store, obj)
            elif key == names.POD_GROUP and kind == "DELETED":
                _finish_closing(store, str(obj["spec"].get("queue")))


async def _open_later(store: Store, delay: float) -> None:
    await asyncio.sleep(delay)
    _begin(store, names.DEFAULT_QUEUE)


def _begin(store: Store, name: str) -> None:
    queue = store.peek(names.QUEUE, None, name)
    if queue is None:
        return
    if name != names.ROOT_QUEUE and not queue["spec"].get("parent"):

        def adopt(obj: Obj) -> None:
            obj["spec"]["parent"] = names.ROOT_QUEUE

        store.mutate(names.QUEUE, None, name, adopt)
    if not (queue.get("status") or {}).get("state"):
        _set_state(store, name, OPEN)


def _set_state(store: Store, name: str, state: str) -> None:
    def write(obj: Obj) -> None:
        obj["status"] = {**EMPTY_STATUS, **(obj.get("status") or {}), "state": state}

    store.mutate(names.QUEUE, None, name, write, subresource="status")


def _obey(store: Store, command: Obj) -> None:
    target = command.get("target") or {}
    if target.get("kind") != "Queue":
        return
    place = (names.COMMAND, namespace_of(command), name_of(command))
    store.delete(*place, uid=uid_of(command))
    name = str(target.get("name"))
    match command.get("action"):
        case "OpenQueue":
            _open(store, name)
        case "CloseQueue" if name != names.ROOT_QUEUE:
            _mark(store, name, by_parent=False)
            _close(store, name)


def _open(store: Store, name: str) -> None:
    """Open a queue whose parent is open, and what was closed with it; under a closed parent nothing happens."""
    queue = store.peek(names.QUEUE, None, name)
    above = store.peek(names.QUEUE, None, str(((queue or {}).get("spec") or {}).get("parent") or ""))
    if queue is None or (above is not None and _state(above) in (CLOSING, CLOSED)):
        return
    _set_state(store, name, OPEN)
    _mark(store, name, by_parent=False)
    for child in _children(store, name):
        if (child["metadata"].get("annotations") or {}).get(CLOSED_BY_PARENT) == "true":
            _open(store, name_of(child))


def _close(store: Store, name: str) -> None:
    """Close a queue and all that are open below it, which say that they were closed by their parent."""
    _set_state(store, name, CLOSING)
    _finish_closing(store, name)
    for child in _children(store, name):
        if _state(child) not in (CLOSING, CLOSED):
            _mark(store, name_of(child), by_parent=True)
            _close(store, name_of(child))


def _children(store: Store, name: str) -> list[Obj]:
    return [queue for queue in store.list(names.QUEUE) if queue["spec"].get("parent") == name]


def _state(queue: Obj) -> str:
    return str((queue.get("status") or {}).get("state") or "")


def _mark(store: Store, name: str, *, by_parent: bool) -> None:
    """Note whether a queue was closed by its parent; one that never was carries no note."""

    def write(obj: Obj) -> None:
        annotations = obj["metadata"].get("annotations") or {}
        if by_parent or CLOSED_BY_PARENT in annotations:
            obj["metadata"]["annotations"] = {
                **annotations,
                CLOSED_BY_PARENT: "true" if by_parent else "false",
            }

    store.mutate(names.QUEUE, None, name, write)


def _finish_closing(store: Store, name: str) -> None:
    queue = store.peek(names.QUEUE, None, name)
    if queue is None or (queue.get("status") or {}).get("state") != CLOSING:
        return
    if not any(g["spec"].get("queue") == name for g in store.peek_all(names.POD_GROUP)):
        _set_state(store, name, CLOSED)


def _mutate(queue: Obj, old: Obj | None, store: Store) -> Obj:  # noqa: ARG001
    mutate_queue(queue)
    return queue


def _validate(queue: Obj, old: Obj | None, store: Store) -> Obj:  # noqa: ARG001
    spec = queue.get("spec") or {}
    deserved, capability = amounts(spec.get("deserved")), amounts(spec.get("capability"))
    stated = (spec.get("guarantee") or {}).get("resource") or {}
    guarantee = amounts(stated)
    for name, least in guarantee.items():
        if deserved.get(name, ZERO) < least:
            shown = (spec.get("deserved") or {}).get(name, "<nil>")
            raise _refusal(
                f'requestBody.spec.deserved.{name}: Invalid value: "{shown}": deserved[{name}] '
                f"must be >= guarantee[{name}]={stated[name]}"
            )
    for name, wanted in deserved.items():
        if name in capability and wanted > capability[name]:
            raise _refusal(
                f'requestBody.spec.deserved.{name}: Invalid value: "{spec["deserved"][name]}": '
                f"deserved[{name}] must be <= capability[{name}]={spec['capability'][name]}"
            )
    parent = spec.get("parent")
    if parent and parent != names.ROOT_QUEUE and store.peek(names.QUEUE, None, parent) is None:
        why = f'queue.scheduling.volcano.sh "{parent}" not found'
        raise _refusal(f"failed to get parent queue {parent} of queue {name_of(queue)}: {why}")
    return queue


def _validate_delete(queue: Obj, old: Obj | None, store: Store) -> Obj:  # noqa: ARG001
    name = name_of(queue)
    if name in PROTECTED:
        raise _refusal(f"`{name}` queue can not be deleted")
    if any(q["spec"].get("parent") == name for q in store.peek_all(names.QUEUE)):
        raise _refusal(f"queue `{name}` can not be deleted because it has child queues")
    return queue


def _refusal(why: str) -> ApiError:
    return denied(WEBHOOK, why, code=400)
