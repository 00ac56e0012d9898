"""Inventory judged on made-up nodes, queues, answers: right ones, wrong ones, and what cannot be told."""

import copy
import json

import pytest

from pytest_gpucluster.evidence import Span
from pytest_gpucluster.judge import configuration, defaults, nodes, queue, siblings, support
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


def gpus(*found, **told):
    """Return the finding of INV-002."""
    return decide(
        nodes.gpus_as_declared, evidence(*found), nodes.nodes_listed, nodes.gpu_nodes_report, **told
    )


LABEL = {"nvidia.com/gpu.present": "true"}
SHARING = {"nvidia.com/gpu.sharing-strategy": "time-slicing", "nvidia.com/gpu.replicas": "10"}


@pytest.mark.parametrize(
    ("found", "verdict", "said"),
    [
        ([node("a"), node("b")], "pass", "2 GPU nodes of 2 offer 8"),
        ([node("a"), node("cpu", None)], "pass", "1 GPU node of 2"),
        ([node("a"), node("gone", 0)], "pass", "1 GPU node of 2"),
        ([node("a"), node("b", 8, 7)], "fail", "b offers 7 of 8 (capacity 8)"),
        ([node("a"), node("b", 4)], "fail", "b offers 4 of 8"),
        ([node("a"), node("b", 16)], "fail", "b offers 16 of 8"),
        ([node("a"), node("b", 0, labels=LABEL)], "fail", "although its label says nvidia.com/gpu.present=true"),
        ([node("a"), node("b", None, labels={"nvidia.com/gpu.count": "8"})], "fail", "nvidia.com/gpu.count=8"),
        ([node("a"), node("b", None, labels={"amd.com/gpu.family": "AI"})], "fail", "b offers 0 of 8"),
        ([node("a"), node("b", 80, labels=SHARING)], "fail", "b offers 80 of 8"),
        ([node("a", 8, resource="nvidia.com/gpu.shared")], "fail", "but 8 nvidia.com/gpu.shared"),
        ([node("a", 56, resource="nvidia.com/mig-1g.10gb")], "fail", "but 56 nvidia.com/mig-1g.10gb"),
        ([node("a", 8, resource="amd.com/gpu")], "fail", "but 8 amd.com/gpu"),
        ([node("a"), node("b", 7, cordoned=True)], "fail", "[cordoned]"),
        ([node("a"), node("b", ready="Unknown")], "environment", "1 node not Ready"),
        ([node("a"), node("b", ready="False", cordoned=True)], "pass", "b is NotReady, cordoned"),
        ([node("a"), node("b", 7, ready="Unknown")], "fail", "b offers 7 of 8 [NotReady]"),
        ([node("a"), {"kind": "Node", "metadata": {"name": "b"}}], "inconclusive", "never said what they have: b"),
        ([node("a", None)], "fail", "none of 1 node offers"),
        ([], "inconclusive", ""),
    ],
)  # fmt: skip
def test_gpus_of_every_node(found, verdict, said):
    """INV-002: exactly the declared number on every GPU node; short ones are named; nothing seen is no pass."""
    finding = gpus(*found)
    assert finding.verdict == verdict, finding.observed
    assert said in finding.observed
    if verdict == "fail":
        assert finding.where
        assert finding.causes


@pytest.mark.parametrize(
    "resource", ["amd.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb", "habana.ai/gaudi"]
)
def test_the_declared_name_is_what_counts(resource):
    """Other vendors, shares and MIG slices are judged alike where they are what the profile declares."""
    assert gpus(node("a", 8, resource=resource), gpu_resource=resource).verdict == "pass"
    assert gpus(node("a", 7, resource=resource), gpu_resource=resource).verdict == "fail"


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (node("a", 8, 7), "unhealthy"),
        (node("a", 8, 0), "the device plugin has left"),
        (node("a", 0, labels=LABEL), "no device plugin"),
        (node("a", 4), "fewer devices"),
        (node("a", 16), "more devices"),
        (node("a", 80, labels=SHARING), "shared"),
        (node("a", 8, resource="nvidia.com/gpu.shared"), "shared"),
        (node("a", 56, resource="nvidia.com/mig-1g.10gb"), "MIG"),
        (node("a", 56, labels={"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"}), "MIG"),
        (node("a", 8, resource="amd.com/gpu"), "another resource name: amd.com/gpu"),
    ],
)  # fmt: skip
def test_the_likeliest_cause_comes_first(found, text):
    """What is wrong with the number tells why."""
    assert text in gpus(found).causes[0].text


