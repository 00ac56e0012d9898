"""What each judge needs beside what every judge does: judge -> needs."""

from collections.abc import Callable, Mapping
from typing import Any

from pytest_gpucluster.evidence.log import payload_meanings, vocabulary
from pytest_gpucluster.judge.needs import Needs
from pytest_gpucluster.plain import names

_SIZE = ("members", "min_member")
_SCARCE = ("currency", *_SIZE)
_RANKS = ("done", "measured", "nccl-log", "pairs", "who")
"""What every rank of a collective says."""
_TRAINED = ("elastic-broken", "elastic-formed", "elastic-rank", "elastic-step")
"""What ranks of elastic jobs say, each as often as it joins a world or takes a step."""
_MET = ("elastic-endpoint", *_TRAINED)
"""The same of jobs that meet at a store outside of them."""
_ELASTIC = ("elastic", "every", "members", "pace")
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

_OF_SETS = (names.BATCH_JOB, "Pod")
"""What a JobSet is made of."""
_FAILING_SETS = ("bounded", "recovers", "fails-at-once")

NEEDED: Mapping[str, Needs] = {
    "checkpoint.async_pause.pauses_little": Needs(roles=("save",), facts=("paused",), given=("storage", "world")),
    "checkpoint.flush.reaches_durable": Needs(
        roles=("save", "load"), some=("saved", "loaded", "flushed"), given=("load_world", "storage", "world")
    ),
    "checkpoint.killed_save.last_complete_loads": Needs(roles=("kill",), facts=("killed",), given=("storage",)),
    "checkpoint.resharding.loads_elsewhere": Needs(
        roles=("save", "load"), some=("saved", "loaded", "found"), given=("load_world", "storage", "world")
    ),
    "checkpoint.sharded_save.writes_own_parts": Needs(
        roles=("save",), facts=("saved",), given=("storage", "world")
    ),
    "checkpoint.storage_speed.reaches_floor": Needs(
        roles=("save",), facts=("storage",), given=("nodes", "storage", "world")
    ),
    "fabric.adapter_ports.open_and_active": Needs(
        roles=("subject",), facts=("adapters",), told=("adapter",), given=("rdma", "tried")
    ),
    "fabric.bandwidth_curve.without_dip": Needs(facts=_RANKS, given=_SPREAD_OUT),
    "elastic.client.in_the_image": Needs(
        roles=("training",), told=("elastic-client",), given=("elastic", "members"), meant=("training",)
    ),
    "elastic.flapping.detected": Needs(
        roles=("storm",), told=("elastic-crash", *_MET), given=("attempts", "elastic", "members"), meant=("storm",)
    ),
    "elastic.floor.stalls_bounded": Needs(
        roles=("training",), told=_MET, notes=("deleted-by-us",), given=_ELASTIC, meant=("training",)
    ),
    "elastic.growth.grows": Needs(
        roles=("training",), told=_MET, notes=("slots-set",), given=_ELASTIC, meant=("training",)
    ),
    "elastic.inert.ends_with_its_host": Needs(
        roles=("inert",), told=("elastic-client", *_TRAINED),
        notes=("deleted-by-us",), given=("elastic", "members"), meant=("inert",)
    ),
    "elastic.resume.continues": Needs(
        roles=("training",), told=_MET, given=(*_ELASTIC, "shared"), meant=("training",)
    ),
    "elastic.store_node.off_gpu_nodes": Needs(
        roles=("store",), seen=("Node",), given=("elastic", "members", "other_nodes")
    ),
    "elastic.shrink.goes_on": Needs(
        roles=("training",), told=_MET, notes=("deleted-by-us", "slots-set"), given=_ELASTIC, meant=("training",)
    ),
    "elastic.storm.bounded": Needs(
        roles=("storm", "neighbour"), told=("elastic-crash", *_MET), given=("attempts", "elastic", "members"),
        meant=("storm",)
    ),
    "fabric.bus_bandwidth.reaches_floor": Needs(facts=_RANKS, given=_SPREAD_OUT),
    "fabric.communicator.declared_adapters": Needs(facts=_RANKS, given=_FABRIC),
    "fabric.communicator.holds_all": Needs(facts=_RANKS, given=_FABRIC),
    "fabric.floor_sanity.plausible": Needs(given=("fabric",)),
    "fabric.forced_transport.forms": Needs(facts=_RANKS, given=(*_SPREAD_OUT, "forced")),
    "fabric.gloo_interface.on_declared_interface": Needs(facts=("reduced", "waited"), given=("members", "world")),
    "fabric.intra_node.on_declared_path": Needs(facts=_RANKS, given=_FABRIC),
    "fabric.nccl_settings.as_declared": Needs(facts=_RANKS, given=_FABRIC),
    "fabric.own_diagnostics.every_edge_tried": Needs(facts=_RANKS, given=_SPREAD_OUT),
    "fabric.pairwise_sweep.names_slow": Needs(facts=_RANKS, given=_SPREAD_OUT),
    "fabric.rank_devices.own_devices": Needs(facts=_RANKS, given=_RANKED),
    "fabric.stalled_collective.ends_named": Needs(
        facts=("nccl-log", "stalled", "who"), given=(*_SIZE, "absent", "stall_bound", "world"), meant=("subject",)
    ),
    "fabric.switch_effect.has_effect": Needs(facts=_RANKS, given=(*_SPREAD_OUT, "switched")),
    "fabric.switched_off.seen_on_sockets": Needs(facts=_RANKS, given=_FABRIC),
    "fabric.transport.nobody_on_tcp": Needs(facts=_RANKS, given=_FABRIC),
    "fabric.transport.on_declared": Needs(facts=_RANKS, given=_FABRIC),
    "fabric.transport.with_gdr": Needs(facts=_RANKS, given=_FABRIC),
    "gang.all_or_nothing.all_or_nothing": Needs(notes=("scarce", "room-made"), given=_SCARCE),
    "gang.lost_member.healed": Needs(seen=("Node",), notes=("slots-set",), given=_SCARCE, meant=("subject",)),
    "gang.lost_member.reported": Needs(seen=("Node",), notes=("slots-set",), given=_SCARCE, meant=("subject",)),
    "gang.min_available.minimum_defaulted": Needs(given=(*_SIZE, "omitted")),
    "gang.min_available.never_below_minimum": Needs(notes=("slots-set",), given=_SCARCE),
    "gang.min_available.roles_gated": Needs(notes=("slots-set",), given=(*_SCARCE, "role_minimums")),
    "gang.one_domain.stays_in_one_domain": Needs(
        roles=("subject", "across"), seen=("Node",), given=("resource", "topology"), meant=("across",)
    ),
    "gang.runs_whole.half_placed_control": Needs(notes=("scarce",), given=_SCARCE),
    "gang.runs_whole.runs_whole": Needs(facts=("barrier", "resolved"), some=("connected",), given=_SCARCE),
    "gang.scheduler_name.field_named_control": Needs(given=("cases",)),
    "gang.spread.within": Needs(given=_SCARCE),
    "gang.two_gangs.two_gangs": Needs(given=_SCARCE),
    "health.device_isolation.sees_its_own": Needs(facts=("access",), given=("tried",)),
    "health.faults.no_fault": Needs(
        roles=("subject",), told=("gpu-health", "kernel-log"), seen=("Node",), given=("health", "tried")
    ),
    "health.metrics.present_and_fresh": Needs(
        roles=("subject",), facts=("scraped",), seen=("Node",), given=("metrics",)
    ),
    "health.quarantine.named_and_ending": Needs(seen=("Node",)),
    "inventory.gpu_count.gpus_as_declared": Needs(seen=("Node",)),
    "inventory.node_pool.nodes_alike": Needs(seen=("Node",), given=("pool_label",)),
    "inventory.pinned_images.pinned_by_digest": Needs(roles=("subject",), given=("images",)),
    "inventory.rdma_count.rdma_as_declared": Needs(seen=("Node",), given=("rdma",)),
    "inventory.scheduler_parts.scheduler_answers": Needs(given=_SIZE),
    "inventory.security_floors.not_below_floors": Needs(seen=("Node",), given=("security",)),
    "inventory.topology_labels.labels_carried": Needs(seen=("Node",), given=("topology",)),
    "inventory.training_queue.queue_fits": Needs(seen=("Node",)),
    "inventory.versions.versions_supported": Needs(seen=("Node",), given=("versions",)),
    "kueue.admission.runs_once_admitted": Needs(seen=("ClusterQueue", "Node", "Workload")),
    "kueue.half_admission.half_placed_by_quota_control": Needs(seen=("ClusterQueue", "Workload")),
    "kueue.over_quota.over_quota_held": Needs(seen=("ClusterQueue", "LocalQueue", "Workload")),
    "kueue.queue_label.label_decides": Needs(seen=("Workload",)),
    "kueue.status_and_pods.status_and_pods_agree": Needs(seen=("ClusterQueue", "Workload"), notes=("commanded",)),
    "kueue.topology.keeps_domain": Needs(
        roles=("subject", "across"), seen=("ClusterQueue", "Node", "Workload"),
        given=("resource", "topology"), meant=("across",)
    ),
    "kueue.two_teams.take_turns": Needs(seen=("ClusterQueue", "Workload")),
    "kueue.wait_for_pods_ready.evicts_what_is_not_ready": Needs(seen=("Workload",)),
    "plugins.mpi_control.unreachable_without_plugins": Needs(
        roles=("unplugged",), told=("env", "mpi-launch", "ssh-keys", "ssh-login"), meant=("unplugged",)
    ),
    "plugins.mpi_launch.reaches_every_rank": Needs(
        roles=("mpi",), told=("env", "mpi-launch", "mpi-rank", "ssh-keys", "ssh-login"), given=("workers",)
    ),
    "plugins.ssh_logins.each_to_each": Needs(
        roles=("ssh",), told=("ssh-keys", "ssh-login"), given=("folder", "workers")
    ),
    "lifecycle.completion.completes_with_policy": Needs(given=_SIZE),
    "lifecycle.completion.lingers_without_policy_control": Needs(given=_SIZE),
    "lifecycle.container_restarts.restarts_in_place_control": Needs(roles=("in-place",), meant=("in-place",)),
    "lifecycle.finished_members.not_run_again": Needs(
        roles=("subject", "contrast"), notes=("evicted-by-us|deleted-by-us",)
    ),
    "lifecycle.min_success_and_ttl.min_success_decides": Needs(roles=("enough", "too-few"), meant=("too-few",)),
    "lifecycle.min_success_and_ttl.removed_after_ttl": Needs(roles=("time-to-live",)),
    "lifecycle.node_reboot.replaced_once": Needs(
        seen=("Node",), notes=("rebooted-by-us",), given=_SIZE, meant=("subject",)
    ),
    "lifecycle.phases.documented_path": Needs(given=_SIZE),
    "lifecycle.policies.act_as_documented": Needs(
        roles=("abort", "max-retry", "terminate"), meant=("abort", "max-retry", "terminate")
    ),
    "lifecycle.priority.makes_room": Needs(notes=("room-made",), given=("currency",), meant=_VICTIMS),
    "lifecycle.priority.orders_the_queue": Needs(notes=("room-made",), given=("currency",), meant=_VICTIMS),
    "lifecycle.restarts.attempts_bounded": Needs(roles=("max-retry",), meant=("max-retry",)),
    "lifecycle.restarts.evicted_restarts_once": Needs(
        roles=("evicted", "deleted", "subject", "contrast"), notes=("evicted-by-us",), meant=("evicted", "deleted")
    ),
    "lifecycle.suspend_resume.suspend_and_resume": Needs(
        roles=("suspended", "subject", "contrast"), notes=("commanded",)
    ),
    "mfu.baseline.not_fallen": Needs(facts=("gemm", "train"), given=("mfu", "training_world", "world")),
    "mfu.gemm.reach_the_floor": Needs(roles=("gemm",), facts=("gemm",), given=("mfu", "world")),
    "mfu.possible_figures.possible": Needs(facts=("gemm", "train"), given=("mfu", "training_world", "world")),
    "mfu.smoke_loop.counts_right": Needs(facts=("smoke",), given=("world",)),
    "mfu.train_step.reaches_the_floor": Needs(roles=("train",), facts=("train",), given=("mfu", "training_world")),
    "numa.alignment.misfit_rejected": Needs(
        seen=("Node",), facts=("devices",), given=_TRIED, meant=_MISFITS, turned_away=True
    ),
    "numa.alignment.on_one_numa_node": Needs(
        seen=("Node",), facts=("devices",), given=_TRIED, meant=_MISFITS, turned_away=True
    ),
    "numa.alignment.topology_reported": Needs(
        seen=("Node",), facts=("devices",), given=_TRIED, meant=_MISFITS, turned_away=True
    ),
    "numa.guaranteed_pods.holds_for_training_pods": Needs(
        seen=("Node",), facts=("devices",), given=_TRIED, meant=_MISFITS, turned_away=True
    ),
    "numa.kubelet_policy.policy_set": Needs(
        seen=("Node",), facts=("devices",), given=("numa",), meant=_MISFITS, turned_away=True
    ),
    "numa.kubelet_policy.told_apart": Needs(
        seen=("Node",), facts=("devices",), given=_TRIED, meant=_MISFITS, turned_away=True
    ),
    "numa.one_numa_node.one_numa_node": Needs(seen=("Node",), facts=("devices",), given=_TRIED),
    "numa.rejected_member.ends_or_restarts": Needs(
        seen=("Node",), given=(*_SIZE, *_TRIED, "attempts"), meant=("subject",)
    ),
    "plugins.argument_expansion.expanded": Needs(facts=("argv", "env"), given=_SIZE),
    "plugins.hosts_files.published": Needs(facts=("env", "file"), given=_SIZE),
    "plugins.labels.labelled": Needs(given=_SIZE),
    "plugins.master_port.master_port": Needs(facts=("env",), meant=("unanswered",)),
    "plugins.name_resolution.master_resolves": Needs(facts=("resolved",), given=_SIZE),
    "plugins.pytorch_env.pytorch_env": Needs(facts=("env",), given=_SIZE),
    "plugins.pytorch_env.without_plugin_control": Needs(facts=("env",), given=_SIZE),
    "plugins.reachability.master_answers": Needs(facts=("resolved",), some=("connected",), given=_SIZE),
    "plugins.wait_for_master.gives_up_in_time": Needs(meant=("unanswered",)),
    "plugins.wait_for_master.held_until_the_master_answers": Needs(some=("resolved",), meant=("unanswered",)),
    "refusal.admission.invalid_rejected": Needs(watched=_MADE, given=("cases",)),
    "refusal.blocking.enqueued_blocks_control": Needs(notes=("room-made",), given=("currency",)),
    "refusal.blocking.refused_harms_nobody": Needs(given=_SCARCE),
    "refusal.closed_queue.closed_queue_refuses": Needs(
        watched=_MADE, seen=("Queue",), notes=("commanded",), given=("cases",)
    ),
    "refusal.fair_share.shares_by_weight": Needs(
        seen=("Queue",), given=("currency", "resource", "total"), meant=("borrower",)
    ),
    "refusal.no_scheduler.not_served_is_no_refusal": Needs(given=_SIZE),
    "refusal.over_large.over_large_refused": Needs(seen=("Queue",), given=_SCARCE),
    "refusal.preemption.whole_or_surplus": Needs(meant=_VICTIMS),
    "refusal.queue_capability.above_capability_refused": Needs(
        roles=("subject", "control", "queue"), seen=("Queue",), given=(*_SCARCE, "total")
    ),
    "rendezvous.dns_wait.bounded": Needs(facts=("waited",), given=("members",), meant=("unanswered",)),
    "rendezvous.indexed_job.finds_its_members": Needs(facts=("member", "trained", "waited"), given=("members",)),
    "rendezvous.network_ready.ready_first": Needs(
        facts=("gate", "launching"), given=("members",), meant=("unanswered",)
    ),
    "rendezvous.node_labels.labels_arrive": Needs(
        roles=("held",), seen=("Node",), facts=("gate", "labels", "launching"), given=("labels", "members")
    ),
    "rendezvous.secondary_interface.over_declared": Needs(
        facts=("wired", "wiring"), given=("members", "secondary", "world")
    ),
    "rendezvous.stall.ends_named": Needs(some=("passed", "place"), given=("stalls",), meant=("stalled",)),
    "rendezvous.torchrun_world.one_world": Needs(facts=("rank", "sum"), given=(*_SIZE, "nnodes", "nproc", "world")),
    "rendezvous.training_step.agrees": Needs(facts=("stepped",), given=_SIZE),
    "rendezvous.two_worlds.apart": Needs(facts=("began", "exchanged"), given=(*_SIZE, "world")),
    "rendezvous.unreachable_endpoint.ends_explained": Needs(
        facts=("barrier", "resolved"), some=("connected",), given=("within",), meant=("endpoint", "subdomain")
    ),
    "trainer.failure_policy.restarts_bounded": Needs(
        roles=_FAILING_SETS, watched=_OF_SETS, meant=_FAILING_SETS
    ),
    "trainer.stable_names.resolve": Needs(
        roles=("subject",), watched=_OF_SETS, seen=("Service",), facts=("member", "waited"), given=("members", "within")
    ),
    "trainer.startup_order.in_order": Needs(
        roles=("in-order", "after-ready", "after-complete"), watched=_OF_SETS
    ),
    "trainer.success_policy.ends_the_set": Needs(roles=("any-of", "all-of"), watched=_OF_SETS),
    "trainer.further_schedulers.further_hold": Needs(
        notes=("tries",), given=("currency", "resource", "schedulers", "slots", "total")
    ),
}  # fmt: skip
"""Area, file and name of a judge -> its needs; a test that takes good evidence apart holds the table to them."""


