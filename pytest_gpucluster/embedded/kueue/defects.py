"""Named departures from Kueue's documented behaviour, for testing the tests.

Each has one seam, found by searching for its name. All are off unless the runtime was started with them.
"""

from typing import Final

DEFECTS: Final[dict[str, str]] = {
    "kueue.absent": "Kueue does not run: its kinds are served, but nothing watches them or Jobs",
    "kueue.webhook-down": "Kueue does not run, and every new Job is refused because Kueue's webhooks do not answer",
    "kueue.starts-before-admission": (
        "the admission of Jobs is absent, and the controller suspends Jobs that run without admission too late"
    ),
    "kueue.admits-over-quota": "the quota of ClusterQueues is not checked",
    "kueue.half-admits": "a Job is admitted with only as many pods as the quota has room for",
    "kueue.keeps-evicted-quota": "an evicted workload keeps its admission and its quota after its Job has stopped",
    "kueue.never-evicts": "a workload whose pods never become ready is not evicted",
    "kueue.unknown-queue-runs": "a Job whose LocalQueue does not exist may run",
    "kueue.silent-unknown-queue": "a workload whose LocalQueue does not exist gets no condition",
    "kueue.ignores-topology": "the topology level that a Job requires is not looked at: any domains will do",
    "kueue.silent-refusal": "a workload that finds no quota gets neither a condition nor an event",
    "kueue.no-second": "a workload that was refused once is never tried again",
    "kueue.ignores-stop": "the stopPolicy of ClusterQueues is ignored",
    "kueue.manages-unlabelled": "Jobs without a queue label are suspended and never admitted",
}
"""Name of each defect and what it does."""
