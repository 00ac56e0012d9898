"""The words of evidence: types of lines, notes, roles and what judges are told, each with its fields and its meaning.

Readers, notes and the needs of judges are checked against these tables, and the reference of the evidence format is
made of them.
"""

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class Form:
    """What a line or a note tells.

    Attributes:
        meaning: what it says, in a few words.
        fields: field -> what it is; every line has it.
        more: the same of fields that only some lines have.
    """

    meaning: str
    fields: Mapping[str, str] = dataclasses.field(default_factory=dict)
    more: Mapping[str, str] = dataclasses.field(default_factory=dict)


_TIME = {"t": "seconds on the clock of the evidence"}
_BY = {"scenario": "name of the scenario that wrote it"}
_WATCH = {
    **_TIME,
    "kind": "kind key, such as `Pod` or `Job.batch.volcano.sh`",
    "object": "the Kubernetes object",
}
_OBJECT = {"kind": "its kind key", "name": "its name", "uid": "its uid"}
_ROLE = {"role": "the role that it plays"}
_WINDOW = {"window": "name of the window"}

LINES: Mapping[str, Form] = {
    "HEADER": Form(
        "first line of a file: what the evidence is",
        {
            "schema": "version of the format",
            "clock": "`receipt` for times of receipt, `object` for times of objects",
        },
        {
            "scenario": "name of the scenario",
            "given": "what judges are told, see below",
            "source": "where it comes from, see below",
            "horizon": "until when the watches are proven, in seconds; what comes after is told by chance",
            "lines": "how many lines follow: a file with fewer was cut",
            "problem": "what kept the scenario from its end: `verdict` and `text`, `fix` if one is known, `trace` for "
            "an error of its own",
            "constructed": "that no run made it, and how it was made",
        },
    ),
    "SPAN": Form(
        "a span in which the watch of a kind was in sync",
        {
            "kind": "kind key, `*` for every kind",
            "start": "its start in seconds",
            "end": "its end in seconds, null for the end of the file",
            "how": "how the watch came to be in sync",
        },
    ),
    "ADDED": Form("an object is there", _WATCH),
    "MODIFIED": Form("an object changed", _WATCH),
    "DELETED": Form("an object is gone", _WATCH),
    "NOTE": Form(
        "what the driver did, see below; in a recording also free text",
        _TIME,
        {**_BY, "note": "word of the vocabulary", "text": "free text"},
    ),
    "RESPONSE": Form(
        "an answer of the API server",
        {**_TIME, "request": "what was asked", "code": "HTTP status"},
        {
            **_BY,
            "case": "name under which judges look for the answer",
            "dry_run": "whether nothing was to be made",
            "object": "the object that was answered",
            "items": "the objects that were answered to a list",
            "status": "the Status object of a refusal",
        },
    ),
    "LOG": Form(
        "one line that a container wrote",
        {**_TIME, "pod": "name of the pod", "uid": "uid of the pod", "line": "the text"},
        {**_BY, "container": "name of the container"},
    ),
}
"""Type of a line -> what it tells."""

SOURCE: Mapping[str, str] = {
    "cluster": "name of the cluster",
    "profile": "name of the profile",
    "namespace": "namespace of the scenario",
    "frozen": "when the file was written, as a time of day",
    "run": "id of the run",
    "worker": "name of the worker",
    "cluster_uid": "uid of the namespace kube-system, which is the cluster's; absent if it may not be read",
    "requests": "requests to the API server so far",
    "asked": "requests of this scenario by verb",
    "defects": "planted defects of the cluster, if there are any",
}
"""Key of the header's `source` -> what it is."""

