"""Proofs: that each watch on which a "never" rests has told all that happened so far.

Silence is not sync: a stream may be held back anywhere between the API server and us. So at the end of each window, and
of each scenario, something of ours is written in each kind that matters, and must come back through that very watch. A
pod, a Service, a ConfigMap or an Event of ours, which nobody acts on, is kept for that; of gangs it is an annotation on
one that is there. Where nothing of ours may be written (nodes, queues, a user who may not), a list says which version
is the present one, and a second watch is read from the last version that the first one told up to that: what it tells
the first must have told by the end of the round. A list alone would not show what was made and deleted in between.

The list is taken at the end of the round, and the second watch is read after it: what it shows is shown up to the list
and no further.
"""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_gpucluster.kube import changes, coverage, errors, kinds, objects
from pytest_gpucluster.plain import names
from pytest_gpucluster.scenario import comparing, live, watches
from pytest_gpucluster.scenario import log as logs
from pytest_gpucluster.scenario import site as sites

Obj = dict[str, Any]

SECONDS = 10.0
"""Seconds in which a proof must have come back."""
NAME = "gpucluster-marker"

_QUIET = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "runAsUser": 65534,
}
_LITTLE = {"cpu": "10m", "memory": "16Mi"}

MARKERS: Mapping[str, Obj] = {
    "Pod": {
        "spec": {
            # Nobody schedules it: its scheduler does not exist, and its gate is never taken away.
            "schedulerName": NAME,
            "schedulingGates": [{"name": names.LABEL_MARKER}],
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [
                {
                    "name": "marker",
                    "image": "registry.k8s.io/pause:3.10",
                    "resources": {"requests": _LITTLE, "limits": _LITTLE},
                    "securityContext": _QUIET,
                }
            ],
        }
    },
    "Service": {"spec": {"clusterIP": "None", "ports": [{"name": "none", "port": 1}]}},
    "ConfigMap": {"data": {}},
    "Event": {
        "reason": "Marker",
        "message": "shows that a watch is current",
        "type": "Normal",
        "source": {"component": "pytest-gpucluster"},
    },
}
"""Kinds of which we keep an object for this -> what it is."""


class Proof:
    """One round of proofs: which watches were current, and that it is to be told."""

    def __init__(
        self,
        api: objects.Objects,
        log: logs.SessionLog,
        scenario: str,
        waits: Sequence[comparing.Wait],
    ) -> None:
        """Take what came back and what did not, and what is still to be compared."""
        self._api = api
        self._log = log
        self._scenario = scenario
        self._waits = waits

    def seal(self, t: float) -> None:
        """Let coverage go on to `t`, the time of a note that was written when all had come back.

        Returns when the second watches have been read, which takes seconds.
        """
        end = t + self._log.origin
        listed = [one for one in self._waits if one.listed is not None]
        held = [one for one in self._waits if one.listed is None and self._counts(one, end)]
        comparing.compare_all(self._api, self._log, listed)
        held += [one for one in listed if self._counts(one, end)]
        for one in self._waits:
            if one not in held:
                self._doubt(one)
        slowest = max((one.back - one.answered for one in held if one.back is not None), default=0.0)
        fields: Obj = {
            "note": "proven",
            "kinds": sorted(one.kind for one in held),
            "seconds": round(max(0.0, slowest), 6),
        }
        shown = {one.kind: round(one.listed - self._log.origin, 6) for one in held if one.listed is not None}
        self._log.add("NOTE", self._scenario, {**fields, **({"listed": shown} if shown else {})})

    def _counts(self, one: comparing.Wait, end: float) -> bool:
        """Let what came back count; False where nothing did, or the stream has broken off meanwhile."""
        if one.back is None:
            return False
        if one.listed is None:
            if one.back - one.answered > coverage.LATE:
                one.watch.coverage.late(one.heard, one.back)
            return one.watch.coverage.proven(one.back, end)
        if one.back > end:  # it had happened, and nobody knows when, and was not told by the end
            one.watch.coverage.late(one.heard, one.back)
        return one.watch.coverage.proven(one.back, end if end - one.listed <= comparing.SOON else one.listed)

    def _doubt(self, one: comparing.Wait) -> None:
        one.watch.coverage.doubted(one.heard)
        since = round(max(0.0, one.heard - self._log.origin), 6)
        why = one.why or "the stream broke off right after it resumed"
        fields = {"note": "unproven", "kind": one.kind, "since": since, "why": why}
        self._log.add("NOTE", self._scenario, fields)


