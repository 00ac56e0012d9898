"""What a cluster can do, as far as its profile declares it: what the mark `needs` may name."""

from collections.abc import Callable, Mapping

from pytest_gpucluster.plain import schedulers
from pytest_gpucluster.profile.load import SECTIONS
from pytest_gpucluster.profile.model import Profile


def _section(name: str) -> Callable[[Profile], bool]:
    return lambda profile: getattr(profile, name) is not None


def _scheduler(name: str) -> Callable[[Profile], bool]:
    return lambda profile: name in (profile.scheduler, *profile.further_schedulers)


CAPABILITIES: Mapping[str, tuple[Callable[[Profile], bool], str]] = {
    **{name: (_section(name), f"the profile does not declare `{name}`") for name in SECTIONS},
    **{
        name: (_scheduler(name), f"the profile declares another scheduler than {name}")
        for name in (schedulers.VOLCANO, schedulers.NATIVE)
    },
    "slots": (lambda profile: profile.slots, "the profile sets slots: false"),
}
"""Capability -> whether a profile declares it, and what is said where it does not."""


def undeclared(profile: Profile, wanted: tuple[str, ...]) -> str:
    """Return why the first capability that a profile does not declare is missing, "" where all are declared.

    Raises:
        KeyError: a name that is not in `CAPABILITIES`.
    """
    return next((CAPABILITIES[name][1] for name in wanted if not CAPABILITIES[name][0](profile)), "")
