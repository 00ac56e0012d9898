"""The columns that `kubectl get` shows."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pytest_gpucluster.embedded.objects import Obj, get_condition, labels_of, name_of
from pytest_gpucluster.embedded.resources import ResourceType
from pytest_gpucluster.plain.times import parse_time

ROLE_PREFIX = "node-role.kubernetes.io/"


@dataclass(frozen=True)
class Column:
    """One column: its name, what it shows, and its priority (0 always, 1 with `-o wide`)."""

    name: str
    cell: Callable[[Obj, datetime], Any]
    priority: int = 0
    type: str = "string"


def human_duration(seconds: float) -> str:
    """Return a duration as kubectl shows ages: two units at most while it is short."""
    n = int(seconds)
    if n < 0:
        return "0s"
    if n < 120:
        return f"{n}s"
    minutes, hours, days = n // 60, n // 3600, n // 86400
    if minutes < 10:
        return f"{minutes}m{n % 60}s" if n % 60 else f"{minutes}m"
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    return f"{hours}h" if hours < 48 else f"{days}d"


def _since(text: str | None, now: datetime) -> str:
    return human_duration((now - parse_time(text)).total_seconds()) if text else "<unknown>"


def _age(obj: Obj, now: datetime) -> str:
    return _since(obj["metadata"].get("creationTimestamp"), now)


def _at(path: str, missing: Any = "") -> Callable[[Obj, datetime], Any]:
    def cell(obj: Obj, now: datetime) -> Any:
        del now
        value: Any = obj
        for part in path.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        return missing if value is None else value

    return cell


def _statuses(pod: Obj) -> list[Obj]:
    return pod.get("status", {}).get("containerStatuses") or []


def pod_status(pod: Obj) -> str:
    """Return the word of the STATUS column: the phase, or what a container is stuck on."""
    status = pod.get("status", {})
    word = status.get("reason") or status.get("phase", "Unknown")
    for state in (s.get("state") or {} for s in _statuses(pod)):
        waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
        if waiting.get("reason"):
            word = waiting["reason"]
        elif ended.get("reason"):
            word = ended["reason"]
        elif ended:
            word = f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode')}"
    if pod["metadata"].get("deletionTimestamp") and status.get("phase") not in ("Succeeded", "Failed"):
        return "Terminating"
    return str(word)


def _pod_ready(pod: Obj, now: datetime) -> str:
    del now
    ready = sum(1 for s in _statuses(pod) if s.get("ready"))
    return f"{ready}/{len(pod.get('spec', {}).get('containers') or [])}"


def _restarts(pod: Obj, now: datetime) -> str:
    del now
    return str(sum(int(s.get("restartCount") or 0) for s in _statuses(pod)))


def _node_status(node: Obj, now: datetime) -> str:
    del now
    ready = get_condition(node, "Ready")
    word = {"True": "Ready", "False": "NotReady"}.get(str((ready or {}).get("status")), "Unknown")
    return word + (",SchedulingDisabled" if node.get("spec", {}).get("unschedulable") else "")


def _roles(node: Obj, now: datetime) -> str:
    del now
    roles = sorted(k[len(ROLE_PREFIX) :] for k in labels_of(node) if k.startswith(ROLE_PREFIX))
    return ",".join(roles) or "<none>"


def _node_ip(node: Obj, now: datetime) -> str:
    del now
    addresses = node.get("status", {}).get("addresses") or []
    return next((str(a["address"]) for a in addresses if a.get("type") == "InternalIP"), "<none>")


def _completions(job: Obj, now: datetime) -> str:
    del now
    wanted = job["spec"].get("completions") or job["spec"].get("parallelism") or 1
    return f"{job.get('status', {}).get('succeeded') or 0}/{wanted}"


def _job_status(job: Obj, now: datetime) -> str:
    del now
    for kind in ("Failed", "Complete", "Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if (get_condition(job, kind) or {}).get("status") == "True":
            return kind
    return "Terminating" if job["metadata"].get("deletionTimestamp") else "Running"


def _job_duration(job: Obj, now: datetime) -> str:
    status = job.get("status", {})
    if not status.get("startTime"):
        return ""
    end = parse_time(status["completionTime"]) if status.get("completionTime") else now
    return human_duration((end - parse_time(status["startTime"])).total_seconds())


def _policy(group: Obj, now: datetime) -> str:
    del now
    return "Gang" if group["spec"]["schedulingPolicy"].get("gang") is not None else "Basic"


def _group_status(group: Obj, now: datetime) -> str:
    del now
    said = get_condition(group, "PodGroupInitiallyScheduled")
    if said is None:
        return "Pending"
    return "Scheduled" if said["status"] == "True" else "Unschedulable"


def _last_seen(event: Obj, now: datetime) -> str:
    series = event.get("series") or {}
    stamp = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    return _since(stamp or event["metadata"].get("creationTimestamp"), now)


def _about(event: Obj, now: datetime) -> str:
    del now
    about = event.get("involvedObject") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def _ports(service: Obj, now: datetime) -> str:
    del now
    ports = service["spec"].get("ports") or []
    return ",".join(f"{p['port']}/{p.get('protocol', 'TCP')}" for p in ports) or "<none>"


def _name(obj: Obj, now: datetime) -> str:
    del now
    return name_of(obj)


def _is_so(kind: str) -> Callable[[Obj, datetime], Any]:
    def cell(obj: Obj, now: datetime) -> Any:
        del now
        return str((get_condition(obj, kind) or {}).get("status") or "")

    return cell


NAME = Column("Name", _name)
AGE = Column("Age", _age)


def columns_of(row: ResourceType) -> list[Column]:
    """Return the columns of a type; name and age for one that has no others."""
    match row.key:
        case "Pod":
            more = [
                Column("Ready", _pod_ready),
                Column("Status", lambda o, _: pod_status(o)),
                Column("Restarts", _restarts),
                AGE,
                Column("IP", _at("status.podIP", "<none>"), 1),
                Column("Node", _at("spec.nodeName", "<none>"), 1),
            ]
        case "Node":
            more = [
                Column("Status", _node_status),
                Column("Roles", _roles),
                AGE,
                Column("Version", _at("status.nodeInfo.kubeletVersion")),
                Column("Internal-IP", _node_ip, 1),
            ]
        case "Job.batch":
            more = [
                Column("Status", _job_status),
                Column("Completions", _completions),
                Column("Duration", _job_duration),
                AGE,
            ]
        case "Job.batch.volcano.sh":
            more = [
                Column("Status", _at("status.state.phase")),
                Column("minAvailable", _at("status.minAvailable", 0), type="integer"),
                Column("Running", _at("status.running", 0), type="integer"),
                AGE,
                Column("Queue", _at("spec.queue"), 1),
            ]
        case "PodGroup":
            more = [
                Column("Status", _at("status.phase")),
                Column("minMember", _at("spec.minMember", 0), type="integer"),
                Column("Running", _at("status.running", 0), type="integer"),
                AGE,
                Column("Queue", _at("spec.queue"), 1),
            ]
        case "PodGroup.scheduling.k8s.io":
            more = [
                Column("Policy", _policy),
                Column("Workload", _at("spec.workloadRef.workloadName", "<none>")),
                Column("Status", _group_status),
                AGE,
            ]
        case "Queue":
            more = [
                Column("Parent", _at("spec.parent")),
                Column("State", _at("status.state")),
                Column("Weight", _at("spec.weight", 1), type="integer"),
                Column("Inqueue", _at("status.inqueue", 0), 1, "integer"),
                Column("Pending", _at("status.pending", 0), 1, "integer"),
                Column("Running", _at("status.running", 0), 1, "integer"),
                AGE,
            ]
        case "ClusterQueue":
            more = [
                Column("Cohort", _at("spec.cohortName")),
                Column("Strategy", _at("spec.queueingStrategy"), 1),
                Column("Pending Workloads", _at("status.pendingWorkloads"), type="integer"),
                Column("Admitted Workloads", _at("status.admittedWorkloads"), 1, "integer"),
            ]
        case "LocalQueue":
            more = [
                Column("ClusterQueue", _at("spec.clusterQueue")),
                Column("Pending Workloads", _at("status.pendingWorkloads"), type="integer"),
                Column("Admitted Workloads", _at("status.admittedWorkloads"), type="integer"),
            ]
        case "Workload":
            more = [
                Column("Queue", _at("spec.queueName")),
                Column("Reserved in", _at("status.admission.clusterQueue")),
                Column("Admitted", _is_so("Admitted")),
                Column("Finished", _is_so("Finished")),
                AGE,
            ]
        case "Namespace":
            more = [Column("Status", _at("status.phase")), AGE]
        case "Service":
            more = [
                Column("Type", _at("spec.type")),
                Column("Cluster-IP", _at("spec.clusterIP", "<none>")),
                Column("External-IP", lambda _o, _n: "<none>"),
                Column("Port(s)", _ports),
                AGE,
            ]
        case "Event":
            return [
                Column("Last Seen", _last_seen),
                Column("Type", _at("type")),
                Column("Reason", _at("reason")),
                Column("Object", _about),
                Column("Message", _at("message")),
                Column("Name", _name, 1),
            ]
        case _:
            more = [AGE]
    return [NAME, *more]
