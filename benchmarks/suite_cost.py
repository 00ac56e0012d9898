"""What the suite costs on the embedded cluster: seconds, scenarios, and API requests per decided requirement.

The requests of each run are told by verb, kind and purpose. Reference in the same run: collecting the same tests
without running them.
"""

import collections
import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile
import time

REQUESTS_PER_ROW = 6


@dataclasses.dataclass(frozen=True)
class Choice:
    """A selection of the suite, and the seconds that it may take on two cores."""

    name: str
    limit: float | None
    args: tuple[str, ...]


CHOICES = (
    Choice("without torch", 75.0, ("-m", "not torch")),
    Choice("without torch, two workers", 50.0, ("-m", "not torch", "-n", "2")),
    Choice("smoke", 20.0, ("-m", "smoke")),
    Choice("with torch", None, ()),
)

SESSION = frozenset({"Namespace", "Lease", "SelfSubjectRulesReview"})
ACTS = frozenset({"Command", "Pod/eviction", "ClusterQueue"})


def purpose(verb: str, kind: str) -> str:
    """Return what a request that is neither a list nor a watch is for."""
    if kind in SESSION:
        return "session: rights, namespace, turn"
    match verb:
        case "patch" if kind == "Node/status":
            return "slots"
        case "create" | "patch" if kind in ACTS and (verb, kind) != ("create", "ClusterQueue"):
            return "acts of scenarios"
        case "create":
            return "submitted, and at most one marker per kind"
        case "patch":
            return "proofs: what is written comes back"
        case "delete" | "deletecollection":
            return "deleted by scenarios and cleared"
        case "log":
            return "what pods print"
    return "read once"


def by_purpose(counted: dict[str, int]) -> dict[str, dict[str, int]]:
    """Return purpose -> `verb kind` -> requests; the first list and watch of a kind are those that follow it."""
    found: dict[str, dict[str, int]] = collections.defaultdict(dict)
    for request, count in counted.items():
        verb, _, kind = request.partition(" ")
        if verb not in ("list", "watch"):
            found[purpose(verb, kind)][request] = count
            continue
        followed = f"watch {kind}" in counted and kind not in SESSION
        first = "watches: list, follow" if followed else purpose("get", kind)
        found[first][request] = 1
        if count > 1:
            found["proofs: a list and a second watch; renewed watches"][request] = count - 1
    return found


def tell_requests(counted: dict[str, int], rows: int) -> None:
    """Print the table of requests."""
    told = sorted(by_purpose(counted).items(), key=lambda each: -sum(each[1].values()))
    for why, some in told:
        total = sum(some.values())
        most = sorted(some.items(), key=lambda each: (-each[1], each[0]))
        print(
            f"    {total:4} {total / rows:5.2f} per row  {why}: {', '.join(f'{name} {n}' for name, n in most)}"
        )


def run(folder: pathlib.Path, *args: str) -> float:
    """Return the seconds of one pytest process."""
    began = time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "pytest", "suites", "-q", f"--gpucluster-report-dir={folder}", *args],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return time.monotonic() - began


def measure(choice: Choice, base: float) -> None:
    """Run a selection and print what it took."""
    with tempfile.TemporaryDirectory(prefix="gpucluster-bench-") as scratch:
        seconds = run(pathlib.Path(scratch), *choice.args)
        report = json.loads(next(pathlib.Path(scratch).glob("2*/report.json")).read_text(encoding="utf-8"))
    rows = sum(row["verdict"] in ("pass", "fail") for row in report["requirements"])
    requests = report["requests"]["total"]
    spent = {one["name"]: one["seconds"] for one in report["scenarios"]}
    longest = max(spent, key=lambda name: spent[name])
    limit = "no limit" if choice.limit is None else f"limit {choice.limit:.0f} s"
    print(
        f"{choice.name}: {seconds:.1f} s for {rows} decided rows ({limit}), {seconds / base:.1f} x the reference; "
        f"{requests} API requests, {requests / rows:.2f} per row (limit {REQUESTS_PER_ROW})"
    )
    tell_requests(report["requests"]["by"], rows)
    print(
        f"    {len(spent)} scenarios serve {rows} rows ({rows / len(spent):.1f} each) in {sum(spent.values()):.1f} s; "
        f"the longest is {longest} with {spent[longest]:.1f} s"
    )


def main() -> None:
    """Print seconds, requests and ratios."""
    with tempfile.TemporaryDirectory(prefix="gpucluster-bench-") as scratch:
        base = run(pathlib.Path(scratch), "--collect-only")
    print(f"reference: collecting the suite: {base:.2f} s")
    for choice in CHOICES:
        measure(choice, base)


if __name__ == "__main__":
    main()
