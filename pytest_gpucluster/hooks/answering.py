"""The last lines of the terminal: the answer of the run, and why it is no yes."""

import dataclasses
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gpucluster.hooks import state

if TYPE_CHECKING:
    from pytest_gpucluster.report import causes

NAME = "gpucluster-answer"
"""Name of the plugin that is there from the end of a run on."""

_REASONS = 3
"""Reasons that stand above the answer; the page has all."""

_COLOURS: Mapping[str, Mapping[str, bool]] = {"yes": {"green": True}, "no": {"red": True}}


@dataclasses.dataclass(frozen=True)
class Ended:
    """What the terminal tells at the end.

    Attributes:
        folder: the run's folder.
        files: what was written.
        left_overs: what is still on the cluster.
        word: the answer, "" where no record could be read.
        banner: the answer in one line.
        reasons: why it is no yes.
        digest: the sum that stands for the whole folder, "" where no report could be written.
        ailments: what keeps rows from green.
        again: the command that runs those rows again.
        decision: what the run comes to by its policy, as its record has it; None without one.
    """

    folder: Path
    files: tuple[Path, ...]
    left_overs: tuple[str, ...]
    word: str = ""
    banner: str = ""
    reasons: tuple[str, ...] = ()
    digest: str = ""
    ailments: "tuple[causes.Ailment, ...]" = ()
    again: str = ""
    decision: Mapping[str, Any] | None = None


UNREAD = "Undecided: the record of the run cannot be read"
"""The answer of a run without a record."""

ENDED = pytest.StashKey[Ended]()


class Answer:
    """Says the answer after all that pytest and other plugins say, directly above pytest's line of counts."""

    def __init__(self, ended: Ended) -> None:
        """Take what the run came to."""
        self._ended = ended

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> Generator[None]:
        """Say the reasons, then the answer.

        https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_terminal_summary
        """
        result = yield
        ended = self._ended
        if ended.ailments:
            from pytest_gpucluster.report import causes

            terminalreporter.section("to mend")
            for line in (causes.head(ended.ailments), *causes.lines(ended.ailments)):
                terminalreporter.write_line(line)
            terminalreporter.write_line(f"{'again':<10}{ended.again}")
        if ended.decision:
            from pytest_gpucluster.hooks import by_policy

            terminalreporter.section("gate")
            for line in by_policy.lines(ended.decision):
                terminalreporter.write_line(line)
        # What keeps a row from green stands above, once for all rows of one cause; what closes a gate in its section.
        above = {row for one in ended.ailments for row in one.rows}
        known = ended.reasons if not ended.decision else ()
        reasons = [reason for reason in known if reason.partition(" ")[0] not in above]
        told = reasons[:_REASONS] if len(known) > 1 else ()
        for number, reason in enumerate(told):
            terminalreporter.write_line(f"{'because' if number == 0 else '':<10}{reason}")
        if len(reasons) > len(told) > 0:
            terminalreporter.write_line(f"{'':<10}and {len(reasons) - len(told)} more, on the page")
        cut = len(state.selection_of(config).beyond_budget())
        colour = _COLOURS.get(ended.word, {"yellow": True})
        terminalreporter.write_line(f"answer    {_head(ended, cut)}", bold=True, **colour)
        _count(terminalreporter, "cut off by the budget", cut)
        _count(terminalreporter, "left over", len(ended.left_overs))
        return result


def _head(ended: Ended, cut: int) -> str:
    if ended.word == "undecided" and cut:
        rows = "1 row was" if cut == 1 else f"{cut} rows were"
        return f"Undecided: {rows} cut off by the budget of GPU-seconds"
    return ended.banner or UNREAD


def _count(terminal: Any, category: str, count: int) -> None:
    """Put a number into pytest's last line, which else would speak of passed rows alone."""
    if count:
        terminal.stats.setdefault(category, []).extend(_Counted() for _ in range(count))
        # The colour is that of what was counted so far.
        terminal._set_main_color()  # noqa: SLF001 - pytest has no public way to count something of one's own


class _Counted:
    """Stands for something in pytest's counts that is no report of a test."""

    count_towards_summary = True
