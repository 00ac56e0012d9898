"""What the cluster says it has, read once for all rows: nodes, queue, versions, configuration, defaults of a Job.

Nodes and queues are watched in any case; everything else costs four requests.
"""

from typing import Any

from pytest_gpucluster.evidence.objects import component_versions, network_definitions, node_software
from pytest_gpucluster.measure import shipped
from pytest_gpucluster.plain import components as known
from pytest_gpucluster.profile import Security
from pytest_gpucluster.scenario import Needs, Scenario, Stage

OPERATOR = "gpu-operator"
"""Component among whose DaemonSets the container toolkit is."""
CASE = "defaults"
"""Case of the dry-run Job that leaves out all that has a default."""


def run(stage: Stage) -> None:
    """Take down every node and the queue, read version, Deployments and scheduler's ConfigMap, dry-run a bare Job."""
    profile = stage.profile
    own = stage.dialect.component
    stage.given.update(
        scheduler=profile.scheduler,
        versions={name: list(ranges) for name, ranges in profile.versions.items()},
        pool_label=profile.pool_label or "",
        security=security_floors(stage),
        rdma=profile.rdma.model_dump(mode="json") if profile.rdma is not None else {},
    )
    if profile.conformance_queue:
        stage.given["queue_held"] = True
    stage.server_version(case=component_versions.SERVER)
    wanted = [*([own] if own else []), *profile.versions]
    for component in dict.fromkeys(name for name in wanted if name in known.NAMESPACES):
        namespace = namespace_of(stage, component)
        found = stage.read_all(
            "apps/v1", "Deployment", case=f"{component_versions.DEPLOYMENTS}:{namespace}", namespace=namespace
        )
        if component == own:
            name = component_versions.scheduler_config(found or ()) or component_versions.SCHEDULER_CONFIG
            stage.read("v1", "ConfigMap", name, case=component_versions.CONFIG, namespace=namespace)
        if component == OPERATOR:
            stage.read_all(
                "apps/v1", "DaemonSet", case=f"{node_software.DAEMON_SETS}:{namespace}", namespace=namespace
            )
    for full in profile.rdma.networks if profile.rdma is not None else ():
        namespace, _, network = full.partition("/")
        case = f"{network_definitions.CASE}:{full}"
        stage.read(
            "k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition", network, case=case, namespace=namespace
        )
    if stage.dialect.own_api:
        dry_run(stage)
    stage.context |= {("Node", node["metadata"]["name"]) for node in stage.live.objects("Node")}
    stage.context |= cluster_queues(stage)
    # Names alone: what is in the queues of others is nobody's business.
    stage.given["queues"] = {
        kind: sorted(str(queue["metadata"]["name"]) for queue in stage.live.objects(kind))
        for kind in ("Queue", "ClusterQueue", "LocalQueue")
    }


def security_floors(stage: Stage) -> dict[str, Any]:
    """Return the floors to compare with: those that the profile names, and the shipped ones of other components."""
    declared = (stage.profile.security or Security()).model_dump(mode="json")
    listed = shipped.load("floors", "security")
    own = {floor["component"] for floor in declared["floors"]}
    others = [dict(floor) for floor in listed["floors"] if floor["component"] not in own]
    return {
        **declared,
        # Of two lists the older day counts: that is how old what is compared with may be.
        "dated": min(str(day) for day in (declared["dated"], others and listed["dated"]) if day),
        "floors": [*declared["floors"], *others],
    }


def cluster_queues(stage: Stage) -> set[tuple[str, str]]:
    """Return Kueue's queues that matter, with their flavors: those of the profile, and where its LocalQueue leads."""
    declared = stage.profile.kueue
    local = (declared.local_queue if declared else None) or stage.profile.queue
    leads_to = ((stage.live.get("LocalQueue", local) or {}).get("spec") or {}).get("clusterQueue")
    queues = {(declared.cluster_queue if declared else None) or "", str(leads_to or "")}
    groups = [
        group
        for queue in queues
        for group in ((stage.live.get("ClusterQueue", queue) or {}).get("spec") or {}).get("resourceGroups")
        or ()
    ]
    used = {str(flavor.get("name")) for group in groups for flavor in group.get("flavors") or ()}
    return {
        ("LocalQueue", local),
        *(("ClusterQueue", name) for name in queues),
        *(("ResourceFlavor", name) for name in used),
    }


def namespace_of(stage: Stage, component: str) -> str:
    """Return where a component is installed."""
    return known.namespace(component, stage.profile.namespaces)


def dry_run(stage: Stage) -> None:
    """Let the API server complete a Job without schedulerName, queue, maxRetry and task names; nothing is made.

    A queue `default` that is closed or gone refuses the Job; then a second one names the queue of the profile, so that
    the other defaults are seen too.
    """
    bare = bare_job(stage.name)
    first = stage.submit(bare, role="dry-run", dry_run=True, case=CASE, expect_refusal=True)
    if not first.ok and "queue" in str(first.body.get("message")):
        bare["spec"]["queue"] = stage.dialect.queue
        stage.submit(bare, role="dry-run", dry_run=True, case=f"{CASE}:queue-named", expect_refusal=True)


def bare_job(name: str) -> dict[str, Any]:
    """Return a Job of two tasks that leaves out all that has a default."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}
    tasks = [{"replicas": count, "template": {"spec": pod}} for count in (1, 2)]
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"tasks": tasks},
    }


inventory = Scenario(
    name="inventory",
    summary="nodes, queue, versions, scheduler's configuration, and a dry-run Job that leaves everything out",
    run=run,
    needs=Needs(
        seconds=1,
        pods_run=False,
        gang=False,
        queue=True,
        permissions=(
            "create jobs.batch.volcano.sh",
            "get configmaps in {volcano}",
            *(f"list deployments.apps in {{{component}}}" for component in known.NAMESPACES),
            f"list daemonsets.apps in {{{OPERATOR}}}",
            "get network-attachment-definitions.k8s.cni.cncf.io in {networks}",
        ),
    ),
    kinds=("Node",),
    rests=("Node", "Queue", "ClusterQueue", "LocalQueue"),
)
