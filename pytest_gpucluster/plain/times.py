"""Kubernetes time stamps and durations."""

import re
from datetime import UTC, datetime, timedelta

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|us|µs|ns|h|m|s)")
_UNIT = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def parse_time(text: str) -> datetime:
    """Return an RFC 3339 time stamp as an aware datetime in UTC.

    Raises:
        ValueError: when the text is no time stamp.
    """
    return datetime.fromisoformat(text).astimezone(UTC)


def format_time(when: datetime, *, micro: bool = False) -> str:
    """Return a time stamp as the API server writes it: whole seconds, or microseconds for MicroTime."""
    when = when.astimezone(UTC)
    return when.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")


def now() -> datetime:
    """Return the present time in UTC."""
    return datetime.now(UTC)


def in_seconds(seconds: float) -> datetime:
    """Return the time `seconds` from now."""
    return now() + timedelta(seconds=seconds)


def parse_duration(text: str) -> float:
    """Return a duration such as `1h30m`, `250ms` or `5` (seconds) in seconds.

    Raises:
        ValueError: when the text is no duration.
    """
    text = text.strip()
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    parts = _DURATION.findall(text)
    if not parts or "".join(n + u for n, u in parts) != text:
        raise ValueError(f"not a duration: {text!r} (examples: 5s, 250ms, 1h30m)")
    return sum(float(n) * _UNIT[u] for n, u in parts)
