"""Names of run folders."""

import re
import secrets
from datetime import UTC, datetime
from pathlib import Path

from pytest_gpucluster.hooks.settings import Settings


def new_folder(told: Settings) -> Path:
    """Return the path of a new run folder: UTC stamp, cluster, short id; nothing is made."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    cluster = re.sub(r"[^a-z0-9]+", "-", told.cluster.lower()).strip("-")[:40] or "cluster"
    return told.report_dir / f"{stamp}-{cluster}-{secrets.token_hex(3)}"


def id_of(folder: Path) -> str:
    """Return the short id of a run, which all that it makes bears in its name."""
    return folder.name.rpartition("-")[2]
