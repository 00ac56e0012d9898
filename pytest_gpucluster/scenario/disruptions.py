"""What a scenario does to what controllers made: deleting and evicting pods, giving a Job a command."""

from collections.abc import Mapping
from typing import Any

from pytest_gpucluster.kube import errors, objects
from pytest_gpucluster.provider import power, protocol
from pytest_gpucluster.scenario import not_applicable, submit, volcano_commands
from pytest_gpucluster.scenario import site as sites


class Acts:
    """The acts of one scenario; each is noted before it is asked for, so that nothing it causes is seen earlier."""

    def __init__(self, site: sites.Site, scenario: str) -> None:
        """Act on a site, in the name of a scenario."""
        self._site = site
        self._scenario = scenario

    def remove_pod(self, pod: Mapping[str, Any], *, grace: int | None = None) -> None:
        """Delete this very pod; a pod that is gone already is a success.

        Args:
            pod: the pod.
            grace: seconds that its processes have to end by themselves, 0 for none; None for those of the pod.
        """
        name, uid = _identity(pod)
        self._note("deleted-by-us", kind="Pod", name=name, uid=uid)
        self._site.api.delete(objects.POD, name, self._site.namespace, uid=uid, grace=grace)

    def scale(self, job: submit.Handle, members: int) -> bool:
        """Change how many members an Indexed Job has, `parallelism` and `completions` in one request.

        Returns:
            Whether the API server took it; a refusal is recorded under the case `scale`.

        Raises:
            EnvironmentProblem: the API server is in trouble of its own.
        """
        self._note("scaled", kind=job.kind, name=job.name, uid=job.uid, members=members)
        change = {"spec": {"parallelism": members, "completions": members}}
        return self._asked(
            "scale",
            f"{members} members of {job.kind}/{job.name}",
            lambda: self._site.api.patch(
                objects.table_row(job.kind), job.name, change, namespace=self._site.namespace
            ),
        )

    def evict(self, pod: Mapping[str, Any]) -> bool:
        """Evict this very pod by its `eviction` sub-resource (policy/v1), as `kubectl drain` does.

        Returns:
            Whether the API server took it. A refusal (permission, PodDisruptionBudget) is recorded under the case
            `evict`: one row stands on it, not the scenario.

        Raises:
            EnvironmentProblem: the API server is in trouble of its own.
        """
        name, uid = _identity(pod)
        self._note("evicted-by-us", kind="Pod", name=name, uid=uid)
        return self._asked(
            "evict", f"evict Pod/{name}", lambda: self._site.api.evict(name, self._site.namespace, uid=uid)
        )

    def command(self, job: submit.Handle, action: str) -> bool:
        """Give a Volcano Job or Queue a command (`AbortJob`, `ResumeJob`, `CloseQueue`), as `vcctl` does.

        Returns:
            Whether the API server took it; a refusal is recorded under the case `command`.

        Raises:
            EnvironmentProblem: the API server is in trouble of its own.
        """
        target = (str(job.body["apiVersion"]), str(job.body["kind"]), job.name, job.uid)
        manifest = volcano_commands.manifest(action, target, self._site.labels(self._scenario, job.role))
        manifest["metadata"]["namespace"] = self._site.namespace
        self._note("commanded", action=action, kind=job.kind, name=job.name, uid=job.uid)
        return self._asked(
            "command",
            f"{action} {job.kind}/{job.name}",
            lambda: self._site.api.create(manifest, namespace=self._site.namespace),
        )

    def stop_queue(self, queue: submit.Handle, policy: str) -> bool:
        """Set a ClusterQueue's stopPolicy; see `Stage.stop_queue`."""
        self._note("commanded", action=policy, kind=queue.kind, name=queue.name, uid=queue.uid)
        change = {"spec": {"stopPolicy": policy}}
        return self._asked(
            "stop-queue",
            f"stopPolicy {policy} of {queue.kind}/{queue.name}",
            lambda: self._site.api.patch(objects.table_row(queue.kind), queue.name, change),
        )

    def reboot(self, node: str) -> None:
        """Restart a node's machine; returns when the provider took it, not when the node is back.

        Raises:
            NotApplicable: the provider has no machines that it could restart.
            EnvironmentProblem: it has, and failed.
        """
        cluster = self._site.cluster
        if protocol.REBOOT not in cluster.features:
            raise not_applicable.NotApplicable(
                f"the nodes of {cluster.name} cannot be restarted: its provider has no control over the machines"
            )
        self._note("rebooted-by-us", node=node)
        try:
            power.reboot(getattr(cluster, "facts", {}), node)
        except protocol.ProviderError as error:
            raise errors.EnvironmentProblem(str(error)) from error

    def _asked(self, case: str, request: str, act: Any) -> bool:
        """Do something and record the answer; False when the API server refused it."""
        fields: dict[str, Any] = {"request": request, "case": case}
        try:
            act()
        except errors.ApiError as error:
            answer = {"code": error.code, "status": dict(error.body)}
            self._site.log.add("RESPONSE", self._scenario, {**fields, **answer})
            if error.code >= 500:
                raise errors.EnvironmentProblem(str(error)) from error
            return False
        self._site.log.add("RESPONSE", self._scenario, {**fields, "code": 201})
        return True

    def _note(self, word: str, **fields: Any) -> None:
        self._site.log.add("NOTE", self._scenario, {"note": word, **fields})


def _identity(pod: Mapping[str, Any]) -> tuple[str, str]:
    return str(pod["metadata"]["name"]), str(pod["metadata"]["uid"])
