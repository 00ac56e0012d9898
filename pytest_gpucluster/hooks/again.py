"""Commands to be copied after a run: what runs rows again as it did, and which looks at the cluster still find it."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpucluster.hooks.table import OURS

if TYPE_CHECKING:
    from pytest_gpucluster import profile
    from pytest_gpucluster.hooks.settings import Settings

REUSE = f"{OURS}reuse"
FEW = 8
"""So many rows are named; of more the whole run is repeated."""


def options(told: "Settings", cluster: str) -> list[str]:
    """Return the options with which another run has the same cluster, profile and defects.

    Args:
        told: the settings of the run.
        cluster: name of the profile.
    """
    found = [f"--cluster={cluster}"] if "cluster" in told.sources else []
    if told.sources.get("profiles", "").startswith("option"):
        found += [f"--gpucluster-profiles={path}" for path in told.profiles]
    found += [f"--gpucluster-set={text}" for text in told.overrides["option"]]
    for name, value in told.kind.items():
        if told.sources[name].startswith("option"):
            found.append(f"{OURS}{name.replace('_', '-')}={value}")
    return [*found, *(f"--gpucluster-defect={name}" for name in told.defects)]


def command(
    rows: Sequence[str], targets: Sequence[str], options: Sequence[str], invoked: Sequence[str]
) -> str:
    """Return the command that runs rows again.

    Args:
        rows: their ids.
        targets: where pytest finds them.
        options: see `options`.
        invoked: the arguments of this run.
    """
    if len(rows) > FEW:
        return shlex.join(["pytest", *_live(invoked)])
    return shlex.join(["pytest", *targets, "-k", " or ".join(rows), *options])


def _live(invoked: Sequence[str]) -> Iterator[str]:
    """Yield the arguments of a run without that which lets it judge the evidence of an earlier one."""
    skip = False
    for word in invoked:
        if not skip and not word.startswith(REUSE):
            yield word
        skip = word == REUSE


def kubectl(loaded: "profile.LoadedProfile") -> list[str]:
    """Return the options with which kubectl reaches a cluster that outlives the run, [] for any other."""
    from pytest_gpucluster import provider

    told = loaded.profile.connection
    if told is None or not provider.of(loaded).real:
        return []
    usual = told.kubeconfig == str(Path("~/.kube/config").expanduser())
    return [*([] if usual else [f"--kubeconfig={told.kubeconfig}"]), f"--context={told.context}"]


def gone(loaded: "profile.LoadedProfile", folder: Path, *, kept: bool) -> tuple[str, ...]:
    """Return words of what nobody finds after a run: its id, a namespace that was lent; all of a cluster of its own.

    Args:
        loaded: the profile.
        folder: the run.
        kept: whether its objects stay.
    """
    from pytest_gpucluster import provider
    from pytest_gpucluster.hooks import run_folder
    from pytest_gpucluster.report import text

    if not provider.of(loaded).real:
        return (text.EVERYTHING,)
    lent = loaded.profile.namespace
    return () if kept else (run_folder.id_of(folder), *([f"-n {lent} "] if lent else []))
