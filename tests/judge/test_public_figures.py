"""Public trouble reports about fabric and speed: evidence of their figures and logs gets the verdict that is right."""

import json

import pytest

from pytest_gpucluster.mutants import base
from tests import documents, recordings
from tests.defects import matrix

CASES = {case["id"]: case for case in documents.read(recordings.FOLDER / "public" / "figures.yaml")}
HOSTPATH, UNREACHED, GID = (
    "fab-hostpath-hides-the-adapters", "fab-fix-that-never-reached-the-process", "fab-gid-index-is-not-portable",
)  # fmt: skip
FLATTERS, ONE_OF_FOUR = "fab-two-nodes-flatter-the-fabric", "fab-one-adapter-of-four"
PEAKS, STARVED = "mfu-three-wrong-peaks", "mfu-starved-by-cpu-share"


def collectives(nodes, each, *, size=1 << 30, busbw=90.0, log=(), **given):
    """Return evidence of a world that measured an all-reduce, with a log for each rank, `{r}` and `{h}` its own."""
    world, lines = nodes * each, []
    factor = 2 * (world - 1) / world
    mean = size * factor / busbw / 1e3
    figure = {
        "collective": "all_reduce", "size": size, "iters": 20, "mean": mean, "min": mean, "p50": mean, "p90": mean,
        "p99": mean, "algbw": busbw / factor, "busbw": busbw, "factor": factor, "wrong": 0,
    }  # fmt: skip
    for rank in range(world):
        pod = f"job-worker-{rank // each}"
        who = {
            "rank": rank, "world": world, "local_rank": rank % each, "local_world": each, "node": f"n{rank // each}",
            "device": "cuda", "device_name": "NVIDIA A100-SXM4-80GB", "uuid": f"GPU-{rank}", "pod": pod,
        }  # fmt: skip
        said = [
            line.format(r=rank, h=pod, next=(rank + 1) % world, before=(rank - 1) % world) for line in log
        ]
        mark = {"event": "nccl-log", "rank": rank, "lines": len(said)}
        texts = [f"GPUCONF1 {json.dumps({'event': 'who', **who})}"]
        texts.append(
            f"GPUCONF1 {json.dumps({'event': 'measured', 'part': 1, 'parts': 1, 'results': [figure], **who})}"
        )
        texts.append(f"GPUCONF1 {json.dumps({**mark, 'part': 'begin', 'cut': 0})}")
        texts += [f"[rank{rank}]: {line}" for line in said]
        texts.append(f"GPUCONF1 {json.dumps({**mark, 'part': 'end'})}")
        texts.append(f"GPUCONF1 {json.dumps({'event': 'done', 'code': 0, **who})}")
        lines += [{"t": 1.0, "type": "LOG", "pod": pod, "uid": pod, "line": text} for text in texts]
    header = {"given": {"world": world, "nodes": nodes, "nproc": each, "roles": {}, **given}}
    return recordings.evidence_of(lines, header=header)


def judged(row, evidence):
    """Return verdict and words of a row."""
    finding = recordings.JUDGES[row](evidence, evidence.given)
    numbers = [f"{number.value} {number.bound}" for number in finding.numbers]
    return str(finding.verdict), " ".join(
        [finding.observed, *finding.where, *numbers, *(c.text for c in finding.causes)]
    )


@pytest.mark.parametrize("case_id", [FLATTERS, ONE_OF_FOUR])
def test_a_bandwidth_below_the_floor_of_its_wires(case_id):
    """Also where two nodes flatter it: a floor belongs to its number of nodes."""
    source = CASES[case_id]["input"]
    rate = source["nic"]["gbit"] if "nic" in source else source["nic_gbit"]
    for row in source["rows"]:
        floor = {
            "collective": "all_reduce", "size": 1 << 30, "busbw": source["floor"]["value"], "nodes": row["nodes"],
            "gpus": 8, "nics": 4, "nic_gbps": rate, "origin": source["floor"]["origin"],
        }  # fmt: skip
        fabric = {"floors": [floor], "nics_per_node": 4, "nic_gbps": rate}
        found, text = judged(
            "FAB-006", collectives(row["nodes"], 8, size=row["size"], busbw=row["busbw"], fabric=fabric)
        )
        assert (found == "fail") is (row["busbw"] < floor["busbw"]), text
        if found == "fail":
            assert f"{row['busbw']} of {floor['busbw']:g} GB/s" in text
            assert (
                judged("FAB-012", collectives(row["nodes"], 8, busbw=row["busbw"], fabric=fabric))[0]
                == "inconclusive"
            )