def test_a_device_that_was_unhealthy_for_a_time():
    """Enough at the end does not undo what was seen before; a node that says nothing yet is no such case."""
    now, before = node("a"), node("a", 8, 7)
    lines = [
        {"t": t, "type": "MODIFIED" if t else "ADDED", "kind": "Node", "object": obj}
        for t, obj in enumerate((now, before, now))
    ]
    seen = recordings.evidence_of([*lines, {"t": 3.0, "type": "NOTE", "note": "end"}], header={"given": TOLD})
    finding = decide(nodes.gpus_as_declared, seen, nodes.nodes_listed)
    assert (finding.verdict, finding.violation) == ("fail", True)
    assert "for a time 1 GPU node did not: a offers 7 of 8" in finding.observed
    lines[1]["object"] = {**now, "status": {}}
    seen = recordings.evidence_of([*lines, {"t": 3.0, "type": "NOTE", "note": "end"}], header={"given": TOLD})
    assert decide(nodes.gpus_as_declared, seen, nodes.nodes_listed).verdict == "pass"


def test_zero_that_stayed_behind_is_none():
    """A key with 0 is left by a plugin that is gone for good: the node counts as one without GPUs, and is named."""
    finding = gpus(node("a"), node("b", 0))
    assert finding.verdict == "pass"
    assert "b had a device plugin once and offers 0" in finding.observed


def test_a_declared_zero_is_not_applicable_and_an_unwatched_list_decides_nothing():
    """No GPUs declared: nothing to judge. A watch that was never in sync: what was seen may not be all."""
    assert gpus(node("a", None), gpus_per_node=0).verdict == "not_applicable"
    blind = evidence(node("a"), spans=(Span("Queue", 0.0, 2.0),))
    assert decide(nodes.gpus_as_declared, blind, nodes.nodes_listed).verdict == "inconclusive"
    ended = evidence(node("a"), spans=(Span("Node", 0.0, 1.0),))
    assert decide(nodes.gpus_as_declared, ended, nodes.nodes_listed).verdict == "inconclusive"


def test_what_kubectl_printed_is_judged(tmp_path):
    """`kubectl get nodes -o json` is a whole list of one moment, though nobody watched."""
    from pytest_gpucluster.evidence import read

    items = [{**found, "apiVersion": "v1"} for found in (node("a"), node("b"), node("c", 8, 7))]
    path = tmp_path / "nodes.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=1))
    seen = read(path)
    assert decide(nodes.gpus_as_declared, seen, nodes.nodes_listed).verdict == "fail"
    assert decide(siblings.nodes_alike, seen, nodes.nodes_listed, siblings.siblings).verdict == "fail"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items[:2]}, indent=1))
    assert decide(nodes.gpus_as_declared, read(path), nodes.nodes_listed).verdict == "pass"


def test_five_thousand_nodes_name_the_short_ones():
    """A few among thousands are named, the many are counted."""
    many = [node(f"n{n:04d}", labels={"cloud.google.com/gke-nodepool": f"p{n % 7}"}) for n in range(5000)]
    for n in (17, 4242):
        many[n] = node(f"n{n:04d}", 8, 6, labels=many[n]["metadata"]["labels"])
    seen = evidence(*many)
    finding = decide(nodes.gpus_as_declared, seen, nodes.nodes_listed, nodes.gpu_nodes_report)
    assert (
        finding.observed
        == "2 of 5000 GPU nodes do not: n0017 offers 6 of 8 (capacity 8), n4242 offers 6 of 8 (capacity 8)"
    )
    odd = decide(siblings.nodes_alike, seen, siblings.siblings)
    assert odd.verdict == "fail"
    assert {where.partition(":")[0] for where in odd.where} == {"Node/n0017", "Node/n4242"}


