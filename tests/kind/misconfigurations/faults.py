"""What operators get wrong, planted into a real cluster and taken out again, and what must come of it."""

import contextlib
import dataclasses
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pytest_gpucluster.plain.times import parse_time
from pytest_gpucluster.provider.kind import gpu_plugin
from tests.kind.lab import Lab

Plant = Callable[[Lab], contextlib.AbstractContextManager[None]]

FAIL = frozenset({"fail"})
NOT_GREEN = frozenset({"fail", "environment", "inconclusive"})
"""Where the fault may also keep a row from being decided: what must not happen is a pass."""
NOT_FALSE = frozenset({"pass", "environment", "inconclusive"})
"""Where the cluster was disturbed but is right: what must not happen is a fail."""

MANIFESTS = "/etc/kubernetes/manifests"
KUEUE = "kueue.x-k8s.io/v1beta2"
GPU = "nvidia.com/gpu"
KUBELET = "/var/lib/kubelet/config.yaml"


@dataclasses.dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        name: short name.
        what: what is wrong, for the table.
        plant: puts it into the cluster for the length of a `with` block.
        rows: row -> the verdicts that it may have.
        tells: row -> text that its finding must hold, such as the node at fault.
        needs: add-ons without which the fault cannot be planted.
        changes: keys of the profile that differ while the rows are run.
    """

    name: str
    what: str
    plant: Plant
    rows: Mapping[str, frozenset[str]]
    tells: Mapping[str, Callable[[Lab], str]] = dataclasses.field(default_factory=dict)
    needs: Sequence[str] = ()
    changes: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def until(what: str, holds: Callable[[], bool], limit: float = 120.0) -> None:
    """Wait for the cluster to be so.

    Raises:
        AssertionError: it is not, in time.
    """
    end = time.monotonic() + limit
    while not _holds(holds):
        assert time.monotonic() < end, f"{what} within {limit:.0f} s"
        time.sleep(0.5)


def _holds(holds: Callable[[], bool]) -> bool:
    """Report whether something holds; no while the API server does not answer."""
    try:
        return holds()
    except AssertionError:
        return False


# -- parts of the control plane --------------------------------------------------------------------------------------


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
    found: list[Any] = lab.get("pods", "-n", "kube-system", "-l", f"component={part}")["items"]
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
    # The second depends on the first: a scheduler with one of them alone does not start.
    gates = "GenericWorkload={0},WorkloadWithJob={0}"
    with changed_part(lab, "kube-scheduler", gates.format("true"), gates.format("false")):
        # The one that went may still hold the Lease by which there is one scheduler.
        until("the new scheduler leads", lambda: leads(lab, "kube-scheduler"))
        yield
    until("the old scheduler leads", lambda: leads(lab, "kube-scheduler"))


def leads(lab: Lab, part: str) -> bool:
    """Report whether the part that runs now holds its Lease, and not one that went before it."""
    lease = lab.get("lease", "-n", "kube-system", part)
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


# -- nodes -----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def kubelet_policy(lab: Lab, policy: str) -> Iterator[None]:
    """Give all workers another Topology Manager policy than the profile declares."""
    change = f"sed -i 's/^topologyManagerPolicy:.*/topologyManagerPolicy: {policy}/' {KUBELET}"
    try:
        for node in lab.workers:
            lab.inside(node, f"cp {KUBELET} /root/kubelet.kept; {change}; systemctl restart kubelet")
        _serve(lab)
        yield
    finally:
        for node in lab.workers:
            lab.inside(node, f"mv /root/kubelet.kept {KUBELET}; systemctl restart kubelet")
        _serve(lab)


def _serve(lab: Lab, gpus: int = 8) -> None:
    """Wait until all workers are Ready and offer their GPUs again: a kubelet forgets its plugins when it starts."""
    resource = str(lab.profile["gpu_resource"])

    def ready() -> bool:
        nodes = {node["metadata"]["name"]: node["status"] for node in lab.get("nodes")["items"]}
        return all(
            nodes[name]["allocatable"].get(resource) == str(gpus)
            and any(c["type"] == "Ready" and c["status"] == "True" for c in nodes[name]["conditions"])
            for name in lab.workers
        )

    until("the workers serve", ready)


@contextlib.contextmanager
def frozen_node(lab: Lab) -> Iterator[None]:
    """Cut a worker off: nothing of it answers, as with a cut cable or a hung machine."""
    name = lab.workers[-1]

    def ready(status: str) -> bool:
        found = lab.get("node", name)["status"]["conditions"]
        return any(c["type"] == "Ready" and c["status"] == status for c in found)

    lab.ask_engine("pause", name)
    try:
        until(f"{name} is missed", lambda: ready("Unknown"), 180)
        yield
    finally:
        lab.ask_engine("unpause", name)
        until(f"{name} is back", lambda: ready("True"))


# -- devices ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def devices(
    lab: Lab, settings: Callable[[Lab], gpu_plugin.Settings], settled: Callable[[Lab], None]
) -> Iterator[None]:
    """Let the device plugin say something else of its devices."""
    lab.kubectl("replace", "-f", "-", text=json.dumps(gpu_plugin.settings_map(settings(lab))))
    try:
        settled(lab)
        yield
    finally:
        old = gpu_plugin.settings_map({gpu_plugin.DEFAULT: {_gpu(lab): gpu_plugin.Devices.dealt(8)}})
        lab.kubectl("replace", "-f", "-", text=json.dumps(old))
        _serve(lab)


def _gpu(lab: Lab) -> str:
    return str(lab.profile["gpu_resource"])


def without_numa(lab: Lab) -> contextlib.AbstractContextManager[None]:
    """Let no device say on which NUMA node it is."""
    return devices(lab, lambda lab: {gpu_plugin.DEFAULT: {_gpu(lab): gpu_plugin.Devices(8)}}, lambda _: None)


def one_short(lab: Lab) -> contextlib.AbstractContextManager[None]:
    """Let one worker have one GPU less."""
    last = lab.workers[-1]

    def fewer(lab: Lab) -> gpu_plugin.Settings:
        whole, short = gpu_plugin.Devices.dealt(8), gpu_plugin.Devices.dealt(7)
        return {gpu_plugin.DEFAULT: {_gpu(lab): whole}, last: {_gpu(lab): short}}

    def settled(lab: Lab) -> None:
        until(
            f"{last} offers 7", lambda: lab.get("node", last)["status"]["allocatable"].get(_gpu(lab)) == "7"
        )

    return devices(lab, fewer, settled)


# -- what runs in the cluster ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def scaled_to_zero(lab: Lab, namespace: str, deployment: str) -> Iterator[None]:
    """Let a deployment have no pod."""
    before = lab.get("deployment", "-n", namespace, deployment)["spec"]["replicas"]
    _scale(lab, namespace, deployment, 0)
    try:
        yield
    finally:
        _scale(lab, namespace, deployment, before)


def _scale(lab: Lab, namespace: str, deployment: str, replicas: int) -> None:
    lab.kubectl("scale", "-n", namespace, f"deployment/{deployment}", f"--replicas={replicas}")

    def settled() -> bool:
        status = lab.get("deployment", "-n", namespace, deployment)["status"]
        return (status.get("replicas", 0), status.get("availableReplicas", 0)) == (replicas, replicas)

    until(f"{deployment} has {replicas} pods", settled, 180)


@contextlib.contextmanager
def webhook_down(lab: Lab) -> Iterator[None]:
    """Let Kueue's webhook lead nowhere, while its manager runs."""
    path = ("-n", "kueue-system", "service", "kueue-webhook-service")
    selector = lab.get(*path)["spec"]["selector"]

    def patch(value: str) -> None:
        change = f'[{{"op": "replace", "path": "/spec/selector", "value": {value}}}]'
        lab.kubectl("patch", *path, "--type=json", "-p", change)

    patch('{"app": "nobody"}')
    try:
        yield
    finally:
        patch(json.dumps(selector))


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
        until("the API server answers", lambda: bool(lab.get("nodes")), 180)
        for part in ("kube-scheduler", "kube-controller-manager"):
            until(f"{part} leads", lambda part=part: leads(lab, part), 180)  # type: ignore[misc]


