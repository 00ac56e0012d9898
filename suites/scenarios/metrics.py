"""What the exporters of GPU metrics answer: a pod asks all of them, twice, as Prometheus does."""

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_gpucluster.evidence.hardware import gpu_metrics as reading
from pytest_gpucluster.evidence.objects import node_status
from pytest_gpucluster.plain import components
from pytest_gpucluster.profile import Metrics
from pytest_gpucluster.scenario import Needs, NotApplicable, Scenario, Stage
from pytest_gpucluster.scenario.predicates import finished
from pytest_gpucluster.scenario.programs import image, payloads_of

from .common import FILLER, LOGS, PAYLOAD

OPERATOR = "gpu-operator"
"""Component in whose namespace the Service of the exporters is."""
OF_SERVICE = "kubernetes.io/service-name"
"""Label of an EndpointSlice."""


def run(stage: Stage) -> None:
    """Find the exporter of each GPU node, and let a pod ask them."""
    declared = stage.profile.metrics
    if declared is None:
        raise NotApplicable("the profile does not say where the metrics of GPUs are (metrics)")
    resource = stage.profile.gpu_resource
    asked = reading.asked(resource, declared.required)
    if asked is None:
        raise NotApplicable(f"no exporter of {resource} is known: name its metrics (metrics.required)")
    nodes = [n for n in stage.live.objects("Node") if node_status.machine(n).has_gpus(resource)]
    stage.context |= {("Node", node["metadata"]["name"]) for node in nodes}
    found = dict(_behind(stage, declared.service) if declared.service else _of_nodes(nodes))
    names = {str(node["metadata"]["name"]) for node in nodes}
    targets = {name: address for name, address in sorted(found.items()) if name in names}
    stage.given["metrics"] = {**declared.model_dump(mode="json"), "targets": sorted(targets)}
    if not targets:
        return
    urls = [f"--target={name}={_url(address, declared)}" for name, address in targets.items()]
    command = [
        "python", "/workspace/scrape.py", f"--names={','.join(asked.names)}", f"--fresh={declared.fresh:g}",
        f"--counters={','.join(asked.counters)}", f"--prefixes={','.join(asked.prefixes)}", *urls,
    ]  # fmt: skip
    probe = stage.submit(pod(stage, command, payloads_of(stage, "scrape.py")))
    if probe.ok:
        stage.follow(probe)
        ended = finished(probe, 1)
        # One more page may be under way when the time is over.
        stage.wait(
            "the exporters were asked", ended, budget="start", extra=2 * declared.fresh + 2 * reading.PATIENCE
        )


def pod(stage: Stage, command: list[str], payload: str) -> dict[str, Any]:
    """Return the pod that asks; it needs no GPU."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": stage.name},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {
                    "name": "main",
                    "image": image(stage, "python"),
                    "command": command,
                    "env": [
                        {"name": "GPUCLUSTER_POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                        {"name": "GPUCLUSTER_CONTAINER", "value": "main"},
                    ],
                    "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
                    "volumeMounts": [{"name": "payload", "mountPath": "/workspace"}],
                }
            ],
            "volumes": [{"name": "payload", "configMap": {"name": payload}}],
        },
    }


def _of_nodes(nodes: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield (node, its own address)."""
    for node in nodes:
        told = (node.get("status") or {}).get("addresses") or []
        address = next((one.get("address") for one in told if one.get("type") == "InternalIP"), None)
        if address:
            yield str(node["metadata"]["name"]), str(address)


def _behind(stage: Stage, service: str) -> Iterator[tuple[str, str]]:
    """Yield (node, address of the exporter there), from the endpoints of a Service."""
    namespace = components.namespace(OPERATOR, stage.profile.namespaces)
    case = f"{reading.ENDPOINTS}:{namespace}"
    for part in stage.read_all("discovery.k8s.io/v1", "EndpointSlice", case=case, namespace=namespace) or ():
        if (part["metadata"].get("labels") or {}).get(OF_SERVICE) != service:
            continue
        for one in part.get("endpoints") or ():
            addresses, node = one.get("addresses") or [], one.get("nodeName")
            if addresses and node:
                yield str(node), str(addresses[0])


def _url(address: str, declared: Metrics) -> str:
    try:
        host = f"[{address}]" if ipaddress.ip_address(address).version == 6 else address
    except ValueError:
        host = address  # A name, where a node has no address in numbers.
    return f"http://{host}:{declared.port}{declared.path}"


metrics = Scenario(
    name="metrics",
    summary="a pod asks the exporter of each GPU node for its metrics until they are renewed",
    run=run,
    needs=Needs(
        section="metrics",
        seconds=1.5,
        gang=False,
        permissions=(*PAYLOAD, *LOGS, *FILLER, f"list endpointslices.discovery.k8s.io in {{{OPERATOR}}}"),
    ),
    kinds=("Pod", "Event", "Node", "ConfigMap"),
    rests=("Node",),
)