# -- INV-008 ---------------------------------------------------------------------------------------------------------


def alike(*found, **told):
    """Return the finding of INV-008."""
    return decide(siblings.nodes_alike, evidence(*found), nodes.nodes_listed, siblings.siblings, **told)


def changed(base, path, value):
    """Return a copy of a node with one value changed."""
    made = copy.deepcopy(base)
    at = made
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return made


POOL = {"cloud.google.com/gke-nodepool": "a100"}


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("status", "nodeInfo", "kernelVersion"), "5.15", "kernel: c has 5.15, the others 6.8.0"),
        (("status", "nodeInfo", "kubeletVersion"), "v1.33.0", "kubelet: c has v1.33.0"),
        (("status", "capacity", "cpu"), "64", "CPUs: c has 64, the others 96"),
        (("status", "allocatable", GPU), "7", f"number of {GPU}: c has 7 of 8, the others 8"),
        (("metadata", "labels", "nvidia.com/gpu.product"), "A100", "label nvidia.com/gpu.product: c has A100"),
        (("metadata", "labels", "nvidia.com/cuda.driver-version.full"), "550.1", "the others nothing"),
    ],
)  # fmt: skip
def test_the_odd_one_is_named(path, value, said):
    """INV-008: whatever it differs in."""
    base = [node(name, labels=dict(POOL)) for name in "abcd"]
    assert alike(*base).verdict == "pass"
    base[2] = changed(base[2], path, value)
    finding = alike(*base)
    assert finding.verdict == "fail", finding.observed
    assert said in finding.observed
    assert finding.where == ("Node/c: differs in 1",)


@pytest.mark.parametrize(
    "label",
    ["kubernetes.io/hostname", "topology.kubernetes.io/zone", "nvidia.com/gfd.timestamp", "nvidia.com/gpu.clique",
     "team", "nvidia.com/gpu.deploy.driver", "nvidia.com/gpu-driver-upgrade-state"],
)  # fmt: skip
def test_what_healthy_siblings_differ_in_is_left_alone(label):
    """Names, places, times and states of operators are no difference of machines."""
    assert alike(*(node(name, labels={**POOL, label: name}) for name in "abc")).verdict == "pass"


def test_two_against_two_accuses_nobody():
    """An even split names both sides: in one labelled pool a violation, else perhaps two pools."""
    halves = [node("a"), node("b"), node("c", rdma="1"), node("d", rdma="1")]
    for one in halves[2:]:
        one["status"]["nodeInfo"]["kernelVersion"] = "5.15"
    finding = alike(*halves)
    assert finding.verdict == "inconclusive"
    assert "a, b have 6.8.0; c, d have 5.15" in finding.observed
    assert "pool_label" in finding.causes[0].fix
    for one in halves:
        one["metadata"]["labels"] = dict(POOL)
    finding = alike(*halves)
    assert finding.verdict == "fail"
    assert {where.removeprefix("Node/") for where in finding.where} == set("abcd")


def test_pools_are_compared_within_themselves():
    """Two kinds of machines are alike by the cloud's label, and by a declared one."""
    kinds = [
        node(f"{pool}{n}", gpus, labels={"example.com/pool": pool})
        for pool, gpus in (("x", 8), ("y", 4))
        for n in (1, 2)
    ]
    assert alike(*kinds).verdict == "inconclusive"
    assert alike(*kinds, pool_label="example.com/pool").verdict == "pass"
    alone = [*kinds, node("z1", 2, labels={"example.com/pool": "z"})]
    finding = alike(*alone, pool_label="example.com/pool")
    assert finding.verdict == "pass"
    assert "z1 alone in a pool" in finding.observed


@pytest.mark.parametrize("found", [[node("a")], [node("a"), node("cpu", None)], [node("cpu", None)]])
def test_one_node_has_no_siblings(found):
    """There is nothing to compare: what the row presupposes is not so."""
    assert alike(*found).verdict == "environment"


def test_a_node_that_never_reported_is_not_taken_for_alike():
    """Labels say that it has GPUs, its kubelet said nothing yet."""
    silent = {"kind": "Node", "metadata": {"name": "c", "labels": LABEL}}
    assert alike(node("a"), node("b"), silent).verdict == "inconclusive"


