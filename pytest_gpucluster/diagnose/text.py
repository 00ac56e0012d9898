"""A diagnosis for people: cause and fix first, for a terminal of 100 columns."""

import textwrap

from pytest_gpucluster.diagnose.model import Certainty, Diagnosis, State, Suspect

WIDTH = 100
INDENT = 10
MOST = 4
"""Suspicions that are printed; more of them help nobody."""

WORDS = {
    State.HEALTHY: "healthy",
    State.STARTING: "starting: too early to call it stuck",
    State.REFUSED: "waits or ended as it should; nothing is broken",
    State.TROUBLE: "in trouble",
    State.GONE: "deleted",
    State.UNCLEAR: "not known to be healthy, and nothing in the evidence decides why",
}

LIKELY_REFUSED = "waits or ended; as far as can be seen, as it should"
"""How a job is that is refused where the evidence does not decide why."""

LIKELY_HEALTHY = "healthy, as far as can be seen"
"""How a job is that looks well where a part of what tells so was not looked at."""

NEVER = "will never start as it is"
"""How a job is that asks for more than there will ever be: the refusal is right, and waiting does not help."""

SURENESS = {Certainty.SURE: "", Certainty.LIKELY: "likely: ", Certainty.POSSIBLE: "possible: "}


def render(found: Diagnosis, *, full: bool = False) -> str:
    """Return the diagnosis as text; `full` adds what the judges said and the keys of the evidence."""
    how = _how(found)
    lines = [f"{found.subject}: {how}", f"  {found.summary}", ""]
    shown = found.suspects if full else _likely(found.suspects)
    for number, suspect in enumerate(shown):
        lines += _suspect(suspect, "cause" if number == 0 else "or", full=full or number == 0)
        lines.append("")
    if len(shown) < len(found.suspects):
        lines += [_field("more", f"{len(found.suspects) - len(shown)} less likely ones: --all"), ""]
    if not found.suspects and found.state in (State.UNCLEAR, State.STARTING):
        lines += [_field("next", "look again with --follow, or at the logs of the members"), ""]
    for suspect in found.notes:
        lines += [_field("note", f"{suspect.cause.text} ({suspect.seen})"), _field("  do", suspect.cause.fix)]
    if found.notes:
        lines.append("")
    if full:
        lines += [
            _field("row", f"{row} {told['verdict']}: {told['observed']}") for row, told in found.rows.items()
        ]
    lines.append(_field("looked at", ", ".join(found.looked)))
    lines += [_field("not" if number == 0 else "", what) for number, what in enumerate(found.missing)]
    return "\n".join(line.rstrip() for line in lines)


def _how(found: Diagnosis) -> str:
    """Return how the job is. All is well only where all was looked at, and nothing decides it that was not."""
    if found.state is State.REFUSED and found.suspects and found.suspects[0].forever:
        return NEVER
    sure = not found.suspects or found.suspects[0].certainty is Certainty.SURE
    if found.state is State.REFUSED and not (sure and found.complete):
        return LIKELY_REFUSED
    if found.state is State.HEALTHY and not found.complete:
        return LIKELY_HEALTHY
    return WORDS[found.state]


def _likely(suspects: tuple[Suspect, ...]) -> tuple[Suspect, ...]:
    """Return what is worth reading: the likely ones, or where there is none the first possible ones."""
    likely = tuple(one for one in suspects if one.certainty is not Certainty.POSSIBLE)
    return (likely or suspects)[:MOST]


def _suspect(one: Suspect, label: str, *, full: bool) -> list[str]:
    lines = [_field(label, SURENESS[one.certainty] + one.cause.text), _field("fix", one.cause.fix)]
    lines.append(_field("seen", one.seen))
    if full:
        lines += [_field("where" if n == 0 else "", place) for n, place in enumerate(one.where[:8])]
        lines += [f"{'look' if n == 0 else '':<{INDENT}}{line}" for n, line in enumerate(one.look)]
        if one.evidence:
            lines.append(_field("lines", ", ".join(one.evidence[:4])))
    if one.rows:
        lines.append(_field("rows", " ".join(one.rows)))
    return lines


def _field(name: str, text: str) -> str:
    label = f"{name:<{INDENT}}" if len(name) < INDENT else f"{name} "
    return textwrap.fill(
        " ".join(text.split()) or "-", WIDTH, initial_indent=label, subsequent_indent=" " * INDENT,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
