"""Versions and folders."""

import os
import re
from pathlib import Path

KIND = "v0.33.0"
KUEUE = "v0.17.0"
RELEASE = "bookworm"
"""Of Debian: the packages of the node and of the payload image."""

HERE = Path(__file__).resolve().parent.parent
PROGRAMS = HERE / "programs"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pytest-gpucluster" / "kind"
ENGINE = CACHE / "engine"
"""What the Docker engine of the kit keeps and runs in, when none was there."""


def kubernetes_version() -> str:
    """Return the version that the module file of the Kubernetes programs names."""
    found = re.search(r"^(?:require)?\s+k8s\.io/kubernetes (v\S+)$", module_file("kubernetes"), re.MULTILINE)
    if found is None:
        raise SystemExit("dev/kind/programs/kubernetes/go.mod requires no k8s.io/kubernetes")
    return found[1]


def module_file(program: str) -> str:
    """Return the text of a program's go.mod."""
    return (PROGRAMS / program / "go.mod").read_text()