# -- INV-005 ---------------------------------------------------------------------------------------------------------


def fits(*objects, **told):
    """Return the finding of INV-005."""
    return decide(queue.queue_fits, evidence(*objects), nodes.nodes_listed, queue.nodes_in_service, **told)


@pytest.mark.parametrize(
    ("objects", "verdict", "said"),
    [
        ([queue_of(), node("a")], "pass", "no quota of its own"),
        ([queue_of(capability={GPU: "16"}), node("a"), node("b")], "pass", "capability 16 of 16 nvidia.com/gpu"),
        ([queue_of(capability={GPU: "16"}), node("a"), node("b", 8, 7)], "fail", "nvidia.com/gpu, allocatable 15"),
        ([queue_of(capability={"cpu": "1k"}), node("a")], "fail", "capability 1k cpu, allocatable 96"),
        ([queue_of(deserved={GPU: "9"}), node("a")], "fail", "deserved 9"),
        ([queue_of(guarantee={"resource": {GPU: "9"}}), node("a")], "fail", "guarantee 9"),
        ([queue_of(capability={"example.com/x": "1"}), node("a")], "fail", "allocatable 0"),
        ([queue_of(capability={GPU: "16"}), node("a"), node("b", cordoned=True)], "environment", "b (cordoned)"),
        ([queue_of(capability={GPU: "16"}), node("a"), node("b", ready="Unknown")], "environment", "b (NotReady)"),
        ([queue_of(state="Closed"), node("a")], "fail", "is Closed"),
        ([queue_of(state="Closing"), node("a")], "fail", "is Closing"),
        ([queue_of(state=None), node("a")], "fail", "without a state"),
        ([queue_of("trainin"), node("a")], "fail", "did you mean 'trainin'"),
        ([node("a")], "fail", "there is no queue 'training'"),
        ([queue_of()], "inconclusive", "no node was seen"),
        ([queue_of(capability={GPU: "nonsense"}), node("a")], "pass", "no quota"),
    ],
)  # fmt: skip
def test_the_training_queue(objects, verdict, said):
    """INV-005: there, Open, and promising no more than there is."""
    finding = fits(*objects)
    assert finding.verdict == verdict, finding.observed
    assert said in finding.observed


def cluster_queue(quota, active="True", stop=None):
    """Return a ClusterQueue with its quota in two flavors."""
    rows = [
        {"name": f, "resources": [{"name": GPU, "nominalQuota": q}]} for f, q in zip("ab", quota, strict=True)
    ]
    spec = {"resourceGroups": [{"flavors": rows}], **({"stopPolicy": stop} if stop else {})}
    status = {"conditions": [{"type": "Active", "status": active, "reason": "FlavorNotFound"}]}
    return {"kind": "ClusterQueue", "metadata": {"name": "cq", "uid": "cq"}, "spec": spec, "status": status}


LOCAL = {"kind": "LocalQueue", "metadata": {"name": "training", "uid": "lq"}, "spec": {"clusterQueue": "cq"}}


@pytest.mark.parametrize(
    ("objects", "verdict", "said"),
    [
        ([LOCAL, cluster_queue(("4", "4")), node("a")], "pass", "nominalQuota 8 of 8"),
        ([LOCAL, cluster_queue(("4", 5)), node("a")], "fail", "nominalQuota 9 nvidia.com/gpu, allocatable 8"),
        ([LOCAL, cluster_queue(("4", "4"), "False"), node("a")], "fail", "not Active (FlavorNotFound)"),
        ([LOCAL, cluster_queue(("4", "4"), stop="Hold"), node("a")], "fail", "not Active"),
        ([LOCAL, node("a")], "fail", "there is no queue"),
    ],
)  # fmt: skip
def test_a_local_queue_leads_to_its_cluster_queue(objects, verdict, said):
    """Kueue: the quota of all flavors together is what is promised."""
    finding = fits(*objects, scheduler="kueue")
    assert finding.verdict == verdict, finding.observed
    assert said in finding.observed


