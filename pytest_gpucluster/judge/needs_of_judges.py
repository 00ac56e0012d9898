"""What each judge needs beside what every judge does: judge -> needs."""

from collections.abc import Callable, Mapping
from typing import Any

from pytest_gpucluster.judge.needs import Needs
from pytest_gpucluster.plain import names

_SIZE = ("members", "min_member")
_SCARCE = ("currency", *_SIZE)
_RANKS = ("done", "measured", "nccl-log", "pairs", "who")
"""What every rank of a collective says."""
_FABRIC = ("fabric", *_SIZE, "nodes", "world")
_RANKED = (*_SIZE, "nodes", "nproc", "pods_per_node", "world")
_SPREAD_OUT = ("fabric", *_RANKED)
_TRIED = ("numa", "tried")
_MISFITS = ("misfit", "split")
"""Pods that kubelets are meant to turn away, be it late."""
_VICTIMS = ("elastic", "late", "tempted")
"""Gangs whose places others may take."""
_MADE = (names.VC_JOB, names.POD_GROUP, "Pod")
"""What a Job that was not refused would have made."""

NEEDED: Mapping[str, Needs] = {
    "access.sees_its_own": Needs(facts=("access",), given=("tried",)),
    "aligned.misfit_rejected": Needs(
        seen=("Node",), facts=("devices",), given=_TRIED, meant=_MISFITS, turned_away=True
    ),
    "aligned.on_one_numa_node": Needs(
        seen=("Node",), facts=("devices",), given=_TRIED, meant=_MISFITS, turned_away=True
    ),
    "aligned.topology_reported": Needs(
        seen=("Node",), facts=("devices",), given=_TRIED, meant=_MISFITS, turned_away=True
    ),
    "arguments.expanded": Needs(facts=("argv", "env"), given=_SIZE),
    "blocking.enqueued_blocks_control": Needs(notes=("room-made",), given=("currency",)),
    "blocking.refused_harms_nobody": Needs(given=_SCARCE),
    "capability.above_capability_refused": Needs(
        roles=("subject", "control", "queue"), seen=("Queue",), given=(*_SCARCE, "total")
    ),
    "closed.closed_queue_refuses": Needs(
        watched=_MADE, seen=("Queue",), notes=("commanded",), given=("cases",)
    ),
    "dns_wait.bounded": Needs(facts=("waited",), given=("members",), meant=("unanswered",)),
    "endings.min_success_decides": Needs(roles=("enough", "too-few"), meant=("too-few",)),
    "endings.removed_after_ttl": Needs(roles=("time-to-live",)),
    "fabric_bandwidth.reaches_floor": Needs(facts=_RANKS, given=_SPREAD_OUT),
    "fabric_communicator.declared_adapters": Needs(facts=_RANKS, given=_FABRIC),
    "fabric_communicator.holds_all": Needs(facts=_RANKS, given=_FABRIC),
    "fabric_devices.own_devices": Needs(facts=_RANKS, given=_RANKED),
    "fabric_floors.plausible": Needs(given=("fabric",)),
    "fabric_forced.forms": Needs(facts=_RANKS, given=(*_SPREAD_OUT, "forced")),
    "fabric_inside.on_declared_path": Needs(facts=_RANKS, given=_FABRIC),
    "fabric_pairs.names_slow": Needs(facts=_RANKS, given=_SPREAD_OUT),
    "fabric_settings.as_declared": Needs(facts=_RANKS, given=_FABRIC),
    "fabric_sockets.seen_on_sockets": Needs(facts=_RANKS, given=_FABRIC),
    "fabric_stall.ends_named": Needs(
        facts=("nccl-log", "stalled", "who"), given=(*_SIZE, "absent", "stall_bound", "world"), meant=("subject",)
    ),
    "fabric_transport.nobody_on_tcp": Needs(facts=_RANKS, given=_FABRIC),
    "fabric_transport.on_declared": Needs(facts=_RANKS, given=_FABRIC),
    "fabric_transport.with_gdr": Needs(facts=_RANKS, given=_FABRIC),
    "fair.shares_by_weight": Needs(seen=("Queue",), given=("currency", "resource", "total"), meant=("borrower",)),
    "gang.half_placed_control": Needs(notes=("scarce",), given=_SCARCE),
    "gang.runs_whole": Needs(facts=("barrier", "resolved"), some=("connected",), given=_SCARCE),
    "guaranteed.holds_for_training_pods": Needs(
        seen=("Node",), facts=("devices",), given=_TRIED, meant=_MISFITS, turned_away=True
    ),
    "hosts.published": Needs(facts=("env", "file"), given=_SIZE),
    "identity.labelled": Needs(given=_SIZE),
    "in_place.restarts_in_place_control": Needs(roles=("in-place",), meant=("in-place",)),
    "indexed.finds_its_members": Needs(facts=("member", "trained", "waited"), given=("members",)),
    "interface.on_declared_interface": Needs(facts=("reduced", "waited"), given=("members", "world")),
    "inventory.scheduler_answers": Needs(given=_SIZE),
    "kubelets.policy_set": Needs(
        seen=("Node",), facts=("devices",), given=("numa",), meant=_MISFITS, turned_away=True
    ),
    "kubelets.told_apart": Needs(
        seen=("Node",), facts=("devices",), given=_TRIED, meant=_MISFITS, turned_away=True
    ),
    "kueue_admission.runs_once_admitted": Needs(seen=("ClusterQueue", "Node", "Workload")),
    "kueue_agree.status_and_pods_agree": Needs(seen=("ClusterQueue", "Workload"), notes=("commanded",)),
    "kueue_half.half_placed_by_quota_control": Needs(seen=("ClusterQueue", "Workload")),
    "kueue_labels.label_decides": Needs(seen=("Workload",)),
    "kueue_quota.over_quota_held": Needs(seen=("ClusterQueue", "LocalQueue", "Workload")),
    "kueue_ready.evicts_what_is_not_ready": Needs(seen=("Workload",)),
    "kueue_teams.take_turns": Needs(seen=("ClusterQueue", "Workload")),
    "lifecycle.completes_with_policy": Needs(given=_SIZE),
    "lifecycle.lingers_without_policy_control": Needs(given=_SIZE),
    "lost.healed": Needs(seen=("Node",), notes=("slots-set",), given=_SCARCE, meant=("subject",)),
    "lost.reported": Needs(seen=("Node",), notes=("slots-set",), given=_SCARCE, meant=("subject",)),
    "mfu_baseline.not_fallen": Needs(facts=("gemm", "train"), given=("mfu", "training_world", "world")),
    "mfu_figures.possible": Needs(facts=("gemm", "train"), given=("mfu", "training_world", "world")),
    "mfu_products.reach_the_floor": Needs(roles=("gemm",), facts=("gemm",), given=("mfu", "world")),
    "mfu_smoke.counts_right": Needs(facts=("smoke",), given=("world",)),
    "mfu_training.reaches_the_floor": Needs(roles=("train",), facts=("train",), given=("mfu", "training_world")),
    "minimums.minimum_defaulted": Needs(given=(*_SIZE, "omitted")),
    "minimums.never_below_minimum": Needs(notes=("slots-set",), given=_SCARCE),
    "minimums.roles_gated": Needs(notes=("slots-set",), given=(*_SCARCE, "role_minimums")),
    "misnamed.field_named_control": Needs(given=("cases",)),
    "names_resolve.master_resolves": Needs(facts=("resolved",), given=_SIZE),
    "network_wait.ready_first": Needs(facts=("gate", "launching"), given=("members",), meant=("unanswered",)),
    "nodes.gpus_as_declared": Needs(seen=("Node",)),
    "pair.two_gangs": Needs(given=_SCARCE),
    "phases.documented_path": Needs(given=_SIZE),
    "plugins.pytorch_env": Needs(facts=("env",), given=_SIZE),
    "plugins.without_plugin_control": Needs(facts=("env",), given=_SIZE),
    "policies.act_as_documented": Needs(
        roles=("abort", "max-retry", "terminate"), meant=("abort", "max-retry", "terminate")
    ),
    "ports.master_port": Needs(facts=("env",), meant=("unanswered",)),
    "preempted.whole_or_surplus": Needs(meant=_VICTIMS),
    "priorities.makes_room": Needs(notes=("room-made",), given=("currency",), meant=_VICTIMS),
    "priorities.orders_the_queue": Needs(notes=("room-made",), given=("currency",), meant=_VICTIMS),
    "queue.queue_fits": Needs(seen=("Node",)),
    "reach.master_answers": Needs(facts=("resolved",), some=("connected",), given=_SIZE),
    "reboot.replaced_once": Needs(seen=("Node",), notes=("rebooted-by-us",), given=_SIZE, meant=("subject",)),
    "refusal.over_large_refused": Needs(seen=("Queue",), given=_SCARCE),
    "rejected.invalid_rejected": Needs(watched=_MADE, given=("cases",)),
    "rejected_member.ends_or_restarts": Needs(seen=("Node",), given=(*_SIZE, *_TRIED, "attempts"), meant=("subject",)),
    "rendezvous.one_world": Needs(facts=("rank", "sum"), given=(*_SIZE, "nnodes", "nproc", "world")),
    "rerun.not_run_again": Needs(
        roles=("subject", "contrast"), notes=("evicted-by-us|deleted-by-us",)
    ),
    "restarts.attempts_bounded": Needs(roles=("max-retry",), meant=("max-retry",)),
    "restarts.evicted_restarts_once": Needs(
        roles=("evicted", "deleted", "subject", "contrast"), notes=("evicted-by-us",), meant=("evicted", "deleted")
    ),
    "scarce.all_or_nothing": Needs(notes=("scarce", "room-made"), given=_SCARCE),
    "secondary.over_declared": Needs(facts=("wired", "wiring"), given=("members", "secondary", "world")),
    "sharing.one_numa_node": Needs(seen=("Node",), facts=("devices",), given=_TRIED),
    "siblings.nodes_alike": Needs(seen=("Node",), given=("pool_label",)),
    "spreads.within": Needs(given=_SCARCE),
    "stalls.ends_named": Needs(some=("passed", "place"), given=("stalls",), meant=("stalled",)),
    "support.versions_supported": Needs(seen=("Node",), given=("versions",)),
    "suspended.suspend_and_resume": Needs(roles=("suspended", "subject", "contrast"), notes=("commanded",)),
    "topology.labels_arrive": Needs(
        roles=("held",), seen=("Node",), facts=("gate", "labels", "launching"), given=("labels", "members")
    ),
    "trainer.further_hold": Needs(
        notes=("tries",), given=("currency", "resource", "schedulers", "slots", "total")
    ),
    "training.agrees": Needs(facts=("stepped",), given=_SIZE),
    "two_worlds.apart": Needs(facts=("began", "exchanged"), given=(*_SIZE, "world")),
    "unreachable.ends_explained": Needs(
        facts=("barrier", "resolved"), some=("connected",), given=("within",), meant=("endpoint", "subdomain")
    ),
    "unserved.not_served_is_no_refusal": Needs(given=_SIZE),
    "waits.gives_up_in_time": Needs(meant=("unanswered",)),
    "waits.held_until_the_master_answers": Needs(some=("resolved",), meant=("unanswered",)),
}  # fmt: skip
"""Module and name of a judge -> its needs; a test that takes good evidence apart holds the table to what they read."""


def of(judge: Callable[..., Any]) -> Needs:
    """Return what a judge needs; what is not in the table, as a site's own judge, needs what every judge does."""
    return NEEDED.get(f"{judge.__module__.rpartition('.')[2]}.{judge.__name__}", Needs())
