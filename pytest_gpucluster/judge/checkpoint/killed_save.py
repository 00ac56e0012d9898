"""CKPT-005: a kill in a save leaves the last complete checkpoint loadable, and `latest` on it."""

from collections.abc import Mapping
from typing import Any

from pytest_gpucluster.evidence.hardware.checkpoints import Told
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.checkpoint import shared
from pytest_gpucluster.requirement import Cause, Finding, Number

REQUIRED = (
    "after a kill in a save the last complete checkpoint loads with the same bits, `latest` names a complete one, and "
    "no unfinished one has a commit mark"
)
EARLY_POINTER = Cause(
    "`latest` is moved before the save is over, or the volume shows the move before what it points at",
    "move the pointer by rename after dcp.save has returned on all ranks, and after an asynchronous save's future is "
    "done",
)
EARLY_MARK = Cause(
    "the commit mark is written before the data, or the volume keeps it and loses the data",
    "write .metadata last and by rename, after every rank has synchronised its files; on a volume over a network look "
    "at its cache mode (no write-back, `sync` mounts)",
)
OVERWRITTEN = Cause(
    "the save that was killed wrote into the folder of the one before, or removed it first",
    "give each checkpoint a folder of its own, and remove old ones only after a newer one is complete",
)
LOST_POINTER = Cause(
    "`latest` is gone or empty: it is written in place and not moved",
    "write the pointer to another name, synchronise it, and rename it",
)
NOT_KEPT = Cause(
    "the volume lost what was synchronised, or the save said that it was over before its files were there",
    "look at the volume's cache mode (no write-back, `sync` mounts) and at its server; wait for the save on all ranks",
)
STALE_POINTER = Cause(
    "the pointer was not moved, or the volume shows its old content for a while: a job that starts again loses steps",
    "move it by rename after each save; mount without caching of attributes (NFS: actimeo=0, noac)",
)
MISSED = Cause("every save was over when its rank was killed", "declare more kills (storage.kills)")


