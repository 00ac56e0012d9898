"""The scheduler's configuration: which actions run, in which order, and which plugins have a say in them."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

import yaml

from pytest_gpucluster.embedded.store import Store
from pytest_gpucluster.embedded.volcano import names

ACTIONS: Final = ("enqueue", "allocate", "backfill", "preempt", "reclaim")
"""Actions that are played; a configuration that names another is invalid."""

BUILT_IN: Final = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
"""
"""What v1.14.4 falls back to when its configuration is absent or invalid at the start."""


class SettingsError(ValueError):
    """A configuration that the scheduler does not take; the text says why."""


@dataclass(frozen=True)
class Plugin:
    """A plugin of a tier.

    Attributes:
        name: Its name.
        options: Its switches, such as `enablePreemptable`; one that is not named is on.
        arguments: Its arguments.
    """

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)

    def is_on(self, switch: str) -> bool:
        """Report whether a switch of it is on."""
        return self.options.get(switch) is not False


@dataclass(frozen=True)
class Settings:
    """A configuration as read.

    Attributes:
        actions: The actions of a session, in order.
        tiers: The plugins: a tier decides before the next is asked.
    """

    actions: tuple[str, ...]
    tiers: tuple[tuple[Plugin, ...], ...]

    def plugin(self, name: str) -> Plugin | None:
        """Return a plugin, None when it is not in force."""
        return next((p for tier in self.tiers for p in tier if p.name == name), None)

    def has(self, name: str) -> bool:
        """Report whether a plugin is in force."""
        return self.plugin(name) is not None

    def tiers_of(self, names_: Iterable[str], switch: str = "") -> list[list[str]]:
        """Return, per tier, which of some plugins are in force with a switch on."""
        wanted = set(names_)
        return [[p.name for p in tier if p.name in wanted and p.is_on(switch)] for tier in self.tiers]

    def overcommit_factor(self) -> Fraction:
        """Return how much of the cluster may be promised; less than all of it counts as the default."""
        plugin = self.plugin("overcommit")
        stated = plugin.arguments.get("overcommit-factor") if plugin else None
        factor = Fraction(str(stated)) if isinstance(stated, int | float) else Fraction(6, 5)
        return factor if factor >= 1 else Fraction(6, 5)


def parse(text: str) -> Settings:
    """Return a configuration.

    Raises:
        SettingsError: not YAML, or an action that does not exist.
    """
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise SettingsError(f"not YAML: {error}") from None
    if not isinstance(data, dict):
        raise SettingsError("neither actions nor tiers")
    actions = tuple(name.strip() for name in str(data.get("actions") or "").split(","))
    for name in actions:
        if name not in ACTIONS:
            raise SettingsError(f"failed to find Action {name}")
    tiers = data.get("tiers") or []
    try:
        return Settings(
            actions, tuple(tuple(_plugin(p) for p in tier.get("plugins") or []) for tier in tiers)
        )
    except (AttributeError, TypeError, KeyError):
        raise SettingsError("tiers is not a list of lists of plugins") from None


def _plugin(data: dict[str, Any]) -> Plugin:
    options = {key: value for key, value in data.items() if key not in ("name", "arguments")}
    return Plugin(str(data["name"]), options, dict(data.get("arguments") or {}))


class Configuration:
    """The configuration in force: read from its ConfigMap when that changes.

    An invalid one is passed over, as in Volcano: what was in force stays so.
    """

    def __init__(self, store: Store) -> None:
        """Read from the store, at once and whenever its version moved."""
        self._store = store
        self._settings = parse(BUILT_IN)
        self._seen: str | None = None

    def now(self) -> Settings:
        """Return the configuration in force."""
        found = self._store.peek("ConfigMap", names.SYSTEM_NAMESPACE, names.SCHEDULER_CONFIG)
        text = ((found or {}).get("data") or {}).get(names.SCHEDULER_CONFIG_KEY)
        if text is not None and text != self._seen:
            self._seen = text
            try:
                self._settings = parse(text)
            except SettingsError as error:
                sys.stderr.write(f"scheduler configuration is invalid: {error}\n")
        return self._settings
