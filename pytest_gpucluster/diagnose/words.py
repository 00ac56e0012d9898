"""What components say, made readable: what decides is kept whole, what their languages wrap around it is left out."""

import re

from pytest_gpucluster.plain import shortening

LIMIT = 400
"""Characters of a message that are shown; of a longer one its beginning and its end."""

_STATUS = re.compile(
    r'&?(?:errors\.)?StatusError\{.*?Message:"(?P<said>(?:[^"\\]|\\.)*)".*?Code:\d+\}*', re.DOTALL
)
_ESCAPED = re.compile(r'\\(["\\])')
_COMBINED = re.compile(r"^\(combined from similar events\): *")
_POINTER = re.compile(r"\(\*[\w.]+\)\((?:0x[0-9a-f]+|nil)\)")
_FIELD = re.compile(r'\b(?:Message|message|Reason|reason):"(?P<said>(?:[^"\\]|\\.)+)"')
_STRUCT = re.compile(r"&?\b[a-z]\w*\.[A-Z]\w*\{")


def plain(message: str) -> str:
    """Return a message without the Go values that controllers print around it.

    Where one is printed of which no part says why, the message stands as it is.
    """
    text = _COMBINED.sub("", " ".join(message.split()))
    text = _STATUS.sub(lambda m: _ESCAPED.sub(r"\1", m["said"]), text)
    if _POINTER.search(text) or _STRUCT.search(text):
        said = [_ESCAPED.sub(r"\1", m["said"]) for m in _FIELD.finditer(text)]
        before = text[: m.start()].rstrip(" [,:") if (m := _STRUCT.search(text)) else ""
        if said:
            text = ": ".join(part for part in (before, "; ".join(dict.fromkeys(said))) if part)
    return text


def short(message: str, limit: int = LIMIT) -> str:
    """Return a message of at most so many characters; of a longer one its beginning, and its end, which decides."""
    return shortening.shown(plain(message), limit)
