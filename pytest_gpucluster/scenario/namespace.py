"""The namespace of a session: made and removed by us, or lent by an operator who grants no more."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from pytest_gpucluster.kube import errors, objects, watch
from pytest_gpucluster.kube.errors import LeftOver
from pytest_gpucluster.plain import names
from pytest_gpucluster.scenario import log as logs
from pytest_gpucluster.scenario import site as sites

TRIES = 3
"""Names tried when a killed session of the same run and worker left its namespace."""


def name_of(run_id: str, worker: str) -> str:
    """Return the namespace's name: `gpucluster-<end of the run id>-<worker>`."""
    return names.safe_name("gpucluster", sites.short_run(run_id), worker)


@dataclasses.dataclass
class Namespace:
    """A namespace in which a session works.

    Attributes:
        name: its name.
        made: whether we made it, and so remove it.
    """

    api: objects.Objects
    log: logs.SessionLog
    name: str
    run_id: str
    made: bool

    def remove(self, seconds: float) -> list[LeftOver]:
        """Remove what is ours and wait until it is gone, by watch; return what is left."""
        if not self.made:
            return self._sweep()
        item = LeftOver(objects.NAMESPACE.key, "", self.name, f"still there after {seconds:g} s")
        try:
            answer = self.api.delete(objects.NAMESPACE, self.name)
        except errors.GpuClusterError as error:
            return [dataclasses.replace(item, why=str(error))]
        if answer.get("kind") != "Namespace":
            return []  # a Status: it is gone already
        version = str((answer.get("metadata") or {}).get("resourceVersion") or "") or None
        target = watch.Target(objects.NAMESPACE, fields=f"metadata.name={self.name}")
        follower = watch.KindWatch(self.api, target, self.log, version=version)
        uid = str((answer.get("metadata") or {}).get("uid") or "")
        follower.start()
        try:
            gone = self.log.until(lambda: uid in self.log.state.gone or self._outage(), seconds)
        finally:
            follower.stop()
            follower.join()
        return (
            []
            if gone and uid in self.log.state.gone
            else [dataclasses.replace(item, why=self._why(item.why))]
        )

    def _sweep(self) -> list[LeftOver]:
        """Remove what we made and is still there from a namespace that stays; what it owns goes with it."""
        with self.log.condition:
            places = [
                place
                for place, obj in self.log.state.everything()
                if place[1] == self.name and _made_by(self.run_id, obj["metadata"])
            ]
        left: list[LeftOver] = []
        for kind, _, name in sorted(places):
            try:
                self.api.delete(self.api.info_of_key(kind), name, self.name)
            except errors.GpuClusterError as error:
                left.append(LeftOver(kind, self.name, name, str(error)))
        return left

    def _outage(self) -> bool:
        return self.log.outage() is not None or objects.NAMESPACE.key in self.log.problems

    def _why(self, otherwise: str) -> str:
        """Return what holds a namespace, from its conditions as last seen, or why that cannot be seen."""
        with self.log.condition:
            blind = self.log.problems.get(objects.NAMESPACE.key)
            if blind is not None:
                return f"deleted, but it cannot be seen whether it is gone: {blind}"
            obj = self.log.state.shelf("Namespace", "").get(self.name) or {}
        conditions = (obj.get("status") or {}).get("conditions") or []
        words = [str(c.get("message")) for c in conditions if c.get("status") == "True" and c.get("message")]
        own = (obj.get("metadata") or {}).get("finalizers") or []
        words += [f"held by its own finalizer {each}" for each in own]
        return "; ".join([otherwise, *words])


def _made_by(run_id: str, metadata: Mapping[str, Any]) -> bool:
    """Report whether an object is of a run and stands by itself, and is not on its way out."""
    ours = (metadata.get("labels") or {}).get(names.LABEL_RUN) == run_id
    return ours and not metadata.get("ownerReferences") and not metadata.get("deletionTimestamp")


def make(
    api: objects.Objects,
    log: logs.SessionLog,
    *,
    run_id: str,
    worker: str,
    expires: str,
    given: str | None = None,
) -> Namespace:
    """Make the session's namespace, or take the one that the operator named.

    Raises:
        EnvironmentProblem: namespaces may not be made, or the names are taken.
    """
    if given:
        return Namespace(api, log, given, run_id, made=False)
    first = name_of(run_id, worker)
    for number in range(1, TRIES + 1):
        name = first if number == 1 else f"{first}-{number}"
        manifest = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": name,
                "labels": {names.LABEL_RUN: run_id},
                "annotations": {names.ANNOTATION_EXPIRES: expires},
            },
        }
        try:
            api.create(manifest)
        except errors.ApiError as error:
            if error.code == 409:
                continue
            hint = " (grant create on namespaces, or name one in the profile)" if error.denied else ""
            raise errors.EnvironmentProblem(f"{error}{hint}") from error
        return Namespace(api, log, name, run_id, made=True)
    raise errors.EnvironmentProblem(
        f"the namespaces {first} to {first}-{TRIES} exist; remove them with: gpucluster cleanup --run {run_id}"
    )
