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
"""A Go module, and a folder of it for each program."""
MODULE_FILE = PROGRAMS / "go.mod"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pytest-gpucluster" / "kind"
ENGINE = CACHE / "engine"
"""What the Docker engine of the kit keeps and runs in, when none was there."""


def kubernetes_version() -> str:
    """Return the version that the module file of the Kubernetes programs names."""
    found = re.search(r"^(?:require)?\s+k8s\.io/kubernetes (v\S+)$", MODULE_FILE.read_text(), re.MULTILINE)
    if found is None:
        raise SystemExit("dev/kind/programs/go.mod requires no k8s.io/kubernetes")
    return found[1]
