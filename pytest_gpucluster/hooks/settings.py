"""What a run was told, and by whom: option, ini, environment or default."""

import argparse
import contextlib
import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

ADDONS = ("kueue", "volcano")
"""Folders that a folder of add-ons may hold: `profile.model.ADDONS`, which costs an import that --help need not pay."""

Kind = Literal["text", "path", "flag", "number", "texts", "paths"]


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
        "Folder with profile files; may be given more than once", "DIR", "GPUCLUSTER_PROFILES",
    ),
    Option(
        "--gpucluster-set", "set", "texts", (),
        "Set a leaf of the profile, such as budgets.bind=30; may be given more than once", "PATH=VALUE",
    ),
    Option(
        "--gpucluster-plan", "plan", "flag", NO,
        "Print what the selected requirements would do and cost, and run nothing", None, "GPUCLUSTER_PLAN",
    ),
    Option(
        "--gpucluster-defect", "defect", "texts", (),
        "Plant a defect in the embedded cluster; may be given more than once", "NAME", "GPUCLUSTER_DEFECT",
    ),
    Option(
        "--gpucluster-keep", "keep", "flag", NO,
        "Leave the objects of the run on the cluster and print how to remove them", None, "GPUCLUSTER_KEEP",
    ),
    Option(
        "--gpucluster-reuse", "reuse", "path", None,
        "Judge the evidence of an earlier run, given by its folder; touches no cluster", "RUN", "GPUCLUSTER_REUSE",
    ),
    Option(
        "--gpucluster-max-gpu-seconds", "max_gpu_seconds", "number", None,
        "Budget: run the cheapest scenarios first; what is beyond it is not run, named, and makes the run red",
        "N", "GPUCLUSTER_MAX_GPU_SECONDS",
    ),
    Option(
        "--gpucluster-gate", "gate", "flag", NO,
        "A gate run: each row is decided once, so that nothing may repeat a row that failed", None, "GPUCLUSTER_GATE",
    ),
    Option(
        "--gpucluster-kind-image", "kind_image", "text", None,
        "Node image of --cluster=kind (kind.image)", "IMAGE", "GPUCLUSTER_KIND_IMAGE",
    ),
    Option(
        "--gpucluster-kind-name", "kind_name", "text", None,
        "Use the kind cluster of this name; made where it is missing, and never removed (kind.name)",
        "NAME", "GPUCLUSTER_KIND_NAME",
    ),
    Option(
        "--gpucluster-kind-payload", "kind_payload", "text", None,
        "Image in which payloads run, or an archive of it, where it cannot be built (kind.payload)",
        "IMAGE_OR_ARCHIVE", "GPUCLUSTER_KIND_PAYLOAD",
    ),
    Option(
        "--gpucluster-kind-addons", "kind_addons", "path", None,
        "Folder with folders kueue and volcano of manifests (*.yaml) and image archives (*.tar), to install (addons)",
        "DIR", "GPUCLUSTER_KIND_ADDONS",
    ),
    Option(
        "--gpucluster-report-dir", "report_dir", "path", Path("reports"),
        "Folder for the folders of runs", "DIR", "GPUCLUSTER_REPORT_DIR",
    ),
)  # fmt: skip
"""All options; each has an ini twin and, but for `--gpucluster-set`, an environment twin."""

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off", ""})
_INI_TYPES: Mapping[Kind, Literal["string", "bool", "linelist"]] = {
    "text": "string", "path": "string", "flag": "bool", "number": "string", "texts": "linelist", "paths": "linelist",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of a run; each knows its source.

    Attributes:
        cluster: name of the cluster.
        profiles: further folders with profile files.
        overrides: `PATH=VALUE` texts of ini and of the command line.
        plan: print the plan and run nothing.
        defects: planted defects.
        keep: leave objects on the cluster.
        reuse: run folder whose evidence is judged, or None.
        report_dir: folder for run folders.
        max_gpu_seconds: budget of GPU-seconds, or None.
        gate: each row is decided once.
        kind: what options say of a kind cluster, by name.
        sources: name -> where it came from, for those that are not default.
        rootdir: pytest's root folder.
    """

    cluster: str
    profiles: tuple[Path, ...]
    overrides: Mapping[str, tuple[str, ...]]
    plan: bool
    defects: tuple[str, ...]
    keep: bool
    reuse: Path | None
    report_dir: Path
    max_gpu_seconds: float | None
    gate: bool
    kind: Mapping[str, Any]
    sources: Mapping[str, str]
    rootdir: Path

    def search(self) -> tuple[Path, ...]:
        """Return the folders in which a profile file is looked for, the first wins."""
        here = Path.cwd()
        folders = [*self.profiles, here / "clusters", self.rootdir / "clusters", here, self.rootdir]
        return tuple(dict.fromkeys(folders))

    def changed(self) -> dict[str, tuple[Any, str]]:
        """Return the settings that somebody set: name -> value and source."""
        names = {"defect": "defects", "set": "overrides"}
        return {
            name: (
                self.overrides[source.split()[0]]
                if name == "set"
                else self.kind[name]
                if name in self.kind
                else getattr(self, names.get(name, name)),
                source,
            )
            for name, source in self.sources.items()
        }

    def leaves(self) -> list[tuple[tuple[str, ...], Any, str]]:
        """Return the leaves of the profile that options of their own set: path, value, source.

        A folder of add-ons stands for those that it holds.
        """
        found: list[tuple[tuple[str, ...], Any, str]] = []
        for name, value in self.kind.items():
            key = name.removeprefix("kind_")
            if key != "addons":
                found.append((("kind", key), value, self.sources[name]))
                continue
            if not Path(value).is_dir():
                raise pytest.UsageError(f"{self.sources[name]}: {value} is no folder")
            inside = [each for each in ADDONS if (Path(value) / each).is_dir()]
            if not inside:
                raise pytest.UsageError(
                    f"{self.sources[name]}: {value} holds none of the folders {', '.join(ADDONS)}"
                )
            found += [
                (("addons", each, "source"), str(Path(value) / each), self.sources[name]) for each in inside
            ]
        return found


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
        flag = option.flag if option.flag.startswith(OURS) else f"{OURS}{option.name}"
        told = (
            option.help
            if flag == option.flag
            else f"The same as {option.flag}, which another plugin may have"
        )
        group.addoption(flag, dest=option.dest, default=None, help=f"{told} ({twins})", **how)
        parser.addini(option.ini, option.help, type=_INI_TYPES[option.kind], default=None)


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


def is_ours(config: pytest.Config, flag: str) -> bool:
    """Report whether an option of this name is ours in this run."""
    option = next(o for o in OPTIONS if o.flag == flag)
    return hasattr(config.option, option.claimed_dest)


def _given(config: pytest.Config, option: Option) -> Any:
    """Return what the command line says, None where it says nothing."""
    given = getattr(config.option, option.claimed_dest, None)
    return config.getoption(option.dest) if given is None else given


def _said(config: pytest.Config, option: Option) -> str:
    """Return the name by which the command line gave an option."""
    if option.flag.startswith(OURS) or getattr(config.option, option.claimed_dest, None) is not None:
        return option.flag
    return f"{OURS}{option.name}"


def is_set(config: pytest.Config) -> bool:
    """Report whether anybody set an option, without reading any value."""
    return any(
        _given(config, option) is not None
        or config.getini(option.ini) is not None
        or (option.env is not None and option.env in os.environ)
        for option in OPTIONS
    )


def wants_plan(config: pytest.Config) -> bool:
    """Report whether the plan is asked for; a broken value of its variable is no plan."""
    option = next(o for o in OPTIONS if o.name == "plan")
    try:
        return bool(_resolve(config, option, os.environ)[0])
    except pytest.UsageError:
        return False


def resolve(config: pytest.Config, env: Mapping[str, str] | None = None) -> Settings:
    """Return the settings: default < environment < ini < command line.

    Raises:
        pytest.UsageError: an environment variable that must be a flag and is none.
    """
    env = os.environ if env is None else env
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for option in OPTIONS:
        value, source = _resolve(config, option, env)
        values[option.name] = value
        if source is not None:
            sources[option.name] = source
    return Settings(
        cluster=values["cluster"],
        profiles=tuple(_absolute(p) for p in values["profiles"]),
        overrides={
            "ini": tuple(config.getini("gpucluster_set") or ()),
            "option": tuple(config.getoption("gpucluster_set") or ()),
        },
        plan=values["plan"],
        defects=tuple(values["defect"]),
        keep=values["keep"],
        reuse=_absolute(values["reuse"]) if values["reuse"] else None,
        report_dir=_absolute(values["report_dir"]),
        max_gpu_seconds=_number(values["max_gpu_seconds"], sources.get("max_gpu_seconds", "")),
        gate=values["gate"],
        kind={
            name: _absolute(value) if name == "kind_addons" else value
            for name, value in values.items()
            if name.startswith("kind_") and value is not None
        },
        sources=sources,
        rootdir=config.rootpath,
    )


def _resolve(config: pytest.Config, option: Option, env: Mapping[str, str]) -> tuple[Any, str | None]:
    given = _given(config, option)
    if given is not None:
        return given, f"option {_said(config, option)}"
    given = config.getini(option.ini)
    if given is not None:
        return (_beside_ini(config, option, given), f"ini {option.ini}")
    if option.env is not None and option.env in env:
        return _from_env(option, env[option.env]), f"environment {option.env}"
    return option.default, None


def _beside_ini(config: pytest.Config, option: Option, value: Any) -> Any:
    """Paths of the ini file start at its folder."""
    base = config.inipath.parent if config.inipath else config.rootpath
    if option.kind == "path":
        return base / Path(value).expanduser()
    if option.kind == "paths":
        return [base / Path(entry).expanduser() for entry in value]
    return value


def _from_env(option: Option, text: str) -> Any:
    match option.kind:
        case "flag":
            return _flag(option, text)
        case "texts":
            return [part.strip() for part in text.split(",") if part.strip()]
        case "paths":
            return [part for part in text.split(os.pathsep) if part]
        case _:
            return text


def _flag(option: Option, text: str) -> bool:
    word = text.strip().lower()
    if word in _TRUE | _FALSE:
        return word in _TRUE
    raise pytest.UsageError(
        f"environment {option.env} = {text!r}: must be a flag (allowed: {', '.join(sorted((_TRUE | _FALSE) - {''}))})"
    )


def _number(given: Any, source: str) -> float | None:
    if given is None:
        return None
    try:
        value = float(given)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise pytest.UsageError(f"{source} = {given!r}: must be a number of GPU-seconds, 0 or more")
    return value


def _absolute(path: Any) -> Path:
    return Path(path).expanduser().absolute()


def header_lines(changed: Mapping[str, tuple[Any, str]]) -> Sequence[str]:
    """Return one line for each value that is not default, with its source."""
    return [f"gpucluster: {name} = {_shown(value)} ({source})" for name, (value, source) in changed.items()]


def _shown(value: Any) -> str:
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
