"""What a promotion did, told as it goes in lines, or at its end as JSON or Markdown."""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pytest_gpucluster.cli import common

if TYPE_CHECKING:
    from pytest_gpucluster.acceptance.decision import Decision
    from pytest_gpucluster.kube.objects import Objects
    from pytest_gpucluster.promotion.targets import Target
    from pytest_gpucluster.promotion.trial import Trial

DONE = ("opened", "would be opened", "held", "would be held", "as it was")
"""Outcomes with exit status 0; the other one is `refused`."""


class Account:
    """What one `gpucluster promote` did.

    Attributes:
        target: the queue as it was found.
        now: the queue as it was seen last.
        by: who or what promotes, "" if it did not come to that.
        outcome: one of `DONE`, or `refused`.
    """

    def __init__(self, target: "Target", options: Any) -> None:
        """Begin with a queue; nothing was done, which counts as refused."""
        self.target = self.now = target
        self.by = ""
        self.outcome, self._why = "refused", ""
        self._json, self._markdown, self._dry = options.json, options.markdown, options.dry_run
        self._decision: Decision | None = None
        self._trial: dict[str, Any] | None = None
        self._notes: list[str] = []

    @property
    def done(self) -> bool:
        """Report whether what was asked was done."""
        return self.outcome in DONE

    @contextlib.contextmanager
    def printed(self) -> Iterator[None]:
        """Print all at the end of a block, as JSON or Markdown if asked, also if an error ends it."""
        try:
            yield
        except BaseException as error:
            self.outcome = "refused"
            self._why = " ".join(str(error).split()) or type(error).__name__
            raise
        finally:
            if self._json:
                common.say_json(self.as_dict())
            elif self._markdown:
                common.say(self.markdown().rstrip("\n"))

    def say(self, line: str) -> None:
        """Tell a line at once, to a reader of lines."""
        if not self._json and not self._markdown:
            common.say(line)

    def decides(self, decision: "Decision") -> None:
        """Take the gate's decision."""
        from pytest_gpucluster.acceptance import text

        self._decision = decision
        for line in text.lines(decision):
            self.say(line)
        # If nobody can read on what a queue is opened, it is not opened.
        sys.stdout.flush()

    def tried(self, rows: Sequence[str], found: "Trial") -> None:
        """Take what came of a trial."""
        self._trial = {
            "rows": [*rows], "green": found.green, "runs": dict(found.runs), "said": [*found.said],
        }  # fmt: skip
        for line in found.said:
            self.say(f"  {line}")

    def ends(self, outcome: str, why: str) -> None:
        """Take how it ended."""
        self.outcome, self._why = outcome, why
        self.say(f"queue       {why}")

    def event(self, api: "Objects", reason: str, message: str, *, warning: bool = False) -> None:
        """Write an Event about the queue; that it cannot be written changes nothing in what was done."""
        from pytest_gpucluster.promotion import records

        problem = records.event(api, self.now, reason, message, warning=warning)
        if problem:
            self._notes.append(f"no Event was written: {problem}")
            self.say(f"note        no Event was written: {problem}")

    def refused(self, api: "Objects", why: str) -> None:
        """Write an Event that says why the queue was not opened; a dry run writes none."""
        if not self._dry:
            self.event(api, "PromotionRefused", f"not opened: {why}", warning=True)

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "outcome": self.outcome,
            "done": self.done,
            "why": self._why,
            "by": self.by,
            "queue": {
                "kind": self.target.kind,
                "name": self.target.name,
                "uid": self.target.queue.uid,
                "was": self.target.state,
                "is": self.now.state,
                "open": self.now.open,
            },
            "gate": self._decision.as_dict() if self._decision else None,
            "trial": self._trial,
            "notes": [*self._notes],
        }

    def markdown(self) -> str:
        """Return it as Markdown, for a pull request."""
        from pytest_gpucluster.acceptance import text
        from pytest_gpucluster.plain.markdown import cell

        out = [f"### {cell(self.target.title)}: {self.outcome}", "", cell(self._why), ""]
        if self._trial is not None:
            word = "passed" if self._trial["green"] else "did not pass"
            out += [f"On trial: {cell(' and '.join(self._trial['rows']))} {word} in it.", ""]
        out += [f"Note: {cell(note)}." for note in self._notes]
        if self._decision is not None:
            out += ["", text.markdown(self._decision)]
        return "\n".join(out).rstrip() + "\n"
