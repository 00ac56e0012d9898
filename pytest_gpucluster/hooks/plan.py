"""The plan of a run: what would be done, what it costs, what it needs, whom it touches."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_gpucluster.hooks import budget, state, waivers
from pytest_gpucluster.plain import components, plurals
from pytest_gpucluster.plain.names import SLOT_PREFIX
from pytest_gpucluster.requirement import REGISTRY, Requirement

EXISTING = "existing"
"""Provider of clusters whose nodes and queues a plan reads, to warn of what would end the run."""

if TYPE_CHECKING:
    from pytest_gpucluster.hooks.run import Run
    from pytest_gpucluster.hooks.settings import Settings
    from pytest_gpucluster.profile import Profile


def lines(run: "Run", selection: state.Selection) -> Iterator[str]:
    """Yield the lines of the plan.

    Args:
        run: the run that is planned.
        selection: what collection found.
    """
    profile = run.loaded.profile
    requirements, undeclared = budget.applying(map(REGISTRY.get, selection.selected), profile)
    by_scenario: dict[str, list[Requirement]] = {}
    for requirement in requirements:
        by_scenario.setdefault(requirement.scenario.name, []).append(requirement)
    own = {
        nodeid: case for nodeid, case in selection.site_tests.items() if nodeid not in selection.site_left_out
    }
    costs = [budget.cost(group[0]) for group in by_scenario.values()]
    costs += [
        (case["needs"]["gpus"] * case["needs"]["seconds"], case["needs"]["seconds"]) for case in own.values()
    ]
    beside = f" and {plurals.count(len(own), 'test')} of the site's own" if own else ""
    named = profile.name if profile.name == profile.provider else f"{profile.name} ({profile.provider})"
    yield (
        f"cluster {named}: {plurals.count(len(requirements), 'requirement')} from "
        f"{plurals.count(len(by_scenario), 'scenario')}{beside}, about {sum(c[1] for c in costs):.0f} s, "
        f"{sum(c[0] for c in costs):.0f} GPU-seconds"
    )
    for note in run.notes:
        yield f"warning       {note}"
    for name, group in by_scenario.items():
        yield from _scenario(name, group, profile)
    for nodeid, case in own.items():
        yield from _site_test(nodeid, case)
    yield from _not_run(selection.beyond_budget())
    if undeclared:
        yield ""
    for line in do_not_apply(undeclared):
        yield f"not applied   {line}"
    for limit in limits(run.settings):
        yield f"limit         {limit}"
    for line in waivers.lines(run.loaded):
        yield f"waivers       {line.removeprefix('gpucluster: ')}"
    yield ""
    yield from altogether([group[0].scenario for group in by_scenario.values()], profile)
    scenarios = [group[0].scenario for group in by_scenario.values()]
    for number, line in enumerate(_permissions(scenarios, profile)):
        yield f"{'permissions' if number == 0 else '':<14}{line}"
    yield f"{'times':<14}those of the embedded cluster; image pulls, real nodes and other tenants come on top"
    touched = "the cluster was only read" if profile.provider == EXISTING else "no cluster was touched"
    yield f"Nothing was run, and {touched}."


def do_not_apply(undeclared: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield why rows that were selected do not apply, each reason once: they take nothing."""
    for why, rows in undeclared.items():
        yield f"{plurals.count(len(rows), 'requirement')}: {why} ({', '.join(rows)})"


def limits(told: "Settings") -> Iterator[str]:
    """Yield what a run was told not to exceed."""
    if told.max_nodes is not None:
        yield f"at most {plurals.count(told.max_nodes, 'node')} at the same time (--gpucluster-max-nodes)"
    if told.max_gpu_seconds is not None:
        yield f"at most {told.max_gpu_seconds:g} GPU-seconds (--gpucluster-max-gpu-seconds)"
    if told.deadline is not None:
        yield f"no scenario is begun after {told.deadline:g} s (--gpucluster-deadline)"


def _site_test(nodeid: str, case: Mapping[str, Any]) -> Iterator[str]:
    needs = case["needs"]
    known = bool(needs["declared"])
    words = [*needs["capabilities"]]
    words += [
        plurals.count(needs[what], noun)
        for what, noun in (("nodes", "GPU node"), ("gpus", "GPU"))
        if needs[what]
    ]
    yield ""
    yield f"site test {nodeid}: {case['title']}"
    yield f"  needs         {', '.join(words) or ('nothing' if known else 'not declared (mark needs)')}"
    cost_text = f"about {needs['seconds']:.0f} s, {needs['gpus'] * needs['seconds']:.0f} GPU-seconds"
    yield f"  costs         {cost_text if needs['seconds'] else 'not declared (mark needs, seconds=)'}"


def _not_run(left_out: Mapping[str, str]) -> Iterator[str]:
    if left_out:
        yield ""
    yield from budget.lines(left_out)


