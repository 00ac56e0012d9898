"""Departures of checkpoints and of what they are kept on."""

from collections.abc import Callable
from typing import Any

from pytest_gpucluster.evidence.log.model import Evidence, Line
from pytest_gpucluster.mutants import base

Change = Callable[[dict[str, Any]], None]
Fits = Callable[[dict[str, Any]], bool]
NO_FILE = "FileNotFoundError: [Errno 2] No such file or directory: '/checkpoints/step-10/__1_0.distcp'"
CUT = "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory"
OTHER = "ValueError: Size mismatch between saved torch.Size([512, 512]) and current: torch.Size([1024, 1024])"
ENOSPC = "OSError: [Errno 28] No space left on device"


def one(event: str, change: Change, fits: Fits = lambda told: told.get("rank") == 1) -> base.Act:
    """Return the mutant that changes the facts of an event that fit; those of rank 1 unless others are asked for."""

    def act(_: Line, told: dict[str, Any]) -> dict[str, Any]:
        if told.get("event") == event and fits(told):
            change(told)
        return told

    return lambda evidence: base.words(evidence, act)


def all_of(event: str, change: Change) -> base.Act:
    """Return the mutant that changes every fact of an event."""
    return one(event, change, lambda _: True)


def saved(how: str, change: Change, rank: int = 0) -> base.Act:
    """Return the mutant that changes what one rank told of a save."""
    return one("saved", change, lambda told: told["how"] == how and told["rank"] == rank)


def loaded(step: int, change: Change) -> base.Act:
    """Return the mutant that changes what every rank told of loading a checkpoint."""
    return one("loaded", change, lambda told: told["name"] == f"step-{step}")


def gone(event: str, fits: Fits) -> base.Act:
    """Return the mutant that takes the facts of an event that fit away."""
    return lambda evidence: base.words(
        evidence, lambda _, told: None if told.get("event") == event and fits(told) else told
    )


def failed(during: str, error: str, events: tuple[str, ...]) -> base.Act:
    """Return the mutant in which every rank that saves fails of the volume, and tells nothing after it."""

    def act(_: Line, told: dict[str, Any]) -> dict[str, Any] | None:
        if told.get("event") == events[0]:
            kept = {
                key: told[key]
                for key in ("run", "attempt", "pod", "container", "t", "rank", "world", "local_rank", "host")
            }
            return {**kept, "event": "failed", "kind": "program", "during": during, "error": error}
        return None if told.get("event") in events else told

    return lambda evidence: base.words(evidence, act)


def problem(text: str) -> Change:
    """Return the change by which loading raises an error."""
    return lambda told: told.update(problem=text, step=-1, digests=[])


def swapped(told: dict[str, Any]) -> None:
    """Let two layers lie in each other's place."""
    first, second, *rest = told["digests"]
    told["digests"] = [second, first, *rest]


def bit(told: dict[str, Any]) -> None:
    """Let one layer hold other bits."""
    told["digests"][0] = "0123456789abcdef"


def later(evidence: Evidence) -> Evidence:
    """Let the asynchronous checkpoint hold a layer as it was when training had gone on."""
    after: list[str] = []

    def note(_: Line, told: dict[str, Any]) -> dict[str, Any]:
        if told.get("event") == "saved" and told.get("how") == "async":
            after[:] = told["later"]
        return told

    base.words(evidence, note)
    return loaded(20, lambda told: told["digests"].__setitem__(0, after[0]))(evidence)


def met(told: dict[str, Any]) -> bool:
    """Report whether a line tells of a kill."""
    return bool(told.get("killed"))


def look(change: Callable[[dict[str, Any], list[str]], None]) -> base.Act:
    """Return the mutant that changes what was found after each kill; steps in order, the first one was complete."""

    def act(told: dict[str, Any]) -> None:
        change(told["look"], [f"step-{step}" for step in sorted(told["digests"], key=int)])

    return one("killed", act, met)


def pointer_first(found: dict[str, Any], names: list[str]) -> None:
    """Let `latest` name the checkpoint whose save was killed, which is not complete."""
    found["latest"] = names[1]
    found["found"][names[1]] = {
        "marked": False,
        "problem": "AssertionError: metadata is None",
        "step": -1,
        "digests": [],
    }


def mark_first(found: dict[str, Any], names: list[str]) -> None:
    """Let the checkpoint whose save was killed have a commit mark."""
    found["found"][names[1]] = {
        "marked": True,
        "problem": "EOFError: Ran out of input",
        "step": -1,
        "digests": [],
    }


