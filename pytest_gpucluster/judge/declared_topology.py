"""The levels of the network that a profile declares, as rows about domains need them."""

from pytest_gpucluster.evidence.objects import network_places
from pytest_gpucluster.evidence.objects.network_places import Levels
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.requirement import Finding


def levels(given: subjects.Given, required: str) -> Levels | Finding:
    """Return the declared levels, or what a row makes of evidence without such that can be read.

    Args:
        given: what is told beside the evidence.
        required: what the row requires.
    """
    known = network_places.levels(given)
    if known is not None and known.required in known.labels:
        return known
    of = wording.Findings(required)
    if network_places.undeclared(given):
        return of.not_applicable("the profile does not declare `topology`")
    if given.get("topology"):
        return of.inconclusive(
            "the declared topology cannot be read: no list of levels, or no required one, was recorded"
        )
    return of.inconclusive("the evidence does not say what the profile declares as `topology`")