def altogether(scenarios: Sequence[Any], profile: "Profile") -> Iterator[str]:
    """Say what the whole run does to a cluster that others use too."""
    needs = [found for each in scenarios if (found := getattr(each, "needs", None)) is not None]
    space = profile.namespace
    effects = [
        f"works in the namespace {space}, which it leaves empty"
        if space
        else "makes its own namespace for each worker and removes it"
    ]
    gpus = max((each.gpus for each in needs), default=0)
    if gpus:
        effects.append(f"holds at most {gpus} {profile.gpu_resource} at the same time")
    slots = max((each.slot_nodes for each in needs), default=0)
    if slots:
        effects.append(f"changes the status of at most {plurals.count(slots, 'node')} for each scenario")
    if any("create pods/eviction" in each.permissions for each in needs):
        effects.append("evicts pods of its own, and no others")
    made = dict.fromkeys(kind for each in needs for kind in _made_outside(each))
    if made:
        effects.append(f"makes and removes outside its namespace: {', '.join(made)}")
    for number, effect in enumerate(effects):
        yield f"{'others' if number == 0 else '':<14}{effect}"


def _made_outside(needs: Any) -> list[str]:
    """Return the cluster-scoped kinds that a scenario makes, from what it asks permission for."""
    from pytest_gpucluster.kube import kinds, permissions

    scoped = {(info.group, info.plural): info.kind for info in kinds.TABLE if not info.namespaced}
    asked = [each for text in getattr(needs, "permissions", ()) for each in permissions.parse(text)]
    return [
        scoped[each.group, each.resource]
        for each in asked
        if each.verb == "create" and (each.group, each.resource) in scoped
    ]


def _scenario(name: str, group: Sequence[Requirement], profile: "Profile") -> Iterator[str]:
    scenario: Any = group[0].scenario
    needs: Any = getattr(scenario, "needs", None)
    yield ""
    yield f"scenario {name}: {getattr(scenario, 'summary', '')}".rstrip(": ")
    yield f"  requirements  {', '.join(f'{r.id} ({r.level.value})' for r in group)}"
    yield f"  needs         {_needs(needs, profile)}"
    gpu_seconds, seconds = budget.cost(group[0])
    yield f"  costs         about {seconds:.0f} s, {gpu_seconds:.0f} GPU-seconds"
    permissions = [_placed(text, profile) for text in getattr(needs, "permissions", ())]
    if permissions:
        yield f"  permissions   {', '.join(permissions)}"
    yield f"  others        {_effect(needs, profile)}"


def _placed(permission: str, profile: "Profile") -> str:
    """Return a permission with the namespace of a component in place of its name."""
    for component in components.NAMESPACES:
        permission = permission.replace(
            f"{{{component}}}", components.namespace(component, profile.namespaces)
        )
    return permission


def _needs(needs: Any, profile: "Profile") -> str:
    if needs is None:
        return "not declared"
    parts = [plurals.count(needs.nodes, "node")]
    if needs.gpus:
        parts.append(f"{needs.gpus} {profile.gpu_resource}")
    if needs.slot_nodes:
        parts.append(f"{needs.slot_nodes} x {needs.slots_per_node} slots")
    if needs.pods_run:
        parts.append("pods that run")
    if needs.torch:
        parts.append("torch")
    return ", ".join(parts)


def _effect(needs: Any, profile: "Profile") -> str:
    """Say what other tenants of a shared cluster notice."""
    effects = []
    if getattr(needs, "gpus", 0):
        effects.append(
            f"holds {needs.gpus} {profile.gpu_resource} in queue {profile.runs_in} for about "
            f"{needs.gpu_seconds / needs.gpus:.0f} s"
        )
    if getattr(needs, "slot_nodes", 0):
        nodes = plurals.count(needs.slot_nodes, "node")
        effects.append(
            f"adds a resource under {SLOT_PREFIX}, which no other pod requests, to the status of {nodes}"
        )
    own = _made_outside(needs)
    if own:
        effects.append(f"makes and removes its own {' and '.join(dict.fromkeys(own))}")
    return "; ".join(effects) or "takes nothing from them"


def _permissions(scenarios: Sequence[Any], profile: "Profile") -> list[str]:
    """Return what must be granted, each resource with its verbs; `gpucluster rbac` prints the roles."""
    from pytest_gpucluster.scenario import permissions

    verbs: dict[str, list[str]] = {}
    wanted = permissions.of_run(scenarios, profile, namespace=profile.namespace)
    wanted |= permissions.of_proofs(scenarios, profile, namespace=profile.namespace)
    for each in sorted(wanted):
        verb, _, resource = str(each).partition(" ")
        verbs.setdefault(resource, []).append(verb)
    return [f"{', '.join(allowed)} {resource}" for resource, allowed in verbs.items()]
