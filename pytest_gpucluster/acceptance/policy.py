"""What a policy asks of recorded runs before a gate opens: stages of rows, how old evidence may be, which nodes."""

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from pytest_gpucluster.plain import folders, names
from pytest_gpucluster.profile import reading
from pytest_gpucluster.profile.errors import ProfileError
from pytest_gpucluster.requirement import AREAS, SITE, Level, catalogue, is_site

AREA_NAMES = tuple(dict.fromkeys([*(area for area, _ in AREAS.values()), "site"]))
"""What a stage may name: the markers of the shipped suites, and `site` for the rows of a site's own."""

SHIPPED = ("acceptance", "weekly", "after-change")
"""Policies that need no file."""

_AGE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([dhm])")
_UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0}
_SUFFIXES = (".yaml", ".yml")

ACCEPTED, REFUSED = "accepted", "refused"
ALL, ANY = "all", "any"


class PolicyError(Exception):
    """A policy that cannot be used; the text is a line for each mistake: where, what, allowed values, nearest match."""


@dataclasses.dataclass(frozen=True)
class Stage:
    """One stage of an acceptance; what a later stage finds is ambiguous while an earlier one is red.

    Attributes:
        name: such as `fabric`.
        areas: areas whose MUST rows and controls must pass.
        if_declared: areas that must pass if the profile declares them.
        rows: ids that must pass, whatever their level.
    """

    name: str
    areas: tuple[str, ...] = ()
    if_declared: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Policy:
    """What must be shown before the gate opens.

    Attributes:
        name: name of the shipped policy, or of the file without its ending.
        summary: what it is for, in one line.
        age: how old the evidence of a row may be.
        nodes: `all`: a row that speaks of every node must have been tried on each GPU node; `any`: on one.
        waivers: `accepted`: a failed row with a waiver of the profile that is in force does not close the gate.
        stages: in their order.
        not_applicable: id or area -> why it may be without effect on this cluster.
        left_out: id -> why a row of a named area need not pass.
        source: the file, or `shipped`.
    """

    name: str
    summary: str
    age: timedelta
    nodes: str
    waivers: str
    stages: tuple[Stage, ...]
    not_applicable: Mapping[str, str]
    left_out: Mapping[str, str]
    source: str

    def as_dict(self) -> dict[str, Any]:
        """Return the policy as plain data for a decision's record."""
        return {**dataclasses.asdict(self), "age": self.age.total_seconds()}

    @classmethod
    def of_dict(cls, data: Mapping[str, Any]) -> "Policy":
        """Return the policy of `as_dict`, as a record has it.

        Raises:
            PolicyError: it is of another shape.
        """
        try:
            stages = tuple(
                Stage(str(each["name"]), *(tuple(map(str, each[key])) for key in _STAGE_KEYS[1:]))
                for each in data["stages"]
            )
            age = timedelta(seconds=float(data["age"]))
            return cls(**{**data, "age": age, "stages": stages})
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise PolicyError(f"the policy in the record is not one of this version: {error!r}") from None


_STAGE_KEYS = ("name", "areas", "if_declared", "rows")
_KEYS = ("summary", "age", "nodes", "waivers", "stages", "not_applicable", "left_out")


def load(word: str) -> Policy:
    """Return a policy by the path of its file, or a shipped one by its name.

    Raises:
        PolicyError: no such policy, not valid YAML, unknown keys, rows or areas, values of the wrong type.
    """
    path = Path(word)
    if path.suffix in _SUFFIXES or path.is_file():
        try:
            return _read(path.read_text(encoding="utf-8"), path.stem, str(path))
        except (OSError, UnicodeDecodeError) as error:
            text = getattr(error, "strerror", None) or "not UTF-8 text"
            raise PolicyError(f"policy {word!r}: cannot be read: {text}") from None
    if word not in SHIPPED:
        raise PolicyError(
            f"unknown policy {word!r}{names.did_you_mean(word, SHIPPED)}; or give the path of a file that ends in .yaml"
        )
    text = (folders.shipped("policies") / f"{word}.yaml").read_text(encoding="utf-8")
    return _read(text, word, "shipped")


