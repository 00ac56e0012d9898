"""ELA-005: what keeps the membership of elastic jobs runs where no GPU is, and asks for none."""

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects import gpu_names, node_status
from pytest_gpucluster.evidence.objects import pods as stories
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.elastic import shared
from pytest_gpucluster.requirement import Cause, Finding, Number, Presupposed, Verdict

REQUIRED = (
    "the pod that keeps the membership of elastic jobs asks for no GPU and runs on a node that offers none"
)
ON_GPU_NODE = Cause(
    "nothing keeps the pod off the GPU nodes, or the scheduler does not heed it: there it takes CPU and network from "
    "training, and keeps the node from being drained or scaled down",
    "give the pod a nodeSelector or a node affinity for CPU nodes, and taint the GPU nodes; then delete it, so that it "
    "is placed anew between two jobs",
)
ASKS_FOR_GPU = Cause(
    "the template of the pod asks for a GPU, which nothing in it uses",
    "remove the GPU resource from requests and limits of the pod's containers",
)
INSIDE = Cause(
    "the membership is inside a worker (backend c10d): it is on a GPU node, and ends with that worker",
    "keep it in a pod of its own: a store pod with `is_host=false` in every worker, or etcd",
)
ALL_GPU = Cause(
    "every node of the cluster offers GPUs",
    "add a node without GPUs for what supports training, and name it in the pod",
)


@subjects.judge
def off_gpu_nodes(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge ELA-005."""
    resource = str(given.get("gpu_resource") or "nvidia.com/gpu")
    if shared.declared_text(given, "backend") == "c10d":
        return wording.finding(
            Verdict.FAIL,
            REQUIRED,
            "the declared backend c10d keeps it inside the first worker",
            causes=(INSIDE,),
        )
    if shared.declared_text(given, "endpoint"):
        text = f"{shared.declared_text(given, 'endpoint')} is yours: which pod answers there was not asked"
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text)
    stores = _stores(evidence, given)
    placed = [pod for pod in stores if pod.node]
    if not placed:
        return wording.finding(
            Verdict.INCONCLUSIVE, REQUIRED, "no pod that keeps the membership was seen on a node"
        )
    machines = {one.name: one for one in node_status.machines(evidence)}
    unseen = [pod.node for pod in placed if pod.node not in machines]
    if unseen:
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, f"the node {unseen[0]} was not seen")
    asked = {pod.name: _gpus(pod, resource) for pod in placed}
    number = Number(
        "GPUs that it asks for",
        float(max(sum(one.values()) for one in asked.values())),
        "",
        0.0,
        "a store needs no GPU",
    )
    told = wording.Findings(
        REQUIRED,
        where=wording.places(placed),
        evidence=tuple(pod.keys["bound"] for pod in placed),
        numbers=(number,),
    )
    wanting = [pod for pod in placed if asked[pod.name]]
    if wanting:
        found = wording.listed([f"{count} {name}" for name, count in asked[wanting[0].name].items()])
        return told.fail(f"{wanting[0].where} asks for {found}", ASKS_FOR_GPU, violation=True)
    claims = [pod for pod in placed if fields.items(pod.last, "spec", "resourceClaims")]
    if claims:
        return told.inconclusive(
            f"{claims[0].where} claims devices (resourceClaims): whether GPUs was not asked"
        )
    on = [pod for pod in placed if machines[pod.node].has_gpus(resource)]
    if on:
        # Where there is no other node the presupposition says so, which is no violation.
        return told.fail(f"{on[0].where}, which offers {resource}", ON_GPU_NODE)
    return told.passed(wording.listed([f"{pod.where}, which offers no {resource}" for pod in placed]))


def _gpus(pod: PodStory, resource: str) -> dict[str, int]:
    """Return what a pod asks for that stands for GPUs, under the declared name or any other."""
    return {
        name: int(count)
        for name, count in fields.demands(pod.last).items()
        if count and (name == resource or gpu_names.reads_as_gpu(name))
    }


def _stores(evidence: Evidence, given: subjects.Given) -> list[PodStory]:
    made = {uid for _, _, uid in subjects.roles(evidence, given).get("store", ())}
    return [pod for pod in stories.pods(evidence) if pod.uid in made]


def other_nodes(evidence: Evidence, given: subjects.Given) -> Presupposed:  # noqa: ARG001 (asked of the cluster before)
    """Say whether the cluster has a node without GPUs at all."""
    name = "the cluster has a node without GPUs that takes pods"
    count = fields.number(given, "other_nodes")
    if count is None:
        return wording.presupposed(name, held=None, observed="the nodes were not counted")
    text = f"{wording.count(count, 'node')} that take pods offer no GPU"
    return wording.presupposed(name, held=count > 0, observed=text, causes=() if count else (ALL_GPU,))
