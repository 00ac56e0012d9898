"""The differential table: which rows both clusters decided and how, and what is known to differ."""

from collections.abc import Iterator, Sequence

from tests.comparison.differences import UNDECIDED, Known, Reviewed
from tests.comparison.runs import Run


def markdown(embedded: Run, real: Run, reviewed: Reviewed, scheduler: str) -> str:
    """Return everything about two runs."""
    return "\n".join([*_head(scheduler), *_verdicts(embedded, real), "", *_differences(reviewed), ""])


def page(embedded: Run, real: Run, listed: Sequence[Known], scheduler: str) -> str:
    """Return what of it is the same in every run: the rows, and all differences that are known."""
    return "\n".join([*_head(scheduler), *_verdicts(embedded, real), "", *_known(listed), ""])


def _head(scheduler: str) -> Iterator[str]:
    yield f"# The embedded cluster beside real components (scheduler: {scheduler})"
    yield ""
    yield "Written by `make test-kind`: the suite on the embedded and on a kind cluster, with the same scheduler."
    yield "The table compares the verdicts, and for each object its states and the events about it."
    yield ""


def _verdicts(embedded: Run, real: Run) -> Iterator[str]:
    yield "## Rows that both decide"
    yield ""
    yield "| row | embedded | kind | |"
    yield "| --- | --- | --- | --- |"
    for row in sorted(embedded.verdicts.keys() & real.verdicts.keys()):
        ours, theirs = embedded.verdicts[row], real.verdicts[row]
        if not {ours, theirs} & set(UNDECIDED):
            yield f"| {row} | {ours} | {theirs} | {'same' if ours == theirs else 'differs'} |"
    # Of scenarios that kind could not run, the rows are decided here by `make everything` alone.
    impossible = {row for name in real.idle for row in real.rows.get(name, ())}
    one_sided = [
        f"{row} (only {side})"
        for side, ours, theirs in (("embedded", embedded, real), ("kind", real, embedded))
        for row, verdict in sorted(ours.verdicts.items())
        if verdict not in UNDECIDED and theirs.verdicts.get(row, "not_run") in UNDECIDED
        if row not in impossible
    ]
    if real.idle:
        yield ""
        yield f"Nothing in these scenarios applies to the kind cluster: {', '.join(sorted(real.idle))}."
    if one_sided:
        yield ""
        yield f"Decided by one side only: {', '.join(one_sided)}."


def _known(listed: Sequence[Known]) -> Iterator[str]:
    yield "## Known differences"
    yield ""
    yield "| what | whose | where | why |"
    yield "| --- | --- | --- | --- |"
    for entry in listed:
        where = ", ".join(entry.where) or "everywhere"
        where += "; not in every run" if entry.sometimes else ""
        yield f"| {_what(entry)} | {entry.side} | {where} | {entry.why} |"


def _differences(reviewed: Reviewed) -> Iterator[str]:
    yield "## Known differences that were seen"
    yield ""
    for entry, covered in reviewed.known.items():
        if covered:
            places = ", ".join(sorted({each.where for each in covered}))
            yield f"- {_what(entry)} ({entry.side}), {len(covered)} times in {places}: {entry.why}"
    if reviewed.unknown:
        yield ""
        yield "## Differences that are not known"
        yield ""
        yield from (f"- {each}" for each in reviewed.unknown)
    if reviewed.fleeting:
        yield ""
        yield "## Seen once, and not when the same was run again"
        yield ""
        yield from (f"- {each}" for each in reviewed.fleeting)
    if reviewed.stale:
        yield ""
        yield "## Listed, and seen no more"
        yield ""
        yield from (f"- {_what(each)}: {each.why}" for each in reviewed.stale)


def _what(entry: Known) -> str:
    of, text = (each.replace("|", "\\|") for each in (entry.of, entry.text))
    return f"{entry.what} of `{of}`: `{text}`"
