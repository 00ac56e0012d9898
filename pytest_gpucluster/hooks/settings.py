"""What a run was told, and by whom: option, ini, environment or default."""

import dataclasses
import math
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_gpucluster.hooks.table import OPTIONS, OURS, Option

ADDONS = ("kueue", "volcano")
"""Folders that a folder of add-ons may hold: `profile.model.ADDONS`, which costs an import that --help need not pay."""

_YAML = frozenset({".yaml", ".yml"})
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off", ""})


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
        policy: name of a shipped policy or path of a file that gives the answer, or None.
        max_nodes: most nodes that are used at the same time, or None.
        deadline: seconds after which no scenario is begun, or None.
        yes: nobody is asked whether the run may begin.
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
    policy: str | None
    max_nodes: int | None
    deadline: float | None
    yes: bool
    kind: Mapping[str, Any]
    sources: Mapping[str, str]
    rootdir: Path

    def search(self) -> tuple[Path, ...]:
        """Return the folders in which a profile file is looked for, the first wins.

        After the named ones each folder from the present one up to the root of the project, and its `clusters/`.
        """
        from pytest_gpucluster.plain import folders

        return tuple(dict.fromkeys([*self.profiles, *folders.upwards(Path.cwd(), self.rootdir)]))

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
                raise pytest.UsageError(f"{self.sources[name]}: {value} is not a folder")
            inside = [each for each in ADDONS if (Path(value) / each).is_dir()]
            if not inside:
                raise pytest.UsageError(
                    f"{self.sources[name]}: {value} has none of the folders {', '.join(ADDONS)}"
                )
            found += [
                (("addons", each, "source"), str(Path(value) / each), self.sources[name]) for each in inside
            ]
        return found


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


def ini(config: pytest.Config, name: str) -> Any:
    """Return the value of an ini setting, None where it is not set.

    Raises:
        pytest.UsageError: it is of the wrong kind.
    """
    try:
        return config.getini(name)
    except (TypeError, ValueError, pytest.UsageError) as error:
        where = config.inipath.name if config.inipath else "-o"
        allowed = ", allowed are true and false" if "truth value" in str(error) else ""
        raise pytest.UsageError(
            str(error) if name in str(error) else f"{where}: {name}: {error}{allowed}"
        ) from None


def ini_names(config: pytest.Config) -> Collection[str]:
    """Return the names of the ini settings that somebody set; none where pytest no longer tells."""
    held = vars(config)
    found: Collection[str] = held.get("_inicfg", held.get("inicfg", ()))
    return found


def who_names_cluster(config: pytest.Config) -> str | None:
    """Return who names a cluster, without resolving anything else; None where nobody does."""
    source = _resolve(config, next(option for option in OPTIONS if option.name == "cluster"), os.environ)[1]
    return None if config.getoption("help") or config.getoption("version") else source


def who_names_run(config: pytest.Config) -> str | None:
    """Return who names a run whose evidence is judged again, None where nobody does."""
    source = _resolve(config, next(option for option in OPTIONS if option.name == "reuse"), os.environ)[1]
    return None if config.getoption("help") or config.getoption("version") else source


def on_command_line(config: pytest.Config) -> list[str]:
    """Return the options of ours that the command line gives, as it calls them."""
    return [_said(config, option) for option in OPTIONS if _given(config, option) is not None]


def is_set(config: pytest.Config) -> bool:
    """Report whether anybody set an option, without reading any value."""
    return any(
        _given(config, option) is not None
        or ini(config, option.ini) is not None
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
            "ini": tuple(ini(config, "gpucluster_set") or ()),
            "option": tuple(config.getoption("gpucluster_set") or ()),
        },
        plan=values["plan"],
        defects=tuple(values["defect"]),
        keep=values["keep"],
        # Followed now: a run that begins lets the link `latest` point to itself.
        reuse=_absolute(values["reuse"]).resolve() if values["reuse"] else None,
        report_dir=_absolute(values["report_dir"]),
        max_gpu_seconds=_number(values["max_gpu_seconds"], sources.get("max_gpu_seconds", "")),
        gate=values["gate"],
        policy=str(values["policy"] or "") or None,
        max_nodes=_nodes(values["max_nodes"], sources.get("max_nodes", "")),
        deadline=_seconds(values["deadline"], sources.get("deadline", "")),
        yes=values["yes"],
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
    given = ini(config, option.ini)
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
    if option.kind == "named" and Path(value).suffix in _YAML:
        return str(base / Path(value).expanduser())
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


def _nodes(given: Any, source: str) -> int | None:
    if given is None:
        return None
    if not str(given).strip().isdecimal() or int(given) < 1:
        raise pytest.UsageError(f"{source} = {given!r}: must be a number of nodes, 1 or more")
    return int(given)


def _seconds(given: Any, source: str) -> float | None:
    if given is None:
        return None
    text = str(given).strip().lower()
    number, unit = (text[:-1], text[-1]) if text.endswith(tuple("smh")) else (text, "")
    try:
        value = float(number) * _UNITS[unit]
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise pytest.UsageError(
            f"{source} = {given!r}: must be a time above 0 such as 900 (seconds), 30m or 2h"
        )
    return value


def _absolute(path: Any) -> Path:
    return Path(path).expanduser().absolute()


def header_lines(changed: Mapping[str, tuple[Any, str]]) -> Sequence[str]:
    """Return one line for each value that is not default, with its source."""
    return [
        f"gpucluster: {name} = {_shown(name, value)} ({source})" for name, (value, source) in changed.items()
    ]


def _shown(name: str, value: Any) -> str:
    from pytest_gpucluster.plain import redact

    value = redact.shown(redact.leaf(name, value))
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
