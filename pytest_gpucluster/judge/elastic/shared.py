"""What judges of elastic jobs share: the job under judgement, what is declared, and the figures of a new world."""

import dataclasses

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.training import elastic
from pytest_gpucluster.evidence.training.elastic import Training, World
from pytest_gpucluster.judge import subjects
from pytest_gpucluster.measure import samples
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

MEASURED = "measured by the driver, from the change to the line of the last rank"
NO_STEP = Cause(
    "the world has formed and hangs in its first step, or what its ranks say is lost on its way to the log",
    "look where its ranks are (py-spy dump --pid, in the pod), and whether kubectl logs shows their lines",
)
PATIENCE = 120.0
"""Seconds after which a world that did not form counts as one that does not form, if nothing is declared: torchrun's
own time-outs need 45 s on a quiet machine."""


def training(evidence: Evidence, given: subjects.Given, role: str) -> tuple[Training | None, str]:
    """Return the elastic job that plays a role, or why there is none to judge."""
    named = subjects.cast(evidence, given, role)
    gangs = subjects.everyone(evidence) if named is None else named
    found = [elastic.training(evidence, gang) for gang in gangs]
    told = [story for story in found if story.began or story.worlds]
    if told:
        return told[0], ""
    if found:
        return None, f"{found[0].gang.title}: no rank of it said anything"
    return None, subjects.nothing(evidence, "elastic job")


def declared(given: subjects.Given, key: str) -> float | None:
    """Return a number that the profile declares of elastic training, None for none."""
    return samples.number(fields.sub(given, "elastic").get(key))


def declared_text(given: subjects.Given, key: str) -> str:
    """Return a word that the profile declares of elastic training, "" for none."""
    return fields.text(given, "elastic", key)


def patience(given: subjects.Given) -> float:
    """Return the seconds after which a world that did not form counts as one that does not form."""
    return declared(given, "reform") or PATIENCE


def unless_contradicted(story: Training, given: subjects.Given, finding: Finding) -> Finding:
    """Return a finding as it is, a pass as undecided where the job's ranks tell what cannot be so."""
    doubt = _doubt(story, given) if finding.verdict is Verdict.PASS else ""
    if not doubt:
        return finding
    observed = f"{story.gang.title}: {doubt}; else: {finding.observed}"
    return dataclasses.replace(finding, verdict=Verdict.INCONCLUSIVE, observed=observed)


def _doubt(story: Training, given: subjects.Given) -> str:
    """Return what a job's ranks tell that cannot be so of the job that was asked for, "" for nothing."""
    for world in story.worlds:
        if world.contradiction:
            return f"the world of {world.size} at t={world.began:.1f} s: {world.contradiction}"
    if story.unformed:
        word = story.unformed[0]
        return f"{word.pod} took step {word.number('step')} in a world of which nobody said that it formed"
    most = declared(given, "max_restarts")
    beyond = next(
        (word for word in story.began if most is not None and (word.number("restarts") or 0) > most), None
    )
    if beyond is not None:
        return f"{beyond.pod} was restarted {beyond.number('restarts')} times, declared are at most {most:g}"
    return ""


@dataclasses.dataclass(frozen=True)
class Reform:
    """A change of workers, and the world that came of it.

    Attributes:
        t: since when the time counts.
        old: the world that trained before.
        new: the one that formed afterwards, None for none.
        end: the end of the evidence.
    """

    t: float
    old: World
    new: World | None
    end: float

    @property
    def whole(self) -> float | None:
        """Return when the new world had formed."""
        return self.new.whole if self.new is not None and self.new.complete else None

    @property
    def first_step(self) -> float | None:
        """Return when all ranks of the new world had taken a step."""
        return self.new.first_step if self.new is not None and self.new.complete else None

    def after(self, when: float | None) -> float | None:
        """Return the seconds from the change to a time."""
        return None if when is None else round(when - self.t, 3)


def numbers(story: Training, given: subjects.Given, reform: Reform) -> tuple[Number, ...]:
    """Return what a change of workers cost: seconds to notice, to re-form, to the first step; steps; restarts."""
    noticed = min((word.t for word in reform.old.broken.values() if word.t >= reform.t), default=None)
    bound = declared(given, "reform")
    origin = "declared: elastic.reform" if bound is not None else MEASURED
    until = reform.first_step or reform.end
    used = max((story.restarts(uid, until) for uid in reform.old.formed), default=0)
    return (
        Number("time until ranks notice", reform.after(noticed), "s", origin=MEASURED),
        Number("time until the world has formed", reform.after(reform.whole), "s", origin=MEASURED),
        Number("time until its first step", reform.after(reform.first_step), "s", bound, origin),
        *_steps(story, given, reform),
        Number(
            "restarts used by an agent",
            float(used),
            "",
            declared(given, "max_restarts"),
            "declared: elastic.max_restarts",
        ),
    )


def _steps(story: Training, given: subjects.Given, reform: Reform) -> tuple[Number, ...]:
    """Return the steps that a change cost, beside what it would have cost a job of fixed size.

    Lost are the steps that are done again, and those for which there was time until the first new step. A job of fixed
    size does the same steps again, and has no time for any until its worker can be placed again and all have started
    anew, which takes as long as this job took to start.
    """
    pace, first, new, t = subjects.seconds(given, "pace"), reform.first_step, reform.new, reform.t
    if new is None or first is None or new.resumed is None or pace is None:
        return ()
    done = max((step.step for step in reform.old.steps if step.t <= t), default=0)
    again = max(done - new.resumed, 0)
    lost = again + (first - t) / pace
    origin = f"{again} done again, the rest by time at one step per {pace:g} s"
    found = (Number("steps lost", round(lost, 1), "", origin=origin),)
    back = next((change.t for change in story.changes if change.what == elastic.BACK and change.t > t), None)
    began = story.worlds[0].first_step if story.worlds else None
    if back is None or began is None:
        return found
    start = began - story.gang.created
    origin = (
        f"computed: {again} done again, {back - t:.1f} s until its worker could be placed, and a start of "
        f"{start:.1f} s as this job's"
    )
    fixed = again + (back - t + start) / pace
    return (*found, Number("steps that a job of fixed size loses", round(fixed, 1), "", origin=origin))
