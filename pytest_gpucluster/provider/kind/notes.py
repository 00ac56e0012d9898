"""What was put into a cluster, written down in the cluster itself, so that a second run need not do it again."""

from typing import Any

from pytest_gpucluster.kube import connection as connections
from pytest_gpucluster.kube import errors, objects

NAME = "gpucluster-kind"
NAMESPACE = "kube-system"
CONFIG_MAP = objects.table_row("ConfigMap")


def read(api: objects.Objects) -> dict[str, str]:
    """Return the notes, none where there are none."""
    try:
        return dict(api.get(CONFIG_MAP, NAME, NAMESPACE).get("data") or {})
    except errors.ApiError as error:
        if error.code == 404:
            return {}
        raise


def write(api: objects.Objects, **notes: str) -> None:
    """Add notes to those that are there."""
    apply(
        api,
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": NAME, "namespace": NAMESPACE},
            "data": {**read(api), **notes},
        },
    )


def apply(api: objects.Objects, manifest: dict[str, Any]) -> dict[str, Any]:
    """Apply an object on the server's side; what others have set there is ours from then on.

    Raises:
        ApiError, Unreachable: see `Connection.call`.
    """
    info = api.info(str(manifest.get("apiVersion")), str(manifest.get("kind")))
    metadata = manifest.get("metadata") or {}
    name, space = str(metadata.get("name") or ""), metadata.get("namespace")
    if info.namespaced and not space:
        space = "default"
    return api.connection.call(
        connections.Ask(
            "patch",
            info.key,
            "PATCH",
            info.path(space, name),
            f"apply {info.key}/{name}" + (f" in {space}" if info.namespaced else ""),
            query={"fieldManager": "gpucluster", "force": "true"},
            body=manifest,
            content_type="application/apply-patch+yaml",
        )
    )