def test_one_adapter_of_four():
    """The ranks' own list names one; declared are four."""
    source = CASES[ONE_OF_FOUR]["input"]
    log = (
        "{h}:1{r}:1{r} [0] NCCL INFO NCCL_IB_HCA set to mlx5_0",
        "{h}:1{r}:1{r} [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.1<0>",
        "{h}:1{r}:1{r} [0] NCCL INFO Channel 00/0 : {before}[0] -> {r}[0] [receive] via NET/IB/0/GDRDMA",
        "{h}:1{r}:1{r} [0] NCCL INFO Channel 00/0 : {r}[0] -> {next}[0] [send] via NET/IB/0/GDRDMA",
    )
    fabric = {"transport": "RoCE", "hcas": source["declared_hcas"], "nics_per_node": 4}
    found, text = judged("FAB-005", collectives(2, 1, log=log, fabric=fabric))
    assert found == "fail"
    assert "mlx5_0" in text


@pytest.mark.parametrize(
    ("case_id", "rows"), [(HOSTPATH, ("FAB-001", "FAB-003")), (UNREACHED, ("FAB-001", "FAB-002"))]
)
def test_sockets_where_a_fabric_was_declared(case_id, rows):
    """By the connection lines of the report, whatever file or mount meant the best."""
    (lines,) = CASES[case_id]["input"]["logs"].values()
    log = ["{h}:1{r}:1{r} [0] NCCL INFO " + line.split("NCCL INFO ", 1)[1] for line in lines]
    log = [
        "{h}:1{r}:1{r} [0] NCCL INFO Channel 00/0 : {before}[0] -> {r}[0] [receive] via NET/Socket/0" if " via " in line
        else line for line in log
    ]  # fmt: skip
    evidence = collectives(2, 1, log=log, fabric={"transport": "IB", "gdr": "required"})
    for row in rows:
        found, text = judged(row, evidence)
        assert found == CASES[case_id]["expected"]["rows"][row], text
        assert "Socket" in text or "TCP" in text


def test_a_gid_of_another_namespace():
    """The forced network cannot be used: the error of the rank decides."""
    warning = CASES[GID]["input"]["logs"]["nt-worker-0"][1].partition("NCCL WARN ")[2]
    fail = base.on("done", lambda w: w.update(event="failed", error=f"NCCL error: {warning}"), alone=True)
    found, text = judged("FAB-010", fail(collectives(2, 1, forced="IB", fabric={"transport": "RoCE"})))
    assert found == CASES[GID]["expected"]["rows"]["FAB-010"]
    assert "ibv_modify_qp" in text


@pytest.mark.parametrize("run", CASES[PEAKS]["input"]["runs"], ids=lambda run: run["id"])
def test_a_peak_of_another_gpu(run):
    """Below, above, with sparsity: whoever divides by it is told what the GPU of that name has."""

    def act(word):
        factor = run["tflops_per_gpu"] / word["tflops"]
        word["device"] = {
            **word["device"],
            "name": run["device"],
            "sms": 132 if "H100" in run["device"] else 108,
        }
        for name in ("tokens_per_s", "tflops", "tflops_causal"):
            word[name] *= factor
        for name in ("wall", "seconds"):
            word[name] /= factor
        word["step_s"] = {name: value / factor for name, value in word["step_s"].items()}

    evidence = base.on("train", act)(matrix.evidence("speed"))
    training = {**evidence.given["mfu"]["training"], "mfu": CASES[PEAKS]["input"]["floor_mfu"]}
    mfu = {**evidence.given["mfu"], "peaks": {"bf16": run["peak_used"]}, "training": training}
    given = {**evidence.given, "mfu": mfu}
    finding = recordings.JUDGES["MFU-003"](base.drop("gemm")(evidence), given)
    assert str(finding.verdict) == CASES[PEAKS]["expected"]["rows"]["MFU-003"]
    right = {"a": "0.328", "b": "0.430", "c": "0.485"}[run["id"]]
    assert right in finding.observed
    assert str(recordings.JUDGES["MFU-002"](evidence, given).verdict) == "inconclusive"


def test_gpus_at_their_floor_of_a_pod_that_starves():
    """The products of each GPU reach the floor: the row about them passes, and accuses no GPU."""
    source = CASES[STARVED]["input"]

    def act(word):
        word["results"] = {"fp16": word["results"]["fp16"]}
        one = word["results"]["fp16"]
        factor = source["gemm_tflops"][word["rank"]] / one["tflops"]["median"]
        one["tflops"] = {name: value * factor for name, value in one["tflops"].items()}
        one["products"] = int(one["products"] * factor)
        word["device"] = {**word["device"], "name": "Tesla V100-SXM2-16GB", "sms": 80}

    evidence = base.on("gemm", act)(matrix.evidence("speed"))
    floor = {"format": "fp16", "tflops": source["floors"]["gemm_tflops"], "origin": "the report"}
    given = {**evidence.given, "mfu": {**evidence.given["mfu"], "floors": [floor], "peaks": {}}}
    finding = recordings.JUDGES["MFU-001"](evidence, given)
    assert str(finding.verdict) == CASES[STARVED]["expected"]["rows"]["MFU-001"], finding.observed
