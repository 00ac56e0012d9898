"""Authentication: bearer tokens and the users behind them."""

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pytest_gpucluster.embedded.errors import ApiError
from pytest_gpucluster.embedded.store import Store

AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
MASTERS = "system:masters"


@dataclass(frozen=True)
class User:
    """Who sends a request.

    Attributes:
        name: User name, as messages and bindings have it.
        groups: The groups that bindings may name.
    """

    name: str
    groups: tuple[str, ...] = ()


ANONYMOUS = User("system:anonymous", (UNAUTHENTICATED,))
"""A request without credentials."""


def account(namespace: str, name: str) -> User:
    """Return the user that a ServiceAccount is."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
    return User(f"system:serviceaccount:{namespace}:{name}", groups)


@dataclass(frozen=True)
class _Issued:
    """A token that a TokenRequest gave out."""

    namespace: str
    name: str
    uid: str
    expires: datetime


class TokenError(ValueError):
    """A list of tokens that cannot be used; the text is one line."""


class Tokens:
    """The known bearer tokens: those of the configuration, and those that ServiceAccounts were given."""

    def __init__(self, static: Mapping[str, User]) -> None:
        """Know the tokens of the configuration."""
        self._static = dict(static)
        self._issued: dict[str, _Issued] = {}

    @classmethod
    def of(cls, rows: object) -> "Tokens":
        """Read the `tokens` of a configuration: a list of `{token, user, groups}`.

        Raises:
            TokenError: says what is wrong with it.
        """
        if rows is None:
            return cls({})
        if not isinstance(rows, list):
            raise TokenError("tokens must be a list of {token, user, groups}")
        static: dict[str, User] = {}
        for row in rows:
            token, user = _row(row)
            if token in static:
                raise TokenError(f"tokens: two rows have the same token, the second is of user {user.name}")
            static[token] = user
        return cls(static)

    def __bool__(self) -> bool:
        """Report whether the configuration names any: only then requests are authenticated."""
        return bool(self._static)

    def issue(self, account_object: Mapping[str, Any], expires: datetime) -> str:
        """Return a new token of a ServiceAccount; it ends with its time or with the account."""
        metadata = account_object["metadata"]
        token = secrets.token_urlsafe(32)
        self._issued[token] = _Issued(metadata["namespace"], metadata["name"], metadata["uid"], expires)
        return token

    def user_of(self, header: str | None, store: Store) -> User:
        """Return the user of an Authorization header; without one, the anonymous user.

        Raises:
            ApiError: 401 for a token that is unknown, has expired, or whose account is gone.
        """
        scheme, _, token = (header or "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return ANONYMOUS
        token = token.strip()
        known = self._static.get(token)
        if known is not None:
            return known
        issued = self._issued.get(token)
        if issued is None or issued.expires <= store.clock():
            raise unauthorized()
        present = store.peek("ServiceAccount", issued.namespace, issued.name)
        if present is None or present["metadata"]["uid"] != issued.uid:
            raise unauthorized()
        return account(issued.namespace, issued.name)


def unauthorized() -> ApiError:
    """Return the 401 of credentials that are not accepted."""
    return ApiError(401, "Unauthorized", "Unauthorized")


def _row(row: object) -> tuple[str, User]:
    if not isinstance(row, dict) or set(row) - {"token", "user", "groups"}:
        raise TokenError("tokens: each row is an object with token, user and groups")
    token, name, groups = row.get("token"), row.get("user"), row.get("groups") or []
    if not isinstance(token, str) or not token or not isinstance(name, str) or not name:
        raise TokenError("tokens: each row needs a token and a user that are not empty")
    if not isinstance(groups, list) or not all(isinstance(group, str) for group in groups):
        raise TokenError(f"tokens: the groups of user {name} must be a list of texts")
    return token, User(name, _with_authenticated(groups))


def _with_authenticated(groups: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*groups, AUTHENTICATED]))
