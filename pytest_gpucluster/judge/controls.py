"""Whether a gang that proves something by running, a control or the winner of two, really ran."""

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects.pods import PodStory, pods
from pytest_gpucluster.evidence.scheduling.gangs import Gang, Generation
from pytest_gpucluster.judge import subjects, wording

STARTS_WITHIN = 60.0
"""Seconds in which a bound pod's containers start where no budget is given: an image may have to be pulled."""


def never_ran(pod: PodStory) -> str:
    """Return why a pod's containers never ran, "" where they did or nobody says why not."""
    if pod.running is not None or pod.exit_codes:
        return ""
    return pod.blocked()


def seen_running(pod: PodStory) -> bool:
    """Report whether a pod's containers were seen to run, or to have come to an end of their own."""
    return pod.running is not None or bool(pod.exit_codes)


def ran(evidence: Evidence, given: subjects.Given, gang: Gang) -> tuple[bool, str]:
    """Return whether a gang ran, and in words what it did.

    Whole means bound: where pods run they run from then on, and a container that cannot start is no run. A gang that
    was deleted before its start was due was placed whole; where no pod runs at all nothing more can be seen.
    """
    gen = next((one for one in gang.generations if one.whole is not None), None)
    if gen is None or gen.whole is None:
        return False, "did not run"
    stuck = [(pod, why) for pod in gen.bound_members if (why := never_ran(pod))]
    if stuck:
        pod, why = stuck[0]
        return False, f"was placed but did not run ({pod.where}: {why})"
    if len({pod.slot for pod in gen.members if seen_running(pod)}) >= gen.minimum:
        return True, "ran"
    idle = [pod for pod in gen.bound_members if not seen_running(pod)]
    ends = [t for pod in idle for t in (pod.deleting, pod.deleted) if t is not None]
    seen = min([*ends, evidence.end]) - gen.whole
    limit = subjects.seconds(given, "start") or STARTS_WITHIN
    if seen > limit - subjects.LATE and any(pod.running is not None for pod in pods(evidence)):
        return (
            False,
            f"was placed, but {wording.listed([pod.name for pod in idle], 3)} did not start for {seen:.0f} s",
        )
    return True, "was placed whole"


def ran_together(gen: Generation) -> bool:
    """Report whether enough members of an attempt ran at once; processes too short to be seen Running have ended."""
    if gen.together() is not None:
        return True
    short = {pod.slot for pod in gen.members if pod.running is None and pod.exit_codes}
    return len(short) >= gen.minimum