def overwritten(found: dict[str, Any], names: list[str]) -> None:
    """Let the complete checkpoint be gone."""
    found["found"].pop(names[0])


def speed(change: Change) -> base.Act:
    """Return the mutant that changes figures of all ranks at once."""
    return one("storage", change, lambda told: told["part"] == "together")


def slower(what: str) -> Change:
    """Return the change that makes the volume a thousand times slower."""
    return lambda told: told.update({what: told[what] * 1000, f"{what}_most": told[f"{what}_most"] * 1000})


def not_removed(evidence: Evidence) -> Evidence:
    """Let the pods that saved be there until the end."""

    def stays(line: Line) -> bool:
        return line.type == "DELETED" and str(line.object.get("metadata", {}).get("name", "")).startswith(
            "checkpoint-save-worker"
        )

    return base.without(evidence, stays) if evidence.header.get("scenario") == "checkpoint" else evidence


def on_writers_node(evidence: Evidence) -> Evidence:
    """Let the pod that loads run on a node that wrote."""

    def chosen(line: Line) -> bool:
        return (
            line.type in ("ADDED", "MODIFIED", "DELETED")
            and line.kind == "Pod"
            and "checkpoint-load" in line.name
        )

    def move(obj: dict[str, Any]) -> None:
        if obj["spec"].get("nodeName"):
            obj["spec"]["nodeName"] = "gpu-0"

    return base.each(evidence, chosen, move) if evidence.header.get("scenario") == "checkpoint" else evidence


def _memory(growth: int) -> Change:
    return lambda told: told["memory"].update(growth=growth)


AFTER = ("saved", "read", "paused", "storage", "done", "flushed", "loaded", "found")

