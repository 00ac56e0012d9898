"""Errors of reading evidence."""


class EvidenceError(ValueError):
    """A file that is no evidence; the text is one line: file, line, what is wrong, what is expected."""
