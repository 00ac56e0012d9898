"""The controller that gives an aggregated ClusterRole the rules of those that its selectors match."""

from typing import Any

from pytest_gpucluster.embedded.objects import Obj, labels_of, name_of
from pytest_gpucluster.embedded.runtime import Runtime
from pytest_gpucluster.embedded.store import Store
from pytest_gpucluster.plain.copies import clone
from pytest_gpucluster.plain.selectors import SelectorError, matches_labels


class AggregationController:
    """Keeps the rules of aggregated ClusterRoles; what somebody writes there by hand is overwritten."""

    def __init__(self, store: Store) -> None:
        """Control the ClusterRoles of a store."""
        self._store = store

    async def run(self) -> None:
        """Follow ClusterRoles until cancelled."""
        with self._store.subscribe(["ClusterRole"]) as changes:
            while await changes.batch():
                self._sync()

    def _sync(self) -> None:
        roles = self._store.peek_all("ClusterRole")
        for role in roles:
            selectors = (role.get("aggregationRule") or {}).get("clusterRoleSelectors")
            if selectors is None:
                continue
            rules = _rules(roles, name_of(role), selectors)
            if rules != (role.get("rules") or []):
                self._store.mutate("ClusterRole", None, name_of(role), _replace(rules))


def _rules(roles: list[Obj], own: str, selectors: list[Obj]) -> list[Obj]:
    """Return the rules of the matching roles by name, each once, as the API server's controller does."""
    found: list[Obj] = []
    for selector in selectors:
        for role in roles:
            if name_of(role) != own and _matches(selector, role):
                found += [rule for rule in role.get("rules") or [] if rule not in found]
    return clone(found)


def _matches(selector: Obj, role: Obj) -> bool:
    try:
        return matches_labels(selector, labels_of(role))
    except SelectorError:
        return False


def _replace(rules: list[Obj]) -> Any:
    def change(role: Obj) -> None:
        role["rules"] = rules

    return change


def start(runtime: Runtime) -> None:
    """Run the controller."""
    runtime.spawn(AggregationController(runtime.store).run(), "clusterrole aggregation controller")