def _read(text: str, name: str, source: str) -> Policy:
    where = f"policy {name}" if source == "shipped" else source
    try:
        document = reading.read_mapping(text, where)
    except ProfileError as error:
        raise PolicyError(str(error).replace("a profile is", "a policy is")) from None
    return _Reader(where, document.lines).policy(document.data, name, source)


class _Reader:
    """Checks one document, whole: each mistake is a line with its place, and the rest is read all the same."""

    def __init__(self, where: str, lines: Mapping[str, int]) -> None:
        self._where = where
        self._lines = lines
        self._mistakes: list[tuple[int, str]] = []

    def policy(self, data: Mapping[str, Any], name: str, source: str) -> Policy:
        self._keys(data, "", _KEYS, required=("age", "stages"))
        listed = self._list(data.get("stages"), "stages")
        stages = tuple(self._stage(item, f"stages.{number}") for number, item in enumerate(listed))
        if data.get("stages") == []:
            self._mistake("stages", "must not be empty: a gate that asks for nothing would always open")
        elif "stages" in data and data["stages"] is None:
            self._mistake("stages", "must be a list")
        self._named_twice([stage.name for stage in stages if stage.name])
        found = Policy(
            name,
            self._text(data.get("summary", ""), "summary", empty=True),
            self._age(data["age"]) if "age" in data else timedelta(),
            self._one_of(data.get("nodes", ALL), "nodes", (ALL, ANY)),
            self._one_of(data.get("waivers", REFUSED), "waivers", (ACCEPTED, REFUSED)),
            stages,
            self._reasons(data.get("not_applicable"), "not_applicable", areas=True),
            self._reasons(data.get("left_out"), "left_out", areas=False),
            source,
        )
        if self._mistakes:
            raise PolicyError("\n".join(text for _, text in sorted(self._mistakes, key=lambda each: each[0])))
        return found

    def _stage(self, data: Any, path: str) -> Stage:
        if not isinstance(data, Mapping):
            self._mistake(path, f"must be a mapping with the keys {', '.join(_STAGE_KEYS)}", data)
            return Stage("")
        self._keys(data, path, _STAGE_KEYS, required=("name",))
        stage = Stage(
            self._text(data["name"], f"{path}.name") if "name" in data else "",
            self._areas(data.get("areas"), f"{path}.areas"),
            self._areas(data.get("if_declared"), f"{path}.if_declared"),
            tuple(self._row(word, f"{path}.rows") for word in self._list(data.get("rows"), f"{path}.rows")),
        )
        if not any(data.get(key) for key in _STAGE_KEYS[1:]):
            self._mistake(path, "asks for nothing: name areas, if_declared or rows")
        return stage

    def _areas(self, value: Any, path: str) -> tuple[str, ...]:
        return tuple(self._one_of(word, path, AREA_NAMES, "area") for word in self._list(value, path))

    def _keys(
        self, data: Mapping[str, Any], path: str, allowed: Iterable[str], *, required: Iterable[str]
    ) -> None:
        unknown = [str(key) for key in data if key not in allowed]
        for key in unknown:
            inner = f"{path}.{key}" if path else key
            self._mistake(inner, f"unknown key{names.did_you_mean(key, list(allowed))}")
        for key in required:
            # One that is misspelt is not missing too.
            if key not in data and key not in {names.nearest(word, list(allowed)) for word in unknown}:
                self._mistake(path, f"the key {key!r} is missing")

    def _list(self, value: Any, path: str) -> list[Any]:
        if value is None:
            return []
        if not isinstance(value, list):
            self._mistake(path, "must be a list", value)
            return []
        return value

    def _text(self, value: Any, path: str, *, empty: bool = False) -> str:
        if not isinstance(value, str):
            self._mistake(path, "must be a text", value)
            return ""
        if not (value.strip() or empty):
            self._mistake(path, "must not be empty", value)
        return " ".join(value.split())

    def _one_of(self, value: Any, path: str, allowed: Iterable[str], what: str = "value") -> str:
        known = list(allowed)
        if isinstance(value, str) and value in known:
            return value
        self._mistake(path, f"unknown {what}{names.did_you_mean(str(value), known)}", value)
        return known[0]

    def _row(self, value: Any, path: str) -> str:
        text = self._text(value, path)
        if not text or is_site(text) or catalogue.row(text) is not None:
            return text
        known = [row.id for row in catalogue.rows()]
        near = names.nearest(text, known)
        hint = (
            f"; did you mean {near}?" if near else f"; ids look like {known[0]}, or {SITE}-001 for your own"
        )
        self._mistake(path, f"unknown requirement{hint}", value)
        return text

    def _age(self, value: Any) -> timedelta:
        found = _AGE.fullmatch(value.strip()) if isinstance(value, str) else None
        seconds = float(found[1]) * _UNITS[found[2]] if found else 0.0
        if not 0 < seconds <= timedelta(days=3650).total_seconds():
            self._mistake("age", "must be a time such as 14d, 36h or 90m", value)
            return timedelta()
        return timedelta(seconds=seconds)

    def _reasons(self, value: Any, path: str, *, areas: bool) -> dict[str, str]:
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self._mistake(path, "must be a mapping of ids to reasons", value)
            return {}
        found: dict[str, str] = {}
        for key, reason in value.items():
            inner = f"{path}.{key}"
            known = str(key) if areas and key in AREA_NAMES else self._row(key, inner)
            if not isinstance(reason, str) or not reason.strip():
                self._mistake(inner, "needs a reason", reason)
                continue
            found[known] = " ".join(reason.split())
        return found

    def _named_twice(self, stages: Iterable[str]) -> None:
        counted = Counter(stages)
        for name in (name for name, count in counted.items() if count > 1):
            self._mistake("stages", f"two stages are called {name!r}")

    def _mistake(self, path: str, problem: str, value: Any = None) -> None:
        line = self._line(path)
        place = f"{self._where}{f':{line}' if line else ''}"
        given = f" = {value!r}" if isinstance(value, str | int | float | bool) else ""
        text = " ".join(f"{place}: {path}{given}: {problem}".replace(": : ", ": ").split())
        if (line or 0, text) not in self._mistakes:
            self._mistakes.append((line or 0, text))

    def _line(self, path: str) -> int | None:
        parts = path.split(".")
        while parts:
            line = self._lines.get(".".join(parts))
            if line is not None:
                return line
            parts.pop()
        return None


