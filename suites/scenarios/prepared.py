"""What members do before their launcher starts.

They learn the labels of their node, wait for the network, and go on; or wait in vain, and end.
"""

from collections.abc import Callable
from typing import Any

from pytest_gpucluster.scenario import Handle, Live, Needs, Scenario, Stage
from pytest_gpucluster.scenario.predicates import finished, phase
from pytest_gpucluster.scenario.programs import image, payloads_of
from pytest_gpucluster.workload import GangSpec, Role

from .common import LOGS, PAYLOAD, told
from .indexed import JOBS, KINDS, SERVICES, headless, indexed_job, member_names, patience_of

PROGRAM = "/workspace/ready.py"
MEMBERS = 2
GIVE_UP = 1.0
"""Seconds that a member waits for an interface that no pod has."""
NO_INTERFACE = "wg-none0"
"""A tunnel that is not there."""
GATE = "wait-for-network"
WAITING, LINES = 2, 4
"""Lines of a member: its node's labels, that it waits, that the network is there, that its launcher starts."""
TOPOLOGY = "topology"
INJECTED = "/etc/inject"
NO_LABEL = "gpucluster.dev/no-such-label"
"""A label that no node has."""
READS_NODES = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}
ACCESS = (
    "create,list,watch serviceaccounts",
    "create,delete,list,watch clusterroles.rbac.authorization.k8s.io",
    "create,delete,list,watch clusterrolebindings.rbac.authorization.k8s.io",
    "get nodes",
)
"""What making an account that may read nodes takes; whoever grants must hold it."""


def label_keys(gpu_resource: str) -> tuple[str, ...]:
    """Return the labels that tell where a node is and what it has, and one that is missing everywhere."""
    vendor = gpu_resource.partition("/")[0]
    places = ("kubernetes.io/hostname", "topology.kubernetes.io/region", "topology.kubernetes.io/zone")
    return (*places, f"{vendor}/gpu.product", NO_LABEL)


def gated(stage: Stage, name: str, payload: str, *, members: int, gate: tuple[str, ...]) -> dict[str, Any]:
    """Return the Indexed Job whose members wait for the network in an init container.

    It is Kubernetes' own, placed by its own scheduler: what happens inside a member depends on neither.
    """
    python = image(stage, "python")
    role = Role("member", members, ("python", PROGRAM), ("launch", "--hold"))
    job = indexed_job(stage, GangSpec(name, roles=(role,), image=python, payload=payload), name)
    pod = job["spec"]["template"]["spec"]
    main = pod["containers"][0]
    pod["initContainers"] = [_init(main, GATE, "network", *gate)]
    return job


def _init(main: dict[str, Any], name: str, *args: str) -> dict[str, Any]:
    """Return an init container that runs the same program with other arguments."""
    return {
        "name": name,
        "image": main["image"],
        "command": ["python", PROGRAM],
        "args": list(args),
        "env": [*main["env"][:-1], {"name": "GPUCLUSTER_CONTAINER", "value": name}],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
        "volumeMounts": list(main["volumeMounts"]),
    }


def with_topology(job: dict[str, Any], account: str, keys: tuple[str, ...]) -> dict[str, Any]:
    """Let an init container write the node's labels into a shared folder, which the entrypoint sources.

    As the documents have it, but for `set -a`: what a shell sources is not handed on to the launcher otherwise.
    """
    pod = job["spec"]["template"]["spec"]
    main = pod["containers"][0]
    pod["serviceAccountName"] = account
    pod["volumes"] = [*pod["volumes"], {"name": "inject", "emptyDir": {}}]
    first = _init(main, TOPOLOGY, "labels", *keys, f"--file={INJECTED}/env")
    first["env"].append({"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}})
    pod["initContainers"] = [first, *pod["initContainers"]]
    for container in (first, main):
        container["volumeMounts"] = [*container["volumeMounts"], {"name": "inject", "mountPath": INJECTED}]
    run = " ".join([*main["command"], *main["args"]])
    main["command"], main["args"] = ["sh", "-c"], [f"set -a; . {INJECTED}/env; set +a; exec {run}"]
    return job


def gave_up(job: Handle) -> Callable[[Live], bool]:
    """Report whether the member that waits in vain has ended, or has gone on although its wait ended.

    A kubelet reports the end of the container up to some seconds before the end of the pod, which is what is judged.
    """
    ended = finished(job, 1)

    def check(live: Live) -> bool:
        states = [pod.get("status") or {} for pod in live.pods_of(job)]
        over = any("terminated" in _state(status, "initContainerStatuses", GATE) for status in states)
        went_on = any(_state(status, "containerStatuses") & {"running", "terminated"} for status in states)
        return ended(live) or (over and went_on)

    return check


def _state(status: dict[str, Any], containers: str, name: str = "") -> set[str]:
    """Return the states of a pod's containers: `waiting`, `running`, `terminated`."""
    return {
        state
        for one in status.get(containers) or []
        if not name or one.get("name") == name
        for state in one.get("state") or {}
    }


def run(stage: Stage) -> None:
    """Let members wait for peers whose names come late, beside one that waits for an interface that no pod has."""
    # As long as the other member may take to give up on a busy machine.
    patience, interface = patience_of(stage), stage.profile.interface
    keys = label_keys(stage.profile.gpu_resource)
    told(stage, members=MEMBERS, within=patience, give_up=GIVE_UP, labels=list(keys))
    payload = payloads_of(stage, "ready.py")
    late, never = f"{stage.name}-late", f"{stage.name}-never"
    over = (f"--interface={interface}",) if interface else ()
    gate = (*member_names(late, late, MEMBERS), *over, f"--within={patience:g}")
    nowhere = (f"--interface={NO_INTERFACE}", f"--within={GIVE_UP:g}")
    ready = gated(stage, late, payload, members=MEMBERS, gate=gate)
    held = stage.submit(with_topology(ready, stage.account([READS_NODES]), keys), role="held")
    if not held.ok:
        return
    stage.follow(held)

    def told_by_all(lines: int) -> Callable[[Live], bool]:
        def check(live: Live) -> bool:
            pods = live.pods_of(held)
            return len(pods) == MEMBERS and all(stage.heard(pod) >= lines for pod in pods)

        return check

    if stage.wait("all members wait for the network", told_by_all(WAITING), budget="start"):
        # For as long as another one, who begins now, waits in vain: long enough for a look that finds nothing.
        vain = gated(stage, never, payload, members=1, gate=nowhere)
        unanswered = stage.submit(vain, role="unanswered")
        if unanswered.ok:
            stage.follow(unanswered)
            what = "the member that waits for an interface in vain gave up"
            stage.wait(what, gave_up(unanswered), budget="run")
        stage.submit(headless(late, late), role="names")
        started = told_by_all(LINES)
        stage.wait("the members' launchers have started", started, budget="run", unless=_failed(held))
    stage.context |= {("Node", str(pod["spec"].get("nodeName"))) for pod in stage.live.pods_of(held)}


def _failed(job: Handle) -> Callable[[Live], str]:
    def check(live: Live) -> str:
        failed = [pod["metadata"]["name"] for pod in live.pods_of(job) if phase(pod) == "Failed"]
        return f"{failed[0]} has failed" if failed else ""

    return check


prepared = Scenario(
    name="prepared",
    summary="init containers write node labels and wait for the network: peers that come late, an interface that never "
    "comes",
    run=run,
    needs=Needs(seconds=4, gang=False, permissions=PAYLOAD + LOGS + SERVICES + JOBS + ACCESS),
    kinds=(*KINDS, "Node"),
)
