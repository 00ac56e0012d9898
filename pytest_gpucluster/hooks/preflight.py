"""What a run will take and do on a cluster that exists, in one block, before it makes anything there."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpucluster.hooks import budget, plan
from pytest_gpucluster.plain import plurals, private
from pytest_gpucluster.requirement import REGISTRY

if TYPE_CHECKING:
    from pytest_gpucluster.hooks.run import Run
    from pytest_gpucluster.hooks.state import Selection


def lines(run: "Run", selection: "Selection") -> Iterator[str]:
    """Yield the block; nothing for a cluster that is made for the run."""
    profile = run.loaded.profile
    if profile.provider != plan.EXISTING or profile.connection is None:
        return
    rows, undeclared = budget.applying(map(REGISTRY.get, selection.selected), profile)
    first = {row.scenario.name: row for row in rows}
    own = [
        case["needs"]
        for nodeid, case in selection.site_tests.items()
        if nodeid not in selection.site_left_out
    ]
    costs = [budget.cost(row) for row in first.values()]
    costs += [(needs["gpus"] * needs["seconds"], needs["seconds"]) for needs in own]
    nodes = max([*(budget.nodes_of(row, profile) for row in rows), *(int(each["nodes"]) for each in own), 0])
    gpus = max(
        [*(int(getattr(getattr(row.scenario, "needs", None), "gpus", 0)) for row in first.values()),
         *(int(each["gpus"]) for each in own), 0]
    )  # fmt: skip
    beside = f" and {plurals.count(len(own), 'test')} of the site's own" if own else ""
    told = {
        "context": f"{profile.connection.context} ({profile.connection.kubeconfig})",
        "rows": f"{len(rows)} from {plurals.count(len(first), 'scenario')}{beside}",
        "uses": f"at most {plurals.count(nodes, 'node')} and {gpus} {profile.gpu_resource} at the same time",
        "costs": f"about {sum(one[0] for one in costs):.0f} GPU-seconds, {sum(one[1] for one in costs):.0f} s; image "
        "pulls and other tenants come on top",
    }
    yield f"gpucluster: before anything is made on {profile.name}:"
    for name, text in told.items():
        yield f"  {name:<12}{text}"
    for line in plan.do_not_apply(undeclared):
        yield f"  {'not applied':<12}{line}"
    for limit in plan.limits(run.settings):
        yield f"  {'limit':<12}{limit}"
    for line in plan.altogether([row.scenario for row in first.values()], profile):
        yield f"  {line[:14].strip():<12}{line[14:]}"
    yield f"  {'':<12}restarts no node"


def hand_over(folder: Path, block: Sequence[str]) -> None:
    """Leave the block of a worker to its controller, beside the folder of the run, which is not made yet."""
    path = _path(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(block), encoding="utf-8")
    path.chmod(private.FILE)


def taken_over(folder: Path) -> list[str]:
    """Return the block that a worker left, once; none if there is none."""
    path = _path(folder)
    if not path.is_file():
        return []
    try:
        return path.read_text(encoding="utf-8").splitlines()
    finally:
        path.unlink()


def _path(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.before")
