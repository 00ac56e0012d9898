"""The verbs on objects: one request each, plain dicts in and out."""

import threading
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pytest_gpucluster.kube import connection as connections
from pytest_gpucluster.kube import errors, kinds, lateness, stream

Obj = dict[str, Any]
PatchType = Literal["merge", "json"]

_CONTENT = {"merge": connections.MERGE_PATCH, "json": connections.JSON_PATCH}
MOST_LOG = 64 * 1024 * 1024
"""Bytes of a container's log that are read."""
PAGE = 500
"""Objects per page of a list; kubectl's choice."""


class Objects:
    """The verbs of the Kubernetes API over one connection; every thread may use it.

    Attributes:
        connection: the connection.
        skew: how far the server's clock is from ours, learned from what we create.
    """

    def __init__(self, connection: connections.Connection) -> None:
        """Use a connection."""
        self.connection = connection
        self.skew = lateness.Skew()
        self._found: dict[tuple[str, str], kinds.KindInfo] = {}
        self._lock = threading.Lock()

    def info(self, api_version: str, kind: str) -> kinds.KindInfo:
        """Return where a kind lives: from the table, else by one discovery request, remembered.

        Raises:
            ApiError: 404 when the API does not serve the group, version or kind.
        """
        info = kinds.known(api_version, kind)
        if info is not None:
            return info
        with self._lock:
            if (api_version, kind) not in self._found:
                self._found[api_version, kind] = self._discover(api_version, kind)
            return self._found[api_version, kind]

    def info_of_key(self, key: str) -> kinds.KindInfo:
        """Return where the kind of a kind key lives.

        Raises:
            EnvironmentProblem: the key is not in the table and says no version.
        """
        info = kinds.by_key(key)
        if info is None:
            raise errors.EnvironmentProblem(f"unknown kind {key!r}: give its apiVersion")
        return info

    def create(self, manifest: Obj, *, namespace: str | None = None, dry_run: bool = False) -> Obj:
        """Create an object and return it as the server stored it.

        Never repeated once the server may have acted: a second create could find its own first.

        Raises:
            ApiError, Unreachable: see `Connection.call`.
        """
        info = self.info(str(manifest.get("apiVersion")), str(manifest.get("kind")))
        metadata = manifest.get("metadata") or {}
        name = str(metadata.get("name") or metadata.get("generateName") or "")
        space = namespace or metadata.get("namespace")
        sent = self.connection.clock.monotonic()
        made = self.connection.call(
            connections.Ask(
                "create",
                info.key,
                "POST",
                info.path(space),
                _about("create", info, space, name),
                query={"dryRun": "All"} if dry_run else {},
                body=manifest,
                idempotent=dry_run,
            )
        )
        stamp = (made.get("metadata") or {}).get("creationTimestamp")
        self.skew.learn(str(stamp or ""), sent, self.connection.clock.monotonic())
        return made

    def get(self, info: kinds.KindInfo, name: str, namespace: str | None = None) -> Obj:
        """Return one object.

        Raises:
            ApiError, Unreachable: see `Connection.call`.
        """
        about = _about("get", info, namespace, name)
        return self.connection.call(
            connections.Ask("get", info.key, "GET", info.path(namespace, name), about)
        )

    def pages(
        self, info: kinds.KindInfo, namespace: str | None = None, *, labels: str = "", fields: str = ""
    ) -> Iterator[Obj]:
        """Yield the pages of a list; the last one's resourceVersion is where a watch begins.

        Raises:
            ApiError: 410 when the list grew too old between pages; start again.
        """
        query = {"limit": str(PAGE)}
        if labels:
            query["labelSelector"] = labels
        if fields:
            query["fieldSelector"] = fields
        while True:
            page = self.connection.call(
                connections.Ask(
                    "list",
                    info.key,
                    "GET",
                    info.path(namespace),
                    _about("list", info, namespace),
                    query=query,
                )
            )
            yield page
            token = (page.get("metadata") or {}).get("continue")
            if not token:
                return
            query = {**query, "continue": str(token)}

    def list(
        self, info: kinds.KindInfo, namespace: str | None = None, *, labels: str = "", fields: str = ""
    ) -> "list[Obj]":
        """Return all objects of a kind, each with its apiVersion and kind.

        Raises:
            ApiError, Unreachable: see `Connection.call`.
        """
        return [
            whole(item, info)
            for page in self.pages(info, namespace, labels=labels, fields=fields)
            for item in page.get("items") or []
        ]

    def present_version(self, info: kinds.KindInfo, namespace: str | None = None) -> str:
        """Return the version at which a list of a kind is the present state; one short request.

        Raises:
            ApiError, Unreachable: see `Connection.call`.
        """
        about = _about("list", info, namespace)
        ask = connections.Ask("list", info.key, "GET", info.path(namespace), about, query={"limit": "1"})
        return str((self.connection.call(ask).get("metadata") or {}).get("resourceVersion") or "")

    def delete(
        self,
        info: kinds.KindInfo,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        version: str | None = None,
        grace: int | None = None,
        foreground: bool = False,
    ) -> Obj:
        """Delete one object, its dependants in the background; an object that is gone already is a success.

        Args:
            info: its kind.
            name: its name.
            namespace: its namespace.
            uid: delete only the object with this uid, not one of the same name that came later.
            version: delete it only if nobody has changed it since it had this resourceVersion.
            grace: seconds that pods get to end; None for their own.
            foreground: delete the dependants first, and keep the object until they are gone.

        Raises:
            ApiError: 409 when the uid or the version differs.
            Unreachable: no answer.
        """
        policy = "Foreground" if foreground else "Background"
        options: Obj = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy}
        wanted = {"uid": uid, "resourceVersion": version}
        if uid or version:
            options["preconditions"] = {field: value for field, value in wanted.items() if value}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        about = _about("delete", info, namespace, name)
        ask = connections.Ask("delete", info.key, "DELETE", info.path(namespace, name), about, body=options)
        try:
            return self.connection.call(ask)
        except errors.ApiError as error:
            if error.code == 404:
                return dict(error.body)
            raise

    def evict(self, pod: str, namespace: str, *, uid: str) -> Obj:
        """Ask for the eviction of one pod, which PodDisruptionBudgets may refuse.

        Raises:
            ApiError: 403 without permission, 404 when it is gone, 409 when the uid differs, 429 by a budget.
            Unreachable: no answer.
        """
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        about = _about("evict", POD, namespace, pod)
        path = POD.path(namespace, pod, "eviction")
        ask = connections.Ask("create", "Pod/eviction", "POST", path, about, body=body, idempotent=False)
        return self.connection.call(ask)

    def delete_collection(
        self, info: kinds.KindInfo, namespace: str | None = None, *, labels: str, grace: int | None = None
    ) -> Obj:
        """Delete all objects that carry labels, their dependants in the background, with one request.

        Args:
            info: their kind.
            namespace: their namespace.
            labels: label selector.
            grace: seconds that pods get to end; None for their own.

        Raises:
            ApiError, Unreachable: see `Connection.call`.
        """
        options: Obj = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        about = f"{_about('delete', info, namespace)} with {labels}"
        return self.connection.call(
            connections.Ask(
                "deletecollection",
                info.key,
                "DELETE",
                info.path(namespace),
                about,
                query={"labelSelector": labels},
                body=options,
            )
        )

    def patch(
        self,
        info: kinds.KindInfo,
        name: str,
        change: object,
        namespace: str | None = None,
        *,
        how: PatchType = "merge",
        subresource: str = "",
    ) -> Obj:
        """Patch an object or a sub-resource of it and return the object.

        A merge patch is the same however often it is sent and is repeated after trouble; a JSON patch is not.

        Raises:
            ApiError, Unreachable: see `Connection.call`.
        """
        key = f"{info.key}/{subresource}" if subresource else info.key
        return self.connection.call(
            connections.Ask(
                "patch",
                key,
                "PATCH",
                info.path(namespace, name, subresource),
                _about("patch", info, namespace, name, subresource),
                body=change,
                content_type=_CONTENT[how],
                idempotent=how == "merge",
            )
        )

    def logs(
        self,
        pod: str,
        namespace: str,
        *,
        container: str = "",
        previous: bool = False,
        tail: int | None = None,
    ) -> str:
        """Return what a container wrote so far, at most `MOST_LOG` bytes of it.

        Raises:
            ApiError: 400 when the container has not started.
            Unreachable: no answer.
        """
        query = {
            **({"container": container} if container else {}),
            **({"previous": "true"} if previous else {}),
            **({"tailLines": str(tail)} if tail is not None else {}),
        }
        info = POD
        about = _about("read the log of", info, namespace, pod)
        return self.connection.text(
            connections.Ask(
                "log", info.key, "GET", info.path(namespace, pod, "log"), about, query=query, most=MOST_LOG
            )
        )

    def follow_logs(
        self, pod: str, namespace: str, *, container: str = "", silence: float = 3600.0
    ) -> stream.Stream:
        """Open the log of a container and follow it to the container's end; one request.

        Args:
            pod: the pod's name.
            namespace: its namespace.
            container: the container's name, "" where there is but one.
            silence: seconds without a line after which the connection counts as dead.

        Raises:
            ApiError: 400 when the container has not started, 404 when the pod is gone.
            Unreachable: no answer.
        """
        query = {"follow": "true", **({"container": container} if container else {})}
        about = _about("follow the log of", POD, namespace, pod)
        ask = connections.Ask("log", POD.key, "GET", POD.path(namespace, pod, "log"), about, query=query)
        return self.connection.stream(ask, read=silence)

    def info_of_resource(self, api_version: str, resource: str) -> kinds.KindInfo:
        """Return the kind of a resource by its plural name, such as `jobs`; asked of the server, never cached.

        Raises:
            ApiError: 404 where it is not served; else see `Connection.call`.
        """
        return self._lookup(api_version, resource, "name")

    def _discover(self, api_version: str, kind: str) -> kinds.KindInfo:
        return self._lookup(api_version, kind, "kind")

    def _lookup(self, api_version: str, wanted: str, key: str) -> kinds.KindInfo:
        about = f"look up {wanted} of {api_version}"
        root = kinds.KindInfo(api_version, "", "").root
        answer = self.connection.call(connections.Ask("get", "APIResourceList", "GET", root, about))
        for row in answer.get("resources") or []:
            if row.get(key) == wanted and "/" not in str(row.get("name")):
                named = bool(row.get("namespaced"))
                return kinds.KindInfo(api_version, str(row["kind"]), str(row["name"]), named)
        raise errors.ApiError(404, "NotFound", f"{api_version} serves no {wanted}", request=about)


def table_row(key: str) -> kinds.KindInfo:
    """Return the row of a kind that the table is known to have."""
    info = kinds.by_key(key)
    if info is None:
        raise KeyError(key)
    return info


POD = table_row("Pod")
NODE = table_row("Node")
NAMESPACE = table_row("Namespace")


def whole(item: Mapping[str, Any], info: kinds.KindInfo) -> Obj:
    """Return an item of a list with its apiVersion and kind, which lists leave out."""
    return {**item, "apiVersion": info.api_version, "kind": info.kind}


def _about(
    verb: str, info: kinds.KindInfo, namespace: str | None, name: str = "", subresource: str = ""
) -> str:
    target = f"{info.key}/{name}" if name else info.plural
    target += f"/{subresource}" if subresource else ""
    return f"{verb} {target}" + (f" in {namespace}" if namespace and info.namespaced else "")
