"""The controller of JobSets: their Jobs, their Service, and how they end, restart, wait and resume."""

from pytest_gpucluster.embedded.errors import ApiError
from pytest_gpucluster.embedded.events import Recorder
from pytest_gpucluster.embedded.jobset import names, policies
from pytest_gpucluster.embedded.objects import (
    Key,
    Obj,
    controller_of,
    is_deleting,
    name_of,
    namespace_of,
    owner_reference,
    uid_of,
)
from pytest_gpucluster.embedded.runtime import Runtime
from pytest_gpucluster.embedded.worklist import Worklist
from pytest_gpucluster.plain.copies import clone
from pytest_gpucluster.plain.times import parse_time

AGAIN_SECONDS = 0.1
"""How long after a refused write a set is looked at again; controller-runtime begins with 5 ms and doubles."""

Told = list[tuple[str, str, str]]
"""Events to record once the status is written: type, reason, message."""

_EXCLUSIVE = {names.IN_PROGRESS: names.STARTED, names.STARTED: names.IN_PROGRESS}


class JobSetController:
    """Brings JobSets towards what they ask for, one look at one set."""

    def __init__(self, runtime: Runtime) -> None:
        """Control the JobSets of a runtime's store."""
        self._store = runtime.store
        self._has = runtime.has
        self._events = Recorder(runtime.store, names.REPORTER, legacy=True)
        kinds = [names.JOBSET, names.JOB, names.SERVICE]
        self._work = Worklist(self._store, kinds, self._note, self._look)

    async def run(self) -> None:
        """Follow JobSets, Jobs and Services until cancelled."""
        await self._work.run()

    def _note(self, kind: str, key: str, obj: Obj) -> None:  # noqa: ARG002 (any change of it)
        owner = controller_of(obj)
        if key == names.JOBSET:
            self._work.add((namespace_of(obj), name_of(obj)))
        elif owner is not None and owner["kind"] == names.JOBSET:
            self._work.add((namespace_of(obj), owner["name"]))

    def _look(self, key: Key) -> None:
        jobset = self._store.find(names.JOBSET, *key)
        if jobset is None or is_deleting(jobset):
            return
        if jobset["spec"].get("managedBy") not in (None, names.MANAGER):
            return
        before = clone(jobset.get("status") or {})
        jobset["status"] = clone(before)
        told: Told = []
        try:
            self._bring_forward(jobset, told)
        except ApiError as error:
            if error.code == 404:
                return  # its namespace is going
            self._work.later(key, AGAIN_SECONDS)
        if jobset["status"] == before:
            return
        status = jobset["status"]
        written = self._store.mutate(
            names.JOBSET, *key, lambda obj: obj.update(status=status), subresource="status"
        )
        for event_type, reason, message in told if written is not None else ():
            self._events.event(jobset, event_type, reason, message)

    # -- one look ------------------------------------------------------------------------------------

    def _bring_forward(self, jobset: Obj, told: Told) -> None:
        found = policies.children(jobset, self._jobs(jobset))
        rows = policies.counts(jobset, found)
        jobset["status"]["replicatedJobsStatus"] = rows
        if policies.finished(jobset):
            if not self._has("jobset.keeps-others"):
                self._delete(found.active)
            self._expire(jobset)
            return
        self._delete(found.previous)
        if found.failed:
            self._fail_or_restart(jobset, found, told)
            return
        if found.successful and policies.succeeded(jobset, found.successful):
            self._end(jobset, names.COMPLETED, ("AllJobsCompleted", "jobset completed successfully"), told)
            return
        self._serve(jobset, told)
        self._make(jobset, found, rows, told)
        if jobset["spec"].get("suspend"):
            for job in found.active:
                self._suspend(job)
            self._say(jobset, names.SUSPENDED, ("SuspendedJobs", "jobset is suspended"), told)
        else:
            self._resume(jobset, found, rows, told)

    def _jobs(self, jobset: Obj) -> list[Obj]:
        def mine(job: Obj) -> bool:
            owner = controller_of(job) or {}
            return owner.get("kind") == names.JOBSET and owner.get("uid") == uid_of(jobset)

        return self._store.list(names.JOB, namespace_of(jobset), mine)

    def _delete(self, jobs: list[Obj]) -> None:
        for job in jobs:
            if not is_deleting(job):
                self._store.delete(names.JOB, namespace_of(job), name_of(job), propagation="Foreground")

    # -- how it ends ---------------------------------------------------------------------------------

    def _fail_or_restart(self, jobset: Obj, found: policies.Children, told: Told) -> None:
        policy = jobset["spec"].get("failurePolicy")
        if policy is None:
            first = policies.first_failed(found.failed)
            self._fail(jobset, "FailedJobs", "jobset failed due to one or more job failures", first, told)
            return
        action, job = policies.action(policy, found.failed)
        if action == names.FAIL_SET:
            text = "applying FailJobSet failure policy action"
            self._fail(jobset, "FailJobSetFailurePolicyAction", text, job, told)
            return
        status = jobset["status"]
        counted = int(status.get("restartsCountTowardsMax") or 0)
        counts = action == names.RESTART_SET and not self._has("jobset.restarts-without-end")
        if counts and counted >= int(policy.get("maxRestarts") or 0):
            text = "jobset failed due to reaching max number of restarts"
            self._fail(jobset, "ReachedMaxRestarts", text, job, told)
            return
        status["restarts"] = int(status.get("restarts") or 0) + 1
        if counts:
            status["restartsCountTowardsMax"] = counted + 1
        text = f"applying {action} failure policy action (first failed job: {name_of(job)})"
        told.append(("Warning", f"{action}FailurePolicyAction", text))

    def _fail(self, jobset: Obj, reason: str, text: str, job: Obj, told: Told) -> None:
        why = (reason, f"{text} (first failed job: {name_of(job)})")
        self._end(jobset, names.FAILED, why, told, event_type="Warning")

    def _end(
        self, jobset: Obj, condition: str, why: tuple[str, str], told: Told, *, event_type: str = "Normal"
    ) -> None:
        self._say(jobset, condition, why, told, event_type=event_type)
        jobset["status"]["terminalState"] = condition

    def _expire(self, jobset: Obj) -> None:
        """Remove a finished set once its time to live is over."""
        limit = jobset["spec"].get("ttlSecondsAfterFinished")
        if limit is None:
            return
        since = next(
            c["lastTransitionTime"]
            for c in jobset["status"]["conditions"]
            if c["type"] in (names.COMPLETED, names.FAILED) and c["status"] == "True"
        )
        left = int(limit) - (self._store.clock() - parse_time(since)).total_seconds()
        place = (namespace_of(jobset), name_of(jobset))
        if left > 0:
            self._work.later(place, left)
        else:
            self._store.delete(names.JOBSET, *place, propagation="Foreground")

    # -- what it is made of --------------------------------------------------------------------------

    def _serve(self, jobset: Obj, told: Told) -> None:
        """Make the headless Service under which the pods have names, where none of its name is there."""
        network = jobset["spec"].get("network") or {}
        name, place = names.subdomain(jobset), namespace_of(jobset)
        if not network.get("enableDNSHostnames") or self._has("jobset.no-service"):
            return
        if self._store.peek(names.SERVICE, place, name) is not None:
            return
        body = {
            "metadata": {"name": name, "namespace": place, "ownerReferences": [owner_reference(jobset)]},
            "spec": {
                "clusterIP": "None",
                "selector": {names.JOBSET_NAME: name_of(jobset)},
                "publishNotReadyAddresses": network.get("publishNotReadyAddresses", True),
            },
        }
        try:
            self._store.create(names.SERVICE, body)
        except ApiError as error:
            told.append(("Warning", "HeadlessServiceCreationFailed", error.message))
            raise

    def _make(self, jobset: Obj, found: policies.Children, rows: list[Obj], told: Told) -> None:
        """Make the Jobs that may be there by now."""
        ordered = self._ordered(jobset) and not jobset["spec"].get("suspend")
        for replicated in jobset["spec"]["replicatedJobs"]:
            if not self._may_start(jobset, replicated, rows):
                continue
            if ordered and policies.started(replicated, rows):
                continue
            for index in range(int(replicated["replicas"])):
                self._make_one(jobset, replicated, index, found)
            if ordered:
                self._say_in_progress(jobset, told)
                return
        if ordered:
            why = ("InOrderStartupPolicyCompleted", "in order startup policy has completed")
            self._say(jobset, names.STARTED, why, told)

    def _make_one(self, jobset: Obj, replicated: Obj, index: int, found: policies.Children) -> None:
        policy = jobset["spec"].get("failurePolicy") or {}
        if found.previous and policy.get("restartStrategy") == names.BLOCKING_RECREATE:
            return
        name = names.job_name(jobset, replicated["name"], index)
        if name in found.names:
            return
        template = replicated["template"]
        labels = names.labels(jobset, replicated, index)
        spec = clone(template["spec"])
        pod = spec["template"]
        for holder in (meta := clone(template.get("metadata") or {})), pod.setdefault("metadata", {}):
            for part in ("labels", "annotations"):
                holder[part] = {**(holder.get(part) or {}), **labels}
        if (jobset["spec"].get("network") or {}).get("enableDNSHostnames"):
            pod["spec"]["subdomain"] = names.subdomain(jobset)
        spec["suspend"] = bool(jobset["spec"].get("suspend"))
        kept = {part: meta[part] for part in ("labels", "annotations")}
        place = {"name": name, "namespace": namespace_of(jobset)}
        self._store.create(
            names.JOB,
            {"metadata": {**kept, **place, "ownerReferences": [owner_reference(jobset)]}, "spec": spec},
        )

    def _ordered(self, jobset: Obj) -> bool:
        policy = jobset["spec"].get("startupPolicy") or {}
        return policy.get("startupPolicyOrder") == names.IN_ORDER and not self._has("jobset.ignores-order")

    def _may_start(self, jobset: Obj, replicated: Obj, rows: list[Obj]) -> bool:
        return self._has("jobset.ignores-order") or policies.dependencies_met(jobset, replicated, rows)

    # -- suspended and resumed -----------------------------------------------------------------------

    def _suspend(self, job: Obj) -> None:
        if not job["spec"].get("suspend"):
            place = (namespace_of(job), name_of(job))
            self._store.mutate(names.JOB, *place, lambda obj: obj["spec"].update(suspend=True))

    def _resume(self, jobset: Obj, found: policies.Children, rows: list[Obj], told: Told) -> None:
        ordered = self._ordered(jobset)
        for replicated in jobset["spec"]["replicatedJobs"]:
            if not self._may_start(jobset, replicated, rows):
                continue
            if ordered and policies.started(replicated, rows):
                continue
            for job in found.active:
                if policies.replicated_of(job) == replicated["name"] and job["spec"].get("suspend"):
                    self._resume_one(job, replicated["template"]["spec"]["template"])
            if ordered:
                self._say_in_progress(jobset, told)
                return
        self._say(jobset, names.SUSPENDED, ("ResumeJobs", "jobset is resumed"), told, status="False")

    def _resume_one(self, job: Obj, template: Obj) -> None:
        """Let a Job go on, with what somebody changed in the set's template while it was suspended."""
        place = (namespace_of(job), name_of(job))
        if (job.get("status") or {}).get("startTime"):
            self._store.mutate(
                names.JOB, *place, lambda obj: obj["status"].pop("startTime", None), subresource="status"
            )

        def change(obj: Obj) -> None:
            obj["spec"]["suspend"] = False
            pod = obj["spec"]["template"]
            meta, theirs = pod.setdefault("metadata", {}), template.get("metadata") or {}
            for part in ("labels", "annotations"):
                meta[part] = {**(meta.get(part) or {}), **(theirs.get(part) or {})}
            selector = {
                **(pod["spec"].get("nodeSelector") or {}),
                **(template["spec"].get("nodeSelector") or {}),
            }
            if selector:
                pod["spec"]["nodeSelector"] = selector
            for part in ("tolerations", "schedulingGates"):
                mine, more = pod["spec"].get(part) or [], template["spec"].get(part) or []
                merged = [*mine, *(each for each in more if each not in mine)]
                if merged:
                    pod["spec"][part] = merged

        self._store.mutate(names.JOB, *place, change)

    # -- conditions ----------------------------------------------------------------------------------

    def _say_in_progress(self, jobset: Obj, told: Told) -> None:
        why = ("InOrderStartupPolicyInProgress", "in order startup policy is in progress")
        self._say(jobset, names.IN_PROGRESS, why, told)

    def _say(
        self,
        jobset: Obj,
        condition: str,
        why: tuple[str, str],
        told: Told,
        *,
        status: str = "True",
        event_type: str = "Normal",
    ) -> None:
        """Put a condition in force, and an event with it, where that changes something."""
        conditions: list[Obj] = jobset["status"].setdefault("conditions", [])
        new = {
            "type": condition,
            "status": status,
            "reason": why[0],
            "message": why[1],
            "lastTransitionTime": self._store.now(),
        }
        changed = False
        for other in conditions:
            if other["type"] == _EXCLUSIVE.get(condition) and other["status"] == status == "True":
                other["status"] = "False"
                changed = True
        at = next((n for n, each in enumerate(conditions) if each["type"] == condition), None)
        if at is None and status == "True":
            conditions.append(new)
            changed = True
        elif at is not None and conditions[at]["status"] != status:
            conditions[at] = new
            changed = True
        if changed:
            told.append((event_type, *why))
