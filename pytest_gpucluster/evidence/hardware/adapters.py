"""RDMA adapters as containers see them: which open, and what their ports say."""

import dataclasses
import re
from collections.abc import Mapping

from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects.pods import PodStory, pods

ONE, ALL = "adapter", "adapters"
"""Events of the payload: one adapter, and the names of all."""
ACTIVE = "ACTIVE"
UP = "LinkUp"
STATES = ("NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER")
"""Words of the states of a port, each behind its number."""
LAYERS = ("InfiniBand", "Ethernet", "Unspecified")
"""Link layers that the kernel names; another word, such as Unknown, is none."""
_NUMBERED = re.compile(r"^(?P<number>\d+): (?P<word>\w+)$")
_RATE = re.compile(r"^(?P<rate>\d+(?:\.\d+)?) Gb/sec\b")


@dataclasses.dataclass(frozen=True)
class Port:
    """One port.

    Attributes:
        number: its number.
        state: word of its state, such as ACTIVE, INIT, DOWN; "" if it could not be read.
        physical: word of its physical state, such as LinkUp, Polling, Disabled.
        gbps: rate in Gbit/s; None if it could not be read.
        layer: link layer: InfiniBand, Ethernet, or Unspecified of EFA; "" if it is not known.
    """

    number: int
    state: str
    physical: str
    gbps: float | None
    layer: str


@dataclasses.dataclass(frozen=True)
class Adapter:
    """One adapter.

    Attributes:
        name: its name, such as mlx5_0.
        file: its device file in the container, "" without one: it was not given.
        opens: whether that file opens.
        why: why it does not.
        ports: its ports.
        lost: files that were gone when they were read.
        key: of the line of evidence.
    """

    name: str
    file: str
    opens: bool
    why: str
    ports: tuple[Port, ...]
    lost: tuple[str, ...]
    key: str


@dataclasses.dataclass(frozen=True)
class View:
    """What one pod sees.

    Attributes:
        pod: the pod.
        told: whether it said that it has told all.
        adapters: its adapters, also those that it was not given.
        missing: adapters that it named and did not tell.
        twice: adapters that it told more than once, each time otherwise.
        files: device files that belong to no adapter that it sees.
        key: of the line with all names; "" without one.
    """

    pod: PodStory
    told: bool
    adapters: tuple[Adapter, ...]
    missing: tuple[str, ...]
    twice: tuple[str, ...]
    files: tuple[str, ...]
    key: str

    @property
    def given(self) -> tuple[Adapter, ...]:
        """Return the adapters that it was given: those with a device file."""
        return tuple(one for one in self.adapters if one.file)


def views(evidence: Evidence, uids: frozenset[str]) -> tuple[View, ...]:
    """Return what each of these pods sees."""
    words = payload_lines.words(evidence)
    every = {pod.uid: pod for pod in pods(evidence) if pod.uid in uids}
    found = []
    for uid, pod in every.items():
        told = words.of(ONE, uid)
        own = {str(word.data.get("name")): word for word in told}
        twice = {
            name for word in told if _facts(own[name := str(word.data.get("name"))].data) != _facts(word.data)
        }
        last = next((word for word in reversed(words.of(ALL)) if word.uid == uid), None)
        names = _texts(last.data.get("names")) if last is not None else []
        adapters = tuple(_adapter(word.data, word.key) for word in own.values())
        taken = {str(word.data.get("verbs") or "") for word in own.values()}
        taken |= {one.file.rpartition("/")[2] for one in adapters}
        loose = tuple(
            name for name in (_texts(last.data.get("files")) if last is not None else ()) if name not in taken
        )
        counted = last is not None and last.number("count") == len(names) and own.keys() <= set(names)
        found.append(
            View(
                pod, counted, adapters, tuple(name for name in names if name not in own), tuple(sorted(twice)), loose,
                "" if last is None else last.key,
            )
        )  # fmt: skip
    return tuple(found)


def _texts(value: object) -> list[str]:
    return list(map(str, value)) if isinstance(value, list) else []


def _facts(data: Mapping[str, object]) -> dict[str, object]:
    """Return what a line says of an adapter, without when it was said."""
    return {key: value for key, value in data.items() if key != "t"}


def _adapter(data: Mapping[str, object], key: str) -> Adapter:
    lost = data.get("lost")
    return Adapter(
        name=str(data.get("name") or ""),
        file=str(data.get("file") or ""),
        opens=data.get("opens") is True,
        why=str(data.get("why") or ""),
        ports=tuple(_port(one) for one in fields.items(data, "ports")),
        lost=tuple(map(str, lost)) if isinstance(lost, list) else (),
        key=key,
    )


def _port(data: Mapping[str, object]) -> Port:
    number = data.get("port")
    rate = _RATE.match(str(data.get("rate") or ""))
    return Port(
        number if isinstance(number, int) else 0,
        _state(data.get("state")),
        _word(data.get("phys_state")),
        float(rate["rate"]) if rate else None,
        layer if (layer := str(data.get("link_layer"))) in LAYERS else "",
    )


def _state(value: object) -> str:
    """Return the word of a state; "" where its number stands for another one."""
    match = _NUMBERED.match(str(value or ""))
    right = match is not None and match["word"] in STATES[int(match["number"]) :][:1]
    return match["word"] if match is not None and right else ""


def _word(value: object) -> str:
    match = _NUMBERED.match(str(value or ""))
    return match["word"] if match else ""
