"""The command that runs rows again as this run did, to be copied: with the cluster, its settings, and every quote."""

import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pytest_gpucluster.hooks.table import OURS

if TYPE_CHECKING:
    from pytest_gpucluster.hooks.settings import Settings

REUSE = f"{OURS}reuse"
FEW = 8
"""So many rows are named; of more the whole run is repeated."""


def options(told: "Settings", profile: str) -> list[str]:
    """Return the options with which another run has the same cluster, profile and defects.

    Args:
        told: the settings of the run.
        profile: name of the profile.
    """
    found = [f"--cluster={profile}"] if "cluster" in told.sources else []
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
