"""HLT-003 on pages of exporters: real names, renamed ones, GPUs that are shared, sliced or of another vendor."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpucluster.evidence.hardware import gpu_metrics
from pytest_gpucluster.judge.health import metrics as judge
from pytest_gpucluster.requirement import Verdict
from tests import amount, recordings
from tests.judge.inventory import cluster

NOW = 1_790_000_000.0
ENERGY, TEMPERATURE, POWER, MEMORY = (
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_FB_USED",
)  # fmt: skip
COUNT = {"nvidia.com/gpu.count": "2", "nvidia.com/gpu.present": "true"}


def sample(name, gpu, value, *, node="n1", after="", **labels):
    """Return one line of a page of DCGM's exporter."""
    every = {"gpu": gpu, "UUID": f"GPU-{node}-{gpu}", "modelName": "NVIDIA H200", "Hostname": node, **labels}
    shown = ",".join(f'{key}="{one}"' for key, one in every.items())
    return f"{name}{{{shown}}} {value}{after}"


def page(energy, gpus="01", node="n1", *, names=(TEMPERATURE, POWER, MEMORY), **more):
    """Return the lines of a page."""
    return [
        f"# TYPE {ENERGY} counter",
        *(sample(name, gpu, value, node=node, **more) for gpu in gpus
          for name, value in ((ENERGY, energy), *((name, 40) for name in names))),
    ]  # fmt: skip


def scraped(lines, which, elapsed, *, node="n1", part=1, parts=1, **more):
    """Return a line of the payload."""
    said = {"event": gpu_metrics.EVENT, "pod": "metrics", "node": node, "url": "http://10.0.0.1:9400/metrics",
            "which": which, "elapsed": elapsed, "asked": NOW + elapsed, "failure": "", "why": "", "lines": lines,
            "part": part, "parts": parts, "left_out": 0, "others": [], **more}  # fmt: skip
    return {"t": 1.0, "type": "LOG", "pod": "metrics", "uid": "u", "container": "main",
            "line": f"GPUCONF1 {json.dumps(said)}"}  # fmt: skip


def judged(*said, nodes=None, resource=cluster.GPU, **declared):
    """Return the finding on what the payload said of nodes."""
    found = [cluster.node("n1", 2, labels=COUNT)] if nodes is None else nodes
    lines = [{"t": 0.0, "type": "ADDED", "kind": "Node", "object": one} for one in found]
    names = [one["metadata"]["name"] for one in found]
    told = {"fresh": 60.0, "required": [], "service": None, "targets": names, **declared}
    header = {"given": {**cluster.TOLD, "gpu_resource": resource, "metrics": told}}
    return judge.present_and_fresh(recordings.evidence_of([*lines, *said], header=header))


def both(first, last, elapsed=30.0, **more):
    """Return the two pages of a node."""
    return scraped(first, "first", 0.0, **more), scraped(last, "last", elapsed, **more)


def test_every_gpu_has_its_metrics_and_they_were_renewed():
    """The seconds until they were are told."""
    found = judged(*both(page(5), page(6)))
    assert found.verdict is Verdict.PASS
    assert "2 GPUs" in found.observed
    assert [number.value for number in found.numbers] == [0, 30.0]


