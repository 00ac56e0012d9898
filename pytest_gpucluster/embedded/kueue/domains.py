"""The domains of a topology: how many pods each takes, and which of them a pod set gets. Pure.

A domain is named by its value of each level, coarse to fine. What fits is counted in the finest domains and summed up:
where these are no single nodes, a domain may have room of which no node has enough.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_gpucluster.embedded.kueue import names
from pytest_gpucluster.embedded.objects import Obj

Values = tuple[str, ...]


@dataclass(frozen=True)
class Wish:
    """What a pod set asks of a topology.

    Attributes:
        level: The label of the level, None for the finest.
        required: Whether one domain of that level must take all pods.
        unconstrained: Whether any domains will do.
    """

    level: str | None = None
    required: bool = False
    unconstrained: bool = False


@dataclass(frozen=True)
class Room:
    """What a topology has room for, in pods of one pod set.

    Attributes:
        topology: Its name.
        levels: The labels of its levels, coarse to fine.
        fits: Finest domain -> how many pods it takes.
        lacking: Resource -> in how many of the finest domains not one pod fits for want of it.
    """

    topology: str
    levels: tuple[str, ...]
    fits: Mapping[Values, int]
    lacking: Mapping[str, int]

    def at(self, depth: int) -> dict[Values, int]:
        """Return how many pods each domain of a level takes."""
        out: dict[Values, int] = {}
        for values, count in self.fits.items():
            out[values[: depth + 1]] = out.get(values[: depth + 1], 0) + count
        return out

    def refusal(self, fit: int, count: int) -> str:
        """Return in Kueue's words that no more than so many of the pods fit."""
        said = (
            f"allows to fit only {fit} out of {count} pod(s)"
            if fit
            else f"doesn't allow to fit any of {count} pod(s)"
        )
        text = f'topology "{self.topology}" {said}'
        if self.lacking:
            reasons = ", ".join(
                f'resource "{name}": {number}' for name, number in sorted(self.lacking.items())
            )
            text += f". Total nodes: {len(self.fits)}; excluded: {reasons}"
        return text


class Unfit(Exception):  # noqa: N818 (what is said to the user, not an error of ours)
    """No domains take the pods; the text is Kueue's."""


def choose(room: Room, wish: Wish, count: int) -> dict[Values, int]:
    """Return how many pods each of the finest domains gets: as few domains as can be, at each level.

    Raises:
        Unfit: they do not fit as wished.
    """
    depth = len(room.levels) - 1 if wish.level is None else room.levels.index(wish.level)
    chosen = _first_level(room, wish, count, depth)
    depth = len(next(iter(chosen), ())) - 1
    while depth < len(room.levels) - 1:
        below = room.at(depth + 1)
        lower: dict[Values, int] = {}
        for values, part in chosen.items():
            children = {one: fit for one, fit in below.items() if one[: depth + 1] == values}
            lower |= _fewest(children, part)
        chosen, depth = lower, depth + 1
    return dict(sorted(chosen.items()))


def _first_level(room: Room, wish: Wish, count: int, depth: int) -> dict[Values, int]:
    """Return the domains of the first level at which the pods fit: the wished one, or a coarser one."""
    found = room.at(depth)
    if not found:
        raise Unfit(f"no topology domains at level: {room.levels[depth]}")
    best = max(found.values())
    if best >= count:
        return _fewest(found, count)
    if wish.required:
        raise Unfit(room.refusal(best, count))
    if depth and not wish.unconstrained:
        return _first_level(room, wish, count, depth - 1)
    if sum(found.values()) < count:
        raise Unfit(room.refusal(sum(found.values()), count))
    return _fewest(found, count)


def _fewest(found: Mapping[Values, int], count: int) -> dict[Values, int]:
    """Return the roomiest domains until the pods fit; of those that take all that are left, the one with least room."""
    out: dict[Values, int] = {}
    left = count
    for values, fit in sorted(found.items(), key=lambda each: (-each[1], each[0])):
        if left <= 0:
            break
        if fit >= left:
            last = min(
                (one for one in found.items() if one[1] >= left and one[0] not in out),
                key=lambda e: (e[1], e[0]),
            )
            return {**out, last[0]: left}
        if fit:
            out[values] = fit
            left -= fit
    return out


def encoded(levels: Sequence[str], chosen: Mapping[Values, int]) -> Obj:
    """Return an assignment as a Workload carries it; of a topology that ends with single nodes only their names."""
    first = len(levels) - 1 if levels[-1] == names.HOSTNAME else 0
    kept = [values[first:] for values in chosen]
    counts = list(chosen.values())
    return {
        "levels": list(levels[first:]),
        "slices": [
            {
                "domainCount": len(kept),
                "valuesPerLevel": [
                    _compact([one[depth] for one in kept]) for depth in range(len(levels) - first)
                ],
                "podCounts": {"universal": counts[0]} if len(set(counts)) == 1 else {"individual": counts},
            }
        ],
    }


def _compact(values: list[str]) -> Obj:
    if len(set(values)) == 1:
        return {"universal": values[0]}
    prefix = _common(values)
    shortest = min(len(one) for one in values)
    suffix = _common([one[::-1] for one in values])[::-1]
    prefix = prefix[: max(shortest - len(suffix), 0)] if len(prefix) + len(suffix) > shortest else prefix
    roots = [one[len(prefix) : len(one) - len(suffix)] for one in values]
    return {
        "individual": {
            **({"prefix": prefix} if prefix else {}),
            **({"suffix": suffix} if suffix else {}),
            "roots": roots,
        }
    }


def _common(values: Iterable[str]) -> str:
    out = ""
    for letters in zip(*values, strict=False):
        if len(set(letters)) > 1:
            break
        out += letters[0]
    return out


def decoded(assignment: Obj) -> list[tuple[dict[str, str], int]]:
    """Return the domains of an assignment in order: labels of its nodes, and how many pods it gets."""
    levels = assignment["levels"]
    out: list[tuple[dict[str, str], int]] = []
    for part in assignment.get("slices") or []:
        counts = part["podCounts"]
        for number in range(int(part["domainCount"])):
            values = [_at(each, number) for each in part["valuesPerLevel"]]
            count = counts["universal"] if "universal" in counts else counts["individual"][number]
            out.append((dict(zip(levels, values, strict=True)), int(count)))
    return out


def _at(values: Obj, number: int) -> str:
    if "universal" in values:
        return str(values["universal"])
    each = values["individual"]
    return f"{each.get('prefix') or ''}{each['roots'][number]}{each.get('suffix') or ''}"
