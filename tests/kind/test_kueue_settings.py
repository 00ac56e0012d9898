"""Rows that Kueue's shipped configuration leaves not applicable, on a real Kueue that is configured for them."""

import contextlib
import hashlib

import pytest
import yaml

from tests.kind.lab import until
from tests.kind.misconfigurations import addons

pytestmark = pytest.mark.kind

NAMESPACE = "kueue-system"
MAP, KEY = "kueue-manager-config", "controller_manager_config.yaml"
MANAGER = "kueue-controller-manager"
WAIT = 5


@contextlib.contextmanager
def configured(lab, change):
    """Change the configuration of Kueue's manager and start it anew; both again at the end."""
    before = lab.get("ConfigMap", MAP, NAMESPACE)["data"][KEY]
    try:
        restart(lab, yaml.safe_dump({**yaml.safe_load(before), **change}))
        yield
    finally:
        restart(lab, before)


def restart(lab, text):
    """Give the manager a configuration, and wait until the manager that has it leads and its webhook answers."""
    old = {pod["metadata"]["name"] for pod in pods(lab)}
    lab.patch("ConfigMap", MAP, {"data": {KEY: text}}, NAMESPACE)
    again = {"metadata": {"annotations": {"restarted-for": hashlib.sha256(text.encode()).hexdigest()}}}
    lab.patch("Deployment", MANAGER, {"spec": {"template": again}}, NAMESPACE)
    lease = yaml.safe_load(text)["leaderElection"]["resourceName"]

    def leads():
        holder = lab.get("Lease", lease, NAMESPACE)["spec"]["holderIdentity"]
        new = {pod["metadata"]["name"] for pod in pods(lab)} - old
        return any(holder.startswith(name) for name in new)

    until("the new manager of Kueue leads", leads, 180)
    until("Kueue's webhook answers", lambda: addons.webhook_answers(lab))


def pods(lab):
    """Return the manager's pods."""
    return lab.list("Pod", NAMESPACE, "control-plane=controller-manager")


def test_a_gang_that_cannot_become_ready_is_taken_back(kind_lab):
    """KUE-004 passes where waitForPodsReady is configured; that it fails where not is in the table of faults."""
    kind_lab.require(["kueue"])
    waiting = {"timeout": f"{WAIT}s", "requeuingStrategy": {"backoffBaseSeconds": 1}}
    with configured(kind_lab, {"waitForPodsReady": waiting}):
        found = kind_lab.decide("kueue-waits", "KUE-004", changes={"kueue": {"wait_for_pods_ready": WAIT}})
    assert found["KUE-004"]["verdict"] == "pass", found["KUE-004"]