@pytest.mark.parametrize(
    ("objects", "told", "verdict", "said"),
    [
        # Beside Volcano: both queues must hold.
        ([queue_of(), cluster_queue(("4", "4")), node("a")], {}, "pass", "no quota of its own"),
        ([queue_of(), cluster_queue(("4", 5)), node("a")], {}, "fail", "ClusterQueue/cq is Active and promises more"),
        ([queue_of(), cluster_queue(("4", "4"), "False"), node("a")], {}, "fail", "ClusterQueue/cq is not Active"),
        ([queue_of(), node("a")], {}, "fail", "there is no queue 'cq'"),
        ([queue_of(state="Closed"), cluster_queue(("4", "4")), node("a")], {}, "fail", "is Closed"),
        # Kueue alone, named by its ClusterQueue or by a LocalQueue of another name than `queue`.
        ([cluster_queue(("4", "4")), node("a")], {"scheduler": "native"}, "pass", "nominalQuota 8 of 8"),
        (
            [LOCAL, cluster_queue(("4", "4")), node("a")],
            {"scheduler": "kueue", "queue": "other", "kueue": {"local_queue": "training"}},
            "pass",
            "nominalQuota 8 of 8",
        ),
    ],
)  # fmt: skip
def test_the_cluster_queue_that_the_profile_names(objects, told, verdict, said):
    """A ClusterQueue that is declared is judged as the training queue is, whoever else schedules."""
    finding = fits(*objects, **{"kueue": {"cluster_queue": "cq"}, **told})
    assert finding.verdict == verdict, finding.observed
    assert said in finding.observed


def test_no_queue_is_needed_where_the_scheduler_has_none():
    """The default scheduler knows no queues; Volcano declared and its API absent is a fail."""
    assert fits(node("a"), scheduler="default-scheduler").verdict == "not_applicable"
    seen = evidence(node("a"), answers=[("api:Queue", 404, {})])
    finding = decide(queue.queue_fits, seen, nodes.nodes_listed)
    assert finding.verdict == "fail"
    assert "serves no queues" in finding.observed


# -- INV-006 ---------------------------------------------------------------------------------------------------------


def deployment(image, name="volcano-scheduler", **labels):
    """Return a Deployment."""
    spec = {"containers": [{"name": "c", "image": image}]}
    return {"metadata": {"name": name, "labels": labels}, "spec": {"template": {"spec": spec}}}


def versions_of(*images, told=None, code=200, labels=None):
    """Return the finding of INV-006."""
    items = [deployment(image, **(labels or {})) for image in images]
    found = [
        ("read:version", 200, {"object": {"gitVersion": "v1.34.2+k3s1"}}),
        (
            "read:deployments:volcano-system",
            code,
            {"items": items} if code == 200 else {"status": {"message": "no"}},
        ),
    ]
    seen = evidence(node("a", labels={"nvidia.com/cuda.driver-version.full": "570.172.08"}), answers=found)
    matrix = {"volcano": ["1.14"]} if told is None else told
    return decide(support.versions_supported, seen, support.deployments_readable, versions=matrix)


