"""The one error of a profile: what is wrong, where, what is allowed."""

from collections.abc import Iterable, Sequence

from pytest_gpucluster.plain import names

PAGE = "gpucluster describe keys"
"""What lists the keys of a profile, and their values."""


class ProfileError(Exception):
    """A profile that cannot be used; the text is a line for each mistake.

    Attributes:
        where: the file (with line, where known), variable or option that holds the value.
        path: dotted path of the leaf, "" when the whole source is meant.
        problem: what is wrong, in a few words.
        value: the offending value, None when there is none.
        allowed: the allowed values or keys, empty when they cannot be listed.
        page: what lists all of them, where they are too many for a line.
        meant: dotted path of the leaf for which it was meant, "" for itself.
        others: the further mistakes of the profile.
    """

    def __init__(
        self,
        where: str,
        path: str,
        problem: str,
        *,
        value: object = None,
        allowed: Iterable[str] = (),
        page: str = "",
        meant: str = "",
    ) -> None:
        """Take the facts; the text is made from them."""
        self.where = where
        self.path = path
        self.problem = problem
        self.value = value
        self.allowed = tuple(allowed)
        self.page = page or PAGE
        self.meant = meant
        self.others: tuple[ProfileError, ...] = ()
        super().__init__(self._text())

    @property
    def paths(self) -> frozenset[str]:
        """Return the leaves of which this is the mistake."""
        return frozenset({self.path, self.meant or self.path})

    def beside(self, others: "Sequence[ProfileError]") -> "ProfileError":
        """Return this mistake with others of the same profile, so that all can be mended in one go."""
        self.others = tuple(others)
        self.args = ("\n".join(map(str, (self._text(), *others))),)
        return self

    @property
    def nearest(self) -> str | None:
        """Return the allowed word most like the offending one."""
        return names.nearest(self._word(), self.allowed) if self.allowed and self._word() else None

    def _word(self) -> str:
        return str(self.value) if self.value is not None else self.path.rpartition(".")[2]

    def _text(self) -> str:
        place = f"{self.where}: {self.path}" if self.path else self.where
        given = f" = {self.value!r}" if self.value is not None else ""
        known = ""
        if self.allowed:
            known = names.did_you_mean(self._word(), self.allowed, self.page)
        return " ".join(f"{place}{given}: {self.problem}{known}".split())
