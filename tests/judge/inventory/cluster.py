"""Made-up nodes, queues and answers for the judges of the inventory."""

from tests import recordings

GPU = "nvidia.com/gpu"
TOLD = {"gpu_resource": GPU, "gpus_per_node": 8, "queue": "training", "scheduler": "volcano"}


def node(name, gpus=8, allocatable=None, *, labels=None, ready="True", cordoned=False, resource=GPU, **more):
    """Return a node; `allocatable` None for all that it has."""
    capacity = {"cpu": "96", **({} if gpus is None else {resource: str(gpus)}), **more}
    usable = {**capacity, **({} if allocatable is None else {resource: str(allocatable)})}
    info = {"kernelVersion": "6.8.0", "kubeletVersion": "v1.34.1", "osImage": "Ubuntu 24.04"}
    return {
        "kind": "Node",
        "metadata": {"name": name, "uid": name, "labels": labels or {}},
        "spec": {"unschedulable": True} if cordoned else {},
        "status": {
            "capacity": capacity,
            "allocatable": usable,
            "conditions": [{"type": "Ready", "status": ready}],
            "nodeInfo": info,
        },
    }


def queue_of(name="training", state="Open", **spec):
    """Return a Volcano queue."""
    status = {"state": state} if state else {}
    return {"kind": "Queue", "metadata": {"name": name, "uid": f"q-{name}"}, "spec": spec, "status": status}


def evidence(*objects, answers=(), spans=None):
    """Return evidence of objects that were listed, and of answers (case, code, fields)."""
    lines = [{"t": 0.0, "type": "ADDED", "kind": obj["kind"], "object": obj} for obj in objects]
    lines += [
        {"t": 1.0, "type": "RESPONSE", "case": c, "code": n, "request": f"ask {c}", **m}
        for c, n, m in answers
    ]
    lines.append({"t": 2.0, "type": "NOTE", "note": "end"})
    return recordings.evidence_of(lines, header={"given": TOLD}, spans=spans)


def decide(judge, seen, *checks, **told):
    """Return the finding after the presuppositions had their say, as a requirement decides."""
    from pytest_gpucluster.requirement import declare

    row = declare.Requirement(
        "INV-002", declare.v.Level.MUST, (), "t", "t", None, judge, tuple(checks), (), "tests"
    )
    return row.decide(seen, {**TOLD, **told})
