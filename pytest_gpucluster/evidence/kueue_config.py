"""Kueue's own configuration, as its ConfigMap holds it."""

import functools


@functools.cache
def duration(text: str) -> float | None:
    """Return a duration as Go writes it (`5m`, `1h30m`, `2.5s`) in seconds, None for what is none."""
    units = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
    rest, total = text.strip(), 0.0
    if rest in ("", "0"):
        return 0.0 if rest else None
    while rest:
        size = len(rest) - len(rest.lstrip("0123456789."))
        number, rest = rest[:size], rest[size:]
        width = next((n for n in (2, 1) if rest[:n] in units), 0)
        if not width or not number or number.count(".") > 1 or number == ".":
            return None
        total += float(number) * units[rest[:width]]
        rest = rest[width:]
    return total
