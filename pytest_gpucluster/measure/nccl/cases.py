"""Case files: a log, what is known beforehand, and the facts that must be read from it."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from pytest_gpucluster.measure.nccl import facts, networks, verdict
from pytest_gpucluster.measure.nccl.fact_extraction import draw
from pytest_gpucluster.measure.nccl.reader import Reader
from pytest_gpucluster.plain import names


class CaseError(ValueError):
    """A case file that cannot be used; the text is one line."""


@dataclasses.dataclass(frozen=True)
class Case:
    """One case."""

    id: str
    given: facts.Given
    lines: tuple[str, ...]
    expect: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Difference:
    """A key whose value is not the expected one."""

    key: str
    expected: Any
    found: Any


GIVEN = ("ranks", "nodes", "pod_nodes", "expected_hcas", "networks")
"""What a case may know beforehand."""


def parse(document: Any) -> list[Case]:
    """Check a document and return its cases.

    Raises:
        CaseError: with the case and the key that cannot be used.
    """
    if not isinstance(document, list):
        raise CaseError(f"expected a list of cases, found {_kind(document)}")
    found = [_case(item, number) for number, item in enumerate(document, 1)]
    seen: set[str] = set()
    for case in found:
        if case.id in seen:
            raise CaseError(f"case {case.id!r}: the id is used twice")
        seen.add(case.id)
    return found


def _case(item: Any, number: int) -> Case:
    if not isinstance(item, dict):
        raise CaseError(f"case {number}: expected a mapping with id, lines and expect, found {_kind(item)}")
    title = f"case {item['id']!r}" if isinstance(item.get("id"), str) and item["id"] else f"case {number}"
    for key, kind in (("id", str), ("lines", list), ("expect", dict)):
        if key not in item:
            raise CaseError(f"{title}: {key!r} is missing")
        if not isinstance(item[key], kind):
            raise CaseError(f"{title}: {key!r} is {_kind(item[key])}, not {_kind(kind())}")
    for key in item["expect"]:
        if key not in facts.KEYS:
            raise CaseError(
                f"{title}: unknown key {key!r} in expect{names.did_you_mean(str(key), facts.KEYS)}"
            )
    lines = tuple("" if line is None else str(line) for line in item["lines"])
    return Case(item["id"], given(item.get("given") or {}, title), lines, item["expect"])


def given(told: Any, title: str) -> facts.Given:
    """Return what is known beforehand.

    Raises:
        CaseError: a value cannot be used.
    """
    if not isinstance(told, dict):
        raise CaseError(f"{title}: 'given' is {_kind(told)}, not a mapping")
    counts = {}
    for key in ("ranks", "nodes"):
        value = told.get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise CaseError(f"{title}: given.{key} is {value!r}, not a number of at least 1")
        counts[key] = value
    hcas = told.get("expected_hcas")
    if hcas is not None and not isinstance(hcas, list):
        raise CaseError(f"{title}: given.expected_hcas is {_kind(hcas)}, not a list")
    classes = told.get("networks") or {}
    if not isinstance(classes, dict):
        raise CaseError(f"{title}: given.networks is {_kind(classes)}, not a mapping")
    for name, kind in classes.items():
        if kind not in networks.CLASSES:
            raise CaseError(
                f"{title}: given.networks.{name} is {kind!r}{names.did_you_mean(str(kind), networks.CLASSES)}"
            )
    return facts.Given(
        ranks=counts["ranks"],
        nodes=counts["nodes"],
        pod_nodes=_machines(told.get("pod_nodes"), title),
        expected_hcas=None if hcas is None else tuple(str(hca) for hca in hcas),
        networks={str(name): str(kind) for name, kind in classes.items()},
    )


def _machines(told: Any, title: str) -> dict[str, str]:
    """Return pod -> machine: of a mapping, of a list of machines pod by pod, or of how many machines there are."""
    if told is None:
        return {}
    if isinstance(told, dict):
        return {str(pod): str(node) for pod, node in told.items()}
    if isinstance(told, str):
        told = [told]
    if isinstance(told, int) and not isinstance(told, bool) and told > 0:
        told = [f"machine {number}" for number in range(told)]
    if isinstance(told, list):
        found = {}
        for number, node in enumerate(told):
            if isinstance(node, dict):
                pod = str(node.get("pod") or node.get("name") or f"#{number}")
                found[pod] = str(node.get("node") or node.get("nodeName") or "")
            else:
                found[f"#{number}"] = str(node)
        return found
    raise CaseError(f"{title}: given.pod_nodes is {_kind(told)}, not a mapping of pods to machines")


def read(case: Case) -> facts.Facts:
    """Read the log of a case."""
    reader = Reader()
    for line in case.lines:
        reader.feed(line.encode("utf-8", "surrogatepass") + b"\n")
    reader.end()
    return draw(reader.seen, case.given)


def differences(case: Case) -> list[Difference]:
    """Return the keys under `expect` whose value is another."""
    found = verdict.values(read(case))
    return [
        Difference(key, expected, found[key])
        for key, expected in case.expect.items()
        if not _same(expected, found[key])
    ]


def _same(expected: Any, found: Any) -> bool:
    if isinstance(expected, list) and isinstance(found, list):
        return sorted(map(str, expected)) == sorted(map(str, found))
    if isinstance(expected, bool) or isinstance(found, bool):
        return expected is found
    if isinstance(expected, int | float) and isinstance(found, int | float):
        return math.isclose(expected, found, rel_tol=1e-9, abs_tol=1e-9)
    return bool(expected == found)


def _kind(value: Any) -> str:
    words = {dict: "a mapping", list: "a list", str: "a text", bool: "true or false", type(None): "nothing"}
    return words.get(type(value), "a number" if isinstance(value, int | float) else type(value).__name__)
