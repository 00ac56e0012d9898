"""What a promotion may ask of the API: to read queues and what the cluster is, and to open and close its own."""

from collections.abc import Collection
from typing import Any

from pytest_gpucluster.acceptance import queues
from pytest_gpucluster.kube import objects
from pytest_gpucluster.kube.permissions import Permission, on
from pytest_gpucluster.promotion import records, switching, targets
from pytest_gpucluster.scenario import cluster_identity


def of_promotion(profile: Any, names: Collection[str]) -> set[Permission]:
    """Return the permissions of `gpucluster promote`; what runs in a queue on trial asks for its own.

    Args:
        profile: the profile (`profile.Profile`).
        names: names of the queues that may be opened and closed; none for those that the profile declares.
    """
    found = cluster_identity.wanted(profile.namespaces, cluster_identity.declared(profile))
    found |= on(objects.table_row("Event"), "create", namespace=records.NAMESPACE)
    for kind in targets.declared(profile):
        info = objects.table_row(kind)
        found |= on(info, "get", "list", "watch")
        for name in names or targets.names_of(profile, kind):
            found |= on(info, "patch", name=name)
        if kind == queues.VOLCANO:
            place = profile.namespace or switching.Switch.namespace
            found |= on(switching.COMMAND, "create", "delete", "get", namespace=place)
    return found
