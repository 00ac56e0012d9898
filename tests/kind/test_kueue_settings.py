"""Rows that Kueue's shipped configuration leaves not applicable, on a real Kueue that is configured for them."""

import contextlib
import json

import pytest
import yaml

from tests.kind.lab import until

pytestmark = pytest.mark.kind

NAMESPACE = ("-n", "kueue-system")
MAP, KEY = "kueue-manager-config", "controller_manager_config.yaml"
MANAGER = "kueue-controller-manager"
WAIT = 5


@contextlib.contextmanager
def configured(lab, change):
    """Change the configuration of Kueue's manager and start it anew; both again at the end."""
    before = lab.get("configmap", *NAMESPACE, MAP)["data"][KEY]
    try:
        restart(lab, yaml.safe_dump({**yaml.safe_load(before), **change}))
        yield
    finally:
        restart(lab, before)


def restart(lab, text):
    """Give the manager a configuration, and wait until the manager that has it leads and its webhook answers."""
    old = {pod["metadata"]["name"] for pod in pods(lab)}
    lab.kubectl("patch", "configmap", *NAMESPACE, MAP, "-p", json.dumps({"data": {KEY: text}}))
    lab.kubectl("rollout", "restart", *NAMESPACE, f"deployment/{MANAGER}")
    lease = yaml.safe_load(text)["leaderElection"]["resourceName"]

    def leads():
        holder = lab.get("lease", *NAMESPACE, lease)["spec"]["holderIdentity"]
        new = {pod["metadata"]["name"] for pod in pods(lab)} - old
        return any(holder.startswith(name) for name in new)

    until("the new manager of Kueue leads", leads, 180)
    flavor = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ResourceFlavor",
        "metadata": {"name": "asks"},
    }
    until(
        "Kueue's webhook answers",
        lambda: bool(lab.kubectl("create", "--dry-run=server", "-f", "-", text=json.dumps(flavor))),
    )


def pods(lab):
    """Return the manager's pods."""
    return lab.get("pods", *NAMESPACE, "-l", "control-plane=controller-manager")["items"]


def test_a_gang_that_cannot_become_ready_is_taken_back(kind_lab):
    """KUE-004 passes where waitForPodsReady is configured; that it fails where not is in the table of faults."""
    kind_lab.require(["kueue"])
    waiting = {"timeout": f"{WAIT}s", "requeuingStrategy": {"backoffBaseSeconds": 1}}
    with configured(kind_lab, {"waitForPodsReady": waiting}):
        found = kind_lab.decide("kueue-waits", "KUE-004", changes={"kueue": {"wait_for_pods_ready": WAIT}})
    assert found["KUE-004"]["verdict"] == "pass", found["KUE-004"]
