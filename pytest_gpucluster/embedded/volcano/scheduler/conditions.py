"""What a session says about gangs and pods: texts, conditions, phases."""

from collections import Counter

from pytest_gpucluster.embedded.objects import Obj
from pytest_gpucluster.embedded.volcano.scheduler.model import Gang, State, Task
from pytest_gpucluster.plain.copies import clone

NOT_READY_REASON = "NotEnoughResources"
READY_REASON = "tasks in gang are ready to be scheduled"
HELD_PHASES = frozenset({"Unknown", "Pending", "Inqueue"})
"""Phases in which each session warns that the gang is not placed."""


def fit_text(gang: Gang) -> str:
    """Return how a gang stands, in the words of its condition and events."""
    counted = Counter(task.state.value for task in gang.tasks)
    parts = [f"{count} {state}" for state, count in counted.items()]
    parts.append(f"{gang.minimum} minAvailable")
    ready = "ready" if gang.is_ready() else "not ready"
    text = f"pod group is {ready}, {', '.join(sorted(parts))}"
    waiting = Counter(_outlook(task) for task in gang.in_state(State.PENDING))
    if waiting:
        listed = sorted(f"{count} {word}" for word, count in waiting.items())
        text += f"; {State.PENDING.value}: {', '.join(listed)}"
    refused = [task for task in gang.tasks if task.refused]
    if refused:
        text += f". Origin reason is {refused[0].name}: {refused[0].refused}"
    return text


def _outlook(task: Task) -> str:
    return "Schedulable" if task.offered is State.ALLOCATED else "Unschedulable"


def pod_verdict(task: Task, fit: str) -> tuple[str, str]:
    """Return reason and message of an unplaced pod's PodScheduled condition."""
    held = task.state in (State.ALLOCATED, State.PIPELINED)
    offered, node = (task.state, task.node) if held else (task.offered, task.offered_node)
    if offered is not None:
        wait, reason = "minAvailable is satisfied", "Schedulable"
        if offered is State.PIPELINED:
            wait, reason = f"resource is released and {wait}", "Unschedulable"
        place = f"Pod {task.namespace}/{task.name} can possibly be assigned to {node}"
        return reason, f"{place}, once {wait}"
    return "Unschedulable", task.refused or fit


def unready_text(gang: Gang, fit: str) -> str:
    """Return the message of a gang's Unschedulable condition: how many members lack a place."""
    offered = sum(task.offered is State.ALLOCATED for task in gang.in_state(State.PENDING))
    lacking = gang.minimum - gang.ready() - offered
    return f"{lacking}/{len(gang.tasks)} tasks in gang unschedulable: {fit}"


def waiting_text(gang: Gang, fit: str) -> str:
    """Return the message of the warning event: how many members are unplaced."""
    waiting = gang.count(State.PENDING)
    return f"{waiting}/{len(gang.tasks)} tasks in gang unschedulable: {fit}"


def new_condition(gang: Gang, fit: str, session: str, now: str) -> Obj | None:
    """Return the condition that this session gives a gang; None without pods or without the gang rule."""
    if not gang.is_judged or not gang.tasks:
        return None
    condition: Obj = {
        "type": "Scheduled",
        "status": "True",
        "transitionID": session,
        "lastTransitionTime": now,
        "reason": READY_REASON,
    }
    if not gang.is_ready():
        condition["type"] = "Unschedulable"
        condition["reason"] = NOT_READY_REASON
        condition["message"] = unready_text(gang, fit)
    return condition


def next_phase(gang: Gang, *, is_unschedulable: bool) -> str:
    """Return a gang's phase at the end of a session."""
    if is_unschedulable and gang.count(State.RUNNING):
        return "Unknown"
    ended = gang.count(State.SUCCEEDED, State.FAILED)
    scheduled = ended + gang.count(State.RUNNING, State.BOUND)
    if scheduled >= gang.minimum:
        return "Completed" if scheduled == ended else "Running"
    return "Inqueue" if gang.phase == "Inqueue" else "Pending"


def next_status(gang: Gang, condition: Obj | None) -> Obj:
    """Return a gang's status at the end of a session."""
    status = clone(gang.group.get("status") or {})
    if condition is not None:
        conditions = status.setdefault("conditions", [])
        for index, old in enumerate(conditions):
            if old.get("type") == condition["type"]:
                conditions[index] = condition
                break
        else:
            conditions.append(condition)
    is_unschedulable = condition is not None and condition["type"] == "Unschedulable"
    status["phase"] = next_phase(gang, is_unschedulable=is_unschedulable)
    for counter, state in (
        ("running", State.RUNNING), ("succeeded", State.SUCCEEDED), ("failed", State.FAILED),
    ):  # fmt: skip
        status.pop(counter, None)
        number = gang.count(state)
        if number:
            status[counter] = number
    return status


def falls_short(old: Obj, new: Obj) -> bool:
    """Report whether a gang that ran does so no longer for want of members."""
    return old.get("phase") == "Running" and new["phase"] in HELD_PHASES


def differs(old: Obj, new: Obj) -> bool:
    """Report whether a status changed in anything but transition times and session ids."""
    return _steady(old) != _steady(new)


def _steady(status: Obj) -> Obj:
    conditions = [
        {k: v for k, v in c.items() if k not in ("transitionID", "lastTransitionTime")}
        for c in status.get("conditions") or []
    ]
    return {**status, "conditions": conditions}
