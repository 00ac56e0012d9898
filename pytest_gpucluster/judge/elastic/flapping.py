"""ELA-009: worlds that form again and again without progress are seen as such, and others are not.

The job of which a rank fails in its first step forms a world for each attempt and never takes a step: that must be
found from what ranks tell, with the rank behind it. A job that re-forms and takes steps in between must not be.
"""

from pytest_gpucluster.evidence.log import payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.training import elastic
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
    crashed = [
        word for word in payload_lines.words(evidence).of("elastic-crash") if story.pod(word.uid) is not None
    ]
    if not crashed:
        return told.fail(
            f"{len(flap)} worlds in a row made no progress, and no member is seen behind it", UNSEEN
        )
    pod = story.pod(crashed[-1].uid)
    text = f"{len(flap)} worlds in a row made no progress; behind it: {pod.where if pod else crashed[-1].pod}"
    return told.passed(text)
