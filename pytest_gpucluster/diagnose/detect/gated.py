"""Pods that schedulers do not look at yet: scheduling gates that somebody has still to take away."""

from collections.abc import Iterator

from pytest_gpucluster.diagnose.detect.suspecting import LIKELY, SURE, fault, refusal
from pytest_gpucluster.diagnose.model import Stage, Suspect
from pytest_gpucluster.diagnose.owning import workloads_of
from pytest_gpucluster.diagnose.situation import Situation
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.judge import wording
from pytest_gpucluster.requirement import Cause

KUEUE = "kueue.x-k8s.io/"
TOTAL = f"{KUEUE}pod-group-total-count"
"""Annotation in which pods say how many of them Kueue must see before it admits the group."""


def gates_of(pod: PodStory) -> tuple[str, ...]:
    """Return the scheduling gates of a pod that still stand."""
    return tuple(fields.text(one, "name") for one in fields.items(pod.last, "spec", "schedulingGates"))


def scheduling_gates(s: Situation) -> Iterator[Suspect]:
    """Pods have scheduling gates: no scheduler looks at them until these are taken away."""
    held = [p for p in s.unbound if gates_of(p)]
    if not held or s.ended or s.now - min(p.created for p in held) <= s.patience:
        return
    names = sorted({name for p in held for name in gates_of(p)})
    waits = s.now - min(p.created for p in held)
    seen = f"{len(held)} of {wording.count(len(s.pods), 'pod')} {'has' if len(held) == 1 else 'have'} "
    seen += f"spec.schedulingGates ({wording.listed(names, 4)}) for {waits:.0f} s"
    pod = held[0].name
    more = {
        "where": wording.places(held), "evidence": tuple(p.keys["created"] for p in held[:4]),
        "look": (f"kubectl get pod{s.space} {pod} -o jsonpath='{{.spec.schedulingGates}}'",),
    }  # fmt: skip
    total = max((fields.number(p.annotations, TOTAL) or 0 for p in held), default=0)
    if total > len(s.pods):
        cause = Cause(
            f"Kueue waits for all {total} pods of the pod group, and {len(s.pods)} exist: it admits none before",
            f"see why their creator made no more, or correct the annotation {TOTAL}",
        )
        yield fault("gated-incomplete", Stage.CREATE, cause, seen, SURE, **more)
        return
    if all(name.startswith(KUEUE) for name in names):
        mine = workloads_of(s.evidence, s.gang) if s.gang is not None else ()
        told = [
            f"{w.name}: {c.get('message') or c.get('reason')}"
            for w in mine for c in fields.items(w.last, "status", "conditions") if c.get("status") == "False"
        ]  # fmt: skip
        cause = Cause(
            f"the pods wait for Kueue to admit them (scheduling gate {wording.listed(names, 3)})"
            + (f"; {wording.listed(told, 2)}" if told else ""),
            f"look at their Workload (kubectl get workloads.kueue.x-k8s.io{s.space}) and its ClusterQueue; if there is "
            "none, check that Kueue runs (kubectl -n kueue-system get pods)",
        )
        yield (
            refusal("gated", Stage.QUEUE, cause, seen, LIKELY, **more)
            if told else fault("gated", Stage.QUEUE, cause, seen, LIKELY, **more)
        )  # fmt: skip
        return
    cause = Cause(
        f"the pods have the scheduling gate {wording.listed(names, 3)}: no scheduler looks at them until it is taken "
        "away",
        f"find who sets {names[0]} and should take it away (the controller or webhook of that name), and its log",
    )
    yield fault("gated", Stage.CREATE, cause, seen, SURE, **more)
