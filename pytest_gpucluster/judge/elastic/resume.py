"""ELA-008: after each change of the world training goes on from the newest checkpoint.

Step numbers continue: a world begins with the step after the newest checkpoint that was written before, never at the
first one and never beyond. The loss of each step is what training that was never interrupted has at that step.
"""

import math
from collections.abc import Iterator

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.training.elastic import Step, Training, World
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.elastic import shared
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = (
    "each world that forms after another one goes on with the step after the newest checkpoint, on all ranks, and the "
    "loss of every step agrees with training that was never interrupted"
)
AGREES = 1e-9
"""Largest difference of two losses in proportion; in double precision, sums of another order differ by about 1e-15."""

NOT_SHARED = Cause(
    "the workers do not share the volume: each node has a folder of its own under the same path, so that a world whose "
    "rank 0 is elsewhere finds nothing",
    "keep checkpoints on a volume that all nodes mount (ReadWriteMany), and name it in the profile "
    "(storage.durable)",
)
BEGAN_ANEW = Cause(
    "the program does not load its checkpoint when its process starts again: torchrun starts processes, it restores "
    "nothing",
    "load the newest checkpoint at the start of the program, whatever the restart count says",
)
OLD_CHECKPOINT = Cause(
    "an older checkpoint was loaded: the newest one was not complete, or the volume shows old content for a while",
    "write under another name, flush, and rename; mount without caching of attributes (NFS: actimeo=0, noac)",
)
GONE = Cause(
    "what was written is not there any more: the folder was emptied, or another volume lies under the same path now",
    "look who removes old checkpoints, and what is mounted there in each pod (findmnt)",
)
OTHER_STATE = Cause(
    "what was restored is not the whole state: weights without optimizer, random state or position in the data",
    "save and load all of it with the weights, and let rank 0's state be everybody's",
)


