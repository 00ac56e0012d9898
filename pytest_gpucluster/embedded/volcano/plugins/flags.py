"""Arguments of job plugins, read as Go's flag package reads them when told to go on after an error."""

import re
from collections.abc import Iterable, Mapping

_FLAG = re.compile(r"--?(?P<name>[A-Za-z][\w.-]*)(?:=(?P<value>.*))?$", re.DOTALL)


def parse(arguments: Iterable[str], defaults: Mapping[str, str]) -> dict[str, str]:
    """Return the value of each flag that the plugin knows.

    An unknown or malformed argument ends the reading: it and all later ones are ignored, as in Volcano.

    Args:
        arguments: Texts such as `--port=29500`.
        defaults: Known flags and their values when not given.
    """
    out = dict(defaults)
    for argument in arguments:
        match = _FLAG.fullmatch(str(argument))
        if match is None or match["name"] not in defaults:
            break
        value = match["value"]
        out[match["name"]] = "true" if value is None else value
    return out


def is_true(value: str) -> bool:
    """Report whether a flag's text means true."""
    return value.lower() in ("1", "t", "true")


def number(value: str, default: int) -> int:
    """Return a flag's text as a whole number, the default where it is none."""
    return int(value) if re.fullmatch(r"[+-]?\d+", value) else default
