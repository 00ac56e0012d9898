"""Texts of a cluster in Markdown: a cell stays a cell, and nothing is read as markup."""

import re

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~!])")


def cell(text: str) -> str:
    """Return a text for the cell of a table, in one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
