"""Whether the API server reaches an add-on's webhooks yet: asked by dry runs, since no object of the cluster tells.

A Deployment is Available some time before the nodes' proxies lead to its Service; until then every creation that its
webhook must see is refused ("failed calling webhook").
"""

from collections.abc import Iterable, Mapping
from typing import Any

import tenacity

from pytest_gpucluster.kube import errors, kinds, objects
from pytest_gpucluster.provider.protocol import ProviderError

Obj = dict[str, Any]

PAUSE = 0.5
"""Seconds between two questions: proxies follow endpoints within a second or so."""
UNREACHED = "failed calling webhook"
"""How the API server's refusal begins when a webhook with failurePolicy Fail does not answer."""


def answering(api: objects.Objects, configurations: Iterable[Mapping[str, Any]], limit: float) -> None:
    """Wait until the API server reaches the webhooks that must see what is created.

    For each kind that they ask to see, an empty object is created as a dry run: whatever is said against *it* shows
    that the webhooks, which come before validation, were reached.

    Args:
        api: the cluster.
        configurations: webhook configurations.
        limit: seconds for each kind.

    Raises:
        ProviderError: a webhook was not reached in time; the API server's words.
    """
    for group, version, resource in sorted(_seen(configurations)):
        found = _kind(api, group, version, resource)
        if found is None:
            continue
        body: Obj = {
            "apiVersion": found.api_version,
            "kind": found.kind,
            "metadata": {"generateName": "gpucluster-asks-"},
        }
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(_unreached),
            wait=tenacity.wait_fixed(PAUSE),
            stop=tenacity.stop_after_delay(limit),
            reraise=True,
        )
        try:
            retrying(_ask, api, body, "default" if found.namespaced else None)
        except errors.ApiError as error:
            raise ProviderError(f"webhooks were not reached within {limit:.0f} s: {error}") from None


def _ask(api: objects.Objects, body: Obj, namespace: str | None) -> None:
    try:
        api.create(body, namespace=namespace, dry_run=True)
    except errors.ApiError as error:
        if _unreached(error):
            raise


def _unreached(error: BaseException) -> bool:
    return isinstance(error, errors.ApiError) and UNREACHED in str(error)


def _seen(configurations: Iterable[Mapping[str, Any]]) -> set[tuple[str, str, str]]:
    """Return group, version and resource of what is refused, when created, while a webhook cannot be reached."""
    found = set()
    for configuration in configurations:
        for hook in configuration.get("webhooks") or []:
            served = (hook.get("clientConfig") or {}).get("service")
            if not served or hook.get("failurePolicy", "Fail") != "Fail":
                continue
            for rule in hook.get("rules") or []:
                if "CREATE" in rule.get("operations", ()):
                    found |= {
                        (group, version, resource)
                        for group in rule.get("apiGroups", ())
                        for version in rule.get("apiVersions", ())
                        for resource in rule.get("resources", ())
                        if "*" not in (group, version, resource) and "/" not in resource
                    }
    return found


def _kind(api: objects.Objects, group: str, version: str, resource: str) -> kinds.KindInfo | None:
    """Return the kind of a resource; None where its API is not served: nobody can create such an object."""
    try:
        return api.info_of_resource(f"{group}/{version}" if group else version, resource)
    except errors.ApiError as error:
        if error.code == 404:
            return None
        raise
