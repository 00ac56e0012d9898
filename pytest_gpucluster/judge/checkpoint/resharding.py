"""CKPT-002: a checkpoint loads on another number of ranks, bit for bit, and holds what was saved."""

from collections.abc import Mapping, Sequence

from pytest_gpucluster.evidence.hardware import checkpoints
from pytest_gpucluster.evidence.hardware.checkpoints import Told
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.checkpoint import shared
from pytest_gpucluster.requirement import Cause, Finding

REQUIRED = (
    "each checkpoint loads on another number of ranks with the same bits in every tensor, which are those of the "
    "step at which it was asked for"
)
LATER = Cause(
    "the asynchronous save returned before the state was copied, and training changed what was not written yet",
    "copy the state before the call returns (a stager that copies tensors on the CPU too), or wait for the future "
    "before the next step",
)
SWAPPED = Cause(
    "parts of the checkpoint lie in each other's place: files were renamed or copied to the wrong names",
    "copy checkpoints as a whole and keep the names of their files; compare checksums on both sides",
)
CHANGED = Cause(
    "what is read is not what was written: a damaged disk or transfer, files of two checkpoints in one folder, or a "
    "volume that shows old pages",
    "read the files on both nodes and compare checksums; give each checkpoint a folder of its own",
)
MISSING = Cause(
    "a file of the checkpoint is missing: it was not copied, was removed, or lies on a disk that only its writer sees",
    "look for the file on the volume from both nodes; checkpoints of several nodes need a volume that all of them "
    "share (ReadWriteMany)",
)
CUT = Cause(
    "a file of the checkpoint is shorter than it was: a copy ended early, or it was written without fsync before a "
    "crash",
    "compare the sizes on both sides; synchronise files before the checkpoint counts as complete",
)
OTHER_MODEL = Cause(
    "the checkpoint is of a model of another shape",
    "load it with the model that it was saved from; name checkpoints by their model",
)
UNSEEN = Cause(
    "the node of the ranks that load does not see the volume of those that saved",
    "use a volume that all nodes share (ReadWriteMany, a parallel file system); look at what both mount",
)
UNFINISHED = Cause(
    "the checkpoint has no commit mark: its save did not come to its end",
    "load the checkpoint that `latest` names; a folder without .metadata is none",
)
UNCHANGED = Cause(
    "training does not change the state, or digests do not see it: that values of the right step were saved is not "
    "shown",
    "use a larger rate or fp32 for the model that is saved (storage.model.format)",
)
READ = Cause("loading raised an error that is not known here", "read the error, and try to load it alone")

ERRORS: Sequence[tuple[tuple[str, ...], Cause]] = (
    (("metadata is None", "metadata read failed"), UNFINISHED),
    (("FileNotFoundError", "No such file"), MISSING),
    (
        ("unexpected EOF", "EOFError", "PytorchStreamReader", "failed finding central directory", "truncated",
         "not a ZIP", "pickle data was truncated", "invalid header"),
        CUT,
    ),
    (("Size mismatch", "size mismatch", "Missing key", "unexpected key", "ValueError: Missing"), OTHER_MODEL),
)  # fmt: skip
"""Parts of what loading raised -> what it says of the checkpoint."""


