"""What an answer is for, in one line: the areas that passed, and those about which it says nothing.

Areas have the names by which `-m` selects them, so that what is missing can be asked for.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_gpucluster.report.answer import is_asked
from pytest_gpucluster.requirement import AREAS, is_site

SECTIONS = ("elastic", "fabric", "kueue", "mfu", "numa")
"""Areas that a profile declares by a section of that name."""

_NO_YES = ("not declared", "undecided")
"""What a purpose may be beside yes and no where the gate of a policy is open."""

_REASON = 200
"""Characters of a reason that the one line shows."""


def banner(report: Mapping[str, Any]) -> str:
    """Return the answer in one line: for what a yes is, or the first reason of any other."""
    found = report["answer"]
    if found["word"] == "yes":
        return "; ".join(parts(report))
    head = "No" if found["word"] == "no" else "Undecided"
    reasons = found["reasons"]
    if not reasons:
        return head
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    first = str(reasons[0])
    return f"{head}: {first if len(first) <= _REASON else first[: _REASON - 3] + '...'}{more}"


def parts(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield for what a yes is, then what it says nothing of."""
    decision = report.get("decision")
    if decision:
        yield f"Yes by the policy {decision['policy']['name']}: {decision['text']}"
        rest = {
            word: [name for name, each in decision["purposes"].items() if each == word] for word in _NO_YES
        }
        yield from (f"{_listed(named)}: {word}" for word, named in rest.items() if named)
        return
    areas = {name: _Area(report, name) for name, _ in AREAS.values()}
    whole = [one.name for one in areas.values() if one.passed and one.decided == one.musts]
    some = [one.told for one in areas.values() if one.passed and one.decided < one.musts]
    yes = [f"for {_listed(whole)}"] if whole else []
    yield f"Yes {', '.join([*yes, *([f'in part for {_listed(some)}'] if some else [])])}"
    for state, words in (
        ("not declared", "not declared"),
        ("not applicable", "not applicable here"),
        ("not asked", "not requested"),
        ("not built", "without a test"),
    ):
        named = [name for name, one in areas.items() if one.state == state]
        if named:
            one = len(named) == 1 and not named[0].endswith("s")
            yield f"{_listed(named)} {'is' if one else 'are'} {words}"
    unbuilt = {one.name: one.unbuilt for one in areas.values() if one.passed and one.unbuilt}
    if unbuilt:
        counted = [f"{name} {count}" for name, count in unbuilt.items()]
        yield f"MUST rows without a test: {', '.join(counted)}"


class _Area:
    """What a report has of one area."""

    def __init__(self, report: Mapping[str, Any], name: str) -> None:
        rows = [row for row in report["requirements"] if row["area"] == name and row["level"] != "control"]
        self.name = name
        self.unbuilt = sum(row["level"] == "must" and _area(row) == name for row in report["not_built"])
        passed = [row for row in rows if row["verdict"] == "pass"]
        # A SHOULD alone is no yes for what has MUST rows.
        self.passed = any(row["level"] == "must" for row in passed) or (bool(passed) and not self.unbuilt)
        self.left = [row for row in report["not_run"] if row["area"] == name and not is_asked(row)]
        musts = [row for row in rows if row["level"] == "must"]
        self.decided = sum(row["verdict"] == "pass" for row in musts)
        self.musts = len(musts) + sum(row["level"] == "must" for row in self.left)
        self.state = "" if self.passed else self._state(report, rows)

    def _state(self, report: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
        if any(row["verdict"] == "pass" for row in rows):
            return "not built"  # only a SHOULD passed: the MUST rows have no test
        if rows:
            values = report["profile"]["values"]
            undeclared = self.name in SECTIONS and values.get(self.name) is None
            return "not declared" if undeclared else "not applicable"
        if self.left:
            return "not asked"
        return "not built" if any(_area(row) == self.name for row in report["not_built"]) else ""

    @property
    def told(self) -> str:
        """Return the name, with how many MUST rows passed of those that are built."""
        return f"{self.name} ({self.decided} of {self.musts} MUST rows)"


def _area(row: Mapping[str, Any]) -> str:
    row_id = str(row["id"])
    return "site" if is_site(row_id) else AREAS.get(row_id.partition("-")[0], ("", ""))[0]


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)
