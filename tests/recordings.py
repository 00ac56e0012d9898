"""Recorded streams and made-up evidence that tests of evidence and judges share."""

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_gpucluster.evidence import EVERY_KIND, Evidence, Span, read
from pytest_gpucluster.evidence.log import ingest
from pytest_gpucluster.evidence.scheduling.gangs import gangs
from pytest_gpucluster.judge.fabric import (
    bus_bandwidth,
    communicator,
    floor_sanity,
    forced_transport,
    gloo_interface,
    intra_node,
    nccl_settings,
    pairwise_sweep,
    rank_devices,
    stalled_collective,
    switched_off,
    transport,
)
from pytest_gpucluster.judge.gang import lost_member, min_available, runs_whole, scheduler_name, spread
from pytest_gpucluster.judge.health import device_isolation
from pytest_gpucluster.judge.inventory import (
    gpu_count,
    job_defaults,
    node_pool,
    scheduler_config,
    scheduler_parts,
    training_queue,
    versions,
)
from pytest_gpucluster.judge.kueue import rows
from pytest_gpucluster.judge.lifecycle import (
    completion,
    container_restarts,
    finished_members,
    min_success_and_ttl,
    node_reboot,
    phases,
    policies,
    priority,
    restarts,
    suspend_resume,
)
from pytest_gpucluster.judge.mfu import baseline, gemm, possible_figures, smoke_loop, train_step
from pytest_gpucluster.judge.numa import (
    alignment,
    guaranteed_pods,
    kubelet_policy,
    one_numa_node,
    rejected_member,
)
from pytest_gpucluster.judge.plugins import (
    argument_expansion,
    hosts_files,
    labels,
    master_port,
    pytorch_env,
    reachability,
    wait_for_master,
)
from pytest_gpucluster.judge.refusal import fair_share, over_large, preemption
from pytest_gpucluster.judge.rendezvous import (
    dns_wait,
    indexed_job,
    network_ready,
    node_labels,
    secondary_interface,
    stall,
    torchrun_world,
    training_step,
    two_worlds,
    unreachable_endpoint,
)
from pytest_gpucluster.judge.trainer import further_schedulers
from tests import documents

FOLDER = Path(__file__).parent.parent / "fixtures" / "recorded"
VOLCANO = FOLDER / "volcano" / "v1.14.4"
NATIVE = FOLDER / "kubernetes" / "v1.37.2"
KUEUE = FOLDER / "kueue" / "v0.17.0"
KUBELET = FOLDER / "kubelet"

