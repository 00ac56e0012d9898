"""Named departures from JobSet's documented behaviour, for testing the tests.

Each has one seam, found by searching for its name. All are off unless the runtime was started with them.
"""

from typing import Final

DEFECTS: Final[dict[str, str]] = {
    "jobset.absent": "JobSet's controller does not run: its kind is served, but nothing watches it",
    "jobset.keeps-others": "a JobSet that has completed or failed leaves its other Jobs running",
    "jobset.restarts-without-end": "the failure policy of JobSets restarts without counting",
    "jobset.ignores-order": "all replicated Jobs of a JobSet are made at once, whatever order it asks for",
    "jobset.no-service": "a JobSet gets no headless Service, so its pods have no names in DNS",
}
"""Name of each defect and what it does."""
