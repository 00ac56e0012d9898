"""Texts that thousands of objects have in common, kept once for all of them."""

from typing import Any

_KNOWN: dict[str, str] = {}
_MOST = 200_000
"""Texts kept before the table begins anew, so that it cannot grow without end."""


def shared(labels: dict[str, Any]) -> dict[str, Any]:
    """Return labels whose keys and values are those of other objects wherever they are equal."""
    if len(_KNOWN) > _MOST:
        _KNOWN.clear()
    once = _KNOWN.setdefault
    try:
        return dict(
            zip(
                map(once, labels, labels),
                map(once, labels.values(), labels.values()),
                strict=True,
            )
        )
    except TypeError:  # a value that is no text: not what an API server sends, and kept as it is
        return labels