@pytest.mark.parametrize(
    ("images", "told", "verdict", "said"),
    [
        (["docker.io/volcanosh/vc-scheduler:v1.14.4"], None, "pass", "volcano 1.14.4"),
        (["reg:5000/volcanosh/vc-scheduler:v1.14.4@sha256:00"], None, "pass", "volcano 1.14.4"),
        (["volcanosh/vc-scheduler:v1.15.1"], None, "fail", "volcano 1.15.1 is not in 1.14"),
        (["volcanosh/vc-scheduler:v1.1.4"], None, "fail", "volcano 1.1.4 is not in 1.14"),
        (["volcanosh/vc-scheduler:v1.14.4", "volcanosh/vc-webhook-manager:v1.13.0"], None, "fail", "1.13.0 is not in"),
        (["volcanosh/vc-scheduler:latest"], None, "inconclusive", "cannot be told from"),
        (["volcanosh/vc-scheduler"], None, "inconclusive", "cannot be told from"),
        (["reg:5000/volcanosh/vc-scheduler"], None, "inconclusive", "cannot be told from"),
        (["volcanosh/vc-scheduler@sha256:1234"], None, "inconclusive", "cannot be told from"),
        (["example.com/else:v1"], None, "inconclusive", "volcano was not seen"),
        (["volcanosh/vc-scheduler:v1.14.4"], {}, "not_applicable", "kubernetes 1.34.1 and 1.34.2; volcano 1.14.4"),
        (["volcanosh/vc-scheduler:v1.14.4"], {"kubernetes": [">=1.33 <1.35"]}, "pass", "kubernetes 1.34.1"),
        (["volcanosh/vc-scheduler:v1.14.4"], {"kubernetes": ["1.34.2"]}, "fail", "kubelet of a"),
        (["volcanosh/vc-scheduler:v1.14.4"], {"driver": ["570", "580"]}, "pass", "driver 570.172.08"),
        (["volcanosh/vc-scheduler:v1.14.4"], {"driver": ["580"]}, "fail", "Node/a"),
        (["volcanosh/vc-scheduler:v1.14.4"], {"nccl": ["2.27"]}, "inconclusive", "nccl was not seen"),
    ],
)  # fmt: skip
def test_versions(images, told, verdict, said):
    """INV-006: known and within the matrix; unknown is never a pass."""
    finding = versions_of(*images, told=told)
    assert finding.verdict == verdict, finding.observed
    assert said in finding.observed


def test_deployments_that_may_not_be_read_are_the_environment():
    """The verb that is missing is named."""
    finding = versions_of(code=403)
    assert finding.verdict == "environment"
    assert "list on deployments.apps in volcano-system" in finding.observed


def test_a_label_tells_the_version_of_an_image_without_tag():
    """Charts that pin by digest label the Deployment."""
    labels = {"app.kubernetes.io/version": "1.14.4"}
    assert versions_of("volcanosh/vc-scheduler@sha256:1234", labels=labels).verdict == "pass"


# -- INV-009 ---------------------------------------------------------------------------------------------------------

CONF = 'actions: "enqueue, allocate, backfill"\ntiers:\n- plugins:\n  - name: gang\n'


def config(
    text=CONF, code=200, key="volcano-scheduler.conf", request="get configmaps/x in volcano-system", **told
):
    """Return the finding of INV-009."""
    more = (
        {"object": {"metadata": {"name": "x"}, "data": {key: text}}}
        if code == 200
        else {"status": {"message": "no"}}
    )
    seen = evidence(answers=[("read:scheduler-config", code, {**more, "request": request})])
    return decide(configuration.configured, seen, configuration.readable, **told)


@pytest.mark.parametrize(
    ("text", "verdict", "said"),
    [
        (CONF, "pass", "actions enqueue, allocate, backfill; plugins gang"),
        (CONF.replace("enqueue, ", ""), "fail", "no action enqueue"),
        (CONF.replace("gang", "sla"), "fail", "the gang plugin is missing"),
        (CONF + "    enableJobReady: false\n", "fail", "switched off"),
        (CONF + "    enableJobReady: true\n", "pass", "gang"),
        ("actions: [", "inconclusive", "is no YAML"),
        ("just text", "inconclusive", "has no line `actions`"),
        ("", "inconclusive", "has no line `actions`"),
        ("actions: allocate\ntiers: null\n", "fail", "the gang plugin is missing; no action enqueue"),
    ],
)  # fmt: skip
def test_the_schedulers_configuration(text, verdict, said):
    """INV-009: read, not assumed."""
    finding = config(text)
    assert finding.verdict == verdict, finding.observed
    assert said in finding.observed


def test_a_configuration_that_cannot_be_read():
    """Not permitted is the environment and names the verb; not there is unknown; another scheduler is not judged."""
    denied = config(code=403)
    assert denied.verdict == "environment"
    assert "get on configmaps in volcano-system" in denied.observed
    assert config(code=404).verdict == "inconclusive"
    assert config(key="other.txt").verdict == "inconclusive"
    assert decide(configuration.configured, evidence(), configuration.readable).verdict == "inconclusive"
    assert config(scheduler="default-scheduler").verdict == "not_applicable"


# -- INV-010 ---------------------------------------------------------------------------------------------------------

