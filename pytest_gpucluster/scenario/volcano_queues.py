"""Queues of our own: made, closed through a Command, and removed also where only a closed one may be deleted."""

from collections.abc import Callable, Mapping
from typing import Any

from pytest_gpucluster.kube import errors, objects
from pytest_gpucluster.plain import names
from pytest_gpucluster.scenario import site as sites
from pytest_gpucluster.scenario import volcano_commands
from pytest_gpucluster.scenario.live import Live

Obj = dict[str, Any]

QUEUE = objects.table_row("Queue")
OPEN, CLOSING, CLOSED = "Open", "Closing", "Closed"


def name_of(scenario: str, run_id: str, suffix: str = "") -> str:
    """Return the name of a scenario's queue: private to it and to the run, for it lies outside our namespace."""
    return names.safe_name("gpucluster", scenario, *([suffix] if suffix else []), sites.short_run(run_id))


def manifest(name: str, *, capability: Mapping[str, Any] | None = None, weight: int = 1) -> Obj:
    """Return a Volcano Queue.

    Args:
        name: its name.
        capability: resource -> the most that its gangs may hold together; None for no limit of its own.
        weight: its share against other queues.
    """
    spec: Obj = {"weight": weight, "reclaimable": True}
    if capability:
        spec["capability"] = {key: str(value) for key, value in capability.items()}
    return {
        "apiVersion": QUEUE.api_version,
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": spec,
    }


def state_of(queue: Obj | None) -> str:
    """Return the state of a queue, "" where it has none yet."""
    return str(((queue or {}).get("status") or {}).get("state") or "")


def is_in(name: str, *states: str) -> Callable[[Live], bool]:
    """Report whether a queue is in one of some states."""
    return lambda view: state_of(view.get("Queue", name)) in states


def write_closed(site: sites.Site, name: str) -> None:
    """Close a queue by its status, where a Command is not taken.

    Raises:
        ApiError: refused.
    """
    site.api.patch(QUEUE, name, {"status": {"state": CLOSED}}, subresource="status")


def remove(site: sites.Site, name: str) -> None:
    """Delete a queue of ours; where admission wants it closed before, close it and delete it then.

    Raises:
        ApiError: refused for another reason, or still open when the budget `delete` is over.
    """
    try:
        site.api.delete(QUEUE, name)
    except errors.ApiError as error:
        queue = site.log.state.shelf(QUEUE.key, "").get(name)
        if "webhook" not in error.message or queue is None or state_of(queue) == CLOSED:
            raise
    else:
        return
    labels = site.labels("cleanup", "queue")
    close = volcano_commands.manifest(
        "CloseQueue", (QUEUE.api_version, "Queue", name, str(queue["metadata"]["uid"])), labels
    )
    site.api.create(close, namespace=site.namespace)
    site.log.until(
        lambda: state_of(site.log.state.shelf(QUEUE.key, "").get(name)) == CLOSED, site.budget("delete")
    )
    site.api.delete(QUEUE, name)
