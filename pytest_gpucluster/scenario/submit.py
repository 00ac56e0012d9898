"""Creating objects on behalf of a scenario: labels, overlay, the recorded answer, and how it is removed again."""

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_gpucluster.kube import errors, kinds
from pytest_gpucluster.plain import names
from pytest_gpucluster.scenario import cleanup, live, volcano_queues
from pytest_gpucluster.scenario import site as sites

Obj = dict[str, Any]

INERT = frozenset({"ConfigMap", "Secret", "LocalQueue", "ServiceAccount"})
"""Kinds that hold and do nothing: the removal of our namespace takes them, without a request each."""

ANSWERED = frozenset({"ServiceAccount", "ClusterRole", "ClusterRoleBinding"})
"""Kinds that nothing follows from: the answer to their deletion says that they are gone, so nobody watches them."""


@dataclasses.dataclass(frozen=True)
class Handle:
    """What became of a submitted object.

    Attributes:
        kind: kind key.
        name: its name.
        uid: its uid, "" when it was refused or a dry run made none.
        ok: whether the API server took it.
        code: HTTP status code.
        body: the object as stored, or the Status of the refusal.
        role: subject, blocker, control or what else the scenario calls it.
    """

    kind: str
    name: str
    uid: str
    ok: bool
    code: int
    body: Mapping[str, Any] = dataclasses.field(repr=False)
    role: str = "subject"


@dataclasses.dataclass(frozen=True)
class _Wish:
    """One create, as asked for."""

    info: kinds.KindInfo
    name: str
    role: str
    dry_run: bool
    case: str | None
    expect_refusal: bool


class MalformedManifest(Exception):  # noqa: N818 (what is wrong, not that something is)
    """A manifest that names no object; the text says which field is missing."""


def _check(manifest: Mapping[str, Any]) -> None:
    metadata = manifest.get("metadata")
    named = metadata if isinstance(metadata, Mapping) else {}
    fields = {
        "apiVersion": manifest.get("apiVersion"),
        "kind": manifest.get("kind"),
        "metadata.name": named.get("name") or named.get("generateName"),
    }
    missing = [field for field, value in fields.items() if not value or not isinstance(value, str)]
    if missing:
        kind, name = fields["kind"] or "object", fields["metadata.name"] or "(no name)"
        raise MalformedManifest(f"malformed manifest {kind}/{name}: {', '.join(missing)} missing")


