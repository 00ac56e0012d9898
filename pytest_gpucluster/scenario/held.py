"""A training queue that is held: runs submit their gangs to another one."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_gpucluster.profile import Profile


def runs_in(profile: "Profile") -> str:
    """Return the queue to which gangs are submitted: not the declared one while that is held."""
    return profile.conformance_queue or profile.queue
