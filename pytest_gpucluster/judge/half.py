"""The finding on half placement, which most gang judges ask for first."""

from collections.abc import Sequence

from pytest_gpucluster.evidence import placement
from pytest_gpucluster.evidence.gangs import Gang
from pytest_gpucluster.evidence.model import Evidence
from pytest_gpucluster.evidence.placement import Half
from pytest_gpucluster.judge import say, terms
from pytest_gpucluster.requirement import Finding, Number, Verdict


def halves(evidence: Evidence, gangs: Sequence[Gang]) -> tuple[Half, ...]:
    """Return every half placement of these gangs, longest first."""
    found = [half for gang in gangs for half in placement.halves(evidence, gang)]
    return tuple(sorted(found, key=lambda half: -half.seconds))


def lasting(evidence: Evidence, given: terms.Given, found: Sequence[Half]) -> list[Half]:
    """Return the half placements that a healthy bind cannot explain.

    They last longer than the tolerance; or they still stand when a window ends in which our own scarcity kept the
    gang from fitting, after two scheduler periods of it.
    """
    limits = terms.of(evidence, given)
    grace = terms.HALF_PERIODS * limits.period + limits.grain
    ends = [end for begin, end in terms.windows(evidence) if end - begin >= grace]
    return [
        half
        for half in found
        if half.seconds > limits.tolerance
        or (not half.gap and any(half.start + grace < end <= half.end for end in ends))
    ]


def half_placed(
    evidence: Evidence, given: terms.Given, gangs: Sequence[Gang], required: str
) -> Finding | None:
    """Return the finding on half placement: a violation, or why it cannot be told; None when there was none."""
    limits = terms.of(evidence, given)
    found = halves(evidence, gangs)
    shown = lasting(evidence, given, found)
    if shown:
        worst = shown[0]
        return say.finding(
            Verdict.FAIL,
            required,
            "; ".join(say.describe_half(half) for half in shown[:3]),
            worst.gang,
            violation=True,
            where=say.places((*worst.members, *worst.missing)),
            causes=say.causes_of_half(worst, terms.of(evidence, given).scheduler),
            evidence=tuple(half.key for half in shown[:8]),
            numbers=(
                Number("members bound", worst.held, "pods", worst.generation.minimum, "minAvailable"),
                Number(
                    "half placed for",
                    worst.seconds,
                    "s",
                    limits.tolerance,
                    "two scheduler periods or bind spread",
                ),
            ),
            repeat=tuple(dict.fromkeys(line for half in shown[:2] for line in say.repeat(half.gang))),
            currency=terms.currency(evidence, given, worst.gang),
        )
    unsure = next((half for half in found if half.open or half.gap), None)
    if unsure is None:
        return None
    why = (
        "the watch of pods has a gap there"
        if unsure.gap
        else "the evidence ends before that can be told from a bind"
    )
    return say.finding(
        Verdict.INCONCLUSIVE,
        required,
        f"{say.describe_half(unsure)}; shorter than {limits.tolerance:.2f} s, and {why}",
        unsure.gang,
        evidence=(unsure.key,),
    )
