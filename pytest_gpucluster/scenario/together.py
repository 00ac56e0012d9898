"""Together: which kinds may be deleted by their labels, several objects with one request."""

from pytest_gpucluster.kube import kinds, permissions


class Together:
    """What is known of the right to delete by labels; nobody must grant it: without it each object is a request."""

    def __init__(self, rights: permissions.Rights) -> None:
        """Know what the server told of our rights."""
        self._rights = rights
        self._refused: set[str] = set()

    def may(self, info: kinds.KindInfo) -> bool:
        """Report whether it may be tried."""
        return info.key not in self._refused and not self._rights.missing(
            permissions.on(info, "deletecollection")
        )

    def refused(self, info: kinds.KindInfo) -> None:
        """Remember that it was refused: it would be again."""
        self._refused.add(info.key)