class Prover:
    """Proves watches of one session.

    Attributes:
        name: the name of the markers that it makes.
    """

    def __init__(
        self,
        api: objects.Objects,
        log: logs.SessionLog,
        followed: watches.Watches,
        namespace: str,
        *,
        run_id: str,
        worker: str = "",
        expires: str,
    ) -> None:
        """Write nothing yet.

        Args:
            api: the verbs.
            log: the session's log.
            followed: the watches.
            namespace: where everything of ours is made.
            run_id: the run, as a label value.
            worker: the worker of the run: in a namespace that is lent each has markers of its own.
            expires: when anybody may remove it.
        """
        self._api = api
        self._log = log
        self._watches = followed
        self._namespace = namespace
        self._run_id = run_id
        self.name = names.safe_name(NAME, sites.short_run(run_id), worker)
        self._expires = expires
        self._made: set[str] = set()
        self._refused: set[str] = set()
        self._count = 0

    def prove(self, scenario: str, wanted: Sequence[str]) -> Proof:
        """Let each watch of some kinds show that it is current; what is compared is shown when the proof is sealed.

        Waits at most `SECONDS` for what was written, and as long again for lists.
        Kinds that are not watched, or are known not to be served, are left out.
        """
        clock = self._api.connection.clock
        waits = []
        for kind in dict.fromkeys(wanted):
            followed = self._watches.of(kind)
            if followed is not None and kind not in self._log.problems:
                waits.append(comparing.Wait(kind, followed, followed.heard))
        self._count += 1
        compared = [one for one in waits if not (self._writable(one) and self._write(one))]
        # Before the wait, so that what is on its way when the list is taken arrives with what was written.
        comparing.list_all(self._api, compared)

        def all_back() -> bool:
            for one in waits:
                if one.back is None and one.came is not None and one.came():
                    one.back = clock.monotonic()
            return all(one.back is not None or one.came is None for one in waits)

        self._log.until(all_back, SECONDS)
        for one in waits:
            if one.back is None and one.came is not None:
                one.why = f"the last write did not come back within {SECONDS:g} s"
        comparing.list_again(self._api, compared)
        return Proof(self._api, self._log, scenario, waits)

    def remove(self) -> None:
        """Remove what is ours from a namespace that stays."""
        for kind in sorted(self._made):
            with contextlib.suppress(errors.GpuClusterError):  # it expires, and `gpucluster cleanup` finds it
                self._api.delete(objects.table_row(kind), self.name, self._namespace)
        self._made.clear()

    # -- writing -----------------------------------------------------------------------------------------------------

    def _writable(self, one: comparing.Wait) -> bool:
        """Report whether there is something of ours in a kind that may be written, or can be made."""
        info = one.watch.target.info
        if one.kind in self._refused or not info.namespaced:
            return False
        return one.kind in MARKERS or bool(self._own(info))

    def _write(self, one: comparing.Wait) -> bool:
        """Write something that must come back; report whether that could be."""
        info = one.watch.target.info
        try:
            written = self._marker(info) if one.kind in MARKERS else self._annotated(info)
        except errors.ApiError as error:
            if error.code in {400, 403, 405, 422}:  # it will be refused again
                self._refused.add(one.kind)
            return False
        except errors.GpuClusterError:
            return False
        if written is None:
            return False
        place, version = changes.place(written), changes.version(written)
        one.answered = self._api.connection.clock.monotonic()
        one.came = lambda: one.watch.coverage.up and one.watch.told(*place, version)
        return True

    def _marker(self, info: kinds.KindInfo) -> Obj:
        if info.key in self._made:
            try:
                return self._annotate(info, self.name)
            except errors.ApiError as error:
                if error.code != 404:
                    raise
        body = {"apiVersion": info.api_version, "kind": info.kind, **MARKERS[info.key]}
        body["metadata"] = {
            "name": self.name,
            "namespace": self._namespace,
            "labels": {names.LABEL_RUN: self._run_id, names.LABEL_MARKER: "true"},
            "annotations": {
                names.ANNOTATION_EXPIRES: self._expires,
                names.ANNOTATION_MARKER: self._mark(),
            },
        }
        if info.key == "Event":
            about = {"apiVersion": "v1", "kind": "ConfigMap", "name": self.name, "namespace": self._namespace}
            body["involvedObject"] = about
        try:
            made = self._api.create(body, namespace=self._namespace)
        except errors.ApiError as error:
            if error.code != 409:  # a worker before us left it
                raise
            made = self._annotate(info, self.name)
        self._made.add(info.key)
        return made

    def _annotated(self, info: kinds.KindInfo) -> Obj | None:
        """Annotate one of our own that is there; None where none is."""
        for obj in reversed(self._own(info)):
            try:
                return self._annotate(info, str(obj["metadata"]["name"]))
            except errors.ApiError as error:
                if error.code != 404:
                    raise
        return None

    def _annotate(self, info: kinds.KindInfo, name: str) -> Obj:
        change = {"metadata": {"annotations": {names.ANNOTATION_MARKER: self._mark()}}}
        return self._api.patch(info, name, change, self._namespace)

    def _mark(self) -> str:
        """Return what was never written before: a patch that changes nothing makes no event, and proves nothing."""
        return f"{self._count}-{self._api.connection.clock.monotonic():.6f}"

    def _own(self, info: kinds.KindInfo) -> list[Obj]:
        """Return what there is of ours, oldest first, without what is on its way out."""
        with self._log.condition:
            there = list(self._log.state.shelf(info.key, self._namespace).values())
            return [obj for obj in there if self._ours(obj) and not obj["metadata"].get("deletionTimestamp")]

    def _ours(self, obj: Mapping[str, Any]) -> bool:
        """Report whether an object is of the run, or made for one that is."""
        if (obj["metadata"].get("labels") or {}).get(names.LABEL_RUN) == self._run_id:
            return True
        owners = (self._log.state.by_uid(uid) for uid in live.owners_of(obj))
        return any(owner is not None and self._ours(owner[1]) for owner in owners)
