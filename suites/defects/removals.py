"""Departures in what is missing: the tables of `evidence.mutate.dropped`."""

from collections.abc import Mapping

FLIPS: Mapping[str, Mapping[str, str]] = {}

MUTANT_FLIPS: Mapping[str, Mapping[str, str]] = {
    "gang.start-unseen": {"GANG-007": "inconclusive"},
    "plugins.arguments-untold": {"PLG-004": "inconclusive"},
}
