"""Named departures of native gang scheduling from its documented behaviour, for testing the tests.

Each has one seam, found by searching for its name.
"""

from typing import Final

DEFECTS: Final[dict[str, str]] = {
    "native.gate-off": (
        "the feature gates of native gangs are off: the kinds are not served, and the API server "
        "silently drops schedulingGroup from pods and scheduling from Jobs"
    ),
    "native.binds-partially": (
        "the scheduler runs without the plugin GangScheduling: it treats every group as a basic one"
    ),
    "native.basic-policy": "the Job controller makes PodGroups with the basic policy, even if a Job asks for another",
    "native.min-count-short": (
        "the PodGroup of a Job that asks for a gang has a minCount that is one pod too low"
    ),
    "native.forgets-room": "a group that was refused is never tried again",
    "native.ignores-topology": "the scheduler places a group without looking at the domain that its PodGroup asks for",
    "native.never-says": ("a refused group is not reported: it and its pods get no condition and no event"),
}
"""Name of each defect and what it does."""
