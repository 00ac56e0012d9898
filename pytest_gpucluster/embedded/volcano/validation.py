"""What the validating webhook of Volcano refuses in a Job (code 400, no reason), worded as v1.14.4 does it."""

from collections.abc import Callable, Iterable

from pytest_gpucluster.embedded.errors import ApiError, denied
from pytest_gpucluster.embedded.kinds.pod_rules import validate_pod_spec
from pytest_gpucluster.embedded.kinds.pods import default_pod_spec
from pytest_gpucluster.embedded.objects import Obj, name_of
from pytest_gpucluster.embedded.store import Store
from pytest_gpucluster.embedded.volcano import names
from pytest_gpucluster.embedded.volcano.admission import task_minimum
from pytest_gpucluster.embedded.volcano.plugins import mpi
from pytest_gpucluster.plain.copies import clone

WEBHOOK = "validatejob.volcano.sh"
LONGEST_NAME = 63


def check_create(
    job: Obj, store: Store, *, duplicates_allowed: bool = False, any_queue: bool = False
) -> None:
    """Refuse a new Job that Volcano refuses.

    Args:
        job: The Job, with all defaults filled in.
        store: Where its queue is looked up.
        duplicates_allowed: Leave out the check for two tasks of one name (a defect).
        any_queue: Leave out the check of its queue (a defect).

    Raises:
        ApiError: 400 with every complaint in one message.
    """
    spec = job.get("spec") or {}
    tasks = spec.get("tasks") or []
    if not tasks:
        raise refusal("No task specified in job spec")
    lonely = mpi.missing_task(spec)
    if lonely:
        raise refusal(f"The specified mpi {lonely} task was not found")
    found = [*_tasks(job, tasks, duplicates_allowed)]
    if _has_cycle(tasks):
        found.append("job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG);")
    if int(spec.get("minAvailable") or 0) > _replicas(tasks):
        found.append("job 'minAvailable' should not be greater than total replicas in tasks;")
    found += _policies(spec.get("policies") or [], "spec.policies")
    found += [
        f"unable to find job plugin: {name};"
        for name in spec.get("plugins") or {}
        if name not in names.PLUGIN_NAMES
    ]
    if not any_queue:
        found += _queue(str(spec.get("queue")), store)
    if found:
        raise refusal(" ".join(found).strip())


def check_update(job: Obj, old: Obj) -> None:
    """Refuse a change of a Job that Volcano refuses.

    Raises:
        ApiError: 400.
    """
    new_spec, old_spec = job.get("spec") or {}, old.get("spec") or {}
    tasks = new_spec.get("tasks") or []
    for task in tasks:
        if task_minimum(task) > int(task.get("replicas") or 0):
            raise refusal(f"'minAvailable' must be <= 'replicas' in task: {task.get('name')};")
    if int(new_spec.get("minAvailable") or 0) > _replicas(tasks):
        raise refusal("job 'minAvailable' must not be greater than total replicas")
    if len(tasks) != len(old_spec.get("tasks") or []):
        raise refusal("job updates may not add or remove tasks")
    if _fixed_part(new_spec) != _fixed_part(old_spec):
        raise refusal(
            "job updates may not change fields other than `minAvailable`, "
            "`tasks[*].replicas under spec` and `PriorityClassName`"
        )


def refusal(why: str) -> ApiError:
    """Return the webhook's refusal."""
    return denied(WEBHOOK, why, code=400)


def _replicas(tasks: Iterable[Obj]) -> int:
    return sum(int(task.get("replicas") or 0) for task in tasks)


def _fixed_part(spec: Obj) -> Obj:
    out = {k: v for k, v in spec.items() if k not in ("minAvailable", "priorityClassName")}
    out["tasks"] = [
        {k: v for k, v in task.items() if k not in ("replicas", "minAvailable")}
        for task in spec.get("tasks") or []
    ]
    return out


def _tasks(job: Obj, tasks: list[Obj], duplicates_allowed: bool) -> list[str]:
    out: list[str] = []
    seen: set[str] = set()
    for index, task in enumerate(tasks):
        name = str(task.get("name"))
        if task_minimum(task) > int(task.get("replicas") or 0):
            out.append(f"'minAvailable' is greater than 'replicas' in task: {name}, job: {name_of(job)};")
        if name in seen and not duplicates_allowed:
            out.append(f"duplicated task name {name};")
            break
        seen.add(name)
        out += _policies(task.get("policies") or [], "spec.tasks.policies")
        out += _template(job, task, index)
    return out