@dataclasses.dataclass(frozen=True)
class Asked:
    """A row that a policy asks for.

    Attributes:
        id: of the row.
        stage: the first stage that asks for it.
        named: whether the policy names the row itself, and not only its area.
    """

    id: str
    stage: str
    named: bool


def asked(policy: Policy, *, declared: Iterable[str], site_rows: Iterable[str]) -> tuple[Asked, ...]:
    """Return the rows that must pass, in the order of stages and of the catalogue.

    Args:
        policy: the policy.
        declared: areas that the profile declares, of those that a profile can leave out.
        site_rows: ids of the site's own MUST rows that the runs have.
    """
    found: dict[str, Asked] = {}
    present, own = set(declared), tuple(site_rows)
    for stage in policy.stages:
        areas = {*stage.areas, *(area for area in stage.if_declared if area in present)}
        of_areas = [row.id for row in catalogue.rows() if row.area in areas and row.level is not Level.SHOULD]
        of_areas += own if "site" in areas else ()
        for row_id in of_areas:
            if row_id not in policy.left_out:
                found.setdefault(row_id, Asked(row_id, stage.name, named=row_id in stage.rows))
        for row_id in stage.rows:
            found.setdefault(row_id, Asked(row_id, stage.name, named=True))
    return tuple(found.values())
