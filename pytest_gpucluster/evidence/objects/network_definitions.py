"""NetworkAttachmentDefinitions: which resource comes with a further network of pods, and which MTU it states."""

import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_gpucluster.evidence.log import api_answers, fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.plain import names

CASE = "read:network-definition"
"""Case under which a scenario records a definition; a colon and NAMESPACE/NAME follow."""


@dataclasses.dataclass(frozen=True)
class Definition:
    """What was answered when a definition was read.

    Attributes:
        name: NAMESPACE/NAME.
        code: HTTP status code of the answer.
        resource: the resource that comes with it, "" if it names none.
        plugins: configurations of its CNI plugins, the first one makes the interface; empty if they stand in a file of
            the nodes, or cannot be read.
        unreadable: whether its configuration is no JSON.
        key: of the line of evidence.
    """

    name: str
    code: int
    resource: str
    plugins: tuple[Mapping[str, Any], ...]
    unreadable: bool
    key: str

    @property
    def ok(self) -> bool:
        """Report whether the definition is there and was read."""
        return 200 <= self.code < 300

    @property
    def kind(self) -> str:
        """Return the type of the plugin that makes the interface, such as macvlan; "" if it is not known."""
        return str(self.plugins[0].get("type") or "") if self.plugins else ""


def read(evidence: Evidence) -> dict[str, Definition]:
    """Return the definitions that were read, by NAMESPACE/NAME; what was answered last counts."""
    return {one.name: one for one in _each(evidence)}


def _each(evidence: Evidence) -> Iterator[Definition]:
    for answer in api_answers.read(evidence, CASE):
        text = fields.text(answer.object, "spec", "config")
        plugins, unreadable = _plugins(text)
        yield Definition(
            answer.case.removeprefix(f"{CASE}:"),
            answer.code,
            fields.text(answer.object, "metadata", "annotations", names.ANNOTATION_NETWORK_RESOURCE),
            plugins,
            unreadable,
            answer.line.key,
        )


def _plugins(text: str) -> tuple[tuple[Mapping[str, Any], ...], bool]:
    """Return the plugins of a configuration or of a list of them, and whether it cannot be read."""
    if not text:
        return (), False
    try:
        told = json.loads(text)
    except ValueError:
        return (), True
    if not isinstance(told, dict):
        return (), True
    chained = told.get("plugins")
    return (tuple(fields.items(told, "plugins")), False) if isinstance(chained, list) else ((told,), False)
