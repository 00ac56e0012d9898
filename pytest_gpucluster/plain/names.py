"""Names that every part agrees on: kind keys, labels, slot resources, safe object names."""

import difflib
import re
from collections.abc import Iterable

DOMAIN = "gpucluster.dev"
"""Ending of the domain of every label, annotation and resource name of ours."""
LABEL_RUN = "gpucluster.dev/run"
LABEL_SCENARIO = "gpucluster.dev/scenario"
LABEL_ROLE = "gpucluster.dev/role"
ANNOTATION_EXPIRES = "gpucluster.dev/expires"
ANNOTATION_KUBELET_SOCKET = "gpucluster.dev/kubelet-socket"
SLOT_PREFIX = "slots.gpucluster.dev/"

DEVICES_VARIABLE = "GPUCLUSTER_DEVICES"
"""Variable in which a device plugin of ours tells a container its devices: `ID@NUMA,ID@NUMA`, without `@NUMA` where
the plugin reports no NUMA node. NVIDIA_VISIBLE_DEVICES has the ids alone, as the vendor's plugin writes it."""

VC_JOB = "Job.batch.volcano.sh"
BATCH_JOB = "Job.batch"


def kind_key(api_version: str, kind: str) -> str:
    """Return the key under which a kind is recorded.

    Two kinds are called Job; they alone carry their API group (`Job.batch.volcano.sh`, `Job.batch`).
    """
    if kind != "Job":
        return kind
    group = api_version.partition("/")[0] if "/" in api_version else ""
    return f"Job.{group}" if group else "Job"


def kind_key_of(obj: dict[str, object]) -> str:
    """Return the kind key of a Kubernetes object that states its apiVersion and kind."""
    return kind_key(str(obj.get("apiVersion", "")), str(obj.get("kind", "")))


def safe_name(*parts: str, limit: int = 63) -> str:
    """Join parts to a DNS label: lower case, digits and dashes, at most `limit` characters."""
    text = re.sub(r"[^a-z0-9]+", "-", "-".join(parts).lower()).strip("-")
    return text[:limit].rstrip("-") or "x"


def nearest(word: str, allowed: Iterable[str]) -> str | None:
    """Return the allowed word most like `word`, or None when nothing is near."""
    found = difflib.get_close_matches(word, sorted(allowed), n=1, cutoff=0.5)
    return found[0] if found else None


def did_you_mean(word: str, allowed: Iterable[str]) -> str:
    """Return the end of an error line: the nearest match if any, then the allowed values."""
    known = sorted(str(each) for each in allowed)
    match = nearest(word, known)
    hint = f"; did you mean {match!r}?" if match else ""
    return f"{hint} (allowed: {', '.join(known) if known else 'none'})"
