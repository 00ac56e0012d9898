"""ELA-009: worlds that form again and again without progress are seen as such, and others are not.

The job of which a rank fails in its first step forms a world for each attempt and never takes a step: that must be
found from what ranks tell, with the rank behind it. A job that re-forms and takes steps in between must not be.
"""

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.training import elastic
from pytest_gpucluster.evidence.training.elastic import Training, World
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.elastic import shared
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = (
    f"a job whose worlds form {elastic.FLAPS} times or more in a row without a new step is seen to flap, with the "
    "member behind it; a job that takes steps is not"
)
UNSEEN = Cause(
    "what the ranks say does not reach the log: the pods' output is lost or cut",
    "keep the standard output of the workers (kubectl logs POD), and look at the node's log settings",
)
PROGRESS = Cause(
    "steps are counted twice: a world that went back to its checkpoint and did the same steps again made no progress",
    "count a step as progress only if its number is larger than any before",
)


@subjects.judge
def detected(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge ELA-009."""
    story, missing = shared.training(evidence, given, "storm")
    if story is None:
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, missing)
    allowed = subjects.count(given, "attempts") or 0
    flap, formed = elastic.flapping(story), len(story.worlds)
    number = Number(
        "worlds in a row without progress",
        float(len(flap)),
        "",
        float(elastic.FLAPS),
        "counted from what ranks tell",
    )
    told = wording.Findings(
        REQUIRED,
        story.gang,
        start=f"{story.gang.title}: ",
        evidence=tuple(world.key for world in flap)[:8],
        numbers=(number,),
    )
    stepped = [step for world in story.worlds for step in world.steps]
    if stepped:
        return told.inconclusive(f"it took step {stepped[-1].step}: that it flaps was not tried")
    if allowed < elastic.FLAPS:
        return told.inconclusive(f"it may form {allowed} worlds, too few to flap")
    if not flap:
        starts = len(story.began)
        text = f"{wording.count(formed, 'world')} formed of {starts} starts of ranks: it is not seen to flap"
        return told.fail(text, UNSEEN) if starts >= 2 * elastic.FLAPS else told.inconclusive(text)
    other, _ = shared.training(evidence, given, "inert")
    if other is not None and other.gang.uid != story.gang.uid and elastic.flapping(other):
        return told.fail(f"{other.gang.title} takes steps and counts as flapping too", PROGRESS)
    if not story.crashed:
        return told.fail(
            f"{len(flap)} worlds in a row made no progress, and no member is seen behind it", UNSEEN
        )
    behind = [uid for uid in flap[0].formed if all(uid in _crashed(story, world) for world in flap)]
    if not behind:
        return told.inconclusive(
            f"{len(flap)} worlds in a row made no progress, and no member failed in each of them"
        )
    places = wording.listed([pod.where for uid in behind if (pod := story.pod(uid)) is not None])
    text = f"{len(flap)} worlds in a row made no progress; behind it: {places}"
    return shared.unless_contradicted(story, given, told.passed(text))


def _crashed(story: Training, world: World) -> set[str]:
    """Return the members that failed by themselves in a world."""
    return {word.uid for word in story.crashed if str(word.data.get("name")) == world.name}
