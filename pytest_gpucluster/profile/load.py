"""Load a profile: find it, lay the layers, validate, translate errors."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import pydantic

from pytest_gpucluster.plain import names
from pytest_gpucluster.profile import defaults, keys, pod_fields, translate
from pytest_gpucluster.profile.errors import ProfileError
from pytest_gpucluster.profile.layers import Layers, from_environment, from_texts
from pytest_gpucluster.profile.model import Profile, ProviderName
from pytest_gpucluster.profile.reading import Document, read_mapping

BUILT_IN = tuple(defaults.BUILT_IN)
OURS = ("default", "profile ", "add-on ")
"""How the sources of leaves begin that no operator wrote."""
REQUIRED = ("connection", "scheduler", "queue", "gpu_resource", "gpus_per_node")
"""Keys that the file of a cluster that exists must state; all else has a default."""

SECTIONS = (
    "elastic",
    "fabric",
    "health",
    "kueue",
    "metrics",
    "mfu",
    "numa",
    "rdma",
    "secondary",
    "security",
    "storage",
    "topology",
)
"""Keys whose mapping, also an empty one, declares that the cluster has something."""

ONLY_FOR = {"addons": "kind", "connection": "existing", "host": "host", "kind": "kind"}
"""Sections that one provider reads."""

Given = tuple[tuple[str, ...], Any, str]
"""Path of a leaf, its value, and who says so."""

SUFFIXES = (".yaml", ".yml")


@dataclasses.dataclass(frozen=True)
class LoadedProfile:
    """A profile and where each of its leaves came from.

    Attributes:
        profile: the validated profile.
        sources: dotted path of a leaf -> `default`, `vendor facts`, file with line, variable, ini or option.
        file: the profile file, None for a built-in one.
    """

    profile: Profile
    sources: Mapping[str, str]
    file: Path | None = None

    def overridden(self) -> dict[str, tuple[Any, str]]:
        """Return leaves set over the profile itself (environment, ini, command line): path -> value, source."""
        data = self.profile.model_dump(mode="json")
        marks = ("environment ", "ini ", "option ")
        return {
            path: (_dig(data, path), source)
            for path, source in sorted(self.sources.items())
            if source.startswith(marks)
        }

    def as_dict(self) -> dict[str, Any]:
        """Return profile and sources as plain data for the record."""
        return {
            "profile": self.profile.model_dump(mode="json"),
            "sources": dict(self.sources),
            "file": str(self.file) if self.file else None,
        }


def load(
    name: str,
    search: Sequence[Path] = (),
    env: Mapping[str, str] | None = None,
    ini: Iterable[str] = (),
    cli: Iterable[str] = (),
    *,
    given: Iterable[Given] = (),
    option: str = "--gpucluster-set",
) -> LoadedProfile:
    """Load the profile `name`.

    Layers, later wins: defaults, vendor facts, the profile, environment, ini, command line.

    Args:
        name: a built-in name or that of a file `NAME.yaml` in one of the folders.
        search: folders, the first that has the file wins.
        env: the environment; only `GPUCLUSTER_*` is read. Leaves are written `GPUCLUSTER_BUDGETS__BIND`.
        ini: `PATH=VALUE` texts of the ini setting `gpucluster_set`.
        cli: `PATH=VALUE` texts of the option.
        given: leaves that options of their own set.
        option: the option as it was typed; errors and sources name it.

    Raises:
        ProfileError: unknown name, unreadable file, unknown key, value of the wrong type, missing key.
    """
    file, document = find(name, search)
    overrides = [
        *from_environment(env or {}),
        *from_texts(ini, "ini gpucluster_set"),
        *given,
        *from_texts(cli, f"option {option}"),
    ]
    layers = _layers(name, file, document, overrides)
    where = str(file or f"profile {name}")
    wrong = [*_sections_of_nothing(layers, document)]
    if file is not None and layers.data.get("provider") not in BUILT_IN:
        wrong = [*_not_there(layers, file), *wrong]
    try:
        profile = Profile.model_validate(layers.data)
    except pydantic.ValidationError as error:
        wrong += translate.translate(error, layers, where, {path for one in wrong for path in one.paths})
    if wrong:
        raise wrong[0].beside(wrong[1:]) from None
    _check_overlay(profile, layers, where)
    return LoadedProfile(profile, dict(layers.sources), file)


def known_names(search: Sequence[Path]) -> dict[str, str]:
    """Return all names that can be loaded, each with where it comes from."""
    known: dict[str, str] = {}
    for folder in search:
        for path in sorted(p for s in SUFFIXES for p in folder.glob(f"*{s}")) if folder.is_dir() else []:
            if path.stem not in BUILT_IN and _looks_like_profile(path):
                known.setdefault(path.stem, str(path))
    return dict.fromkeys(BUILT_IN, "built in") | known


def _layers(
    name: str,
    file: Path | None,
    document: Document | None,
    overrides: Sequence[tuple[tuple[str, ...], Any, str]],
) -> Layers:
    own = document.data if document is not None else defaults.BUILT_IN[name]
    layers = Layers()
    layers.lay(defaults.DEFAULTS, "default")
    gpu_resource = own.get("gpu_resource", "")
    for path, value, _ in overrides:
        gpu_resource = value if path == ("gpu_resource",) else gpu_resource
    made = own.get("provider") if own.get("provider") in BUILT_IN else None
    if document is not None and made is None:
        layers.lay(defaults.vendor_facts(str(gpu_resource)), "vendor facts")
        layers.lay({"provider": "existing"}, "default")
    if made is not None:
        layers.lay(defaults.BUILT_IN[made], f"profile {made}")
        for addon in _addons(own, overrides):
            layers.lay(defaults.OF_ADDONS[addon], f"add-on {addon}")
    if document is not None:
        lines = document.lines
        layers.places = {path: f"{file}:{line}" for path, line in lines.items()}
        layers.lay(own, lambda path: layers.places.get(path, str(file)))
    for path, value, source in overrides:
        layers.put(path, value, source)
    _leave_out_scheduler(layers)
    _leave_out_kind(layers)
    if "name" in layers.data:
        raise ProfileError(
            layers.source_of("name") or str(file), "name", "the file's name is the name: leave the key out"
        )
    layers.put(("name",), name, "file name" if file else f"profile {name}")
    _anchor(layers, file)
    return layers


def _leave_out_scheduler(layers: Layers) -> None:
    """Take the scheduler out of further schedulers that are ours: whoever names another scheduler says no more."""
    key = "further_schedulers"
    if layers.sources.get(key, "").startswith(OURS):
        layers.data[key] = [each for each in layers.data[key] if each != layers.data.get("scheduler")]


def _leave_out_kind(layers: Layers) -> None:
    """Take the workload kind out of further kinds that are ours: whoever names another kind says no more."""
    workload = layers.data.get("workload")
    if layers.sources.get("workload.further", "").startswith(OURS) and isinstance(workload, dict):
        workload["further"] = [each for each in workload["further"] if each != workload.get("kind")]


def _addons(own: Mapping[str, Any], overrides: Sequence[Given]) -> list[str]:
    """Return the add-ons that a profile or what is laid over it names."""
    told = own.get("addons")
    named = set(told) if isinstance(told, Mapping) else set()
    named |= {path[1] for path, _, _ in overrides if path[0] == "addons" and len(path) > 1}
    return sorted(named & set(defaults.OF_ADDONS))


def _anchor(layers: Layers, file: Path | None) -> None:
    """Make paths absolute: `~` is the home folder, a relative one starts at the profile."""
    _anchor_leaf(layers, file, "connection", "kubeconfig")
    _anchor_leaf(layers, file, "kind", "config")
    _anchor_leaf(layers, file, "mfu", "baseline")
    addons = layers.data.get("addons")
    for name in addons if isinstance(addons, Mapping) else ():
        _anchor_leaf(layers, file, "addons", name, "source")


def _anchor_leaf(layers: Layers, file: Path | None, *path: str) -> None:
    at: Any = layers.data
    for key in path[:-1]:
        at = at.get(key) if isinstance(at, dict) else None
    value = at.get(path[-1]) if isinstance(at, dict) else None
    if isinstance(value, str) and value and "://" not in value:
        from_file = (layers.source_of(".".join(path)) or "").startswith(str(file))
        base = file.parent if file is not None and from_file else Path.cwd()
        at[path[-1]] = str(base.joinpath(Path(value).expanduser()).absolute())


def find(name: str, search: Sequence[Path]) -> tuple[Path | None, Document | None]:
    """Return the file of a profile and what stands in it, None and None for a built-in name.

    Args:
        name: a built-in name or that of a file `NAME.yaml` in one of the folders.
        search: folders, the first that has the file wins.

    Raises:
        ProfileError: unknown name, or a file that cannot be read.
    """
    if name in BUILT_IN:
        return None, None
    for folder in search:
        for suffix in SUFFIXES:
            path = folder / f"{name}{suffix}"
            if path.is_file():
                return path, _read(path)
    places = ", ".join(str(folder) for folder in search) or "nowhere"
    # Whoever gives the path of a file means the profile of that name.
    word = Path(name).stem if Path(name).suffix in SUFFIXES else Path(name).name
    raise ProfileError(
        "--cluster",
        "",
        f"unknown cluster {name!r}{names.did_you_mean(word, known_names(search))}; searched: {places}",
    )


def _read(path: Path) -> Document:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ProfileError(str(path), "", f"cannot be read: {error}") from None
    return read_mapping(text, str(path))


def _not_there(layers: Layers, file: Path) -> list[ProfileError]:
    """Return what must be declared and is not, before all else: whoever begins a profile is told what it takes."""
    found = [*_missing(layers, file, (), REQUIRED)]
    if isinstance(layers.data.get("connection"), dict):
        found += _missing(layers, file, ("connection",), ("kubeconfig", "context"))
    return found


def _missing(
    layers: Layers, file: Path, path: tuple[str, ...], required: tuple[str, ...]
) -> Iterator[ProfileError]:
    data = layers.data
    for key in path:
        data = data[key]
    for key in required:
        if data.get(key) not in (None, "", {}):
            continue
        inner = ".".join([*path, key])
        word = keys.misspelt(key, data, path) if key not in data else None
        if word is not None:
            source = layers.source_of(".".join([*path, word])) or str(file)
            yield translate.misspelt(word, key, path, source)
        elif key in data:
            yield translate.empty([*path, key], layers.source_of(inner) or str(file))
        elif away := _elsewhere(layers.data, key, path):
            problem = f"stands at the wrong place: move it {f'into `{path[0]}`' if path else 'to the top'}"
            source = layers.source_of(".".join(away)) or str(file)
            yield ProfileError(source, ".".join(away), problem, meant=inner)
        else:
            yield ProfileError(str(file), inner, f"is missing (required: {', '.join(required)})")


def _elsewhere(data: Mapping[str, Any], key: str, path: tuple[str, ...]) -> tuple[str, ...]:
    """Return where a key stands that is missing at its own place, () if nowhere."""
    places = [(), *((name,) for name, inner in data.items() if isinstance(inner, Mapping))]
    for place in places:
        inside = data[place[0]] if place else data
        if place != path and key in inside and key not in keys.allowed(place):
            return (*place, key)
    return ()


def _sections_of_nothing(layers: Layers, document: Document | None) -> Iterator[ProfileError]:
    """Yield sections of a file that would do nothing.

    `numa:` without a value reads as if it declared NUMA, and YAML makes it nothing; `addons` of a cluster that exists
    would not be installed.
    """
    if document is None:
        return
    provider = layers.data.get("provider")
    for key in SECTIONS:
        if key in document.data and document.data[key] is None:
            inside = ", ".join(f"`{key}.{one}`" for one in keys.required((key,)))
            way = f"declare at least {inside}" if inside else f"write `{key}: {{}}` to declare it"
            problem = f"is empty: {way}, or leave the key out"
            yield ProfileError(layers.places[key], key, problem)
    for key, only in ONLY_FOR.items():
        if document.data.get(key) and provider in get_args(ProviderName) and provider != only:
            problem = f"is read for `provider: {only}` only, but this is {provider}: leave it out"
            yield ProfileError(layers.places[key], key, problem)


def _check_overlay(profile: Profile, layers: Layers, where: str) -> None:
    """Check that what is laid onto every pod is what a pod has: the API server would drop it in silence, or refuse."""
    for each in pod_fields.problems(profile.overlay):
        path = ".".join(["overlay", *each.path])
        value = each.value if isinstance(each.value, str | int | float | bool) else None
        raise ProfileError(
            layers.source_of(path) or where,
            path,
            each.text,
            value=value,
            allowed=each.allowed,
            page=each.page,
        )


def _looks_like_profile(path: Path) -> bool:
    """Report whether a YAML file beside others is meant as a profile: it names GPUs, a connection or a provider."""
    try:
        data = read_mapping(path.read_text(encoding="utf-8"), str(path)).data
    except (OSError, UnicodeDecodeError, ProfileError):
        return False
    return not {"gpu_resource", "connection", "provider"}.isdisjoint(data)


def _dig(data: Any, path: str) -> Any:
    for key in path.split("."):
        if not isinstance(data, Mapping) or key not in data:
            return None
        data = data[key]
    return data
