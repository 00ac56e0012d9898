"""Errors in a log as reasons: the one that decides first, with who printed it; what follows from it behind it."""

from collections.abc import Iterable, Iterator

from pytest_gpucluster.measure.nccl import advice, faults, remedies
from pytest_gpucluster.measure.nccl.facts import Facts
from pytest_gpucluster.measure.nccl.observations import Member
from pytest_gpucluster.measure.nccl.reasons import Reason, few, listed, unseen, wrong
from pytest_gpucluster.measure.nccl.troubles import Told
from pytest_gpucluster.plain.shortening import shown

RESULTS = {
    1: "unhandled CUDA error", 2: "unhandled system error", 3: "internal error", 4: "invalid argument",
    5: "invalid usage", 6: "remote process exited or there was a network error",
}  # fmt: skip
"""What a call of NCCL returns that failed."""
ENDED = frozenset({"COMPLETE", "DESTROY", "ABORT"})
"""What is printed of a communicator that was made."""
_QUOTED = 3


def violations(facts: Facts) -> Iterator[Reason]:
    """Return the errors after which no collective works."""
    fatal = [one for one in facts.troubles if one.fatal]
    loud = [one for one in facts.unknown if one.fatal]
    root = next((one for one in fatal if not one.follows), None)
    if fatal and root is not fatal[0]:
        root = None
    if fatal and root is None and not loud:
        yield from _before(facts, fatal[0])
    yield from _by_kind(facts, fatal, root, alone=not loud)
    for one in loud[:_QUOTED]:
        said = (
            f", and the call failed with {RESULTS[one.result]}"
            if one.result
            else ", and the communicator was aborted"
        )
        yield wrong(
            f"a warning {who(facts, (one,))}{said}: {shown(one.fault.detail)}",
            () if root else (advice.FIRST,),
        )
    if "mixed_versions" in facts.errors and not any(one.kind == "mixed_versions" for one in fatal):
        yield wrong(
            f"mixed_versions: {', '.join(facts.versions)}", remedies.of(faults.Fault("mixed_versions"))
        )
    yield from _aborted(facts, explained=bool(fatal or loud))


def _before(facts: Facts, first: Told) -> Iterator[Reason]:
    """Return what went wrong before an error that only follows from others: the first sign of what they were.

    A network that did not start is none where another carried the traffic.
    """
    carried = any(path.carrier for path in facts.paths)
    signs = [
        one for one in facts.troubles if not one.fatal and not (carried and one.kind in faults.OTHER_NETWORK)
    ]
    for one in sorted((*facts.unknown, *signs), key=lambda each: each.order):
        sooner = _sooner(one, first) if one.kind != "hint" else False
        if sooner is False:
            continue
        how = "the first sign of trouble is" if sooner else "a sign of trouble, of an unknown time, is"
        text = f"{one.kind or 'a warning'} {who(facts, (one,))}".rstrip()
        known = remedies.of(one.fault, amd=facts.seen.rocm) if one.kind else ()
        yield wrong(f"{how} {text}: {shown(one.fault.detail)}", (*known, advice.SIGN))
        return


def _sooner(one: Told, other: Told) -> bool | None:
    """Report whether one came before another: by their times, else by their places in the log of one host.

    None where that is not told: logs of several hosts stand one behind the other.
    """
    if one.moment is not None and other.moment is not None:
        return one.moment <= other.moment
    if one.host and other.host and one.host != other.host:
        return None
    return one.order < other.order


def _by_kind(facts: Facts, fatal: list[Told], root: Told | None, *, alone: bool) -> Iterator[Reason]:
    for kind in dict.fromkeys(one.kind for one in fatal):
        same = [one for one in fatal if one.kind == kind]
        first = same[0]
        fault = facts.fault[kind][0] if kind in facts.fault else first.fault
        telling = next((one for one in same if one.fault == fault), first)
        follows = root is not None and telling.follows
        place = who(facts, same if kind == "watchdog_timeout" else _of_one_error(same, telling))
        late = _later(root, telling) if follows else ""
        text = f"{kind} {place}: {shown(fault.detail)}" if place else f"{kind}: {shown(fault.detail)}"
        if follows:
            yield wrong(f"follows{late}: {text}", ())
        elif alone or kind != "nccl_result":
            yield wrong(text, remedies.of(fault, amd=facts.seen.rocm))