JUDGES = {
    "INV-001": scheduler_parts.scheduler_answers,
    "INV-002": gpu_count.gpus_as_declared,
    "INV-005": training_queue.queue_fits,
    "INV-006": versions.versions_supported,
    "INV-008": node_pool.nodes_alike,
    "INV-009": scheduler_config.configured,
    "INV-010": job_defaults.documented_defaults,
    "GANG-001": runs_whole.runs_whole,
    "GANG-002": runs_whole.all_or_nothing,
    "GANG-003": min_available.never_below_minimum,
    "GANG-004": runs_whole.two_gangs,
    "GANG-005": min_available.roles_gated,
    "GANG-006": min_available.minimum_defaulted,
    "GANG-007": spread.within,
    "GANG-008": runs_whole.half_placed_control,
    "GANG-009": lost_member.reported,
    "GANG-010": lost_member.healed,
    "GANG-011": scheduler_name.field_named_control,
    "REF-001": over_large.over_large_refused,
    "REF-002": over_large.above_capability_refused,
    "REF-003": over_large.invalid_rejected,
    "REF-004": over_large.closed_queue_refuses,
    "REF-005": over_large.refused_harms_nobody,
    "REF-007": over_large.enqueued_blocks_control,
    "REF-008": over_large.not_served_is_no_refusal,
    "PLG-001": pytorch_env.pytorch_env,
    "PLG-002": master_port.master_port,
    "PLG-003": pytorch_env.master_resolves,
    "PLG-004": argument_expansion.expanded,
    "PLG-005": pytorch_env.without_plugin_control,
    "PLG-006": hosts_files.published,
    "PLG-007": labels.labelled,
    "PLG-010": wait_for_master.held_until_the_master_answers,
    "PLG-011": reachability.master_answers,
    "PLG-013": wait_for_master.gives_up_in_time,
    "LIFE-001": completion.completes_with_policy,
    "LIFE-002": completion.lingers_without_policy_control,
    "LIFE-003": restarts.evicted_restarts_once,
    "LIFE-004": restarts.attempts_bounded,
    "LIFE-005": min_success_and_ttl.removed_after_ttl,
    "LIFE-006": min_success_and_ttl.min_success_decides,
    "LIFE-007": policies.act_as_documented,
    "LIFE-008": phases.documented_path,
    "LIFE-009": suspend_resume.suspend_and_resume,
    "LIFE-010": finished_members.not_run_again,
    "LIFE-011": node_reboot.replaced_once,
    "LIFE-012": container_restarts.restarts_in_place_control,
    "RDZV-001": torchrun_world.one_world,
    "RDZV-002": indexed_job.finds_its_members,
    "RDZV-003": dns_wait.bounded,
    "FAB-013": gloo_interface.on_declared_interface,
    "FAB-001": transport.on_declared,
    "FAB-002": transport.with_gdr,
    "FAB-003": transport.nobody_on_tcp,
    "FAB-004": communicator.holds_all,
    "FAB-005": communicator.declared_adapters,
    "FAB-017": nccl_settings.as_declared,
    "FAB-018": intra_node.on_declared_path,
    "FAB-006": bus_bandwidth.reaches_floor,
    "FAB-010": forced_transport.forms,
    "FAB-011": stalled_collective.ends_named,
    "FAB-012": pairwise_sweep.names_slow,
    "FAB-016": switched_off.seen_on_sockets,
    "FAB-014": rank_devices.own_devices,
    "FAB-015": floor_sanity.plausible,
    "MFU-001": gemm.reach_the_floor,
    "MFU-002": train_step.reaches_the_floor,
    "MFU-003": possible_figures.possible,
    "MFU-004": smoke_loop.counts_right,
    "MFU-006": baseline.not_fallen,
    "RDZV-004": unreachable_endpoint.ends_explained,
    "RDZV-005": two_worlds.apart,
    "RDZV-006": training_step.agrees,
    "RDZV-007": node_labels.labels_arrive,
    "RDZV-008": network_ready.ready_first,
    "RDZV-009": stall.ends_named,
    "RDZV-010": secondary_interface.over_declared,
    "REF-006": preemption.whole_or_surplus,
    "REF-009": fair_share.shares_by_weight,
    "LIFE-013": priority.orders_the_queue,
    "LIFE-014": priority.makes_room,
    "TRN-003": further_schedulers.further_hold,
    "KUE-001": rows.runs_once_admitted,
    "KUE-002": rows.over_quota_held,
    "KUE-003": rows.take_turns,
    "KUE-004": rows.evicts_what_is_not_ready,
    "KUE-005": rows.status_and_pods_agree,
    "KUE-008": rows.label_decides,
    "KUE-009": rows.half_placed_by_quota_control,
    "NUMA-001": kubelet_policy.policy_set,
    "NUMA-002": alignment.misfit_rejected,
    "NUMA-003": alignment.on_one_numa_node,
    "NUMA-005": kubelet_policy.told_apart,
    "NUMA-006": alignment.topology_reported,
    "NUMA-007": guaranteed_pods.holds_for_training_pods,
    "NUMA-008": rejected_member.ends_or_restarts,
    "HLT-004": device_isolation.sees_its_own,
    "NUMA-004": one_numa_node.one_numa_node,
}


def folders() -> list[Path]:
    """Return the folder of every recorded stream."""
    return [path for base in (VOLCANO, NATIVE) for path in sorted(base.iterdir()) if path.is_dir()]


def folder_of(name: str) -> Path:
    """Return the folder of a recorded stream."""
    return next((base / name for base in (VOLCANO, KUEUE) if (base / name).is_dir()), NATIVE / name)


@functools.cache
def stream(name: str) -> Evidence:
    """Return a recorded stream by its scenario's name."""
    return read(folder_of(name) / "events.jsonl")


