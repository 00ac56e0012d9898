"""ELA-001: a world that loses a worker goes on with those that are left.

What the ranks told decides: which world formed after the loss, of whom, and whether it took a step. A job that ended, a
world that waits for ever, one in which the lost rank still takes part and one whose lost worker was replaced before
anybody noticed are told apart; so is a world that came too late.
"""

import dataclasses

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.training import elastic
from pytest_gpucluster.evidence.training.elastic import Change, Training, World
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.elastic import shared
from pytest_gpucluster.requirement import Cause, Finding, Verdict

REQUIRED = (
    "after a lost worker, or a smaller number of members, the workers that are left form a smaller world of at least "
    "the minimum and take their next step within the declared time; no agent ends"
)
HOST_LOST = Cause(
    "the store was inside the lost worker (backend c10d): with it membership is gone, and every agent ends within a "
    "second or two",
    "keep the membership outside of all workers: a store pod with `--rdzv-conf=is_host=false` in every worker, or etcd",
)
NO_RESTARTS = Cause(
    "the agents have no restarts left: the ranks that fail in the broken collective use them up (--max-restarts, 0 by "
    "default)",
    "set --max-restarts to twice the expected changes and two more",
)
SHARED_STORE = Cause(
    "the agents share one store for all rounds (torch 2.8 and later): a new world looks for an address that nobody "
    "writes again, whatever keeps the membership, etcd included",
    "set TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 in the environment of every agent",
)
GHOST = Cause(
    "the lost pod's processes go on: the node did not end them, or is cut off from the API server only, so that ranks "
    "of the old world miss nobody",
    "look at the processes of the node (crictl ps), restart its kubelet or container runtime, and fence nodes that do "
    "not answer before their pods are replaced",
)
NOT_MET = Cause(
    "the workers do not meet again: the store cannot be reached any more, or they do not all come within join_timeout",
    "read the last lines of their logs; look whether the store's pod runs and its name resolves",
)
TOO_SMALL = Cause(
    "the smallest number of workers was not told to torchrun, or is another one (--nnodes=MIN:MAX)",
    "give --nnodes the declared minimum and maximum",
)
APART = Cause(
    "the workers meet at different stores, or under different ids: each part believes that it is the whole job",
    "let all of them name one endpoint, one --rdzv-id and one path; a c10d endpoint must be the same host for all",
)
NOT_NOTICED = Cause(
    "nobody is in a collective: ranks notice a loss in their next collective, not before",
    "take steps shorter than the declared time, or set a time-out for them",
)
SLOW = Cause(
    "the time-outs of the rendezvous are long (by default a lost agent counts for 15 s, and a world below its maximum "
    "waits 30 s for more), or the workers import slowly (a CPU limit, an image without byte code)",
    "set last_call_timeout, keep_alive_interval and keep_alive_max_attempt in --rdzv-conf; give workers CPU requests "
    "instead of limits",
)