@pytest.mark.parametrize(
    ("said", "verdict", "text"),
    [
        (both(page(5), page(5), 60.0), "fail", "stood still for 60 s"),
        (both(page(5), page(5), 59.0), "inconclusive", "stood still for 59 s"),
        (both(page(5), page(4)), "inconclusive", "fell from 5 to 4"),
        (both(page(5), page(6, "0")), "fail", "1 of 2 GPUs"),
        (both(page(5), page(6, "012")), "inconclusive", "3 GPUs, and the node has 2"),
        (both(page(5), page(6, names=(TEMPERATURE, MEMORY)), others=["DCGM_FI_DEV_POWER_DRAW"]), "fail",
         "it has DCGM_FI_DEV_POWER_DRAW"),
        (both(page(5), page(math.nan)), "fail", f"no energy ({ENERGY})"),
        (both(page(5), [*page(6, "0"), *page(6, "1", names=(TEMPERATURE, POWER))]), "fail", "of GPU-n1-1"),
        (both(page(5), [*page(6, "0"), *(line for line in page(6, "1") if MEMORY not in line),
                        sample(MEMORY, "1", 9223372036854775794)]), "fail", "of GPU-n1-1"),
        (both(page(5, node="n2"), page(6, node="n2")), "pass", ""),
        (both(page(5), page(6, after=" 1790000031000")), "pass", ""),
        (both(page(5), page(6, after=" 1789999000000")), "inconclusive", "1.03e+03 s before the request"),
        (both(page(5), page(6, after=" 1790009000000")), "inconclusive", "s after the request"),
        (both(page(5), ["<html>no such page</html>"]), "fail", "cannot be read"),
        (both(page(5), []), "fail", "0 of 2 GPUs"),
        (both([], []), "fail", "no metric of DCGM's exporter"),
        (both(page(5), page(6), elapsed=math.nan), "inconclusive", "when it was asked"),
        (both(page(5), page(6), parts=2), "inconclusive", "of its 2 parts 1 were told"),
        (both(page(5), page(6), 600.0), "inconclusive", "600 s apart"),
        (both(page(5), page(6), 120.0), "inconclusive", "120 s apart"),
        (both(page(5), page(6), 75.0), "pass", ""),
        (both(page(5), page(5), 600.0), "fail", "stood still for 600 s"),
        (both(page(5), page(6), 0.0), "inconclusive", "0 s apart"),
        ((scraped(page(5), "first", 30.0), scraped(page(6), "last", 0.0)), "inconclusive", "-30 s apart"),
        (both(page(5), [*page(5), *page(6)]), "inconclusive", "two values of the same"),
        (both([*page(5), *page(4)], page(6)), "inconclusive", "two values of the same"),
        (both(page(5), [*page(6), *page(6)]), "pass", ""),
        (both(page(5), page(6), left_out=1), "inconclusive", "too long"),
        (both(page(5), page(6), failure="hangs", why="no whole page"), "fail", "no whole page"),
        (both(page(5), page(6), failure="refused", why="no"), "fail", "gives no page"),
        (both(page(5), page(6), failure="status", why="HTTP 404"), "fail", "HTTP 404"),
        (both(page(5), page(6), failure="status", why="HTTP 500"), "fail", "HTTP 500"),
        (both(page(5), page(6), failure="status", why="HTTP 403"), "inconclusive", "HTTP 403"),
        (both(page(5), page(6), failure="status", why="HTTP 400"), "inconclusive", "HTTP 400"),
        (both(page(5), page(6), failure="broken", why="BadStatusLine"), "fail", "BadStatusLine"),
        (both(page(5), page(6), failure="unreachable", why="timed out"), "inconclusive", "timed out"),
        (both(page(5), page(6), failure="odd"), "inconclusive", "odd"),
        (both(page(5), page(6))[:1], "inconclusive", "were not told"),
        ((), "inconclusive", "were not told"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(said, verdict, text):
    """And what cannot be told is no pass."""
    found = judged(*said)
    assert (str(found.verdict), text in found.observed) == (verdict, True), found.observed
    assert found.violation is (verdict == "fail")


@pytest.mark.parametrize(
    ("last", "cause"),
    [
        # Another program answers at the port, or its page of an error came with status 200: no metric is told of it.
        ([], judge.NOT_THERE),
        (page("+Inf"), judge.NO_VALUE),
        (page(-1), judge.NO_VALUE),
        (page(math.nan), judge.NO_VALUE),
        ([*page(6)[:-1], page(6)[-1][:60]], judge.GARBLED),
        (page(6, names=(TEMPERATURE, POWER)), judge.NOT_CONFIGURED),
        (page(6, "0"), judge.LOST),
    ],
)
def test_the_cause_is_that_of_the_page(last, cause):
    """A value that is none is no metric that is missing; a page without metrics is no GPU that is lost."""
    found = judged(*both(page(5), last))
    assert (found.verdict, found.causes[0]) == (Verdict.FAIL, cause)
    assert judge.NOT_CONFIGURED not in found.causes or cause is judge.NOT_CONFIGURED


def test_what_another_pod_says_is_not_told_by_the_run():
    """Only the pod that the run had ask tells pages."""
    roles = {"subject": [{"kind": "Pod", "name": "metrics", "uid": "u"}]}
    for uid, verdict in (("u", Verdict.PASS), ("another", Verdict.INCONCLUSIVE)):
        lines = [{**line, "uid": uid} for line in both(page(5), page(6))]
        node = {"t": 0.0, "type": "ADDED", "kind": "Node", "object": cluster.node("n1", 2, labels=COUNT)}
        told = {"fresh": 60.0, "required": [], "service": None, "targets": ["n1"]}
        header = {"given": {**cluster.TOLD, "gpu_resource": cluster.GPU, "metrics": told, "roles": roles}}
        found = judge.present_and_fresh(recordings.evidence_of([node, *lines], header=header))
        assert found.verdict is verdict


def test_new_names_of_dcgm_are_the_same_metrics():
    """The finding says which, for dashboards of the old names."""
    names = ("DCGM_FI_DEV_GPU_TEMP_CELSIUS", "DCGM_FI_DEV_BOARD_POWER_WATTS", MEMORY)
    found = judged(*both(page(5, names=names), page(6, names=names)))
    assert found.verdict is Verdict.PASS
    assert f"{POWER} is DCGM_FI_DEV_BOARD_POWER_WATTS" in found.observed


def test_the_profile_may_name_its_own_metrics():
    """A metric that nobody collects fails; the counter is looked at all the same."""
    asked = {"required": ["DCGM_FI_PROF_SM_ACTIVE"]}
    assert judged(*both(page(5), page(6)), **asked).verdict is Verdict.FAIL
    names = ("DCGM_FI_PROF_SM_UTIL_RATIO",)
    assert judged(*both(page(5, names=names), page(6, names=names)), **asked).verdict is Verdict.PASS
    assert judged(*both(page(5, names=names), page(5, names=names), 60.0), **asked).verdict is Verdict.FAIL


def test_without_a_counter_a_value_that_changed_shows_that_it_was_renewed():
    """And where none changed nobody knows."""
    asked = {"required": [TEMPERATURE]}
    for value, verdict in ((41, Verdict.PASS), (40, Verdict.INCONCLUSIVE)):
        first, last = ([sample(TEMPERATURE, gpu, one) for gpu in "01"] for one in (40, value))
        assert judged(*both(first, last, 60.0), **asked).verdict is verdict


@pytest.mark.parametrize(
    ("offers", "labels", "gpus", "verdict"),
    [
        (2, {}, "01", "pass"),
        (8, COUNT, "01", "inconclusive"),
        (2, {"nvidia.com/gpu.count": "1"}, "01", "inconclusive"),
        (8, {}, "01", "inconclusive"),
        (8, {**COUNT, "nvidia.com/gpu.replicas": "4"}, "01", "pass"),
        (8, {**COUNT, "nvidia.com/gpu.replicas": "4"}, "0", "fail"),
        (
            14,
            {"nvidia.com/gpu.count": "14", "nvidia.com/gpu.product": "NVIDIA-H200-MIG-1g.18gb"},
            "01",
            "inconclusive",
        ),
    ],
)
def test_shares_and_slices_are_not_taken_for_gpus(offers, labels, gpus, verdict):
    """Time slicing, MPS and MIG: what the node offers is no number of GPUs."""
    node = cluster.node("n1", offers, labels={"nvidia.com/gpu.present": "true", **labels})
    assert str(judged(*both(page(5, gpus), page(6, gpus)), nodes=[node]).verdict) == verdict


@pytest.mark.parametrize(("last", "verdict"), [("0123456", "pass"), ("012345", "fail")])
def test_slices_are_counted_by_their_instances(last, verdict):
    """Under the MIG strategy `single`, labels count slices, and so does the exporter."""
    labels = {"nvidia.com/gpu.count": "14", "nvidia.com/gpu.product": "NVIDIA-H200-MIG-1g.18gb"}
    node = cluster.node("n1", 14, labels=labels)

    def lines(energy, slices):
        return [line for one in slices for line in page(energy, GPU_I_ID=one, GPU_I_PROFILE="1g.18gb")]

    found = judged(*both(lines(5, "0123456"), lines(6, last)), nodes=[node])
    assert str(found.verdict) == verdict, found.observed


def amd(energy, gpus="01"):
    """Return a page of AMD's exporter."""
    names = {
        "gpu_energy_consumed": energy,
        "gpu_junction_temperature": 50,
        "gpu_power_usage": 140,
        "gpu_used_vram": 9,
    }
    return [
        f'{n}{{gpu_id="{g}",hostname="n1",serial_number="X{g}"}} {v}' for n, v in names.items() for g in gpus
    ]


def test_gpus_of_amd():
    """They have an exporter of their own, and no label counts them."""
    labels = {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}
    node = [cluster.node("n1", 2, labels=labels, resource="amd.com/gpu")]
    said = {"nodes": node, "resource": "amd.com/gpu"}
    assert judged(*both(amd(5), amd(6)), **said).verdict is Verdict.PASS
    assert judged(*both(amd(5), amd(5), 60.0), **said).verdict is Verdict.FAIL
    lost = judged(*both(amd(5), amd(6, "0")), **said)
    assert lost.verdict is Verdict.INCONCLUSIVE
    assert not any("nvidia" in f"{cause.text} {cause.fix}".lower() for cause in lost.causes)


def test_gpus_of_a_vendor_whose_exporter_nobody_knows():
    """Nothing is asked of it, so nothing is decided."""
    assert judged(resource="example.org/gpu").verdict is Verdict.INCONCLUSIVE


def test_a_page_of_another_node_decides_nothing():
    """A Service leads anywhere."""
    nodes = [cluster.node(name, 2, labels=COUNT) for name in ("n1", "n2")]
    of_two = (*both(page(5), page(6)), *both(page(5), page(6), node="n2"))
    found = judged(*of_two, nodes=nodes)
    assert (found.verdict, found.causes[0]) == (Verdict.INCONCLUSIVE, judge.ANOTHER)
    # Exporters that name no node are found out by the GPUs.
    found = judged(*of_two, nodes=[nodes[0], cluster.node("n3", 2, labels=COUNT)], targets=["n1", "n3"])
    assert found.verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("name", ["n2", "n2.example.org"])
@pytest.mark.parametrize("which", [(0,), (1,), (0, 1)])
def test_a_page_of_another_node_is_found_out_where_gpus_have_numbers(name, which):
    """Each of the two pages counts, and a node is the same with and without its domain."""
    nodes = [
        cluster.node(one, 2, labels={"amd.com/gpu.product-name": "AMD"}, resource="amd.com/gpu")
        for one in ("n1", "n2")
    ]
    own = {node: [[line.replace("n1", node).replace("X", node) for line in amd(energy)] for energy in (5, 6)]
           for node in ("n1", "n2")}  # fmt: skip
    told = both(*own["n2"], node="n2")
    assert judged(*both(*own["n1"]), *told, nodes=nodes, resource="amd.com/gpu").verdict is Verdict.PASS
    lead = [
        [line.replace("n2", name) for line in own["n2"][n]] if n in which else own["n1"][n] for n in (0, 1)
    ]
    found = judged(*both(*lead), *told, nodes=nodes, resource="amd.com/gpu")
    assert (found.verdict, found.causes[0]) == (Verdict.INCONCLUSIVE, judge.ANOTHER), found.observed


def test_devices_that_have_one_name_on_each_node_are_not_one():
    """A number or a name such as card0 tells no node from another."""
    nodes = [cluster.node(name, 2, resource="example.org/gpu") for name in ("n1", "n2")]

    def own(watts, node):
        return [f'accel_power{{device="card{n}",hostname="{node}"}} {watts}' for n in "01"]

    told = [line for node in ("n1", "n2") for line in both(own(5, node), own(6, node), node=node)]
    found = judged(*told, nodes=nodes, resource="example.org/gpu", required=["accel_power"])
    assert found.verdict is Verdict.PASS, found.observed


def test_a_node_without_an_exporter():
    """The endpoints of the Service tell it; without them nobody knows."""
    nodes = [cluster.node(name, 2, labels=COUNT) for name in ("n1", "n2")]
    listed = {
        "t": 0.5,
        "type": "RESPONSE",
        "case": f"{gpu_metrics.ENDPOINTS}:gpu-operator",
        "code": 200,
        "items": [],
    }
    told = {"service": "dcgm", "targets": ["n1"], "nodes": nodes}
    assert judged(*both(page(5), page(6)), listed, **told).verdict is Verdict.FAIL
    refused = {**listed, "code": 403, "status": {"message": "no"}}
    assert judged(*both(page(5), page(6)), refused, **told).verdict is Verdict.INCONCLUSIVE
    assert judged(*both(page(5), page(6)), **told).verdict is Verdict.INCONCLUSIVE


@given(st.lists(st.sampled_from(page(6)), max_size=12), st.text(max_size=40))
@amount.examples(80)
def test_a_page_with_anything_missing_is_no_pass(lines, rubbish):
    """Whatever is left of it, and whatever stands between."""
    whole = set(page(6)[1:]) <= set(lines)
    found = judged(*both(page(5), [*lines, *rubbish.splitlines()]))
    assert found.verdict is not Verdict.PASS or whole


def test_the_shipped_table_is_whole():
    """Each entry has its source, labels and one counter that rises."""
    for entry in gpu_metrics.table():
        assert entry["source"]
        assert entry["gpu"]
        assert any(one.get("rises") for one in entry["metrics"].values())
