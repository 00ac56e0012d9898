"""Named departures of native gang scheduling from its documented behaviour, for testing the tests.

Each has one seam, found by searching for its name.
"""

from typing import Final

DEFECTS: Final[dict[str, str]] = {
    "native.gate-off": (
        "the feature gates of native gangs are off: the kinds are not served, and the API server drops "
        "schedulingGroup from pods and scheduling from Jobs without a word"
    ),
    "native.binds-partially": (
        "the scheduler runs without the plugin GangScheduling: it takes every group for a basic one"
    ),
    "native.basic-policy": "the Job controller makes PodGroups of the basic policy, whatever a Job asks for",
    "native.min-count-short": (
        "the PodGroup of a Job that asks for a gang has a minCount of one pod fewer than the Job"
    ),
    "native.forgets-room": "a group that was refused is never tried again",
    "native.never-says": (
        "of a group that is refused nothing is said: no condition on it or its pods, and no event"
    ),
}
"""Name of each defect and what it does."""
