"""Why rows turn red under live defects, and why no cluster of ours can play one for some rows.

A row that is red for another reason than its defect shows nothing: the matrix compares with what the finding says.
"""

from collections.abc import Mapping

REASONS: Mapping[str, Mapping[str, str]] = {
    "default-scheduler.gang-aware": {
        "GANG-008": "was not half placed: 4 of 4 bound",
        "KUE-009": "was not half placed: 0 of 5 bound",
    },
    "admission.overwrites-scheduler": {"GANG-011": "all went to volcano: the control does not show"},
    "queue.forgets-promises": {"REF-007": "started beside it"},
    "plugins.injects-unasked": {"PLG-005": "has MASTER_ADDR", "PLG-009": "has MPI_HOST"},
    "plugins.opens-keys": {"PLG-008": "2 of 2 logins failed", "PLG-012": "documented 0600"},
    "lifecycle.completes-without-policy": {"LIFE-002": "shorter than the window"},
    "queue.promises-too-much": {"INV-005": "promises more than the nodes have: capability 4096"},
    "lifecycle.completes-by-terminating": {"LIFE-008": "from Completing to Terminating"},
    "node.never-restarts": {"LIFE-012": "was restarted in its pod"},
    "node.keeps-exit-zero": {
        "RDZV-004": "could not reach its rendezvous but ended with 0",
        "RDZV-009": "did not go on but ended with 0",
    },
    "node.keeps-killed": {"ELA-007": "with the rank of the lost pod"},
    "node.shares-a-device": {"FAB-014": "are on one device"},
    "node.corrupts-collectives": {
        "FAB-006": "wrong data",
        "FAB-013": "all-reduce",
        "MFU-002": "its loss of the same batch before training differs",
        "MFU-004": "the sum over ranks is wrong",
        "RDZV-006": "alone",
    },
    "node.corrupts-products": {"MFU-001": "product is wrong", "MFU-003": "product is wrong"},
    "storage.node-folders": {"CKPT-001": "no commit mark", "CKPT-002": "does not see checkpoint"},
    "storage.throttled": {"CKPT-004": "GB/s while all nodes do"},
    "torch.gathers-on-save": {"CKPT-001": "of memory in the save"},
    "torch.async-save-waits": {"CKPT-003": "stood still for"},
    "torch.marks-first": {"CKPT-005": "has a commit mark, but cannot be loaded"},
    "profile.floor-in-gbits": {"FAB-015": "more than the wires carry"},
}
"""Live defect -> {requirement id: a part of what the finding says was observed}."""

_NCCL = (
    "judges NCCL's connection lines, and NCCL needs GPUs: ranks of the embedded cluster run on CPUs, "
    "where the row does not apply"
)

UNPLAYED: Mapping[str, str] = {
    **dict.fromkeys(("FAB-001", "FAB-002", "FAB-003", "FAB-004", "FAB-005", "FAB-017", "FAB-018"), _NCCL),
    "FAB-010": "forces a network on NCCL, which needs GPUs: on CPUs there is no network to force",
    "FAB-011": "lets ranks wait in a collective for the declared bound on GPUs: on CPUs the row does not apply",
    "FAB-019": "switches off transports of NCCL, which needs GPUs: ranks of the embedded cluster use gloo",
    "FAB-016": "switches off a fabric between two machines with GPUs: no cluster of ours has one",
}
"""MUST rows and controls without a live defect -> why; constructed evidence and its mutants stand in."""

NEVER_FAILS: Mapping[str, str] = {
    "FAB-015": "an impossible floor is a fault of the profile: it says nothing about the cluster",
}
"""MUST rows whose judge knows no violation -> why; a live defect turns them not pass."""

BESIDE_NO_ROW: Mapping[str, str] = {
    "kueue.webhook-down": (
        "it stands beside no row: every row that makes a batch Job lacks its subject and is red, as under "
        "`kueue.absent`, which shows little about the row; the defect plays the API server's answers, "
        "and on a kind cluster KUE-001 finds the same fault"
    ),
    "node.slow-start": (
        "it stands beside no row: a spread of 3 s is within the 5 s that the embedded profile declares, so a "
        "red row would be a false alarm"
    ),
}
"""Live defects that stand beside no row -> what they are there for."""

OUTAGES: frozenset[str] = frozenset(
    {"admission.down", "controllers.down", "scheduler.down", "kueue.absent", "network.dns-down"}
)
"""Live defects that stop a whole part of the cluster: a row that is red under them alone shows little of its own."""