NOTES: Mapping[str, Form] = {
    "submitted": Form("we created an object", {**_ROLE, **_OBJECT}, {"case": "name of the answer to it"}),
    "refused": Form(
        "our create was refused",
        {**_ROLE, "kind": "its kind key", "name": "its name", "code": "HTTP status"},
        {"case": "name of the answer to it"},
    ),
    "strangers": Form(
        "others have objects in the lent namespace; only the log of a session has this note, at its end",
        {"namespace": "the lent namespace", "objects": "kind -> how many objects"},
    ),
    "room-made": Form("we made room: the blocker or holder was deleted", _OBJECT, _ROLE),
    "scarce": Form(
        "scarcity is in place",
        {"resource": "the scarce resource", "total": "how much there is", "free": "how much is free"},
    ),
    "slots-set": Form(
        "we change how many slots a node has",
        {
            "resource": "the slot resource",
            "node": "name of the node",
            "slots": "slots from now on",
            "was": "slots until now",
        },
    ),
    "window-begin": Form("a watched window begins", {**_WINDOW, "seconds": "how long it lasts"}),
    "window-end": Form("a watched window ends", _WINDOW, {"early": "that it ended before its time"}),
    "deleted-by-us": Form("we deleted an object", _OBJECT, _ROLE),
    "evicted-by-us": Form("we asked for the eviction of a pod", _OBJECT),
    "scaled": Form("we change how many members a Job has", {**_OBJECT, "members": "members from now on"}),
    "rebooted-by-us": Form("we restarted a node", {"node": "name of the node"}),
    "commanded": Form("we gave a Job or a queue a command", {"action": "the command", **_OBJECT}),
    "tries": Form("from here on gangs are written for a scheduler", {"scheduler": "name of the scheduler"}),
    "timed-out": Form(
        "a wait expired",
        {
            "what": "what was waited for",
            "seconds": "for how long",
            "budget": "name of the budget",
            "last": "what was seen last",
        },
    ),
    "aborted": Form(
        "a wait ended early because it could not come true",
        {"what": "what was waited for", "why": "why it could not"},
    ),
    "end": Form("the scenario came to its end"),
    "proven": Form(
        "what we wrote last came back through the watches of these kinds: they were current",
        {"kinds": "kind keys", "seconds": "how long the slowest took"},
        {
            "listed": "kinds that were compared with a second watch instead -> until when their list was current"
        },
    ),
    "unproven": Form(
        "a watch did not show in time that it is current",
        {"kind": "kind key", "since": "from when on, in seconds", "why": "why"},
    ),
    "left-over": Form(
        "an object of ours was still there after cleanup",
        {"kind": "its kind", "name": "its name", "why": "why it was not removed"},
    ),
    "logs": Form(
        "logs of a container were fetched or not",
        {"pod": "name of the pod", "container": "name of the container", "ok": "whether they were"},
        {"uid": "uid of the pod", "error": "why not"},
    ),
}
"""The fixed vocabulary of notes."""

ROLES: Mapping[str, str] = {
    "subject": "what the row judges",
    "control": "what must run, so that the subject's failure means something",
    "contrast": "the same without what the row is about",
    "payload": "the ConfigMap with the programs",
    "service": "the Service that gives members their names",
    "names": "the Service of the members of a Kubernetes Job",
    "access": "the account with which pods read the API",
    "queue": "a queue of our own",
    "priority": "a PriorityClass of our own",
    "subject-member": "a member of the subject that its scheduler does not make itself",
    "subject-group": "the PodGroup of ours that the subject's members join",
    "left-group": "that of one of two gangs that compete",
    "right-group": "that of the other one",
    "blocker": "what holds room so that the subject has too little",
    "filler": "what holds devices of a node",
    "blocked": "a Job behind one that was enqueued and cannot run",
    "enqueued": "the Job before it",
    "neighbour": "a Job that must not suffer from a refusal",
    "left": "one of two gangs that compete",
    "right": "the other one",
    "borrower": "the queue's Job that takes what others do not use",
    "lender": "the Job that takes its own part back",
    "elastic": "a gang with members beyond its minimum",
    "late": "a gang of low priority",
    "tempted": "a gang of which a part would make enough room",
    "urgent": "a gang of high priority",
    "over-quota": "a Job that asks for more than the quota",
    "unlabelled": "a Job without queue label",
    "unknown-queue": "a Job whose queue label names no queue",
    "on-job": "a Job with the scheduler's name in the wrong place: on the Job",
    "in-template": "a Job with the scheduler's name in the wrong place: in the template",
    "held": "members that wait before they start",
    "unanswered": "members whose wait is in vain",
    "endpoint": "members whose master does not listen",
    "subdomain": "members without a Service for their names",
    "stalled": "ranks of which one stands still",
    "robust": "a torchrun world with a static endpoint and retries",
    "documented": "a torchrun world as the documents write it",
    "any-of": "a JobSet that any of its targets completes",
    "all-of": "a JobSet that all of its targets complete",
    "bounded": "a JobSet that fails each time",
    "recovers": "a JobSet that fails once",
    "fails-at-once": "a JobSet that a rule fails at the first failure",
    "in-order": "a JobSet whose Jobs begin in order",
    "after-ready": "a JobSet of which one Job waits until another is ready",
    "after-complete": "the same until it is complete",
    "claim": "the claim of the volume to which checkpoints are written",
    "save": "ranks that save a model",
    "load": "other ranks that load it",
    "kill": "ranks that are killed while they save",
    "remover": "what removes files of the run from a volume that stays",
    "smoke": "the documented loop of products",
    "gemm": "GPUs that multiply matrices",
    "train": "GPUs that train",
    "no-plugin": "a Job without the pytorch plugin",
    "wrong-master": "a Job whose plugin names a wrong master task",
    "wrong-worker": "a Job whose plugin names a wrong worker task",
    "misfit": "a pod that fits no single NUMA node",
    "fits": "a pod that fits one",
    "split": "a pod that fits, but not on one NUMA node any more",
    "other": "a pod beside it",
    "aligned": "a pod on each NUMA node",
    "abort": "a Job with a policy that aborts it",
    "terminate": "a Job with a policy that terminates it",
    "max-retry": "a Job that is restarted until it may not be any more",
    "in-place": "a Job whose containers restart in place",
    "enough": "a Job of which enough members succeed",
    "too-few": "a Job of which too few members succeed",
    "time-to-live": "a Job that is removed after its time",
    "evicted": "a Job of which a pod is evicted",
    "deleted": "a Job of which a pod is deleted",
    "training": "an elastic job that loses and gains workers",
    "store": "the pod in which the membership of elastic jobs is kept",
    "storm": "an elastic job of which one rank fails each time",
    "inert": "an elastic job whose store is inside its first worker",
    "suspended": "a Job that is suspended and resumed",
    "ssh": "a Job with the ssh plugin, whose members log in to each other",
    "mpi": "a Job with the mpi plugin, whose master launches ranks",
    "unplugged": "the same Job without the mpi and ssh plugins",
    "across": "a gang that fits only across domains of the network",
}
"""Role -> who plays it; a role that further schedulers play has their name before it, as in `native:subject`."""

