"""Reading what no watch follows: one request each, its answer recorded, a refusal being an answer too."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pytest_gpucluster.kube import connection as connections
from pytest_gpucluster.kube import errors, kinds
from pytest_gpucluster.scenario import site as sites

Obj = dict[str, Any]
T = TypeVar("T")

MISSING = frozenset({403, 404})
"""Answers that are facts about the cluster: not permitted, not there. Judges decide what they mean."""
SILENT_NODE = frozenset({502, 503, 504})
"""Answers of an API server that works, about a node whose kubelet does not answer it."""


class Reader:
    """Asks in the name of one scenario."""

    def __init__(self, site: sites.Site, scenario: str) -> None:
        """Read on a site."""
        self._site = site
        self._scenario = scenario

    def one(self, info: kinds.KindInfo, name: str, namespace: str | None, case: str) -> Obj | None:
        """Return an object, None where it is not there or may not be read."""
        place = f" in {namespace}" if namespace else ""
        return self._ask(
            f"get {info.plural}/{name}{place}",
            case,
            "object",
            lambda: self._site.api.get(info, name, namespace),
        )

    def every(self, info: kinds.KindInfo, namespace: str | None, case: str) -> list[Obj] | None:
        """Return all objects of a kind, None where they may not be read or the API does not serve them."""
        place = f" in {namespace}" if namespace else ""
        return self._ask(
            f"list {info.plural}{place}",
            case,
            "items",
            lambda: [_lean(item) for item in self._site.api.list(info, namespace)],
        )

    def version(self, case: str) -> Obj | None:
        """Return what the server says of its own version."""
        ask = connections.Ask("get", "version", "GET", "/version", "get the server's version")
        return self._ask("get /version", case, "object", lambda: self._site.api.connection.call(ask))

    def kubelet_config(self, node: str, case: str) -> Obj | None:
        """Return the configuration that a node's kubelet runs with."""
        path = f"/api/v1/nodes/{node}/proxy/configz"
        ask = connections.Ask("get", "Node/proxy", "GET", path, f"get configz of node {node}", read=10.0)
        return self._ask(
            f"get {path}",
            case,
            "object",
            lambda: self._site.api.connection.call(ask),
            facts=MISSING | SILENT_NODE,
        )

    def _ask(
        self, request: str, case: str, part: str, ask: Callable[[], T], facts: frozenset[int] = MISSING
    ) -> T | None:
        try:
            answer = ask()
        except errors.ApiError as error:
            if error.code not in facts:
                raise
            self._record(request, case, {"code": error.code, "status": dict(error.body)})
            return None
        self._record(request, case, {"code": 200, part: answer})
        return answer

    def _record(self, request: str, case: str, answer: Mapping[str, Any]) -> None:
        self._site.log.add("RESPONSE", self._scenario, {"request": request, "case": case, **answer})


def _lean(obj: Obj) -> Obj:
    """Return an object of a list without its field owners, which nobody reads and which are half of it."""
    metadata = {k: v for k, v in (obj.get("metadata") or {}).items() if k != "managedFields"}
    return {**obj, "metadata": metadata}
