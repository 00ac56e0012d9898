"""Characters that steer a terminal, hide or turn text round, shown as escapes: what a cluster says moves no cursor."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Controls but tab and the end of a line, marks of direction, characters without width, halves of pairs, tags."""


def text(value: str) -> str:
    r"""Return a text with every such character as it would be written in Python: `\x1b`, `\u202e`."""
    return _UNSEEN.sub(_escape, value)


def json_text(value: str) -> str:
    """Return JSON with every such character as JSON writes it, so that it says the same and steers nothing."""
    return _UNSEEN.sub(_escape_in_json, value)


def data(value: Any) -> Any:
    """Return plain data whose texts, keys included, have no such character."""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, Mapping):
        return {data(key): data(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [data(item) for item in value]
    return value


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escape_in_json(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
