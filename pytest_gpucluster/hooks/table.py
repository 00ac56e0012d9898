"""The table of options: each with its ini and environment twins, and how pytest learns of them."""

import argparse
import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

Kind = Literal["text", "path", "flag", "number", "named", "texts", "paths"]
"""Kind of a value; `named` is a name of something shipped, or the path of a YAML file."""


@dataclasses.dataclass(frozen=True)
class Option:
    """One option with its ini and environment twins.

    Attributes:
        flag: the option on the command line.
        name: key in `Settings.values`; the ini twin is `gpucluster_` + name.
        kind: what its value is.
        default: value when nobody says anything.
        help: what it means.
        metavar: placeholder of its value in `--help`.
        env: its environment variable; None where leaves have variables of their own.
    """

    flag: str
    name: str
    kind: Kind
    default: Any
    help: str
    metavar: str | None = None
    env: str | None = None

    @property
    def dest(self) -> str:
        """Return the attribute under which pytest keeps the option."""
        return f"gpucluster_{self.name}"

    @property
    def claimed_dest(self) -> str:
        """Return the attribute of a name that somebody else may have: it is there only where the name is ours."""
        return f"{self.dest}_claimed"

    @property
    def ini(self) -> str:
        """Return the name of the ini setting."""
        return f"gpucluster_{self.name}"


NO = False

OURS = "--gpucluster-"
"""How our options begin; one that begins otherwise may belong to somebody else and then has this name only."""

OPTIONS: tuple[Option, ...] = (
    Option(
        "--cluster", "cluster", "text", "embedded",
        "Cluster to test: embedded, host, kind, or the name of a profile file", "NAME", "GPUCLUSTER_CLUSTER",
    ),
    Option(
        "--gpucluster-profiles", "profiles", "paths", (),
        "Folder with profile files; may be repeated", "DIR", "GPUCLUSTER_PROFILES",
    ),
    Option(
        "--gpucluster-set", "set", "texts", (),
        "Set a leaf of the profile, such as budgets.bind=30; may be repeated", "PATH=VALUE",
    ),
    Option(
        "--gpucluster-plan", "plan", "flag", NO,
        "Print what the selected requirements would do and cost, and run nothing", None, "GPUCLUSTER_PLAN",
    ),
    Option(
        "--gpucluster-defect", "defect", "texts", (),
        "Plant a defect in the embedded cluster; may be repeated", "NAME", "GPUCLUSTER_DEFECT",
    ),
    Option(
        "--gpucluster-keep", "keep", "flag", NO,
        "Leave the run's objects on the cluster and print how to remove them", None, "GPUCLUSTER_KEEP",
    ),
    Option(
        "--gpucluster-reuse", "reuse", "path", None,
        "Judge the evidence of an earlier run (its folder); touches no cluster", "RUN", "GPUCLUSTER_REUSE",
    ),
    Option(
        "--gpucluster-max-gpu-seconds", "max_gpu_seconds", "number", None,
        "Budget: run the cheapest scenarios first; rows beyond it are named, not run, and make the run red",
        "N", "GPUCLUSTER_MAX_GPU_SECONDS",
    ),
    Option(
        "--gpucluster-max-nodes", "max_nodes", "number", None,
        "Use at most so many nodes at the same time; rows that need more are named, not run, and make the run red",
        "N", "GPUCLUSTER_MAX_NODES",
    ),
    Option(
        "--gpucluster-deadline", "deadline", "text", None,
        "Begin no scenario after this time: seconds, or such as 30m or 2h; rows that are left are named, not run, "
"and make the run red",
        "TIME", "GPUCLUSTER_DEADLINE",
    ),
    Option(
        "--gpucluster-yes", "yes", "flag", NO,
        "Do not ask at a terminal whether a run may begin on a cluster that exists",
        None, "GPUCLUSTER_YES",
    ),
    Option(
        "--gpucluster-gate", "gate", "flag", NO,
        "A gate run: each row is decided once, a failed row may not be repeated, and only the answer yes "
"ends with 0",
        None, "GPUCLUSTER_GATE",
    ),
    Option(
        "--gpucluster-policy", "policy", "named", None,
        "Let a policy give the answer: acceptance, weekly, after-change, or the path of a file; with "
"--gpucluster-gate, its answer is the exit code; empty for none",
        "POLICY", "GPUCLUSTER_POLICY",
    ),
    Option(
        "--gpucluster-kind-image", "kind_image", "text", None,
        "Node image of --cluster=kind (kind.image)", "IMAGE", "GPUCLUSTER_KIND_IMAGE",
    ),
    Option(
        "--gpucluster-kind-name", "kind_name", "text", None,
        "Use the kind cluster of this name; created if it is missing, never removed (kind.name)",
        "NAME", "GPUCLUSTER_KIND_NAME",
    ),
    Option(
        "--gpucluster-kind-payload", "kind_payload", "text", None,
        "Image in which payloads run, or an archive of it, if the image cannot be built (kind.payload)",
        "IMAGE_OR_ARCHIVE", "GPUCLUSTER_KIND_PAYLOAD",
    ),
    Option(
        "--gpucluster-kind-addons", "kind_addons", "path", None,
        "Folder of add-ons to install: its folders kueue and volcano have manifests (*.yaml) and image "
"archives (*.tar) (addons)",
        "DIR", "GPUCLUSTER_KIND_ADDONS",
    ),
    Option(
        "--gpucluster-report-dir", "report_dir", "path", Path("reports"),
        "Folder in which each run creates its own folder", "DIR", "GPUCLUSTER_REPORT_DIR",
    ),
)  # fmt: skip
"""All options; each has an ini twin and, but for `--gpucluster-set`, an environment twin."""

