"""What is wrong with the control plane: parts that were changed, stopped, killed, or told to change what comes in."""

import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_gpucluster.plain.times import parse_time
from tests.kind.lab import Lab, until

MANIFESTS = "/etc/kubernetes/manifests"
PODGROUP = "scheduling.k8s.io/v1beta1"


@contextlib.contextmanager
def changed_part(lab: Lab, part: str, old: str, new: str) -> Iterator[None]:
    """Change the manifest of a part of the control plane; the kubelet starts it again, both times."""
    path = f"{MANIFESTS}/{part}.yaml"
    lab.inside(lab.control_plane, f"grep -q '{old}' {path}")
    before = _container(lab, part)
    lab.inside(lab.control_plane, f"cp {path} /root/{part}.kept; sed -i 's/{old}/{new}/' {path}")
    try:
        _started(lab, part, before)
        yield
    finally:
        before = _container(lab, part)
        lab.inside(lab.control_plane, f"mv /root/{part}.kept {path}")
        _started(lab, part, before)


@contextlib.contextmanager
def stopped_part(lab: Lab, part: str) -> Iterator[None]:
    """Take a part of the control plane away."""
    path = f"{MANIFESTS}/{part}.yaml"
    lab.inside(lab.control_plane, f"mv {path} /root/{part}.kept")
    try:
        until(f"{part} stops", lambda: not _pods(lab, part))
        yield
    finally:
        lab.inside(lab.control_plane, f"mv /root/{part}.kept {path}")
        _started(lab, part, "")


def _pods(lab: Lab, part: str) -> list[Any]:
    found: list[Any] = lab.list("Pod", "kube-system", f"component={part}")
    return found


def _container(lab: Lab, part: str) -> str:
    return next((str(c.get("containerID")) for pod in _pods(lab, part) for c in _states(pod)), "")


def _states(pod: Mapping[str, Any]) -> list[Any]:
    return pod["status"].get("containerStatuses") or []


def _started(lab: Lab, part: str, before: str) -> None:
    until(
        f"{part} starts again",
        lambda: any(
            c["ready"] and c["containerID"] != before for pod in _pods(lab, part) for c in _states(pod)
        ),
        180,
    )


@contextlib.contextmanager
def without_gangs(lab: Lab) -> Iterator[None]:
    """Switch native gangs off in the scheduler, as an upgrade that forgets the gate does."""
    # The others depend on the first: a scheduler with one of them alone does not start.
    gates = "GenericWorkload={0},TopologyAwareWorkloadScheduling={0},WorkloadWithJob={0}"
    with changed_part(lab, "kube-scheduler", gates.format("true"), gates.format("false")):
        # The one that went may still hold the Lease by which there is one scheduler.
        until("the new scheduler leads", lambda: leads(lab, "kube-scheduler"))
        yield
    until("the old scheduler leads", lambda: leads(lab, "kube-scheduler"))


def leads(lab: Lab, part: str) -> bool:
    """Report whether the part that runs now holds its Lease, and not one that went before it."""
    lease = lab.get("Lease", part, "kube-system")
    started = [state["running"]["startedAt"] for pod in _pods(lab, part) for state in _running(pod)]
    # As moments, not as texts: "37.896170Z" comes before "37Z" in a dictionary, and is later.
    since = parse_time(lease["spec"]["acquireTime"])
    return bool(started) and since >= min(parse_time(each) for each in started)


def _running(pod: Mapping[str, Any]) -> list[Any]:
    return [c["state"] for c in _states(pod) if "running" in c["state"]]


@contextlib.contextmanager
def without_controllers(lab: Lab) -> Iterator[None]:
    """Stop the controller manager: Jobs get no pods."""
    with stopped_part(lab, "kube-controller-manager"):
        yield
    until("the controller manager leads", lambda: leads(lab, "kube-controller-manager"))


@contextlib.contextmanager
def api_restarts(lab: Lab) -> Iterator[None]:
    """Kill the API server again and again while the rows are run."""
    over = threading.Event()

    def kill() -> None:
        while not over.wait(12):
            lab.inside(lab.control_plane, "pkill -x kube-apiserver || true")

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    try:
        yield
    finally:
        over.set()
        killer.join(30)
        until("the API server answers", lambda: bool(lab.list("Node")), 180)
        for part in ("kube-scheduler", "kube-controller-manager"):
            until(f"{part} leads", lambda part=part: leads(lab, part), 180)  # type: ignore[misc]


BASIC = "gpucluster-test-basic-policy"


@contextlib.contextmanager
def basic_policy(lab: Lab) -> Iterator[None]:
    """Give every PodGroup the basic policy, as an admission policy that was written before there were gangs does."""
    admission = "admissionregistration.k8s.io/v1"
    groups = {
        "apiGroups": ["scheduling.k8s.io"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["podgroups"],
    }  # fmt: skip
    change = '[JSONPatch{op: "replace", path: "/spec/schedulingPolicy", value: {"basic": {}}}]'
    policy = {
        "matchConstraints": {"resourceRules": [groups]},
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": change}}],
    }
    planted = (("MutatingAdmissionPolicy", policy), ("MutatingAdmissionPolicyBinding", {"policyName": BASIC}))
    manifests = [
        {"apiVersion": admission, "kind": kind, "metadata": {"name": BASIC}, "spec": spec}
        for kind, spec in planted
    ]
    with lab.having(*manifests):
        until("PodGroups become basic", lambda: "basic" in _policy_of_a_gang(lab))
        yield
    until("PodGroups stay gangs", lambda: "gang" in _policy_of_a_gang(lab))


def _policy_of_a_gang(lab: Lab) -> Mapping[str, Any]:
    """Return the policy that a PodGroup asking for a gang would get."""
    group = {
        "apiVersion": PODGROUP, "kind": "PodGroup", "metadata": {"name": BASIC},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    }  # fmt: skip
    answer = lab.api.create(group, namespace="default", dry_run=True)
    policy: Mapping[str, Any] = answer["spec"]["schedulingPolicy"]
    return policy
