"""The proof that a session left nothing: which kinds were looked through, and that its pods are gone, not only deleted.

What cleanup did is no proof: it knows what it made, not what is there. Here the cluster is asked once more.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from pytest_gpucluster.kube import errors, objects
from pytest_gpucluster.kube import permissions as rights
from pytest_gpucluster.kube.errors import LeftOver
from pytest_gpucluster.plain import names, plurals
from pytest_gpucluster.scenario import spec, sweep

if TYPE_CHECKING:
    from pytest_gpucluster.scenario import log as logs
    from pytest_gpucluster.scenario import namespace as namespaces


@dataclasses.dataclass(frozen=True)
class Proof:
    """What was found when the cluster was asked once more.

    Attributes:
        lines: how it is known that nothing is left, or what could not be seen, a line each.
        left: what is still there all the same.
    """

    lines: tuple[str, ...]
    left: tuple[LeftOver, ...]


def look(
    api: objects.Objects,
    log: "logs.SessionLog",
    home: "namespaces.Namespace",
    granted: rights.Rights,
    scenarios: Mapping[str, spec.Scenario],
    *,
    removed: bool,
) -> Proof:
    """Look through the cluster for what a session made, when all was removed.

    Args:
        api: the verbs.
        log: the session's log, whose watches go on.
        home: the session's namespace.
        granted: what the session may do.
        scenarios: those that this session ran, by name; other sessions of the run may still have objects of theirs.
        removed: whether the namespace was seen to go.
    """
    lines, left = _pods(log, home, removed=removed)
    if home.made and removed:
        lines.append(f"Namespace: {home.name} was seen to go, with all that was in it")
    seen: list[str] = []
    for key in _outside(scenarios.values()):
        info = objects.table_row(key)
        if granted.missing(rights.on(info, "list")):
            lines.append(f"{key}: not looked through: this account may not list it")
            continue
        try:
            found = api.list(info, labels=f"{names.LABEL_RUN}={home.run_id}")
        except errors.GpuClusterError as error:
            lines.append(f"{key}: not looked through: {error}")
            continue
        seen.append(key)
        own = [
            str(one["metadata"]["name"])
            for one in found
            if one["metadata"]["labels"].get(names.LABEL_SCENARIO) in scenarios
        ]
        left += [LeftOver(key, "", name, "still there after the cleanup") for name in own]
    if seen:
        lines.append(f"looked through outside namespaces: {', '.join(seen)}")
    return Proof(tuple(lines), tuple(left))


def _outside(scenarios: Iterable[spec.Scenario]) -> list[str]:
    """Return the cluster-scoped kinds that scenarios may make: of others nothing can be there."""
    made = {
        (each.group, each.resource)
        for scenario in scenarios
        for text in scenario.needs.permissions
        for each in rights.parse(text)
        if each.verb == "create"
    }
    rows = [(key, objects.table_row(key)) for key in sweep.CLUSTER_SCOPED]
    return [key for key, info in rows if (info.group, info.plural) in made]


def _pods(
    log: "logs.SessionLog", home: "namespaces.Namespace", *, removed: bool
) -> tuple[list[str], list[LeftOver]]:
    """Return what became of the pods of the session: gone is what a watch saw go, or what went with its namespace."""
    made = dict(_made(log, home))
    with log.condition:
        gone = set(made) if removed else {uid for uid in made if uid in log.state.gone}
    left = [LeftOver("Pod", home.name, made[uid], "still there") for uid in made if uid not in gone]
    if left:
        # A namespace of ours that stays is a left-over itself.
        told = [f"Pod: {len(gone)} of {len(made)} that were made in {home.name} are gone"]
        return told, [] if home.made else left
    counted = plurals.count(len(made), "pod")
    return [f"Pod: {counted} made in {home.name}, all gone" if made else f"Pod: none made in {home.name}"], []


def _made(log: "logs.SessionLog", home: "namespaces.Namespace") -> Iterator[tuple[str, str]]:
    """Yield uid and name of each pod of ours; in a namespace that was lent there are others."""
    for entry in log.entries():
        if (
            entry.kind == "Pod"
            and entry.uid
            and entry.namespace == home.name
            and (home.made or entry.scenario)
        ):
            yield entry.uid, entry.name