MUTANTS: base.Table = {
    "checkpoint.gathers": base.Mutant(
        "rank 0 has the whole state in memory while it saves",
        saved("sync", _memory(101_000_000)),
        {"CKPT-001": "fail"},
    ),
    "checkpoint.writes-all": base.Mutant(
        "rank 0 writes all parts, rank 1 none",
        lambda evidence: saved("sync", lambda told: told.update(files={}), 1)(
            saved("sync", lambda told: told.update(files={"__0_0.distcp": 100_800_000}, handed=100_900_000))(
                evidence
            )
        ),
        {"CKPT-001": "fail"},
    ),
    "checkpoint.part-missing": base.Mutant(
        "rank 1 has no file in the checkpoint",
        saved("sync", lambda told: told.update(files={}), 1),
        {"CKPT-001": "fail"},
    ),
    "checkpoint.memory-unread": base.Mutant(
        "the kernel does not report the growth of a rank's memory",
        saved("sync", _memory(-1)),
        {"CKPT-001": "inconclusive"},
    ),
    "checkpoint.shard-missing": base.Mutant(
        "a file of the checkpoint is missing when it is loaded",
        loaded(10, problem(NO_FILE)),
        {"CKPT-002": "fail"},
    ),
    "checkpoint.cut": base.Mutant(
        "a file of the checkpoint is cut",
        loaded(10, problem(CUT)),
        {"CKPT-002": "fail"},
    ),
    "checkpoint.of-another-model": base.Mutant(
        "the checkpoint is of a model of another shape",
        loaded(10, problem(OTHER)),
        {"CKPT-002": "fail"},
    ),
    "checkpoint.swapped": base.Mutant(
        "two layers lie in each other's place", loaded(10, swapped), {"CKPT-002": "fail"}
    ),
    "checkpoint.other-bits": base.Mutant("a layer holds other bits", loaded(20, bit), {"CKPT-002": "fail"}),
    "checkpoint.later-values": base.Mutant(
        "the asynchronous checkpoint holds a layer of a later step", later, {"CKPT-002": "fail"}
    ),
    "checkpoint.later-untold": base.Mutant(
        "a rank does not tell which state training had reached while its asynchronous save was written",
        saved("async", lambda told: told.pop("later"), 1),
        {"CKPT-002": "inconclusive"},
    ),
    "checkpoint.unseen": base.Mutant(
        "the node that loads sees an empty volume",
        lambda evidence: gone("loaded", lambda _: True)(
            all_of("found", lambda told: told.update(names=[], latest=""))(evidence)
        ),
        {"CKPT-002": "fail", "CKPT-006": "inconclusive"},
    ),
    "checkpoint.same-world": base.Mutant(
        "as many ranks load as saved",
        lambda evidence: _given(
            gone("loaded", lambda told: told["rank"] == 2)(
                all_of("loaded", lambda told: told.update(world=2))(evidence)
            ),
            "load_world",
            2,
        ),
        {"CKPT-002": "inconclusive"},
    ),
    "checkpoint.pauses": base.Mutant(
        "a step beside the save takes a minute",
        one("paused", lambda told: told.update(longest=60.0, call=59.0)),
        {"CKPT-003": "fail"},
    ),
    "checkpoint.not-beside": base.Mutant(
        "all was written when the call returned",
        one("paused", lambda told: told.update(early=False)),
        {"CKPT-003": "inconclusive"},
    ),
    "checkpoint.slow-write": base.Mutant(
        "every node writes a thousand times slower while all do", speed(slower("write")), {"CKPT-004": "fail"}
    ),
    "checkpoint.slow-read": base.Mutant(
        "every node reads a thousand times slower while all do", speed(slower("read")), {"CKPT-004": "fail"}
    ),
    "checkpoint.damaged": base.Mutant(
        "a rank reads back other bytes than it wrote",
        speed(lambda told: told.update(same=False)),
        {"CKPT-004": "fail"},
    ),
    "checkpoint.cached": base.Mutant(
        "the pages of the files stay in memory",
        speed(lambda told: told.update(cached=told["bytes"])),
        {"CKPT-004": "inconclusive"},
    ),
    "checkpoint.on-tmpfs": base.Mutant(
        "the durable volume is memory",
        speed(lambda told: told["mount"].update(fs="tmpfs")),
        {"CKPT-004": "inconclusive"},
    ),
    "checkpoint.no-tail": base.Mutant(
        "the slowest block is not reported",
        speed(lambda told: told.pop("write_most")),
        {"CKPT-004": "inconclusive"},
    ),
    "checkpoint.pointer-first": base.Mutant(
        "`latest` names the checkpoint whose save was killed", look(pointer_first), {"CKPT-005": "fail"}
    ),
    "checkpoint.mark-first": base.Mutant(
        "an unfinished checkpoint has a commit mark", look(mark_first), {"CKPT-005": "fail"}
    ),
    "checkpoint.overwritten": base.Mutant(
        "the complete checkpoint is gone after the kill", look(overwritten), {"CKPT-005": "fail"}
    ),
    "checkpoint.no-pointer": base.Mutant(
        "`latest` is empty after the kill",
        look(lambda found, _: found.update(latest="")),
        {"CKPT-005": "fail"},
    ),
    "checkpoint.ended-save-lost": base.Mutant(
        "every save was over when its rank was killed, and is not there",
        one("killed", lambda told: told.update(ended=True), met),
        {"CKPT-005": "fail"},
    ),
    "checkpoint.kills-missed": base.Mutant(
        "every rank was killed before its save began",
        all_of("killed", lambda told: told.update(after=-1.0)),
        {"CKPT-005": "inconclusive"},
    ),
    "checkpoint.flushed-late": base.Mutant(
        "the flush takes ten minutes",
        all_of("flushed", lambda told: told.update(seconds=600.0)),
        {"CKPT-006": "fail"},
    ),
    "checkpoint.flushed-in-part": base.Mutant(
        "a node does not copy its file",
        all_of("flushed", lambda told: told.update(ok=False, missing=["__1_0.distcp"])),
        {"CKPT-006": "fail"},
    ),
    "checkpoint.flushed-other-bits": base.Mutant(
        "the copied checkpoint holds other bits", loaded(22, bit), {"CKPT-006": "fail"}
    ),
    "checkpoint.writers-stay": base.Mutant(
        "the pods that saved are there to the end", not_removed, {"CKPT-006": "inconclusive"}
    ),
    "checkpoint.on-writers-node": base.Mutant(
        "the checkpoint is loaded on a node that wrote it", on_writers_node, {"CKPT-006": "inconclusive"}
    ),
    "checkpoint.volume-full": base.Mutant(
        "the volume has no room for the checkpoint",
        failed("saving", ENOSPC, AFTER),
        {"CKPT-001": "fail", "CKPT-002": "fail", "CKPT-003": "fail", "CKPT-004": "fail", "CKPT-006": "fail"},
    ),
}


def _given(evidence: Evidence, key: str, value: object) -> Evidence:
    if evidence.header.get("scenario") != "checkpoint":
        return evidence
    header = {**evidence.header, "given": {**evidence.given, key: value}}
    return Evidence(evidence.lines, header=header, spans=evidence.spans)
