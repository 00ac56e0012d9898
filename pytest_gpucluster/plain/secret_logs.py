"""Logs, which come line by line: a secret may go on from one line to the next."""

import re

from pytest_gpucluster.plain import redact, secret_names, secret_texts
from pytest_gpucluster.plain.secret_shapes import REDACTED

_FULL = 40
"""Characters of a line from which on it may have been broken because it was full."""
_BLOCK = re.compile(r"\s*(?:- )?(?P<name>[\w.-]+):\s*[|>][-+\d]*\s*$")
_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]+-----")
_END = re.compile(r"-----END [A-Z0-9 ]+-----")
MOST_LINES = 400
"""Lines that a key may have; a log that names the beginning of one and never its end is not lost."""


class Lines:
    """The lines of one log, in order: a secret may go on from one to the next."""

    def __init__(self) -> None:
        """Begin outside of any secret."""
        self._redactor = redact.Redactor()
        self._inside = 0
        self._width = 0
        self._indent = -1

    def clean(self, line: str) -> str:
        """Return the next line without secrets."""
        if self._inside:
            self._inside = 0 if _END.search(line) else self._inside - 1
            return REDACTED
        if self._indent >= 0 and line.strip():
            if _indent(line) > self._indent:
                return REDACTED
            self._indent = -1
        if (block := _BLOCK.match(line)) and secret_names.looks_secret(block["name"]):
            self._indent = _indent(line)
            return line
        begun = [found.end() for found in _BEGIN.finditer(line)]
        if begun and not _END.search(line, begun[-1]):
            self._inside = MOST_LINES
        if secret_texts.goes_on(line, self._width):
            return REDACTED
        made = self._redactor.text(line)
        self._width = _width(line, made)
        return made


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _width(line: str, made: str) -> int:
    """Return how wide a line is that ends within a secret, 0 for any other."""
    ends = made.rstrip(" \r\"'\\").endswith(REDACTED)
    return len(line.strip()) if ends and len(line.strip()) >= _FULL else 0
