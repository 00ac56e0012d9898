"""The stage: what a scenario may do to the cluster."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_gpucluster.kube import errors, kinds
from pytest_gpucluster.plain import names, workload_kinds
from pytest_gpucluster.scenario import (
    accounts,
    cleanup,
    disruptions,
    gangs,
    held,
    kueue_queues,
    live,
    podlogs,
    priorities,
    queries,
    slots,
    submit,
    volcano_queues,
    waiting,
)
from pytest_gpucluster.scenario import site as sites

Obj = dict[str, Any]
Handle = submit.Handle
SlotPool = slots.SlotPool
Predicate = waiting.Predicate
Unless = waiting.Unless

TOLD_SECONDS = 10.0
"""Seconds in which the watches must have told of what a scenario made, at its end; what they did not is missing."""


class Stage(waiting.Waiting):
    """What a scenario gets: verbs that record what they did, waits that wake on events and never raise.

    Attributes:
        given: what judges are told beside the standard facts; the scenario fills it.
        context: kind and name of what is not ours and belongs to the evidence.
    """

    def __init__(
        self, site: sites.Site, name: str, kinds_watched: tuple[str, ...], relied: tuple[str, ...] = ()
    ) -> None:
        """Set the stage for one scenario; the session does. Arguments as in `waiting.Waiting`."""
        super().__init__(site, name, kinds_watched, relied)
        self.given: dict[str, Any] = {}
        self.stack = cleanup.CleanupStack(site.log)
        self.context: set[tuple[str, str]] = {
            (kind, name)
            for kind in ("Queue", "ClusterQueue", "LocalQueue")
            for name in {site.profile.queue, held.runs_in(site.profile)}
        }
        self._submitter = submit.Submitter(site, name, self.stack)
        self._acts = disruptions.Acts(site, name)
        self._asker = queries.Reader(site, name)

    @property
    def handles(self) -> list[Handle]:
        """Return what was created, in order."""
        return self._submitter.handles

    @property
    def dialect(self) -> Any:
        """Return how the declared scheduler wants a gang written (`workload.dialect.Dialect`)."""
        from pytest_gpucluster.workload import dialect  # noqa: PLC0415 (only scenarios that write gangs)

        return dialect.dialect_for(
            self.profile.scheduler, held.runs_in(self.profile), self.profile.workload.kind
        )

    @property
    def contrast(self) -> Any:
        """Return how the default scheduler, which gates nothing, wants a gang written."""
        from pytest_gpucluster.workload import dialect  # noqa: PLC0415

        return dialect.dialect_for("default-scheduler")

    def speaks(self, scheduler: str, workload: str = workload_kinds.JOB) -> Any:
        """Return how a scheduler, perhaps not the declared one, wants a gang written as a workload kind.

        Raises:
            WorkloadError: no gang can be written for it, or not as that kind.
        """
        from pytest_gpucluster.workload import dialect  # noqa: PLC0415

        return dialect.dialect_for(scheduler, held.runs_in(self.profile), workload)

    def gang(self, spec: Any, *, role: str = "subject", dialect: Any = None) -> Handle:
        """Create a gang (`workload.GangSpec`) as the declared scheduler, or another dialect, wants it written.

        Raises:
            WorkloadError: the scheduler cannot express it; the row is then not applicable.
        """
        return gangs.submit(self.submit, dialect or self.dialect, spec, role)

    # -- doing -------------------------------------------------------------------------------------------------------

    def slots(self, nodes: int | Sequence[str], per_node: int | Sequence[int]) -> SlotPool:
        """Put slots on nodes until cleanup; the nodes become context of the evidence.

        Args:
            nodes: how many nodes, or their names.
            per_node: slots of each, or of the first, the second ...

        Raises:
            EnvironmentProblem: see `slots.place`.
        """
        pool = slots.place(self._site, self.live, self.stack, self.name, nodes=nodes, per_node=per_node)
        self.context |= {("Node", name) for name in pool.nodes}
        self.given["slots"] = {
            "resource": pool.resource,
            "total": pool.total,
            "nodes": list(pool.nodes),
            "per_node": per_node if isinstance(per_node, int) else list(per_node),
        }
        return pool

    def resize_slots(self, pool: SlotPool, counts: Mapping[str, int]) -> SlotPool:
        """Change how many slots nodes of a pool have: room appears, or is lost from under the pods that hold it.

        A note `slots-set` for each node is written before the request, so that nothing that follows from the change
        can be seen before it.

        Raises:
            EnvironmentProblem: see `slots.place`.
        """
        changed = {node: count for node, count in counts.items() if count != pool.counts[node]}
        for node, count in changed.items():
            self.note("slots-set", resource=pool.resource, node=node, slots=count, was=pool.counts[node])
        return slots.resize(self._site, self.live, pool, changed)

    def queue(
        self, suffix: str = "", *, capability: Mapping[str, Any] | None = None, weight: int = 1
    ) -> Handle:
        """Make a Volcano Queue of our own and wait until it is Open (budget `start`); it becomes context.

        Args:
            suffix: what tells two queues of one scenario apart.
            capability: resource -> the most that its gangs may hold together.
            weight: its share against other queues.
        """
        name = volcano_queues.name_of(self.name, self._site.run_id, suffix)
        made = self.submit(volcano_queues.manifest(name, capability=capability, weight=weight), role="queue")
        self.context.add(("Queue", name))
        if made.ok:
            self.wait(
                f"queue {name} is Open", volcano_queues.is_in(name, volcano_queues.OPEN), budget="start"
            )
        return made

    def cluster_queue(
        self,
        quota: Mapping[str, Any],
        *,
        teams: Sequence[str] = ("team",),
        suffix: str = "",
        cohort: str = "",
        topology: Sequence[str] = (),
    ) -> kueue_queues.Quota:
        """Make a ClusterQueue of Kueue of our own with its flavor and LocalQueues; wait until they are Active.

        Args:
            quota: resource -> what its Jobs may hold together; CPU and memory are plenty unless named.
            teams: names of the LocalQueues, in our namespace, that lead to it.
            suffix: what tells two of one scenario apart.
            cohort: queues of one cohort borrow from each other.
            topology: node labels of the levels by which its Jobs are placed, () where nodes are not looked at.
        """
        name = volcano_queues.name_of(self.name, self._site.run_id, suffix)
        local = {team: names.safe_name(self.name, *([suffix] if suffix else []), team) for team in teams}
        wanted = kueue_queues.manifests(name, tuple(local.values()), quota, cohort=cohort, topology=topology)
        made = [self.submit(one, role="queue") for one in wanted]
        own = next(one for one in made if one.kind == kueue_queues.CLUSTER_QUEUE.key)
        found = kueue_queues.Quota(name, local, ok=all(one.ok for one in made), handle=own)
        if found.ok:
            ready = kueue_queues.active(name, tuple(local.values()))
            there = self.wait(f"ClusterQueue {name} is Active", ready, budget="start")
            found = dataclasses.replace(found, ok=there)
        return found

    def stop_queue(self, queue: kueue_queues.Quota, policy: str) -> bool:
        """Set a ClusterQueue's stopPolicy: `Hold`, `HoldAndDrain` (evicts what was admitted) or `None`.

        Returns:
            Whether the API server took it; a refusal is recorded under the case `stop-queue`.

        Raises:
            EnvironmentProblem: the API server is in trouble of its own.
        """
        return self._acts.stop_queue(queue.handle, policy)

    def close_queue(self, handle: Handle) -> bool:
        """Close a queue of ours, by Command or, where that is refused, by its status; wait until it is.

        Returns:
            Whether it was seen Closing or Closed in time.

        Raises:
            EnvironmentProblem: not permitted.
        """
        if not self._acts.command(handle, "CloseQueue"):
            try:
                volcano_queues.write_closed(self._site, handle.name)
            except errors.ApiError as error:
                if error.denied:
                    raise errors.EnvironmentProblem(str(error)) from error
                raise
        shut = volcano_queues.is_in(handle.name, volcano_queues.CLOSING, volcano_queues.CLOSED)
        return self.wait(f"queue {handle.name} is closed", shut, budget="start")

    def priority(self, value: int) -> Handle:
        """Make a PriorityClass of our own, until cleanup."""
        return self.submit(priorities.manifest(self.name, self._site.run_id, value), role="priority")

    def account(self, rules: Sequence[Mapping[str, Any]]) -> str:
        """Make a ServiceAccount that may do what cluster-wide rules say, until cleanup; returns its name.

        Raises:
            EnvironmentProblem: not permitted: whoever grants must hold what is granted.
        """
        made = accounts.manifests(self.name, self._site.run_id, self.namespace, rules)
        for one in made:
            self.submit(one, role="access")
        return str(made[0]["metadata"]["name"])

    def submit(
        self,
        manifest: Obj,
        *,
        role: str = "subject",
        dry_run: bool = False,
        case: str | None = None,
        expect_refusal: bool = False,
    ) -> Handle:
        """Create an object with our labels and the profile's overlay; record the answer.

        Args:
            manifest: a plain Kubernetes object; it is not changed.
            role: subject, blocker or control.
            dry_run: let the API server decide and store nothing.
            case: name of the case, where one scenario submits several.
            expect_refusal: whether the refusal is what the scenario is about; then even 403 is an answer.

        Returns:
            The handle; `ok` is False when it was refused, whoever refused it: the judge decides what that means.

        Raises:
            EnvironmentProblem: not permitted, or the API server is in trouble of its own.
        """
        return self._submitter.create(
            manifest, role=role, dry_run=dry_run, case=case, expect_refusal=expect_refusal
        )

    def served(self, api_version: str, kind: str) -> bool:
        """Report whether the API serves a kind, and record the answer under the case `api:KIND`.

        A kind that is watched needs no request: its list was the question.

        Raises:
            EnvironmentProblem: not permitted, or the API server is in trouble.
        """
        key = names.kind_key(api_version, kind)
        known = kinds.known(api_version, kind)
        error: errors.GpuClusterError | None = None
        if known is not None:
            self._site.follow(known)
            error = self._site.log.problems.get(key)
        else:
            try:
                self._site.api.info(api_version, kind)
            except errors.ApiError as answer:
                error = answer
        if error is not None and not (isinstance(error, errors.ApiError) and error.code == 404):
            raise errors.EnvironmentProblem(str(error)) from error
        answered = (
            {"code": 404, "status": dict(error.body)} if isinstance(error, errors.ApiError) else {"code": 200}
        )
        fields = {"request": f"look up {kind} of {api_version}", "case": f"api:{key}", **answered}
        self._site.log.add("RESPONSE", self.name, fields)
        return error is None

    def read(
        self, api_version: str, kind: str, name: str, *, case: str, namespace: str | None = None
    ) -> Obj | None:
        """Get an object that no watch follows, with one request, and record the answer under `case`.

        Returns:
            The object; None when it is not there or may not be read, which the judge tells apart by the recorded code.
        """
        return self._asker.one(self._site.api.info(api_version, kind), name, namespace, case)

    def read_all(
        self, api_version: str, kind: str, *, case: str, namespace: str | None = None
    ) -> list[Obj] | None:
        """List a kind that no watch follows and record the answer under `case`; None as in `read`."""
        return self._asker.every(self._site.api.info(api_version, kind), namespace, case)

    def kubelet_config(self, node: str, *, case: str) -> Obj | None:
        """Ask a node's kubelet, through the API server, how it is configured, and record the answer under `case`.

        Needs get on nodes/proxy, which many operators do not grant: whoever has it may read all logs of the node. No
        run requires it; None as in `read`.
        """
        return self._asker.kubelet_config(node, case)

    def server_version(self, *, case: str) -> Obj | None:
        """Ask the API server for its own version and record the answer under `case`."""
        return self._asker.version(case)

    def delete(
        self, handle: Handle, *, note: str | None = None, wait: bool = True, grace: int | None = None
    ) -> bool:
        """Delete a submitted object; with `wait`, until it and what it owns are gone (budget `delete`).

        The note (`room-made` where the deletion makes room, else `deleted-by-us`) is written *before* the request, so
        that nothing which the deletion causes can be seen before it.

        Returns:
            Whether everything was gone in time; True without `wait`.
        """
        word = note or "deleted-by-us"
        self.note(word, role=handle.role, kind=handle.kind, name=handle.name, uid=handle.uid)
        info = self._info(handle)
        self._site.api.delete(
            info,
            handle.name,
            self.namespace if info.namespaced else None,
            uid=handle.uid or None,
            grace=grace,
            foreground=handle.kind in kinds.FOREGROUND,
        )
        if not wait:
            return True
        return self.wait(
            f"{handle.kind}/{handle.name} and its pods to be gone",
            lambda _: not self._submitter.remains(handle.kind, handle.name, handle.uid),
            budget="delete",
        )

    def remove_pod(self, pod: Mapping[str, Any], *, grace: int | None = None) -> None:
        """Delete a pod that a controller made, with its own grace period or another; see `acts.Acts.remove_pod`."""
        self._acts.remove_pod(pod, grace=grace)

    def scale(self, job: Handle, members: int) -> bool:
        """Change how many members a batch Job has; returns whether the API server took it. See `acts.Acts.scale`."""
        return self._acts.scale(job, members)

    def evict(self, pod: Mapping[str, Any]) -> bool:
        """Evict a pod; returns whether the API server took it. See `acts.Acts.evict`."""
        return self._acts.evict(pod)

    def reboot(self, node: str) -> None:
        """Restart a node's machine; see `acts.Acts.reboot`."""
        self._acts.reboot(node)

    def command(self, job: Handle, action: str) -> bool:
        """Give a Volcano Job a command; returns whether the API server took it. See `acts.Acts.command`."""
        return self._acts.command(job, action)

    def follow(self, handle: Handle) -> None:
        """Take down what all containers of an object's pods write, from their start to their end, as they write it.

        For pods that may be deleted before anybody could ask: a completed job takes its other members with it. One
        request per container, the same as `logs`, which then only adds what was not followed.
        """
        self._reader.follow(handle.uid)

    def heard(self, pod: Mapping[str, Any]) -> int:
        """Return how many lines of a pod that is followed were taken down so far; waits may ask it."""
        return self._reader.heard(live.uid_of(pod))

    def said(self, *events: str) -> list[podlogs.Said]:
        """Return the facts of some events that payloads of followed pods have printed so far; waits may ask it."""
        return self._reader.said(*events)

    def logs(self, target: "str | Handle | Mapping[str, Any]") -> None:
        """Fetch the logs of a pod (uid or object) or of all pods of a handle; lines already fetched stay once.

        Raises:
            EnvironmentProblem: logs may not be read.
        """
        if isinstance(target, Handle):
            pods = self.live.pods_of(target)
        elif isinstance(target, str):
            found = self.live.by_uid(target)
            pods = [] if found is None else [found]
        else:
            pods = [dict(target)]
        self._reader.fetch(pods)
        if self._reader.denied is not None:
            raise self._reader.denied

    def close(self) -> None:
        """End the followers of logs; the session does, after the cleanup."""
        self._reader.close()

    # -- inside ------------------------------------------------------------------------------------------------------

    def _until_told(self) -> None:
        state, made = self._site.log.state, [h.uid for h in self.handles if h.uid and h.kind in self._kinds]
        self._site.log.until(
            lambda: all(uid in state.gone or state.by_uid(uid) for uid in made), TOLD_SECONDS
        )

    def _subjects(self) -> set[str]:
        return {handle.uid for handle in self.handles if handle.uid}

    def _info(self, handle: Handle) -> kinds.KindInfo:
        body = handle.body
        if body.get("kind") and body.get("apiVersion") and handle.ok:
            return self._site.api.info(str(body["apiVersion"]), str(body["kind"]))
        return self._site.api.info_of_key(handle.kind)
