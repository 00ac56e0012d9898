"""Tests of the site's own in a record: asserted by the site, decided by no judge."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_gpucluster.plain import plurals
from pytest_gpucluster.requirement import Level, is_site

OUTCOMES: Mapping[str, str] = {
    "passed": "the test's assertions hold",
    "failed": "an assertion of the site's test does not hold",
    "error": "the test itself, its setup or its teardown broke",
    "environment": "a condition that the test needs from the cluster is not met",
    "not_applicable": "the cluster does not declare, or does not have, what the test needs",
    "skipped": "the test skipped itself",
    "not_run": "the test was selected, but not reached or left out",
}
"""Outcome of a site's test -> what it means. Nothing here is a verdict."""

SETTLED = frozenset({"passed", "not_applicable"})
"""Outcomes that leave nothing open."""

_LINE = 160
"""Characters of a text that a reason quotes."""

_LINES = 20
"""Lines of a text that the page shows."""


def check(outcome: str, level: str) -> None:
    """Check what is to be written of a site's test.

    Raises:
        ValueError: an outcome or a level that no reader knows.
    """
    for word, what, allowed in ((outcome, "outcome", OUTCOMES), (level, "level", list(Level))):
        if word not in allowed:
            raise ValueError(f"unknown {what} {word!r} of a site's test (allowed: {', '.join(allowed)})")


def folded(entry: Mapping[str, Any], before: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a site's test after one more event about it.

    The last attempt counts, and the outcomes of those before it are kept. `not_run` is no attempt: it leaves no trace
    once the test has run, whichever of the two was written first.

    Args:
        entry: the event.
        before: the test after the events before, None for the first.

    Raises:
        KeyError: the event has no name, or an outcome or a level that is unknown.
    """
    if entry["outcome"] not in OUTCOMES:
        raise KeyError(f"outcome {entry['outcome']!r}")
    if entry["level"] not in list(Level):
        raise KeyError(f"level {entry['level']!r}")
    ran = before is not None and before["outcome"] != "not_run"
    if before is not None and ran and entry["outcome"] == "not_run":
        return dict(before)
    return {
        "nodeid": str(entry["nodeid"]),
        "title": str(entry.get("title") or entry["nodeid"]),
        "area": str(entry.get("area") or ""),
        "level": entry["level"],
        "outcome": entry["outcome"],
        "seconds": float(entry.get("seconds") or 0.0),
        "needs": {key: value for key, value in (entry.get("needs") or {}).items() if value is not None},
        "scenarios": [str(name) for name in entry.get("scenarios") or []],
        "text": str(entry.get("text") or ""),
        "evidence": entry.get("evidence"),
        "sha256": entry.get("sha256"),
        "at": entry["at"],
        "earlier": [*before["earlier"], before["outcome"]] if before is not None and ran else [],
    }


def is_flaky(test: Mapping[str, Any]) -> bool:
    """Report whether a test passed only when it was repeated."""
    return test["outcome"] == "passed" and bool(set(test["earlier"]) - {"passed"})


def counts(tests: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return how many tests ended how."""
    found: dict[str, int] = {}
    for test in tests:
        found[test["outcome"]] = found.get(test["outcome"], 0) + 1
    return dict(sorted(found.items()))


def failures(tests: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a reason for each MUST test that failed: the answer is no."""
    return [
        f"the site's own test {test['nodeid']} failed: {test['title']}"
        for test in tests
        if test["level"] == Level.MUST and test["outcome"] == "failed"
    ]


def doubts(tests: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a reason for each MUST test that leaves the answer open."""
    for test in tests:
        if test["level"] != Level.MUST or test["outcome"] == "failed":
            continue
        name, outcome = f"the site's own test {test['nodeid']}", test["outcome"].replace("_", " ")
        told = f": {first_line(test)}"
        if test["outcome"] == "not_run":
            yield f"{name} was not run{told}"
        elif test["outcome"] not in SETTLED:
            yield f"{name} asserts nothing ({outcome}){told}"
        elif set(test["earlier"]) - {test["outcome"]}:
            earlier = ", ".join(word.replace("_", " ") for word in test["earlier"])
            yield f"{name} needed more than one attempt ({earlier}, then {outcome})"


def says_nothing(report: Mapping[str, Any]) -> str:
    """Return in words what a record has of the site's own, "" for nothing."""
    rows = sum(1 for row in report["requirements"] if is_site(row["id"]))
    tests = len(report["site_tests"])
    if not rows and not tests:
        return ""
    parts = [plurals.count(count, word) for count, word in ((rows, "requirement"), (tests, "test")) if count]
    says = "says" if rows + tests == 1 else "say"
    return f"{' and '.join(parts)} of the site's own {says} nothing of the documents"


def first_line(test: Mapping[str, Any]) -> str:
    """Return the line of what a test told that says most, or its title, short enough for a reason."""
    lines = [line.strip() for line in test["text"].splitlines() if line.strip()]
    # pytest marks the lines of an error so; before them stands the source.
    errors = [line.removeprefix("E ").strip() for line in lines if line.startswith("E ")]
    line = next(iter([*errors, *lines]), test["title"])
    return line if len(line) <= _LINE else f"{line[: _LINE - 3]}..."


def last_lines(test: Mapping[str, Any]) -> tuple[int, list[str]]:
    """Return the last lines of what a test told, where the error stands, and how many lines came before them."""
    lines = test["text"].rstrip().splitlines()
    cut = max(0, len(lines) - _LINES)
    return cut, lines[cut:]


def needs_text(needs: Mapping[str, Any]) -> str:
    """Return what a test needs of the cluster in a few words, "" for nothing."""
    parts = [str(name) for name in needs.get("capabilities") or []]
    for key, unit in (("nodes", "node"), ("gpus", "GPU")):
        count = needs.get(key)
        if count:
            parts.append(plurals.count(count, unit))
    if needs.get("seconds"):
        parts.append(f"about {needs['seconds']:g} s")
    return ", ".join(parts)
