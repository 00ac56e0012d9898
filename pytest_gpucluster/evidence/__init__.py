"""Evidence: the log, its slices and coverage, and the questions asked of it."""

from pytest_gpucluster.evidence.log.errors import EvidenceError
from pytest_gpucluster.evidence.log.ingest import lines_of, read
from pytest_gpucluster.evidence.log.model import EVERY_KIND, Evidence, Line, Span
from pytest_gpucluster.evidence.log.vocabulary import NOTES

__all__ = ["EVERY_KIND", "NOTES", "Evidence", "EvidenceError", "Line", "Span", "lines_of", "read"]
