"""The Workload and the PodGroup that the Job controller makes for a batch Job before its pods."""

from typing import TYPE_CHECKING

from pytest_gpucluster.embedded.errors import ApiError
from pytest_gpucluster.embedded.events import Recorder
from pytest_gpucluster.embedded.native import names
from pytest_gpucluster.embedded.native.gates import Gates
from pytest_gpucluster.embedded.objects import (
    Obj,
    controller_of,
    get_condition,
    name_of,
    namespace_of,
    owner_reference,
    uid_of,
)
from pytest_gpucluster.embedded.runtime import Runtime
from pytest_gpucluster.embedded.writing import NAME_ALPHABET
from pytest_gpucluster.plain.copies import clone

if TYPE_CHECKING:
    from pytest_gpucluster.embedded.store import Store

LONGEST_NAME = 253

_FNV_OFFSET, _FNV_PRIME = 0x811C9DC5, 0x01000193


def short_hash(text: str) -> str:
    """Return the hash of generated names: 32-bit FNV-1a in letters and digits that make no words."""
    value = _FNV_OFFSET
    for byte in text.encode():
        value = ((value ^ byte) * _FNV_PRIME) & 0xFFFFFFFF
    return "".join(NAME_ALPHABET[ord(digit) % len(NAME_ALPHABET)] for digit in str(value))


def workload_name(job: Obj) -> str:
    """Return the name of a Job's Workload, which depends on the Job's uid."""
    ending = short_hash(f"(types.UID){uid_of(job)}")
    return f"{name_of(job)[: LONGEST_NAME - len(ending) - 1]}-{ending}"


def template_name(job: Obj) -> str:
    """Return the name of the one template in a Job's Workload."""
    return f"{name_of(job)}-pgt-0"


def group_name(workload: str, template: str) -> str:
    """Return the name of the PodGroup of a template."""
    ending = short_hash(workload + template)
    room = LONGEST_NAME - len(ending) - 2
    if len(workload) + len(template) > room:
        half = room // 2
        if len(workload) <= half:
            template = template[: room - len(workload)]
        elif len(template) <= half:
            workload = workload[: room - len(template)]
        else:
            workload, template = workload[: room - half], template[:half]
    return f"{workload}-{template}-{ending}"