OF_PROFILE = (
    "scheduler", "further_schedulers", "queue", "gpu_resource", "gpus_per_node", "scheduler_period", "window",
    "bind_spread", "start_spread", "recovery", "interface", "budgets", "versions", "security", "pool_label", "kueue",
    "secondary", "fabric", "health", "metrics", "mfu", "numa", "rdma", "storage", "elastic", "topology",
)  # fmt: skip
"""Keys of the profile that judges are told, under the names that they have there."""

GIVEN: Mapping[str, str] = {
    "roles": "role -> the objects that play it: kind, name, uid",
    "namespace": "namespace of the scenario",
    "features": "what the cluster can do, such as run pods",
    "period": "`scheduler_period`",
    "spread": "`bind_spread`",
    "members": "pods of the subject",
    "min_member": "pods of which the subject needs a place at once",
    "size": "pods of each Job",
    "images": "role of an image -> image that pods name",
    "resource": "the resource that is scarce, or of GPUs",
    "currency": "what scarcity is made of: slots, gpu or quota",
    "total": "how much of it there is",
    "slots": "slots that were put on nodes: resource, total, nodes, per_node",
    "capability": "what the queue of our own may have",
    "role_minimums": "task -> members that it needs",
    "omitted": "fields of the Job that were left out",
    "cases": "names of the invalid objects that were tried",
    "queues": "names of all queues by kind",
    "nobody": "name of a scheduler that does not exist",
    "schedulers": "further schedulers that were tried",
    "nodes": "nodes of the subject",
    "pods_per_node": "pods on each of them",
    "nnodes": "launchers",
    "nproc": "ranks of each",
    "world": "ranks",
    "load_world": "ranks that load",
    "training_world": "ranks that train",
    "smoke_n": "side of the matrices of the smoke loop",
    "switched": "gang of a run -> the transport of NCCL that is switched off in it",
    "forced": "network to which NCCL is forced",
    "absent": "rank that stays outside of the collective",
    "stall_bound": "seconds after which a stalled collective is named",
    "stalls": "places in which a rank stands still",
    "bound": "seconds that each of these places may take",
    "within": "seconds in which a wait must end",
    "give_up": "seconds after which a wait in vain ends",
    "port": "port of the master; of Jobs over SSH, of the server",
    "labels": "labels of nodes that must reach the launcher",
    "tried": "nodes that were tried",
    "attempts": "how often a rejected member may be made again",
    "attested": "what is known to have run although the evidence does not show it, such as `control`",
    "manages_all": "whether Kueue manages Jobs without queue label",
    "complete": "seconds in which a Job must complete",
    "pace": "least seconds of a step of training",
    "every": "steps of training between two checkpoints",
    "shared": "whether the workers share a volume for checkpoints",
    "other_nodes": "how many nodes offer no GPU",
    "workers": "workers of a Job over MPI",
    "folder": "where the keys of the ssh plugin are to be",
}
"""What judges are told beside the keys of the profile -> what it is."""