QUOTA = "quota-changed"


@contextlib.contextmanager
def quota_changed(lab: Lab) -> Iterator[None]:
    """Raise the quota of the ClusterQueue that the profile names above what the nodes have, while nobody tells it."""
    has = sum(int(node["status"]["allocatable"].get(GPU, 0)) for node in lab.get("nodes")["items"])
    flavor = {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": QUOTA}}

    def queue(quota: int) -> dict[str, Any]:
        flavors = [{"name": QUOTA, "resources": [{"name": GPU, "nominalQuota": quota}]}]
        group = {"coveredResources": [GPU], "flavors": flavors}
        spec = {"namespaceSelector": {}, "resourceGroups": [group]}
        return {"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": QUOTA}, "spec": spec}

    def active() -> bool:
        conditions = lab.get("clusterqueue", QUOTA).get("status", {}).get("conditions", [])
        return any(each["type"] == "Active" and each["status"] == "True" for each in conditions)

    for each in (flavor, queue(has)):
        lab.kubectl("create", "-f", "-", text=json.dumps(each))
    try:
        until("the ClusterQueue is Active", active)
        before = lab.decide(f"{QUOTA}-before", "INV-005", changes={"kueue": {"cluster_queue": QUOTA}})
        assert before["INV-005"]["verdict"] == "pass", before
        lab.kubectl("apply", "-f", "-", text=json.dumps(queue(10 * has)))
        yield
    finally:
        lab.kubectl("delete", "clusterqueue", QUOTA, "--ignore-not-found")
        lab.kubectl("delete", "resourceflavor", QUOTA, "--ignore-not-found")


