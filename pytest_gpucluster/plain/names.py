"""Names that every part agrees on: kind keys, labels, slot resources, safe object names."""

import difflib
import re
from collections.abc import Iterable

DOMAIN = "gpucluster.dev"
"""Ending of the domain of every label, annotation and resource name of ours."""
LABEL_RUN = "gpucluster.dev/run"
LABEL_SCENARIO = "gpucluster.dev/scenario"
LABEL_ROLE = "gpucluster.dev/role"
LABEL_GANG = "gpucluster.dev/gang"
"""On pods that no controller makes: name of the gang that they belong to."""
LABEL_MARKER = "gpucluster.dev/marker"
"""On objects that are there only to show that a watch is current: no scheduler, controller or judge looks at them."""
ANNOTATION_MARKER = "gpucluster.dev/marker"
"""On objects of ours, changed so that the change comes back through a watch: how many times, no more."""
ANNOTATION_EXPIRES = "gpucluster.dev/expires"
ANNOTATION_KUBELET_SOCKET = "gpucluster.dev/kubelet-socket"
SLOT_PREFIX = "slots.gpucluster.dev/"

DEVICES_VARIABLE = "GPUCLUSTER_DEVICES"
"""Variable in which a device plugin of ours tells a container its devices: `ID@NUMA,ID@NUMA`, without `@NUMA` where
the plugin reports no NUMA node. NVIDIA_VISIBLE_DEVICES has the ids alone, as the vendor's plugin writes it."""

LABEL_KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
"""Label of a Job that names its LocalQueue of Kueue."""

ANNOTATION_KUEUE_TOPOLOGY = "kueue.x-k8s.io/podset-required-topology"
"""Annotation of a pod template by which Kueue is asked for one domain of a level."""

ANNOTATION_GROUP = "scheduling.k8s.io/group-name"
"""Annotation by which a pod names its PodGroup of Volcano."""

ANNOTATION_NETWORK_RESOURCE = "k8s.v1.cni.cncf.io/resourceName"
"""Annotation of a NetworkAttachmentDefinition: the resource that a pod must ask for to get the network's device."""

VC_JOB = "Job.batch.volcano.sh"
BATCH_JOB = "Job.batch"
JOBSET = "JobSet"

NATIVE_GROUP = "scheduling.k8s.io"
"""API group of the gangs of Kubernetes itself."""
POD_GROUP = "PodGroup"
QUEUE = "Queue"
"""Volcano's, which had the name first."""
NATIVE_POD_GROUP = f"PodGroup.{NATIVE_GROUP}"
KUEUE_WORKLOAD = "Workload"
"""Kueue's, which had the name first."""
NATIVE_WORKLOAD = f"Workload.{NATIVE_GROUP}"

_FIRST: dict[str, str] = {
    "PodGroup": "scheduling.volcano.sh",
    "Queue": "scheduling.volcano.sh",
    "Workload": "kueue.x-k8s.io",
    "Service": "",
}
"""Kinds that several API groups call so -> the group that had the name first, whose key is the bare kind."""


def kind_key(api_version: str, kind: str) -> str:
    """Return the key under which a kind is recorded.

    Kinds of the same name are told apart by their API group: both Jobs carry it (`Job.batch.volcano.sh`, `Job.batch`),
    and so do PodGroup, Queue and Workload of whoever came later (`PodGroup.scheduling.k8s.io`,
    `PodGroup.scheduling.run.ai`), while those of Volcano and Kueue, which had the names first, do not.
    """
    group = api_version.partition("/")[0] if "/" in api_version else ""
    if group and (kind == "Job" or group != _FIRST.get(kind, group)):
        return f"{kind}.{group}"
    return kind


def kind_key_of(obj: dict[str, object]) -> str:
    """Return the kind key of a Kubernetes object that states its apiVersion and kind."""
    return kind_key(str(obj.get("apiVersion", "")), str(obj.get("kind", "")))


def safe_name(*parts: str, limit: int = 63) -> str:
    """Join parts to a DNS label: lower case, digits and dashes, at most `limit` characters."""
    text = re.sub(r"[^a-z0-9]+", "-", "-".join(parts).lower()).strip("-")
    return text[:limit].rstrip("-") or "x"


def nearest(word: str, allowed: Iterable[str], cutoff: float = 0.5) -> str | None:
    """Return the allowed word most like `word`, whatever its case, or None when none is as like as `cutoff`, of 1."""
    found = _alike(word, allowed, 1, cutoff)
    return found[0] if found else None


def _alike(word: str, allowed: Iterable[str], most: int, cutoff: float) -> list[str]:
    """Return the allowed words most like a word, the nearest first; of words that differ in case alone all."""
    cases: dict[str, list[str]] = {}
    for each in sorted(allowed):
        cases.setdefault(each.lower(), []).append(each)
    found = difflib.get_close_matches(word.lower(), cases, n=most, cutoff=cutoff)
    return [each for lower in found for each in sorted(cases[lower], key=lambda one: one != word)][:most]


LISTED = 10
"""So many allowed values are listed whole in an error line; of more, the nearest few."""

FEW = 5


def did_you_mean(word: str, allowed: Iterable[str], page: str = "") -> str:
    """Return the end of an error line: the nearest match if any, then the allowed values, of many the nearest.

    Args:
        word: the word as it stands.
        allowed: what may stand there.
        page: what lists all of them, a page or a command; told where they are too many for a line.
    """
    known = sorted({str(each) for each in allowed})
    match = nearest(word, known)
    hint = f"; did you mean {match!r}?" if match else ""
    if len(known) <= LISTED:
        return f"{hint} (allowed: {', '.join(known) if known else 'none'})"
    like = _alike(word, known, FEW, 0.0)
    more = f"and {len(known) - FEW} more{f', see {page}' if page else ''}"
    return f"{hint} (allowed: {', '.join(like)} {more})"