SPEC = {
    "schedulerName": "volcano",
    "queue": "default",
    "maxRetry": 3,
    "tasks": [{"name": "default0"}, {"name": "default1"}],
}
OWNED = [
    {
        "manager": "m",
        "operation": "Update",
        "fieldsV1": {"f:spec": {"f:queue": {}, "f:maxRetry": {}, "f:tasks": {}}},
    }
]


def completed(code=201, case="defaults", owned=OWNED, message="", **changes):
    """Return one answer to a dry-run Job."""
    spec = {key: value for key, value in {**SPEC, **changes}.items() if value is not ...}
    obj = {"metadata": {"managedFields": owned} if owned else {}, "spec": spec}
    return (case, code, {"object": obj} if code == 201 else {"status": {"code": code, "message": message}})


def default_of(*answers, **told):
    """Return the finding of INV-010."""
    return decide(defaults.documented_defaults, evidence(answers=answers), defaults.dry_run_allowed, **told)


def test_each_default_says_who_filled_it_in():
    """What was noted before admission comes from the schema, what was not from the admission."""
    finding = default_of(completed())
    assert finding.verdict == "pass"
    assert finding.facts == {
        "schedulerName": "admission", "queue": "schema", "maxRetry": "schema", "task names": "admission",
    }  # fmt: skip
    old = [{"fieldsV1": {"f:spec": {"f:maxRetry": {}, "f:tasks": {}}}}]
    assert default_of(completed(owned=old)).facts["queue"] == "admission"
    untold = default_of(completed(owned=None))
    assert untold.verdict == "pass"
    assert untold.facts["queue"] == "schema or admission"


@pytest.mark.parametrize(
    ("changes", "said", "cause"),
    [
        ({"schedulerName": ...}, "schedulerName was not filled in", "no mutating admission"),
        ({"schedulerName": "vc2"}, "schedulerName is vc2 instead of volcano", "default was changed"),
        ({"maxRetry": 5}, "maxRetry is 5 instead of 3", "default was changed"),
        ({"maxRetry": ...}, "maxRetry was not filled in", "CRDs are of another release"),
        ({"queue": "other"}, "queue is other instead of default", "default was changed"),
        ({"tasks": [{}, {"name": "default1"}]}, "task names was not filled in", "no mutating admission"),
        ({"tasks": [{"name": "default0"}, {"name": "x"}]}, "task names is default0, x", "default was changed"),
    ],
)  # fmt: skip
def test_a_default_that_is_not_the_documented_one(changes, said, cause):
    """INV-010 names the field and who should have filled it in."""
    finding = default_of(completed(**changes))
    assert finding.verdict == "fail"
    assert said in finding.observed
    assert cause in finding.causes[0].text


CLOSED = (
    'admission webhook "validatejob.volcano.sh" denied the request: can only submit job to queue with state `Open`, '
    "queue `default` status is `Closed`;"
)


def test_a_closed_default_queue_still_shows_the_defaults():
    """The refusal itself names the queue that was filled in; the second dry run shows the rest."""
    first = completed(400, message=CLOSED)
    assert default_of(first).verdict == "inconclusive"
    finding = default_of(first, completed(case="defaults:queue-named", queue="training"))
    assert finding.verdict == "pass", finding.observed
    assert "queue default" in finding.observed


def test_a_dry_run_that_may_not_be_sent():
    """Not permitted is the environment; not tried is inconclusive; another scheduler is not judged."""
    denied = default_of(completed(403, message="jobs.batch.volcano.sh is forbidden"))
    assert denied.verdict == "environment"
    assert "create on jobs.batch.volcano.sh" in denied.observed
    assert default_of().verdict == "inconclusive"
    assert default_of(completed(), scheduler="default-scheduler").verdict == "not_applicable"


def test_recorded_answers_of_real_admission_are_right():
    """Volcano v1.14.4 filled in what the recorded Jobs left out; task names were never left out there."""
    finding = defaults.documented_defaults(recordings.stream("d-refusals"), {})
    assert finding.verdict == "inconclusive"
    assert "not seen: task names" in finding.observed
    assert "schedulerName volcano" in finding.observed