def _of_one_error(same: list[Told], telling: Told) -> list[Told]:
    """Return those that print much the same: the same class with the same number."""
    return [
        telling,
        *(one for one in same if one is not telling and one.fault.status == telling.fault.status),
    ]


def _later(root: Told | None, one: Told) -> str:
    if root is None or root.moment is None or one.moment is None:
        return ""
    seconds = (one.moment - root.moment).total_seconds()
    return f", {seconds:.0f} s later" if seconds >= 1 else ""


def _aborted(facts: Facts, *, explained: bool) -> Iterator[Reason]:
    ranks = sorted({rank for _, rank in facts.seen.aborts})
    if not ranks:
        return
    text = f"the communicator was aborted on {listed(ranks, facts)}"
    if explained or facts.nranks is None or len(ranks) < facts.nranks:
        yield wrong(text, () if explained else (advice.ABORTED,))


def not_good(facts: Facts) -> Iterator[Reason]:
    """Return what is no error that is known, and no good news."""
    mute = [one for one in facts.unknown if not one.fatal]
    for one in mute[:_QUOTED]:
        yield unseen(
            f"{f'unknown meaning {who(facts, (one,))}'.rstrip()}: {shown(one.fault.detail)}",
            (advice.UNKNOWN_WARNING,),
        )
    if len(mute) > _QUOTED:
        yield unseen(
            f"{len(mute) - _QUOTED} more warnings or errors of unknown meaning", (advice.UNKNOWN_WARNING,)
        )
    for kind in ("ib_open_failed", "mixed_net_count"):
        same = [one for one in facts.troubles if one.kind == kind and "Ignoring" not in one.fault.detail]
        if same:
            yield unseen(f"{kind} {who(facts, same)}: {shown(same[0].fault.detail)}", (advice.UNEVEN,))
    if not mute and not any(one.fatal for one in (*facts.troubles, *facts.unknown)):
        for process, (where, code) in sorted(facts.seen.traces.items())[:_QUOTED]:
            text = (
                f"a call of NCCL failed on {process.host or '?'} ({where}: {RESULTS[code]}), without a reason"
            )
            yield unseen(text, (advice.UNKNOWN_WARNING,))
    yield from _unfinished(facts)
    ranks = {rank for _, rank in facts.seen.aborts}
    if ranks and facts.nranks is not None and len(ranks) >= facts.nranks:
        yield unseen("the communicator was aborted on all ranks", (advice.ABORTED,))


def _unfinished(facts: Facts) -> Iterator[Reason]:
    """Return the ranks that began to make a communicator and were not seen to end that, where the log shows an end.

    Without any end in the log it may stop in front of them: then the connections decide, which are made before.
    """
    members = facts.seen.members
    ended = {(m.process, m.comm.comm) for m in members if m.comm.phase in ENDED}
    begun = {
        m for m in members if ended and m.comm.phase == "START" and (m.process, m.comm.comm) not in ended
    }
    lone = {m.comm.rank for m in begun if m.comm.nranks == facts.nranks}
    if lone:
        text = f"nothing shows that the communicator was complete on {listed(sorted(lone), facts)}"
        yield unseen(text, (advice.UNFINISHED,))
    elif begun:
        ranks = say_ranks(begun)
        yield unseen(
            f"a communicator was begun, but nothing shows that it was complete: {ranks}", (advice.UNFINISHED,)
        )


def say_ranks(begun: Iterable[Member]) -> str:
    """Return the ranks of communicators with how many there are."""
    return few(sorted({f"rank {m.comm.rank} of {m.comm.nranks}" for m in begun}))


def who(facts: Facts, same: Iterable[Told]) -> str:
    """Return who printed something: ranks with their hosts, and the place in NCCL's source."""
    every = list(same)
    ranks = sorted({one.rank for one in every if one.rank >= 0})
    hosts = sorted({one.host for one in every if one.host})
    if len(ranks) == 1:
        known = facts.where(ranks[0])
        place = f"on {known}" + (f" on {hosts[0]}" if hosts and not facts.host_of(ranks[0]) else "")
    elif ranks:
        place = f"on {listed(ranks, facts)}"
    else:
        place = f"on {few([facts.machine(host) for host in hosts])}" if hosts else ""
    source = every[0].where if every else ""
    return f"{place} ({source})".strip() if source else place
