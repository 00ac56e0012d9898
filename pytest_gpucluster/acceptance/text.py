"""A decision in words: lines for a terminal, Markdown for a pull request."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

from pytest_gpucluster.acceptance.decision import Closer, Decision
from pytest_gpucluster.acceptance.shown import Shown, spoken
from pytest_gpucluster.plain import plurals, shortening
from pytest_gpucluster.plain.markdown import cell


def answer(decision: Decision) -> str:
    """Return the decision in one line."""
    if not decision.open:
        stages = list(dict.fromkeys(each.stage for each in decision.closers if each.stage))
        where = f" in {', '.join(stages)}" if stages else ""
        return f"closed: {plurals.count(len(decision.closers), 'reason')}{where}"
    yes = [name for name, word in decision.purposes.items() if word.startswith("yes")]
    until = f", until {decision.until:%Y-%m-%d %H:%M} UTC" if decision.until else ""
    purposes = f" for {', '.join(yes)}" if yes else ""
    return f"open{purposes}{until}"


def lines(decision: Decision) -> Iterator[str]:
    """Yield the decision as lines for a terminal: what closes it and what to do, purposes, what was not shown."""
    policy = decision.policy
    yield f"policy      {policy.name}: {policy.summary}" if policy.summary else f"policy      {policy.name}"
    runs = ", ".join(run for run in decision.runs if run not in decision.ignored) or "none"
    yield f"runs        {runs}; compared with {decision.compared}"
    for run, why in decision.ignored.items():
        yield f"not counted {run}: {why}"
    for each in grouped(decision.closers):
        yield ""
        yield f"{each.what}{f' ({each.stage})' if each.stage else ''}: {shortening.shown(each.why)}"
        if each.ambiguous:
            yield f"  ambiguous: {each.ambiguous}, and this may come of it"
        yield f"  fix: {each.fix}"
    yield ""
    for purpose, word in decision.purposes.items():
        yield f"{purpose:<18} {word}"
    told = list(notes(decision))
    if told:
        yield ""
        yield from told
    yield ""
    yield f"gate        {answer(decision)}"


def grouped(closers: Iterable[Closer]) -> list[Closer]:
    """Return the closers with those of one reason as one, which names all its rows."""
    found: dict[Closer, list[str]] = {}
    for each in closers:
        found.setdefault(
            dataclasses.replace(each, what="", fix=each.fix.replace(each.what, "ROWS")), []
        ).append(each.what)
    return [
        dataclasses.replace(each, what=", ".join(rows), fix=each.fix.replace("ROWS", _selection(rows)))
        for each, rows in found.items()
    ]


def _selection(rows: Sequence[str]) -> str:
    """Return rows as pytest's `-k` takes them."""
    return rows[0] if len(rows) == 1 else f"'{' or '.join(rows)}'"


def notes(decision: Decision) -> Iterator[str]:
    """Yield what was excused, what is pending, what contradicts, and what was not shown."""
    for row, why in decision.excused.items():
        yield f"excused     {row}: {shortening.shown(why)}"
    for row, why in decision.pending.items():
        yield f"pending     {row}: {shortening.shown(why)}"
    for row, shown in decision.rows.items():
        if shown.state == "pass" and shown.why:
            yield f"note        {row}: {shortening.shown(shown.why)}"
        if shown.conflict:
            yield f"conflict    {row}: {shortening.shown(shown.conflict)}"
    if decision.unbuilt:
        yield f"not shown   {plurals.count(len(decision.unbuilt), 'row')} without a test: {', '.join(decision.unbuilt)}"


def markdown(decision: Decision) -> str:
    """Return the decision as Markdown: answer, what closes it, purposes, every row with its age."""
    out = [f"### Gate of {cell(decision.profile)}: {cell(answer(decision))}", ""]
    out += [f"Policy `{decision.policy.name}`, compared with {cell(decision.compared)}.", ""]
    if decision.closers:
        out += ["| what | stage | why | what to do |", "| --- | --- | --- | --- |"]
        out += [_closer(each) for each in grouped(decision.closers)] + [""]
    out += ["| purpose | answer |", "| --- | --- |"]
    out += [f"| {name} | {word} |" for name, word in decision.purposes.items()] + [""]
    out += [
        "<details><summary>Rows</summary>",
        "",
        "| row | state | age | run |",
        "| --- | --- | --- | --- |",
    ]
    out += [_row(decision, shown) for shown in decision.rows.values()]
    out += ["", "</details>", ""]
    out += [f"Not counted: {cell(run)} ({cell(why)})." for run, why in decision.ignored.items()]
    if decision.unbuilt:
        out.append(f"Without a test, so not shown: {', '.join(decision.unbuilt)}.")
    return "\n".join(out).rstrip() + "\n"


def _closer(each: Closer) -> str:
    why = f"{each.why}; ambiguous: {each.ambiguous}" if each.ambiguous else each.why
    return f"| {cell(each.what)} | {cell(each.stage)} | {cell(shortening.shown(why))} | {cell(each.fix)} |"


def _row(decision: Decision, shown: Shown) -> str:
    age = spoken(decision.at - shown.at) if shown.at is not None else ""
    excused, pending = decision.excused.get(shown.row), decision.pending.get(shown.row)
    state = f"{shown.state}, excused: {excused}" if excused else shown.state
    state = f"pending promotion: {pending}" if pending else state
    return f"| {shown.row} | {cell(shortening.shown(state))} | {age} | {cell(shown.run)} |"


def coverage(decision: Decision) -> Iterator[tuple[str, ...]]:
    """Yield a table of rows by nodes: `pass`, `FAIL`, `old`, `-` for not tested; the first line has the nodes."""
    nodes = sorted({name for shown in decision.rows.values() for name in shown.nodes})
    if not nodes:
        return
    yield ("row", *nodes)
    for shown in decision.rows.values():
        if shown.nodes:
            cells = (shown.nodes[name].state if name in shown.nodes else "-" for name in nodes)
            yield (shown.row, *("FAIL" if cell == "fail" else cell for cell in cells))