def _template(job: Obj, task: Obj, index: int) -> list[str]:
    pod_spec = clone((task.get("template") or {}).get("spec") or {})
    default_pod_spec(pod_spec)
    causes = validate_pod_spec(pod_spec, f"spec.task[{index}].template.spec")
    out = [f"{cause['field']}: {cause['message']}." for cause in causes]
    pod_name = f"{name_of(job)}-{task.get('name')}-{index}"
    if len(pod_name) > LONGEST_NAME:
        why = f"name part must be no more than {LONGEST_NAME} characters"
        out.append(f"create pod with name {pod_name} validate failed [{why}];")
    return out


def _policies(policies: list[Obj], where: str) -> list[str]:
    found = [*_policy_errors(policies, where)]
    if not found:
        return []
    head = "1 error occurred:" if len(found) == 1 else f"{len(found)} errors occurred:"
    listed = "".join(f"\n\t* {text}" for text in found)
    events, actions = " ".join(names.PUBLIC_EVENTS), " ".join(names.PUBLIC_ACTIONS)
    tail = f" valid events are [{events}], valid actions are [{actions}];"
    return [f"{head}{listed}\n\n{tail}"]


def _policy_errors(policies: list[Obj], where: str) -> list[str]:
    out: list[str] = []
    events: set[str] = set()
    codes: set[int] = set()
    for policy in policies:
        named = _events_of(policy)
        code = policy.get("exitCode")
        if named and code is not None:
            out.append("must not specify event and exitCode simultaneously")
            break
        if not named and code is None:
            out.append("either event and exitCode should be specified")
            break
        if named:
            stop = _event_errors(policy, named, events, where, out.append)
        else:
            stop = _code_errors(int(code or 0), codes, out.append)
        if stop:
            break
    if names.ANY_EVENT in events and len(events) > 1:
        out.append("if there's * here, no other policy should be here")
    return out


def _events_of(policy: Obj) -> list[str]:
    one = policy.get("event")
    return [*(policy.get("events") or []), *([one] if one else [])]


def _event_errors(
    policy: Obj, named: list[str], seen: set[str], where: str, report: Callable[[str], None]
) -> bool:
    for event in named:
        if event not in names.PUBLIC_EVENTS:
            report(f'{where}: Invalid value: "{event}": invalid policy event')
            return True
        action = policy.get("action") or ""
        if action not in names.PUBLIC_ACTIONS:
            report(f'{where}: Invalid value: "{action}": invalid policy action')
            return True
        if event in seen:
            report(f"duplicate event {event}  across different policy")
            return True
        seen.add(event)
    return False


def _code_errors(code: int, seen: set[int], report: Callable[[str], None]) -> bool:
    if code == 0:
        report("0 is not a valid error code")
        return True
    if code in seen:
        report(f"duplicate exitCode {code}")
        return True
    seen.add(code)
    return False


def _has_cycle(tasks: list[Obj]) -> bool:
    needs = {str(task.get("name")): set((task.get("dependsOn") or {}).get("name") or []) for task in tasks}
    while needs:
        free = [name for name, wanted in needs.items() if not wanted & needs.keys()]
        if not free:
            return True
        for name in free:
            del needs[name]
    return False


def _queue(name: str, store: Store) -> list[str]:
    queue = store.find(names.QUEUE, None, name)
    if queue is None:
        text = f'queue.scheduling.volcano.sh "{name}" not found'
        return [f"unable to find job queue: {text};"]
    if name == names.ROOT_QUEUE:
        return ["can not submit job to root queue;"]
    state = (queue.get("status") or {}).get("state") or ""
    if state != "Open":
        return [f"can only submit job to queue with state `Open`, queue `{name}` status is `{state}`;"]
    if any((q.get("spec") or {}).get("parent") == name for q in store.list(names.QUEUE)):
        return [f"can only submit job to leaf queue, queue `{name}` has child queues;"]
    return []
