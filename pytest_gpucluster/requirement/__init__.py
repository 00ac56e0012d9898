"""What a requirement is: its declaration, levels, verdicts and findings."""

from pytest_gpucluster.requirement.declare import (
    AREAS,
    DOCUMENTS,
    REGISTRY,
    SITE,
    DeclarationError,
    Judge,
    Presupposition,
    Registry,
    Requirement,
    is_site,
    requirement,
    requirement_of,
)
from pytest_gpucluster.requirement.verdict import (
    Cause,
    Finding,
    Level,
    Number,
    Presupposed,
    Refusal,
    Verdict,
)

__all__ = [
    "AREAS",
    "DOCUMENTS",
    "REGISTRY",
    "SITE",
    "Cause",
    "DeclarationError",
    "Finding",
    "Judge",
    "Level",
    "Number",
    "Presupposed",
    "Presupposition",
    "Refusal",
    "Registry",
    "Requirement",
    "Verdict",
    "is_site",
    "requirement",
    "requirement_of",
]