@functools.cache
def embedded(scenario: str) -> Evidence:
    """Return the evidence of a passing run of a scenario on the embedded cluster."""
    return read(FOLDER / "embedded" / f"{scenario}.jsonl")


def raw(name: str) -> list[dict[str, Any]]:
    """Return the lines of a recorded stream as JSON objects."""
    return [json.loads(line) for line in (folder_of(name) / "events.jsonl").read_text().splitlines()]


def evidence_of(
    lines: list[dict[str, Any]],
    *,
    header: Mapping[str, Any] | None = None,
    spans: tuple[Span, ...] | None = None,
) -> Evidence:
    """Return evidence of JSON objects, watched without a gap unless spans are given."""
    ordered = sorted(lines, key=lambda line: line.get("t", 0.0))
    made = [ingest.make_line(float(o.get("t", 0.0)), o["type"], o, i) for i, o in enumerate(ordered)]
    end = made[-1].t if made else 0.0
    watched = (Span(EVERY_KIND, 0.0, end, "test"),) if spans is None else spans
    return Evidence(made, header=header, spans=watched)


def added(name: str, more: list[dict[str, Any]], *, header: Mapping[str, Any] | None = None) -> Evidence:
    """Return a recorded stream with more lines in it."""
    base = [o for o in ingest.lines_of(stream(name)) if o["type"] not in ("HEADER", "SPAN")]
    return evidence_of([*base, *more], header=header)


def word(t: float, pod: Any, event: str, **told: Any) -> dict[str, Any]:
    """Return a LOG line with one fact of a payload."""
    text = json.dumps({"run": "r", "attempt": 0, "event": event, "pod": pod.name, **told})
    container = pod.last["spec"]["containers"][0]["name"]
    return {
        "t": t,
        "type": "LOG",
        "pod": pod.name,
        "uid": pod.uid,
        "container": container,
        "line": f"GPUCONF1 {text}",
    }


@functools.cache
def healthy() -> Evidence:
    """Return the recorded pytorch gang on real kubelets with what a payload of ours would have printed.

    The log lines, the dry-run answer and the ranks are made up; the watch lines are the recorded ones.
    """
    (torch,) = gangs(stream("r1-real-kubelet-pytorch-gang"))
    pods = sorted(torch.pods, key=lambda pod: pod.name)
    master = pods[0]
    more: list[dict[str, Any]] = []
    for rank, pod in enumerate(pods):
        env = {
            "MASTER_ADDR": "torch-master-0.torch",
            "MASTER_PORT": "23456",
            "WORLD_SIZE": "4",
            "RANK": str(rank),
        }
        names = [p.name for p in pods]
        more += [
            word(7.0, pod, "env", env=env, pid=1),
            word(
                7.5,
                pod,
                "resolved",
                name="torch-master-0.torch",
                addresses=[master.ip],
                tries=rank + 1,
                ok=True,
            ),
            word(8.0, pod, "barrier", world=4, rank=rank, members=names, ok=True),
            word(8.5, pod, "rank", rank=rank, world=4, local_rank=0, group_rank=rank, host=pod.name),
            word(9.0, pod, "sum", rank=rank, world=4, local_rank=0, expected=10.0, got=10.0, backend="gloo"),
        ]
    spec = {"schedulerName": "volcano", "minAvailable": 1, "tasks": [{"name": "default0", "replicas": 1}]}
    for kind in ("Job.batch.volcano.sh", "PodGroup"):
        more.append(
            {"t": 0.1, "type": "RESPONSE", "case": f"api:{kind}", "code": 200, "request": f"look up {kind}"}
        )
    answer = {"t": 0.2, "type": "RESPONSE", "case": "dry-run", "code": 201, "request": "create Job/probe"}
    more.append({**answer, "dry_run": True, "object": {"spec": spec}})
    subject = {"t": 0.75, "type": "NOTE", "note": "submitted", "role": "subject", "kind": torch.kind}
    more.append({**subject, "name": torch.name, "uid": torch.uid})
    given = {"scheduler": "volcano", "members": 4, "min_member": 4}
    return added("r1-real-kubelet-pytorch-gang", more, header={"scenario": "healthy", "given": given})