@subjects.judge
def loads_elsewhere(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge CKPT-002."""
    saved, saving = shared.told(evidence, given, "saved", "save")
    loaded, gang = shared.told(evidence, given, "loaded", "load")
    say = wording.Findings(REQUIRED, gang)
    saved = tuple(one for one in saved if one.data.get("how") != "local")
    if not saved:
        return shared.nobody(evidence, saving, wording.Findings(REQUIRED, saving), "a save")
    found, _ = shared.told(evidence, given, "found", "load")
    if not loaded and not found:
        return shared.nobody(evidence, gang, say, "a load")
    wanted, loads = checkpoints.by_step(saved), checkpoints.by_step(loaded)
    more = {"evidence": shared.keys((*loaded, *saved))}
    names = {str(name) for one in found for name in _names(one)}
    for step, lines in wanted.items():
        if found and f"step-{step}" not in names:
            shown = f"in {wording.listed(sorted(names))}" if names else "in an empty folder"
            text = f"{found[0].place} does not see checkpoint step-{step}: it looked {shown}"
            return say.fail(text, UNSEEN, violation=True, where=shared.places(found), **more)
        wrong = _wrong(step, lines, loads.get(step, ()))
        if wrong is not None:
            text, cause, told = wrong
            return say.fail(text, cause, violation=True, where=shared.places(told), **more)
    same = unchanged(saved)
    if same:
        return say.inconclusive(same, UNCHANGED, **more)
    doubt = _doubt(wanted, loads, given)
    if doubt:
        return say.inconclusive(doubt, shared.NO_LINE, **more)
    worlds = f"{saved[0].word.number('world')} ranks saved, {loaded[0].word.number('world')} loaded"
    layers = len(loaded[0].digests)
    kinds = ", ".join(f"step-{step} ({lines[0].data.get('how')})" for step, lines in wanted.items())
    return say.passed(f"{worlds}: {kinds} the same in all bits of {wording.count(layers, 'layer')}", **more)


def _wrong(step: int, saved: Sequence[Told], loaded: Sequence[Told]) -> tuple[str, Cause, list[Told]] | None:
    """Return what is wrong with a checkpoint that was loaded, None where nothing is."""
    broken = [one for one in loaded if one.data.get("problem")]
    if broken:
        # The rank that raised it says more than those that only heard of it.
        one = next((one for one in broken if "another rank" not in str(one.data["problem"])), broken[0])
        problem = str(one.data["problem"])
        return (
            f"{one.place} cannot load step-{step}: {wording.short(problem, 300)}",
            of_error(problem),
            broken,
        )
    for one in loaded:
        if one.word.number("step") != step:
            return f"{one.place}: step-{step} holds step {one.data.get('step')}", CHANGED, [one]
        odd = differs(saved[0], one)
        if odd:
            cause = _cause(saved[0], one)
            after = "; they are those of a later step" if cause is LATER else ""
            return f"{one.place}: step-{step} holds other bits in {odd}{after}", cause, [one]
    return None


def of_error(problem: str) -> Cause:
    """Return what an error of loading says of the checkpoint."""
    found = next((cause for parts, cause in ERRORS if any(part in problem for part in parts)), None)
    return found or shared.of_volume(problem) or READ


def differs(saved: Told, loaded: Told) -> str:
    """Return the layers whose bits are not those that were saved, "" for none."""
    pairs = zip(saved.digests, loaded.digests, strict=False)
    odd = [number for number, (was, now) in enumerate(pairs) if was != now]
    if odd:
        shown = wording.listed([f"layer {number}" for number in odd], 4)
        first = odd[0]
        return f"{shown} ({loaded.digests[first]}, expected {saved.digests[first]})"
    if len(saved.digests) != len(loaded.digests):
        return f"{len(loaded.digests)} layers, expected {len(saved.digests)}"
    return ""


def _cause(saved: Told, loaded: Told) -> Cause:
    """Return why a checkpoint holds other bits."""
    later = saved.data.get("later")
    odd = [
        at for at, now in enumerate(loaded.digests) if at >= len(saved.digests) or now != saved.digests[at]
    ]
    if isinstance(later, list) and any(at < len(later) and loaded.digests[at] == later[at] for at in odd):
        return LATER
    if odd and {loaded.digests[at] for at in odd} <= set(saved.digests):
        return SWAPPED
    return CHANGED


def unchanged(saved: Sequence[Told]) -> str:
    """Return which states are one and the same, so that what is loaded proves nothing; "" for none."""
    seen: dict[tuple[str, ...], int | None] = {}
    for one in saved:
        if one.digests and seen.setdefault(one.digests, one.step) != one.step:
            return f"step-{seen[one.digests]} and step-{one.step} are the same in all bits"
        if one.digests and one.data.get("later") == list(one.digests):
            return f"the state of step-{one.step} did not change while it was saved"
    return ""


def _doubt(
    wanted: Mapping[int, Sequence[Told]], loads: Mapping[int, Sequence[Told]], given: subjects.Given
) -> str:
    """Return why loads that look right do not show that every checkpoint loads elsewhere."""
    world, load_world = subjects.count(given, "world"), subjects.count(given, "load_world")
    for step, lines in wanted.items():
        missing = shared.absent(lines, world or lines[0].word.number("world"))
        if missing:
            return f"save of step-{step}: {missing}"
        loaded = loads.get(step, ())
        missing = shared.absent(loaded, load_world or (loaded[0].word.number("world") if loaded else None))
        if missing:
            return f"load of step-{step}: {missing}"
        bare = next((one for one in loaded if one.data.get("complete") is not True), None)
        if bare is not None:
            return f"{bare.place} loaded step-{step} and saw no commit mark (.metadata)"
        if not lines[0].digests or any(one.digests != lines[0].digests for one in lines):
            return f"ranks report different states of step-{step}"
        worlds = {one.word.number("world") for one in loaded}
        if worlds & {one.word.number("world") for one in lines}:
            return f"step-{step} was loaded by as many ranks as saved it"
    beside = [one for lines in wanted.values() for one in lines if one.data.get("how") == "async"]
    if not beside:
        return "no rank reported a save beside training"
    untold = next((one for one in beside if not _tells_later(one)), None)
    if untold is not None:
        return f"{untold.place} does not tell which state training had reached when step-{untold.step} was written"
    return ""


def _tells_later(one: Told) -> bool:
    """Report whether a rank that saved beside training tells the state after it, layer by layer."""
    later = one.data.get("later")
    return (
        isinstance(later, list)
        and len(later) == len(one.digests)
        and all(isinstance(d, str) and d for d in later)
    )


def _names(one: Told) -> list[object]:
    told = one.data.get("names")
    return told if isinstance(told, list) else []