class Submitter:
    """Creates what one scenario submits and knows what is still there of it.

    Attributes:
        handles: what was created, in order.
    """

    def __init__(self, site: sites.Site, scenario: str, stack: cleanup.CleanupStack) -> None:
        """Create on a site, in the name of a scenario, undone through `stack`."""
        self.handles: list[Handle] = []
        self._site = site
        self._scenario = scenario
        self._stack = stack
        self._made: dict[tuple[str, str], tuple[str, list[str]]] = {}

    def create(
        self, manifest: Obj, *, role: str, dry_run: bool, case: str | None, expect_refusal: bool
    ) -> Handle:
        """Create an object and record the answer; see `Stage.submit`.

        Raises:
            MalformedManifest: without apiVersion, kind or a name nobody can be asked.
            EnvironmentProblem: not permitted, or the API server is in trouble of its own.
        """
        _check(manifest)
        made = self._prepare(manifest, role)
        info = self._site.api.info(str(made.get("apiVersion")), str(made.get("kind")))
        wish = _Wish(info, str(made["metadata"].get("name", "")), role, dry_run, case, expect_refusal)
        if info.namespaced:
            made["metadata"]["namespace"] = self._site.namespace
        uid: list[str] = []
        undo = self._undo(info, wish.name, uid)
        if not dry_run:
            self._made[info.key, wish.name] = made["metadata"]["labels"][names.LABEL_ROLE], uid
            if info.key not in ANSWERED:
                self._site.follow(info)
            if not (self._site.ours and info.key in INERT):
                self._stack.push(undo)
        try:
            body = self._site.api.create(made, namespace=self._site.namespace, dry_run=dry_run)
        except errors.ApiError as error:
            if error.code < 500:
                self._stack.discard(undo)
            return self._refused(wish, error)
        return self._taken(wish, body, uid)

    def remains(self, kind: str, name: str, uid: str) -> list[errors.LeftOver]:
        """Return what is still there of an object and of all that it owns, events left out; the lock is held.

        An object whose deletion was not seen, though its kind is watched, is still there.
        """
        state = self._site.log.state
        own = state.by_uid(uid)
        found = ([own] if own is not None else []) + list(state.owned_by(uid))
        left = [errors.LeftOver(p[0], p[1], p[2], _why(obj)) for p, obj in found if p[0] != "Event"]
        blind = kind in ANSWERED or kind in self._site.log.problems
        if own is None and uid not in state.gone and not blind:
            left.append(errors.LeftOver(kind, self._site.namespace, name, "not seen yet"))
        return left

    def _prepare(self, manifest: Obj, role: str) -> Obj:
        from pytest_gpucluster.workload import overlay  # noqa: PLC0415 (only those who submit pay)

        made = self._site.overlay(copy.deepcopy(manifest), self._site.profile.overlay)
        labels = self._site.labels(self._scenario, role)
        metadata = made.setdefault("metadata", {})
        metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
        annotations = metadata.get("annotations") or {}
        metadata["annotations"] = {**annotations, names.ANNOTATION_EXPIRES: self._site.expires}
        for pod, _ in overlay.pod_templates(made):
            pod["labels"] = {**(pod.get("labels") or {}), **labels}
        return made

    def _taken(self, wish: _Wish, body: Obj, uid: list[str]) -> Handle:
        """Record a success; the create came first, so a watch line of the object may lie before the note."""
        made = "" if wish.dry_run else live.uid_of(body)
        handle = Handle(wish.info.key, wish.name, made, ok=True, code=201, body=body, role=wish.role)
        self._respond(wish, 201, {"object": body})
        if not wish.dry_run:
            uid.append(handle.uid)
            self.handles.append(handle)
            self._note("submitted", wish, uid=handle.uid)
        return handle

    def _refused(self, wish: _Wish, error: errors.ApiError) -> Handle:
        self._respond(wish, error.code, {"status": dict(error.body)})
        self._note("refused", wish, code=error.code)
        trouble = error.code == 429 or (error.code >= 500 and "webhook" not in error.message)
        if trouble or (error.denied and not wish.expect_refusal):
            raise errors.EnvironmentProblem(str(error)) from error
        return Handle(
            wish.info.key, wish.name, "", ok=False, code=error.code, body=error.body, role=wish.role
        )

    def _respond(self, wish: _Wish, code: int, answer: Mapping[str, Any]) -> None:
        request = f"create {wish.info.key}/{wish.name}"
        fields = {"request": request, "case": wish.case, "code": code, "dry_run": wish.dry_run, **answer}
        self._site.log.add("RESPONSE", self._scenario, fields)

    def _note(self, word: str, wish: _Wish, **more: Any) -> None:
        case = {} if wish.case is None else {"case": wish.case}
        fields = {"note": word, "role": wish.role, "kind": wish.info.key, "name": wish.name, **more, **case}
        self._site.log.add("NOTE", self._scenario, fields)

    def _undo(self, info: kinds.KindInfo, name: str, uid: list[str]) -> cleanup.Undo:
        """Return how an object is removed; `uid` is filled once it was created (a lost answer leaves it empty)."""
        space = self._site.namespace if info.namespaced else None

        # Nobody waits for a pod's last words after the end: one second, whatever its own grace period.
        grace = 1 if info.key == "Pod" else None

        def act() -> None:
            if self._going(uid):
                return
            if info.key == volcano_queues.QUEUE.key:
                volcano_queues.remove(self._site, name)
            else:
                self._site.api.delete(info, name, space, grace=grace)

        def act_on_all(several: Sequence[str]) -> bool:
            return self._remove_all(info, several, grace)

        def remains() -> list[errors.LeftOver]:
            return [item for one in uid for item in self.remains(info.key, name, one)]

        item = errors.LeftOver(info.key, space or "", name, "could not be deleted")
        batch = info.key if info.namespaced and name else ""
        seen = None if info.key in ANSWERED else remains
        return cleanup.Undo(item, act, seen, batch=batch, act_on_all=act_on_all)

    def _remove_all(self, info: kinds.KindInfo, several: Sequence[str], grace: int | None) -> bool:
        """Delete some objects of one kind by their roles; False where they would not go alone, or not with one request.

        Labels of ours are on what controllers made from what we submitted, too: pods of a role that also a Job has
        would go before their Job does.
        """
        alive = [
            role for role, uid in (self._made[info.key, name] for name in several) if not self._going(uid)
        ]
        others = {role for (kind, _), (role, _) in self._made.items() if kind != info.key}
        shared = info.key == "Pod" and bool(others & set(alive))
        if len(alive) < 2 or shared or not self._site.together.may(info):
            return False
        own = f"{names.LABEL_RUN}={self._site.run_id},{names.LABEL_SCENARIO}={self._scenario}"
        chosen = f"{own},{names.LABEL_ROLE} in ({','.join(sorted(set(alive)))})"
        try:
            self._site.api.delete_collection(info, self._site.namespace, labels=chosen, grace=grace)
        except errors.ApiError as error:
            if error.code in {403, 405}:
                self._site.together.refused(info)
            raise
        return True

    def _going(self, uid: Sequence[str]) -> bool:
        """Report whether an object is gone, or on its way out."""
        with self._site.log.condition:
            state = self._site.log.state
            return any(one in state.gone or _ending(state.by_uid(one)) for one in uid)


def _ending(found: tuple[live.Place, Obj] | None) -> bool:
    return found is not None and bool(found[1]["metadata"].get("deletionTimestamp"))


def _why(obj: Mapping[str, Any]) -> str:
    metadata = obj.get("metadata") or {}
    if not metadata.get("deletionTimestamp"):
        return "not deleted"
    finalizers = metadata.get("finalizers") or []
    return f"deleting, held by {', '.join(finalizers)}" if finalizers else "deleting"