@subjects.judge
def goes_on(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge ELA-001."""
    story, missing = shared.training(evidence, given, "training")
    if story is None:
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, missing)
    smallest = shared.declared(given, "min") or 1
    losses = [
        loss
        for change in story.changes
        if change.what in (elastic.LOST, elastic.SCALED)
        and (loss := loss_of(story, change, evidence.end)) is not None
        and len(loss.left) >= smallest
    ]
    if not losses:
        text = (
            "no worker was lost while a world trained"
            if story.worlds
            else "no world formed, so none could shrink"
        )
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, f"{story.gang.title}: {text}", story.gang)
    judged = wording.together([_judged(evidence, given, story, loss) for loss in losses])
    return shared.unless_contradicted(story, given, judged)


@dataclasses.dataclass(frozen=True)
class Loss:
    """A change that took workers away from a world.

    Attributes:
        change: what was done.
        old: the world that trained before.
        lost: uids of the pods that it lost.
        left: uids of those that it kept.
        new: worlds that formed afterwards, before the next change.
        end: when the next change was made, or the end of the evidence.
    """

    change: Change
    old: World
    lost: tuple[str, ...]
    left: tuple[str, ...]
    new: tuple[World, ...]
    end: float


def loss_of(story: Training, change: Change, end: float) -> Loss | None:
    """Return what a change took away, None where it took nothing from a world that trained."""
    old = story.before(change.t)
    if old is None:
        return None
    until = story.until(change, end)
    going = {
        uid
        for uid in old.formed
        if (pod := story.pod(uid)) is not None
        and any(t is not None and change.t <= t <= until for t in (pod.deleting, pod.deleted))
    }
    lost = tuple(
        uid for uid in old.formed if uid in change.uids or (change.what == elastic.SCALED and uid in going)
    )
    if not lost:
        return None
    left = tuple(uid for uid in old.formed if uid not in lost)
    return Loss(change, old, lost, left, story.after(change.t, until), until)


def _judged(evidence: Evidence, given: subjects.Given, story: Training, loss: Loss) -> Finding:
    """Judge one loss."""
    names = [pod.name for uid in loss.lost if (pod := story.pod(uid)) is not None]
    how = "was lost" if loss.change.what == elastic.LOST else "was no longer asked for"
    start = f"{story.gang.title}: {wording.listed(names)} {how} at t={loss.change.t:.1f} s; "
    without = [w for w in loss.new if w.size < loss.old.size and not set(loss.lost) & set(w.formed)]
    # A world of some of them may form before the one of all of them.
    whole = (w for w in without if w.complete and set(w.formed) == set(loss.left))
    smaller = next(whole, without[0] if without else None)
    numbers = shared.numbers(story, given, shared.Reform(loss.change.t, loss.old, smaller, evidence.end))
    keys = (loss.change.key, *((smaller.key,) if smaller is not None else ()))
    told = wording.Findings(REQUIRED, story.gang, start=start, evidence=keys, numbers=numbers)
    if smaller is None:
        return _no_smaller(given, story, loss, told)
    first = smaller.first_step if smaller.complete else None
    if first is None:
        return _unfinished(given, loss, smaller, told)
    other = _of_others(given, story, loss, smaller, told)
    if other is not None:
        return other
    bound = shared.declared(given, "reform")
    took = first - loss.change.t
    text = f"a world of {smaller.size} took its first step {took:.1f} s later"
    kept = KEPT.get(shared.declared_text(given, "backend"), "")
    if bound is not None and took > bound + subjects.of(evidence, given).grain:
        return told.fail(f"{text}, the bound is {bound:g} s", SLOW, violation=True)
    return told.passed(f"{text}{kept}")


def _of_others(
    given: subjects.Given, story: Training, loss: Loss, smaller: World, told: wording.Findings
) -> Finding | None:
    """Return what is wrong with a smaller world that trains: too small, or not of those that were left; else None."""
    if smaller.size < (shared.declared(given, "min") or 1):
        return told.fail(f"a world of {smaller.size} trains", TOO_SMALL, violation=True)
    out = [uid for uid in loss.left if uid not in smaller.formed]
    beside = next(
        (w for w in loss.new if w.complete and w.first_step is not None and set(w.formed) & set(out)), None
    )
    if beside is not None and not set(beside.formed) & set(smaller.formed):
        text = f"worlds of {smaller.size} and of {beside.size} train at once"
        return told.fail(text, APART, violation=True, evidence=(loss.change.key, smaller.key, beside.key))
    ends = elastic.ended(story, out, loss.change.t, loss.end)
    if ends:
        return told.fail(_ends(loss, ends), *_why_ended(given, story, loss, ends), violation=True)
    new = [pod.name for uid in smaller.formed if uid not in loss.left and (pod := story.pod(uid)) is not None]
    if out or new:
        who = f"{wording.listed(new)} took part in" if new else "not all that were left are in"
        return told.inconclusive(
            f"a world of {smaller.size} trains, but {who} it: that the world shrinks was not tried"
        )
    return None


def _ends(loss: Loss, ends: list[tuple[PodStory, int | None]]) -> str:
    """Say which workers that were left ended."""
    first, code = ends[0]
    after = min(pod.finished or 0.0 for pod, _ in ends) - loss.change.t
    return (
        f"{wording.count(len(ends), 'worker')} of {len(loss.left)} that were left ended, {first.name} first with "
        f"code {'unknown' if code is None else code} after {after:.1f} s"
    )


def _why_ended(
    given: subjects.Given, story: Training, loss: Loss, ends: list[tuple[PodStory, int | None]]
) -> list[Cause]:
    """Return why workers that were left may have ended, as far as what they told leaves it open."""
    causes = []
    hosts = {uid for uid, word in loss.old.formed.items() if word.number("index") == 0}
    if shared.declared_text(given, "backend") == "c10d" and hosts & set(loss.lost):
        causes.append(HOST_LOST)
    if any(_used_up(story, pod.uid, pod.finished or loss.end) for pod, _ in ends):
        causes.append(NO_RESTARTS)
    return [*causes, SHARED_STORE, NOT_MET]


def _used_up(story: Training, uid: str, t: float) -> bool:
    """Report whether an agent may have had no restarts left: it had used all that it was given, or did not say."""
    most = [word.number("most") for word in story.began if word.uid == uid]
    return not most or None in most or story.restarts(uid, t) >= max(one or 0 for one in most)


def _no_smaller(given: subjects.Given, story: Training, loss: Loss, told: wording.Findings) -> Finding:
    """Say why no smaller world was seen."""
    replaced = next((w for w in loss.new if w.size >= loss.old.size), None)
    if replaced is not None:
        return told.inconclusive(
            f"another pod took its place before a smaller world formed (a world of {replaced.size} at "
            f"t={replaced.began:.1f} s): that the world shrinks was not tried",
            evidence=(loss.change.key, replaced.key),
        )
    ends = elastic.ended(story, loss.left, loss.change.t, loss.end)
    if ends:
        return told.fail(_ends(loss, ends), *_why_ended(given, story, loss, ends), violation=True)
    later = [step for step in loss.old.steps if loss.change.t + NOTICED < step.t <= loss.end]
    gone = [pod for uid in loss.lost if (pod := story.pod(uid)) is not None and pod.deleted is not None]
    if later and gone and not loss.new:
        return told.fail(
            f"the old world of {loss.old.size} took {wording.count(len(later), 'step')} more, with the rank of the "
            f"lost pod, the last {later[-1].t - loss.change.t:.1f} s after",
            GHOST,
            violation=True,
        )
    waited = loss.end - loss.change.t
    if waited > shared.patience(given):
        causes = (SHARED_STORE, NOT_MET) if loss.old.broken else (NOT_NOTICED, GHOST)
        return told.fail(f"no world formed in {waited:.1f} s", *causes, violation=True)
    return told.inconclusive(f"no world formed in the {waited:.1f} s that were watched")


KEPT = {
    "c10d-store-pod": ", with its membership in a TCPStore pod; document E calls such a pod inert, which it is not if "
    "every worker says is_host=false and shares no store between rounds",
    "etcd-v2": ", with its membership in etcd",
}
"""Declared backend -> what a pass says of it."""
NOTICED = 2.0
"""Seconds in which the lines of steps may arrive that were taken before a loss: lines are late on a busy machine."""


def _unfinished(given: subjects.Given, loss: Loss, smaller: World, told: wording.Findings) -> Finding:
    """Say what is missing of a smaller world that began to form."""
    silent = smaller.size - len(smaller.formed)
    waited = loss.end - loss.change.t
    if smaller.contradiction:
        return told.inconclusive(f"a world of {smaller.size} formed, but {smaller.contradiction}")
    what = (
        f"{silent} of its ranks did not report"
        if silent > 0
        else "it took no step that all of its ranks reported"
    )
    text = f"a world of {smaller.size} formed, but {what} in {waited:.1f} s"
    if waited > shared.patience(given):
        return told.fail(text, shared.NO_STEP, violation=True)
    return told.inconclusive(text)