SUITES = "gpucluster_suites"
"""Ini switch that leaves the shipped suites out of runs that name a cluster and no path, or puts them in for good."""

SUITES_HELP = (
    "Run the shipped suites if a cluster is named and no path is given; if unset, they run if the "
    "command line or the ini file names the cluster, or if a variable names it and there are no "
    "other tests"
)

_INI_TYPES: Mapping[Kind, Literal["string", "bool", "linelist"]] = {
    "text": "string", "path": "string", "flag": "bool", "number": "string", "named": "string",
    "texts": "linelist", "paths": "linelist",
}  # fmt: skip


def register(parser: pytest.Parser) -> None:
    """Declare all options with their ini twins; help works whatever the values are."""
    group = parser.getgroup("gpucluster", "GPU cluster conformance")
    for option in OPTIONS:
        twins = f"ini {option.ini}" + (f", environment {option.env}" if option.env else "")
        how: dict[str, Any] = {"action": "append" if option.kind in {"texts", "paths"} else "store"}
        if option.kind == "flag":
            how = {"action": "store_true"}
        else:
            how["metavar"] = option.metavar
        flag = own_flag(option)
        told = (
            option.help
            if flag == option.flag
            else f"The same as {option.flag}, which another plugin may have"
        )
        group.addoption(flag, dest=option.dest, default=None, help=f"{told} ({twins})", **how)
        parser.addini(option.ini, option.help, type=_INI_TYPES[option.kind], default=None)
    parser.addini(SUITES, SUITES_HELP, type="bool", default=None)


def claim(parser: pytest.Parser) -> None:
    """Declare the options whose names are not ours alone, where nobody else has them.

    Called when all plugins and the first conftest files have declared theirs: theirs win.
    """
    group = parser.getgroup("gpucluster", "GPU cluster conformance")
    for option in OPTIONS:
        if option.flag.startswith(OURS):
            continue
        twins = f"ini {option.ini}" + (f", environment {option.env}" if option.env else "")
        # Somebody else declared it: ours is then the long name only.
        with contextlib.suppress(ValueError, argparse.ArgumentError):
            group.addoption(
                option.flag,
                dest=option.claimed_dest,
                default=None,
                help=f"{option.help} ({twins})",
                metavar=option.metavar,
            )


def own_flag(option: Option) -> str:
    """Return the name of an option that is ours alone."""
    return option.flag if option.flag.startswith(OURS) else f"{OURS}{option.name}"


def flags_known() -> frozenset[str]:
    """Return the names of all options that are ours alone."""
    return frozenset(map(own_flag, OPTIONS))


def settings_known() -> frozenset[str]:
    """Return the names of all ini settings of ours."""
    return frozenset({option.ini for option in OPTIONS} | {SUITES})


def without_claimed(args: Sequence[str]) -> list[str]:
    """Return arguments without the options that are claimed later and their values, so that no value is a path."""
    claimed = {option.flag for option in OPTIONS if not option.flag.startswith(OURS)}
    kept: list[str] = []
    skip = False
    for arg in args:
        if not skip and arg not in claimed:
            kept.append(arg)
        skip = not skip and arg in claimed
    return kept
