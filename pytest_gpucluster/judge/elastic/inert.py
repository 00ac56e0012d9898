"""ELA-007, a control: a store inside a worker ends the run with its host.

The very loss that a job with its store outside survives (ELA-001) must end this one, and must be seen to. Where the
worker that is left goes on, the detector of ELA-001 shows nothing on this cluster.
"""

from pytest_gpucluster.evidence.log import payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.training import elastic
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.elastic import shared
from pytest_gpucluster.judge.elastic.shrink import GHOST, NOTICED, loss_of
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = (
    "a job with the c10d store inside its first worker trains; when that worker is lost, every other worker ends with "
    "an error, and none goes on"
)
GOES_ON = Cause(
    "the worker that is left found a store: the replacement of the lost worker took over its name before anybody "
    "noticed, or the store is not where the job says",
    "look at which address the launchers are connected to; keep the control's worker from being replaced at once",
)


@subjects.judge
def ends_with_its_host(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge ELA-007."""
    story, missing = shared.training(evidence, given, "inert")
    if story is None:
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, missing)
    told = wording.Findings(REQUIRED, story.gang, start=f"{story.gang.title}: ")
    losses = [
        loss
        for change in story.changes
        if change.what == elastic.LOST and (loss := loss_of(story, change, evidence.end)) is not None
    ]
    if not losses:
        return told.inconclusive("its first worker was never lost while it trained")
    loss = losses[0]
    outside = [
        word
        for word in payload_lines.words(evidence).of("elastic-client")
        if story.pod(word.uid) is not None and word.data.get("backend") != "c10d"
    ]
    if outside:
        return told.inconclusive(
            f"{outside[0].pod} was asked for {outside[0].data.get('backend')}, not for c10d"
        )
    if not any(loss.old.formed[uid].number("index") == 0 for uid in loss.lost):
        return told.inconclusive("the worker that was lost is not the one with the store")
    ends = elastic.ended(story, loss.left, loss.change.t)
    last = max((pod.finished or 0.0 for pod, _ in ends), default=None)
    number = Number(
        "time until the last worker ends",
        None if last is None or len(ends) < len(loss.left) else round(last - loss.change.t, 3),
        "s",
        origin=shared.MEASURED,
    )
    more = {"evidence": (loss.change.key,), "numbers": (number,)}
    going = next((w for w in loss.new if set(w.formed) & set(loss.left) and w.steps), None)
    if going is not None:
        text = f"a world of {going.size} went on {going.began - loss.change.t:.1f} s after the host was lost"
        return told.fail(text, GOES_ON, **more)
    ghosts = [step for step in loss.old.steps if step.t > loss.change.t + NOTICED]
    if ghosts:
        text = f"the old world took steps for {ghosts[-1].t - loss.change.t:.1f} s more, with the rank of the lost pod"
        return told.fail(text, GHOST, **more)
    if len(ends) < len(loss.left):
        waited = evidence.end - loss.change.t
        return told.inconclusive(
            f"not every worker that was left had ended {waited:.1f} s after the loss", **more
        )
    untold = [pod.where for pod, code in ends if code is None]
    if untold:
        return told.inconclusive(f"nobody reported the exit code of {untold[0]}", **more)
    well = [pod.name for pod, code in ends if code == 0]
    if well:
        return told.fail(f"{well[0]} ended with 0, as if training were done", **more)
    pod, code = ends[-1]
    took = (pod.finished or evidence.end) - loss.change.t
    text = f"{pod.where} ended with {code} {took:.1f} s after the host was lost; nothing went on"
    return shared.unless_contradicted(story, given, told.passed(text, **more))
