"""Accounts of our own for pods."""

from pytest_gpucluster.kube import kinds
from pytest_gpucluster.scenario import accounts
from pytest_gpucluster.scenario.sweep import CLUSTER_SCOPED


def test_an_account_is_bound_to_just_these_rules():
    """Its role and binding lie outside our namespace, and are private to the run."""
    rule = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}
    account, role, binding = accounts.manifests(
        "prepared", "20261128t194114z-embedded-6b29a0", "ours", [rule]
    )
    assert account["metadata"]["name"] == "prepared-reader"
    assert role["rules"] == [rule]
    assert role["metadata"]["name"] == binding["metadata"]["name"] == "gpucluster-prepared-6b29a0"
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "prepared-reader", "namespace": "ours"}]


def test_what_lies_outside_our_namespace_is_swept():
    """A killed run leaves neither role nor binding."""
    for made in accounts.manifests("a", "r", "ours", []):
        info = kinds.known(made["apiVersion"], made["kind"])
        assert info is not None
        assert info.namespaced or info.key in CLUSTER_SCOPED
