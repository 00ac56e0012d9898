"""Healthy variations: what differs between clusters in which all is well. No row may call one of them a violation.

One module a subject. Each variation is a pure function of the evidence of a good run; its docstring says what differs.
"""

from collections.abc import Mapping

from tests.judge.variations import admitted, clusters, neighbours, times, words
from tests.judge.variations.base import Variation

VARIATIONS: Mapping[str, Variation] = {
    f"{module.__name__.rpartition('.')[2]}.{name}": variation
    for module in (admitted, clusters, neighbours, times, words)
    for name, variation in module.VARIATIONS.items()
}
"""All variations by name: the module, and what differs."""