@subjects.judge
def continues(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge ELA-008."""
    story, missing = shared.training(evidence, given, "training")
    if story is None:
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, missing)
    told = wording.Findings(REQUIRED, story.gang, start=f"{story.gang.title}: ")
    if given.get("shared") is False:
        return told.inconclusive("the workers share no volume (storage.durable), so nothing was saved")
    judged = _judged(story, told)
    return shared.unless_contradicted(story, given, judged)


def _judged(story: Training, told: wording.Findings) -> Finding:
    """Judge the worlds of a job that saves."""
    worlds = [world for world in story.worlds if world.complete]
    saved = sorted({step.step for world in worlds for step in world.steps if step.saved})
    later = [world for world in worlds[1:] if any(s.saved and s.t < world.began for s in _steps(worlds))]
    if not later:
        return told.inconclusive("no world formed after a checkpoint was written")
    steps = list(_steps(worlds))
    off = max((apart for step in steps if (apart := _apart(step)) is not None), default=None)
    numbers = (
        Number("worlds that went on", float(len(later)), "", origin="counted"),
        Number(
            "largest difference of a loss",
            off,
            "",
            AGREES,
            "in proportion; sums of another order differ by 1e-15",
        ),
    )
    for world in later:
        fault = _fault(world, worlds)
        if fault is not None:
            text, causes = fault
            return told.fail(text, *causes, violation=True, evidence=(world.key,), numbers=numbers)
    unseen = next((text for world in later if (text := _unseen(world, worlds))), "")
    if unseen:
        return told.inconclusive(unseen, numbers=numbers)
    strange = next((step for step in steps if (apart := _apart(step)) is None or apart > AGREES), None)
    if strange is not None:
        text = (
            f"the loss of step {strange.step} is {strange.loss}, that of unbroken training {strange.unbroken}"
        )
        return told.fail(text, OTHER_STATE, violation=True, evidence=(strange.key,), numbers=numbers)
    half = next((world for world in story.worlds if not world.complete), None)
    if half is not None:
        text = f"of the world of {half.size} at t={half.began:.1f} s {len(half.formed)} ranks were told"
        return told.inconclusive(text, numbers=numbers)
    going = [world for world in later if world.steps]
    if len(going) < len(later):
        return told.inconclusive(f"{len(later) - len(going)} worlds took no step", numbers=numbers)
    first = ", ".join(f"{world.resumed}" for world in later)
    text = (
        f"{wording.count(len(later), 'world')} went on after steps {first}; checkpoints of {len(saved)} steps up to "
        f"{saved[-1]}; {wording.count(len(steps), 'loss', 'losses')} as of an unbroken run"
    )
    return told.passed(text, evidence=tuple(world.key for world in later), numbers=numbers)


def _steps(worlds: list[World]) -> Iterator[Step]:
    """Yield the steps of all worlds."""
    return (step for world in worlds for step in world.steps)


def _apart(step: Step) -> float | None:
    """Return how far a loss is from that of unbroken training, in proportion; None where one is no finite number."""
    if step.loss is None or step.unbroken is None or not math.isfinite(step.loss - step.unbroken):
        return None
    return abs(step.loss - step.unbroken) / max(abs(step.unbroken), 1e-12)


def _finds(world: World) -> list[list[int]]:
    """Return what each rank of a world says that the ranks found, as far as it is a list of steps."""
    told = [word.data.get("found") for word in world.formed.values()]
    return [
        one
        for one in told
        if isinstance(one, list) and one and all(isinstance(step, int) and step is not True for step in one)
    ]


def _fault(world: World, worlds: list[World]) -> tuple[str, tuple[Cause, ...]] | None:
    """Return where a world went wrong when it began, and why; None where it went on as it must.

    A checkpoint that rank 0 wrote just before it was lost may not have been told: a newer one than the newest that was
    told is no fault.
    """
    before = [step for step in _steps(worlds) if step.t < world.began and step.saved]
    newest = max(step.step for step in before)
    at = f"the world of {world.size} at t={world.began:.1f} s"
    seen = next(iter(_finds(world)), [])
    if len(set(seen)) > 1:
        # A rank that finds none has another folder; ranks that find different ones may see old content.
        causes = (NOT_SHARED,) if 0 in seen else (NOT_SHARED, OLD_CHECKPOINT)
        return f"{at}: its ranks found checkpoints of different steps: {seen}", causes
    if world.resumed is None:
        return f"{at}: its ranks went on from different steps", (OTHER_STATE,)
    if world.resumed == 0:
        writers = {step.uid for step in before if step.step == newest}
        causes = (BEGAN_ANEW,) if max(seen, default=0) >= newest else (NOT_SHARED, BEGAN_ANEW)
        if max(seen, default=0) < newest and writers & set(world.formed):
            causes = (GONE, BEGAN_ANEW)
        return f"{at} began anew at step 1; a checkpoint of step {newest} was written before", causes
    if world.resumed < newest:
        return (
            f"{at} went on after step {world.resumed}; the newest checkpoint is of step {newest}",
            (OLD_CHECKPOINT,),
        )
    firsts: dict[str, int] = {}
    for step in world.steps:
        firsts.setdefault(step.uid, step.step)
    first = next((step for step in firsts.values() if step != world.resumed + 1), None)
    if first is not None:
        return f"{at} went on after step {world.resumed} with step {first}", (OTHER_STATE,)
    return None


def _unseen(world: World, worlds: list[World]) -> str:
    """Return what was not seen of a world that goes on after a step that nobody told, or found; "" for nothing."""
    found = _finds(world)
    at = f"the world at t={world.began:.1f} s went on after step {world.resumed}"
    if len(found) < len(world.formed) or any(len(one) != world.size for one in found):
        return f"{at}, and not every rank said what it found"
    odd = next((step for one in found for step in one if step != world.resumed), None)
    if odd is not None:
        return f"{at}, and a rank found a checkpoint of step {odd}"
    taken = max((step.step for step in _steps(worlds) if step.t < world.began), default=0)
    if world.resumed is None or world.resumed <= taken + 1:
        return ""
    return f"{at}; of those before, {taken} were told"
