"""Remove kind clusters of ours: at the end of a run, when the next one begins, and for `gpucluster cleanup`."""

import contextlib
import dataclasses
from collections.abc import Iterable

from pytest_gpucluster.provider.kind import claims, engine, shared_disk
from pytest_gpucluster.provider.protocol import ProviderError

DELETE_LIMIT = 180.0


@dataclasses.dataclass(frozen=True)
class Due:
    """A cluster that is to go.

    Attributes:
        name: its name.
        why: why it may be removed.
        claim: what is known of it; None where only its name tells.
    """

    name: str
    why: str
    claim: claims.Claim | None


def remove(name: str) -> None:
    """Remove one cluster of ours, whatever state it is in; one that is gone already is a success.

    Raises:
        ProviderError: it could not be removed; the claim on it stays, so that `gpucluster cleanup` finds it.
    """
    with claims.locked(name):
        remove_unlocked(name)


def remove_unlocked(name: str) -> None:
    """Remove one cluster whose name the caller holds; otherwise as `remove`."""
    claim = claims.read(name)
    where = engine.find(claim.engine if claim else None)
    # A node that does not run any more cannot do it; what then stays is told below.
    with contextlib.suppress(ProviderError):
        shared_disk.empty(name, where)
    where.ask_kind("delete", "cluster", "--name", name, limit=DELETE_LIMIT)
    claims.forget(name)
    left = claims.shared_folder(name)
    if left.exists():
        raise ProviderError(f"it is gone, but {left} holds files of root: remove the folder as root")


def remove_orphans() -> list[str]:
    """Remove the clusters whose runs were killed; return what could not be removed, one line each."""
    failed = []
    for claim in claims.all_claims():
        if claim.orphaned or _gone(claim):
            try:
                _remove_unless_used(claim.name)
            except ProviderError as error:
                failed.append(f"kind cluster {claim.name}: {error}")
    return failed


def _remove_unless_used(name: str) -> None:
    """Remove a cluster that nobody holds and that is still nobody's: another run may have begun to make it anew."""
    with claims.locked_at_once(name) as held:
        claim = claims.read(name)
        if held and claim is not None and (claim.orphaned or _gone(claim)):
            remove_unlocked(name)


def _gone(claim: claims.Claim) -> bool:
    """Report whether a cluster was removed by hand; no where its engine does not answer."""
    try:
        return claim.kept and claim.name not in engine.find(claim.engine).clusters()
    except ProviderError:
        return False


def due(run_id: str | None = None, names: Iterable[str] = ()) -> tuple[list[Due], list[str]]:
    """Return what may be removed, and what is ours and stays, one line each.

    Args:
        run_id: clusters of this run, whatever their state; None for those whose run was killed or whose time is over.
        names: names of the engine's clusters: one of ours without a claim is judged by its name.
    """
    found, kept = [], []
    known = claims.all_claims()
    for claim in known:
        why = _why(claim, run_id)
        if why:
            found.append(Due(claim.name, why, claim))
        elif run_id is None:
            state = "is kept on purpose" if claim.kept else f"expires {claim.expires}"
            kept.append(f"kind cluster {claim.name} of run {claim.run}: {state}")
    claimed = {claim.name for claim in known}
    for name in names:
        age = claims.made_at(name)
        if run_id is None and name not in claimed and age is not None:
            if age > claims.EXPIRES_AFTER:
                found.append(Due(name, f"made {age / 3600:.0f} h ago, its maker is not known", None))
            else:
                kept.append(f"kind cluster {name}: not made by this plugin, {age / 60:.0f} min old")
    return found, kept


def _why(claim: claims.Claim, run_id: str | None) -> str:
    if run_id is not None:
        return f"of run {claim.run}" if claim.run == run_id else ""
    if claim.orphaned:
        return f"its run {claim.run} has ended without removing it"
    return "expired" if claim.expired else ""