def check(table: Mapping[str, Needs]) -> None:
    """Check that needs name only words that somebody says.

    Raises:
        ValueError: a role, a note, an event or a key of `given` that no vocabulary has; names the nearest.
    """
    for judge, needs in table.items():
        notes = [word for either in needs.notes for word in either.split("|")]
        for what, words, known in (
            ("role", (*needs.roles, *needs.meant), vocabulary.ROLES),
            ("note", notes, vocabulary.NOTES),
            ("event", (*needs.facts, *needs.some, *needs.told), payload_meanings.EVENTS),
            ("key of `given`", needs.given, {*vocabulary.GIVEN, *vocabulary.OF_PROFILE}),
        ):
            for word in words:
                if word not in known:
                    hint = names.did_you_mean(word, known)
                    raise ValueError(f"needs of {judge}: unknown {what} {word!r}{hint}")


check(NEEDED)


def of(judge: Callable[..., Any]) -> Needs:
    """Return what a judge needs; what is not in the table, as a site's own judge, needs what every judge does."""
    return NEEDED.get(name_of(judge), Needs())


def name_of(judge: Callable[..., Any]) -> str:
    """Return `area.file.function` of a judge."""
    return f"{judge.__module__.removeprefix('pytest_gpucluster.judge.')}.{judge.__name__}"