def last_worker(lab: Lab) -> str:
    """Return the name of the worker that a fault is in."""
    return lab.workers[-1]


FAULTS: tuple[Fault, ...] = (
    Fault(
        "gang-gate-off",
        "kube-scheduler without the gate GenericWorkload",
        without_gangs,
        {"GANG-002": FAIL},
    ),
    Fault(
        "kubelet-policy-none",
        "Topology Manager policy none on all workers",
        lambda lab: kubelet_policy(lab, "none"),
        {"NUMA-001": FAIL, "NUMA-002": FAIL},
    ),
    Fault(
        "kubelet-policy-best-effort",
        "Topology Manager policy best-effort on all workers",
        lambda lab: kubelet_policy(lab, "best-effort"),
        {"NUMA-002": FAIL},
    ),
    Fault(
        "plugin-without-numa", "a device plugin that tells no NUMA nodes", without_numa, {"NUMA-006": FAIL}
    ),
    Fault(
        "plugin-one-short",
        "a device plugin that has one GPU less on one node",
        one_short,
        {"INV-002": FAIL, "INV-008": FAIL},
        tells={"INV-002": last_worker, "INV-008": last_worker},
    ),
    Fault("no-controllers", "kube-controller-manager stopped", without_controllers, {"GANG-001": NOT_GREEN}),
    Fault("node-cut-off", "a worker of which nothing answers", frozen_node, {"INV-002": NOT_GREEN}),
    Fault(
        "api-restarts",
        "the API server is killed every 12 s in the middle of a row",
        api_restarts,
        {"GANG-002": NOT_FALSE},
    ),
    Fault(
        "kueue-gone",
        "Kueue's manager scaled to zero",
        lambda lab: scaled_to_zero(lab, "kueue-system", "kueue-controller-manager"),
        {"KUE-001": NOT_GREEN},
        needs=("kueue",),
    ),
    Fault(
        "kueue-webhook-down",
        "Kueue's webhook leads nowhere",
        webhook_down,
        {"KUE-001": NOT_GREEN},
        needs=("kueue",),
    ),
    Fault(
        QUOTA,
        "the quota of the ClusterQueue raised to ten times what the nodes have",
        quota_changed,
        {"INV-005": FAIL},
        tells={"INV-005": lambda _: QUOTA},
        needs=("kueue",),
        changes={"kueue": {"cluster_queue": QUOTA}},
    ),
    Fault(
        "kueue-does-not-wait",
        "Kueue without the waitForPodsReady that the profile declares",
        lambda _: contextlib.nullcontext(),
        {"KUE-004": FAIL},
        needs=("kueue",),
        changes={"kueue": {"wait_for_pods_ready": 5}},
    ),
    Fault(
        "no-dns",
        "CoreDNS scaled to zero",
        lambda lab: scaled_to_zero(lab, "kube-system", "coredns"),
        {"RDZV-003": NOT_GREEN},
    ),
)
"""The table: fault -> rows and what they may say."""
