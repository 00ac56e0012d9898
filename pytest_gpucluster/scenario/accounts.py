"""Accounts of our own for pods that ask the API: a ServiceAccount in our namespace and what lets it read."""

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_gpucluster.plain import names
from pytest_gpucluster.scenario import site as sites

Obj = dict[str, Any]

GROUP = "rbac.authorization.k8s.io"


def manifests(
    scenario: str, run_id: str, namespace: str, rules: Sequence[Mapping[str, Any]]
) -> tuple[Obj, ...]:
    """Return a ServiceAccount, a ClusterRole with these rules, and the binding of one to the other.

    The latter two lie outside our namespace, so that their name is private to the scenario and the run.
    """
    own = names.safe_name(scenario, "reader")
    name = names.safe_name("gpucluster", scenario, sites.short_run(run_id))
    subject = {"kind": "ServiceAccount", "name": own, "namespace": namespace}
    api, role = f"{GROUP}/v1", {"apiGroup": GROUP, "kind": "ClusterRole", "name": name}
    return (
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": own}},
        {
            "apiVersion": api,
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": [dict(rule) for rule in rules],
        },
        {
            "apiVersion": api,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": role,
            "subjects": [subject],
        },
    )