class JobGroups:
    """Makes and finds the groups of Jobs; does nothing where the gate WorkloadWithJob is off."""

    def __init__(self, runtime: Runtime, events: Recorder) -> None:
        """Work on a runtime's store and report as the Job controller."""
        self._store: Store = runtime.store
        self._events = events
        gates = Gates.of(runtime.config)
        self._on, self._topology = gates.with_jobs, gates.topology
        self._has = runtime.has

    def ensure(self, job: Obj, pods: list[Obj]) -> bool:
        """Make what a Job that has never started lacks, and carry a changed minCount over to what is there.

        Returns:
            False when something could not be made; the Job is then to be looked at again, before it gets pods.
        """
        if not self._manages(job):
            return True
        name, new = workload_name(job), _is_new(job, pods)
        workload = self._mine(names.WORKLOAD, job, name)
        group = self._mine(names.POD_GROUP, job, group_name(name, template_name(job)))
        if workload is not None and group is not None:
            self._resize(job, workload, group)
            return True
        if not new:
            return True
        if workload is None:
            workload = self._create(names.WORKLOAD, job, self._workload(job))
        return (
            workload is not None
            and self._create(names.POD_GROUP, job, self._group(job, workload)) is not None
        )

    def join(self, job: Obj, pod: Obj) -> None:
        """Let a new pod of a Job name the Job's group, in place."""
        if self._manages(job):
            name = group_name(workload_name(job), template_name(job))
            if self._mine(names.POD_GROUP, job, name) is not None:
                pod["spec"]["schedulingGroup"] = {"podGroupName": name}

    def _manages(self, job: Obj) -> bool:
        """Report whether a Job gets a group: unless its pods name one, or something else controls the Job."""
        named = job["spec"]["template"]["spec"].get("schedulingGroup")
        return self._on and named is None and controller_of(job) is None

    def _mine(self, key: str, job: Obj, name: str) -> Obj | None:
        found = self._store.peek(key, namespace_of(job), name)
        owner = None if found is None else controller_of(found)
        return found if owner is not None and owner["uid"] == uid_of(job) else None

    def _create(self, key: str, job: Obj, body: Obj) -> Obj | None:
        kind = key.partition(".")[0]
        try:
            made = self._store.create(key, body)
        except ApiError as error:
            if key == names.WORKLOAD:
                text = f"Failed to create Workload for Job {name_of(job)}: {error.message}"
                self._events.event(job, "Warning", "FailedWorkloadCreate", text)
            return None
        text = f"Created {kind} {name_of(made)} for Job {name_of(job)}"
        self._events.event(job, "Normal", f"{kind}Created", text)
        return made

    def _policy(self, job: Obj) -> Obj:
        """Return the policy that a Job asks for; without a word it is the basic one."""
        scheduling = job["spec"].get("scheduling") or {}
        gang = (scheduling.get("schedulingPolicy") or {}).get("gang")
        if gang is None or self._has("native.basic-policy"):
            return {"basic": {}}
        least = int(gang.get("minCount") or max(1, int(job["spec"].get("parallelism") or 0)))
        return {"gang": {"minCount": max(1, least - int(self._has("native.min-count-short")))}}

    def _constraints(self, job: Obj) -> Obj | None:
        """Return the domain that a Job asks for; without the gate it is dropped in silence."""
        asked = (job["spec"].get("scheduling") or {}).get("schedulingConstraints")
        return clone(asked) if asked and self._topology else None

    def _workload(self, job: Obj) -> Obj:
        template: Obj = {
            "name": template_name(job),
            "schedulingPolicy": self._policy(job),
            "schedulingConstraints": self._constraints(job),
        }
        priority = job["spec"]["template"]["spec"].get("priorityClassName")
        if priority:
            template["priorityClassName"] = priority
        disruption = (job["spec"].get("scheduling") or {}).get("disruptionMode")
        if disruption:
            template["disruptionMode"] = clone(disruption)
        return {
            "metadata": {
                "name": workload_name(job),
                "namespace": namespace_of(job),
                "ownerReferences": [owner_reference(job)],
            },
            "spec": {
                "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": name_of(job)},
                "podGroupTemplates": [template],
            },
        }

    def _group(self, job: Obj, workload: Obj) -> Obj:
        (template,) = workload["spec"]["podGroupTemplates"]
        copied = ("schedulingPolicy", "schedulingConstraints", "priorityClassName", "disruptionMode")
        owner = owner_reference(workload)
        for field in ("controller", "blockOwnerDeletion"):
            owner.pop(field)
        return {
            "metadata": {
                "name": group_name(name_of(workload), template["name"]),
                "namespace": namespace_of(job),
                "ownerReferences": [owner_reference(job), owner],
            },
            "spec": {
                "workloadRef": {"templateName": template["name"], "workloadName": name_of(workload)},
                **{field: clone(template[field]) for field in copied if template.get(field)},
            },
        }

    def _resize(self, job: Obj, workload: Obj, group: Obj) -> None:
        wanted = self._policy(job).get("gang")
        if wanted is None or group["spec"]["schedulingPolicy"].get("gang") in (None, wanted):
            return

        def in_template(obj: Obj) -> None:
            obj["spec"]["podGroupTemplates"][0]["schedulingPolicy"]["gang"] = wanted

        def in_group(obj: Obj) -> None:
            obj["spec"]["schedulingPolicy"]["gang"] = wanted

        self._store.mutate(names.WORKLOAD, namespace_of(job), name_of(workload), in_template)
        self._store.mutate(names.POD_GROUP, namespace_of(job), name_of(group), in_group)


def _is_new(job: Obj, pods: list[Obj]) -> bool:
    """Report whether a Job has never started: only then something is made for it."""
    status = job.get("status") or {}
    begun = any(status.get(field) for field in ("startTime", "succeeded", "failed"))
    return not pods and not begun and get_condition(job, "Suspended") is None