@subjects.judge
def last_complete_loads(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge CKPT-005."""
    told, gang = shared.told(evidence, given, "killed", "kill")
    say = wording.Findings(REQUIRED, gang)
    if not told:
        return shared.nobody(evidence, gang, say, "a kill")
    rounds = _once([one for one in told if one.data.get("killed")])
    met = [one for one in rounds if in_save(one)]
    numbers = (Number("kills in a save", len(met), "", None), Number("kills", len(rounds), ""))
    more = {"evidence": shared.keys(rounds or told), "numbers": numbers, "where": shared.places(told[:1])}
    for one in told:
        wrong = _wrong(one)
        if wrong is not None:
            text, cause = wrong
            return say.fail(f"{_kill(one)}: {text}", cause, violation=True, **more)
    for one in told:
        error = str(one.data.get("error") or fields.sub(one.data, "look").get("error") or "")
        if error:
            of_volume = shared.of_volume(error)
            text = f"{_kill(one)}: {wording.short(error, 300)}"
            return (
                say.fail(text, of_volume, violation=True, **more)
                if of_volume
                else say.inconclusive(text, shared.NO_LINE, **more)
            )
    mute = next((text for one in told if (text := _untold(one))), "")
    if mute:
        return say.inconclusive(mute, shared.NO_LINE, **more)
    wanted = fields.number(fields.sub(given, "storage"), "kills")
    if wanted is None or len({one.word.number("round") for one in rounds}) < wanted:
        text = f"{wording.count(len(rounds), 'kill')} reported, {wanted or 'an unknown number'} asked for"
        return say.inconclusive(text, shared.NO_LINE, **more)
    if all(one.data.get("killed") for one in told):
        return say.inconclusive(
            "the round whose save takes its time, without a kill, is missing", shared.NO_LINE, **more
        )
    if not met:
        return say.inconclusive(f"none of {wording.count(len(rounds), 'kill')} met a save", MISSED, **more)
    times = wording.listed([f"{one.amount('after') or 0.0:.3g}" for one in met])
    text = (
        f"{wording.count(len(rounds), 'kill')}, {len(met)} of them in a save, {times} s after its start of usually "
        f"{met[0].amount('usual') or 0.0:.3g} s on {shared.mount(met[0])}: the last complete checkpoint loaded with "
        f"the same bits each time, and `latest` named it"
    )
    return say.passed(text, **{**more, "where": ()})


def _once(rounds: list[Told]) -> list[Told]:
    """Return one line of each round."""
    return list({one.word.number("round"): one for one in rounds}.values())


def _untold(one: Told) -> str:
    """Return what a round does not tell that it must, "" for nothing."""
    steps, look = _steps(one), fields.sub(one.data, "look")
    saved = [fields.sub(one.data, "digests").get(str(step)) for step in steps]
    if len(steps) < 2 or not all(saved) or not isinstance(look.get("found"), Mapping):
        return f"{_kill(one)}: what was saved, or what was found afterwards, was not reported"
    if saved[0] == saved[1]:
        return f"{_kill(one)}: both checkpoints hold the same bits, so that one cannot be told from the other"
    if one.data.get("killed") and (one.amount("after") is None or not one.amount("usual")):
        return f"{_kill(one)}: when in the save it was killed was not reported"
    second = fields.sub(look, "found", f"step-{steps[1]}")
    if not one.data.get("killed") and second.get("marked") is not True:
        return f"{_kill(one)}: step-{steps[1]} is not complete although nobody was killed"
    return ""


def in_save(one: Told) -> bool:
    """Report whether the save of a round was not over when its rank was killed."""
    second = _steps(one)[-1:]
    found = fields.sub(one.data, "look", "found")
    return one.data.get("ended") is not True and not any(
        fields.sub(found, f"step-{step}").get("marked") for step in second
    )


def _wrong(one: Told) -> tuple[str, Cause] | None:
    """Return what a round left that must not be, None where all is well or nothing is known."""
    look = fields.sub(one.data, "look")
    if one.data.get("error") or look.get("error") or "found" not in look:
        return None
    found: Mapping[str, Any] = fields.sub(look, "found")
    steps, latest = _steps(one), str(look.get("latest") or "")
    for name in sorted(found):
        odd = _unlike(one, name, fields.sub(found, name))
        if odd and fields.sub(found, name).get("marked") is True:
            cause = (
                OVERWRITTEN if steps and name == f"step-{steps[0]}" and one.data.get("killed") else EARLY_MARK
            )
            return f"{name} has a commit mark, but {odd}", cause
    if steps and fields.sub(found, f"step-{steps[0]}").get("marked") is not True:
        return f"step-{steps[0]}, which was complete, is so no more", OVERWRITTEN
    if not latest:
        return "`latest` names nothing", LOST_POINTER
    over = steps[-1:] if one.data.get("ended") is True and one.data.get("killed") else []
    if over and fields.sub(found, f"step-{over[0]}").get("marked") is not True:
        return f"step-{over[0]}, whose save was over before the kill, is not complete", NOT_KEPT
    pointed = fields.sub(found, latest)
    if pointed.get("marked") is not True:
        return f"`latest` names {latest}, which is not complete", EARLY_POINTER
    newest = steps[-1:] if over or not one.data.get("killed") else []
    if (
        newest
        and latest != f"step-{newest[0]}"
        and fields.sub(found, f"step-{newest[0]}").get("marked") is True
    ):
        return f"`latest` names {latest}, and the save of step-{newest[0]} was over", STALE_POINTER
    return None


def _unlike(one: Told, name: str, held: Mapping[str, Any]) -> str:
    """Return how what a checkpoint holds differs from what was saved, "" where it does not."""
    problem = str(held.get("problem") or "")
    if problem:
        return f"cannot be loaded: {wording.short(problem, 200)}"
    step = name.partition("-")[2]
    saved = fields.sub(one.data, "digests").get(step)
    if saved is None:
        return "nobody saved it"
    if str(held.get("step")) != step:
        return f"it holds step {held.get('step')}"
    return "" if held.get("digests") == saved else "it holds other bits"


def _steps(one: Told) -> list[int]:
    return sorted(int(step) for step in fields.sub(one.data, "digests") if str(step).isdigit())


def _kill(one: Told) -> str:
    killed = one.data.get("killed")
    if not isinstance(killed, list) or not killed:
        return "before any kill"
    who = wording.listed([str(rank) for rank in killed])
    return f"rank {who} killed {one.amount('after') or 0.0:.3g} s after the start of a save"