@functools.cache
def public_cases() -> dict[str, dict[str, Any]]:
    """Return the cases made after public trouble reports, by id."""
    cases = documents.read(FOLDER / "public" / "cases.yaml")
    return {case["id"]: case for case in cases}


def public_evidence(case: dict[str, Any]) -> Evidence:
    """Turn a public case into evidence.

    A state at the end is attested for the whole window, and the control that rule 3 of the catalogue asks for is
    taken to have passed.
    """
    given = dict(case.get("given") or {})
    source = case["input"]
    window = float(given.get("window_s", 60))
    lines: list[dict[str, Any]] = []
    if source["kind"] == "watch":
        lines += [{**event} for event in source["events"]]
    elif source["kind"] == "objects":
        given["attested"] = ["control"]
        # What is known of the time: when the Job came to its end, and when all this was seen.
        since = float(source.get("job_failed_at_s", 0.0))
        window = float(source.get("seen_at_s", source.get("now_s", window)))
        lines += [{"t": since, "type": "ADDED", "object": obj} for obj in source["objects"]]
    uids = {
        o["object"]["metadata"]["name"]: o["object"]["metadata"].get("uid", "")
        for o in lines
        if o["object"].get("kind") == "Pod"
    }
    for line in source.get("lines", ()):
        lines.append({"type": "LOG", "uid": "", **line})
    for n, rank in enumerate(source.get("ranks", ())):
        facts = {"rank": rank["RANK"], "world": rank["WORLD_SIZE"], "host": rank["pod"]}
        total = {"expected": source["allreduce"]["sum"], "got": source["allreduce"]["sum"]}
        for event, told in (("rank", facts), ("sum", {**facts, **total})):
            text = f"GPUCONF1 {json.dumps({'event': event, **told})}"
            lines.append({"t": float(n), "type": "LOG", "pod": rank["pod"], "uid": rank["pod"], "line": text})
    for name, address in (source.get("lookups") or {}).items():
        for pod, uid in uids.items():
            told = {"event": "resolved", "name": name, "addresses": [address], "tries": 1, "ok": True}
            text = f"GPUCONF1 {json.dumps(told)}"
            lines.append({"t": 1.0, "type": "LOG", "pod": pod, "uid": uid, "line": text})
    for n, state in enumerate(source.get("endpoints_ready", ())):
        ends = [{"hostname": name, "conditions": {"ready": True}} for name in state["ready"]]
        body = {"kind": "EndpointSlice", "metadata": {"name": "ends", "uid": "ends"}, "endpoints": ends}
        lines.append({"t": float(state["t"]), "type": "MODIFIED" if n else "ADDED", "object": body})
    for probe in source.get("tcp_probe", ()):
        told = {
            "event": "connected",
            "to": probe["to"],
            "ok": probe["result"] == "open",
            "error": probe["result"],
        }
        pod, text = probe["from"], f"GPUCONF1 {json.dumps(told)}"
        lines.append({"t": 1.0, "type": "LOG", "pod": pod, "uid": uids.get(pod, pod), "line": text})
    for pod, seen in (source.get("in_container") or {}).items():
        ids = [each for each in (seen.get("env") or {}).get("NVIDIA_VISIBLE_DEVICES", "").split(",") if each]
        files = [{"path": path, "opens": True} for path in seen.get("dev") or ()]
        told = {
            "event": "access",
            "told": ids,
            "files": files,
            "driver": {"library": "", "why": "not called"},
        }
        text = f"GPUCONF1 {json.dumps(told)}"
        line = {
            "t": 1.0,
            "type": "LOG",
            "pod": pod,
            "uid": uids.get(pod, pod),
            "container": "main",
            "line": text,
        }
        lines.append(line)
    for place, said in (source.get("logs") or {}).items():
        pod, _, container = place.partition("/")
        lines += [
            {
                "t": 1.0,
                "type": "LOG",
                "pod": pod,
                "uid": uids.get(pod, pod),
                "container": container,
                "line": line,
            }
            for line in said
        ]
    last = max((float(o.get("t", 0.0)) for o in lines), default=0.0)
    lines.append({"t": max(window, last), "type": "NOTE", "note": "end"})
    return evidence_of(lines, header={"given": given})
