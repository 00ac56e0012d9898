"""Take secrets out of what is about to be written: records, evidence, logs, failure texts.

Two ways to recognise a secret: where it stands (data of a Secret, a value whose name looks secret, an
annotation that repeats a manifest) and what it looks like (bearer tokens, JWT, PEM blocks, keys of known
services, passwords in URLs). Values that are known, such as the token in use, are given to `Redactor`.
"""

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

REDACTED = "[redacted]"

_SPLIT = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])")
_SECRET_WORDS = frozenset(
    {
        "token", "secret", "password", "passwd", "passphrase", "credential", "credentials", "apikey", "cookie",
        "authorization", "auth", "dockerconfigjson", "dockercfg",
    }
)  # fmt: skip
_KEY_OWNERS = frozenset(
    {"access", "api", "private", "secret", "signing", "encryption", "account", "ssh", "client", "auth"}
)
_SUFFIX_WORDS = frozenset({"data", "base64", "b64", "value", "hash"})
"""Words after which the word before decides: `client-key-data`."""

_REPEATING_ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"

_PEM = re.compile(r"-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|\Z)", re.DOTALL)
_PEM_BODY = re.compile(r"^(?![0-9a-fA-F]+$)[A-Za-z0-9+/]{60,76}={0,2}$", re.MULTILINE)
"""A line of a PEM block that was cut into lines; a digest in hexadecimal has the same length and is kept."""
_JWT = re.compile(r"\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}(?:\.[A-Za-z0-9_-]*)?")
_HEADER = re.compile(r"(?i)\b(authorization[\"']?\s*[:=]\s*[\"']?)(?:(?:bearer|basic)\s+)?[^\s\"',}]+")
_BEARER = re.compile(r"(?i)\b(bearer\s+)[A-Za-z0-9._~+/=-]{12,}")
_URL_USER = re.compile(r"(://)[^/\s:@\"']+:[^/\s@\"']+@")
_KNOWN_KEY = re.compile(
    r"\b(?:AKIA[0-9A-Z]{16}|hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|glpat-[A-Za-z0-9_-]{16,}"
    r"|nvapi-[A-Za-z0-9_-]{16,}|xox[abprs]-[A-Za-z0-9-]{10,}|sk-[A-Za-z0-9_-]{20,})"
)
_ASSIGNED = re.compile(
    r"(?P<name>[A-Za-z_][A-Za-z0-9_.-]*)(?P<sep>\\?[\"']?\s?[=:]\s?)"
    r"(?P<value>\\?\"(?:[^\"\\]|\\(?!\"))*\\?\"|'[^']*'|[^\s,;&\"'{}\[\]]+)"
)

_SIGNS = (
    "token", "secret", "passw", "passphrase", "credential", "apikey", "cookie", "auth", "dockerc", "bearer",
    "-----begin", "eyj", "akia", "hf_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "glpat-", "nvapi-", "xox",
    "last-applied",
)  # fmt: skip
"""In lower case, what stands in or beside whatever `clean` replaces; the patterns below find the rest."""
_OWNED_KEY = re.compile(rf"(?:{'|'.join(sorted(_KEY_OWNERS))})[^a-z0-9]*keys?")
_ESCAPE = re.compile(r"\\(?:u[0-9a-f]{4}|[bfnrt])")
_SERVICE_KEY = re.compile(r"\bsk-[A-Za-z0-9_-]{20}")
_LONG = re.compile(r'["n][A-Za-z0-9+/]{60,76}={0,2}["\\]')
"""A line of `_PEM_BODY` as it stands in JSON: between quotes or escaped ends of lines."""

_QUOTE = re.compile(r"\\?[\"']")

_OBJECT = re.compile(
    r"(?:(?:^|\s)-n\s|--namespace[ =]|\bnamespaces?/?\s?'?|"
    r"\b(?:\w*job|\w*jobs|podgroup|pods?|workload|queue|\w*queue|node|service|secret|configmap|resourcequota|"
    r"\w+\.[a-z.-]+)/)$",
    re.IGNORECASE,
)
"""What stands before the name of an object: `-n c-secret`, `pod/get-token`; a colon after it begins a sentence."""
_PROSE = frozenset(
    {
        "a", "an", "and", "any", "are", "as", "at", "cannot", "could", "does", "each", "expected",
        "failed", "for", "from", "has", "in", "invalid", "is", "it", "may", "missing", "must", "no",
        "none", "not", "of", "on", "or", "required", "the", "this", "to", "unable", "unknown", "was",
        "were", "will", "with",
    }
)  # fmt: skip
"""Words that begin what a sentence says after a colon, and are nobody's secret."""


def looks_secret(name: str) -> bool:
    """Report whether a name is one that holds a secret, such as `HF_TOKEN`, `client-key-data`, `apiKey`.

    The last word decides: `secretName` and `TOKENIZERS_PARALLELISM` hold none.
    """
    words = [word.lower() for word in _SPLIT.split(name) if word]
    while len(words) > 1 and words[-1] in _SUFFIX_WORDS:
        words.pop()
    if not words:
        return False
    if words[-1] in {"key", "keys"}:
        return len(words) > 1 and words[-2] in _KEY_OWNERS
    return words[-1] in _SECRET_WORDS


@dataclasses.dataclass(frozen=True)
class Redactor:
    """Redacts by place and by look, and the values it was told.

    Attributes:
        known: secret values in use, such as the bearer token of the connection; short ones are ignored,
            since replacing them would destroy unrelated text.
    """

    known: tuple[str, ...] = ()

    def clean(self, value: Any) -> Any:
        """Return a copy of plain data in which every secret is replaced by `[redacted]`."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return self._mapping(value)
        if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
            return self._sequence(value)
        return value

    def suspects(self, text: str) -> bool:
        """Report whether data, given as JSON, may hold something that `clean` would replace.

        Many times cheaper than cleaning: of thousands of objects most hold nothing, and are only looked at.
        """
        low = text.lower()
        return (
            any(sign in low for sign in _SIGNS)
            or ("key" in low and _OWNED_KEY.search(low) is not None)
            or ("://" in text and _URL_USER.search(text) is not None)
            # The letter of an escape stands before the key like a letter of a word.
            or ("sk-" in text and _SERVICE_KEY.search(_ESCAPE.sub(" ", text)) is not None)
            or _LONG.search(text) is not None
            or any(secret in text or json.dumps(secret)[1:-1] in text for secret in self.known)
        )

    def text(self, text: str) -> str:
        """Return a text without the secrets in it."""
        for secret in self.known:
            if len(secret) >= 6:
                text = text.replace(secret, REDACTED)
        text = _PEM.sub(REDACTED, text)
        text = _PEM_BODY.sub(REDACTED, text)
        text = _JWT.sub(REDACTED, text)
        text = _HEADER.sub(rf"\g<1>{REDACTED}", text)
        text = _BEARER.sub(rf"\g<1>{REDACTED}", text)
        text = _URL_USER.sub(rf"\g<1>{REDACTED}@", text)
        text = _KNOWN_KEY.sub(REDACTED, text)
        return _without_assigned(text)

    def _mapping(self, value: Mapping[Any, Any]) -> dict[Any, Any]:
        kind = value.get("kind")
        if kind == "SecretList" and isinstance(value.get("items"), list):
            value = {**value, "items": [{"kind": "Secret", **item} for item in value["items"]]}
        cleaned: dict[Any, Any] = {}
        for key, item in value.items():
            if kind == "Secret" and key in {"data", "stringData"} and isinstance(item, Mapping):
                cleaned[key] = dict.fromkeys(item, REDACTED)
            elif key == _REPEATING_ANNOTATION or (
                isinstance(item, str) and item and isinstance(key, str) and looks_secret(key)
            ):
                cleaned[key] = REDACTED
            else:
                cleaned[key] = self.clean(item)
        name = value.get("name")
        if isinstance(name, str) and looks_secret(name) and isinstance(value.get("value"), str):
            cleaned["value"] = REDACTED
        return cleaned

    def _sequence(self, value: Sequence[Any]) -> list[Any]:
        cleaned: list[Any] = []
        secret_follows = False
        for item in value:
            cleaned.append(REDACTED if secret_follows and isinstance(item, str) else self.clean(item))
            secret_follows = isinstance(item, str) and item.startswith("--") and looks_secret(item)
        return cleaned


def _without_assigned(text: str) -> str:
    """Return a text without the values of names that hold secrets; a value may be a name itself: `error: token: x`."""
    parts: list[str] = []
    at = 0
    while (match := _ASSIGNED.search(text, at)) is not None:
        if not looks_secret(match["name"]) or REDACTED in match["value"] or _is_sentence(match):
            end = match.end("sep") if match["value"].endswith((":", "=")) else match.end()
            parts.append(text[at:end])
            at = end
            continue
        quote = _QUOTE.match(match["value"])
        mark = quote[0] if quote else ""
        parts.append(f"{text[at : match.start()]}{match['name']}{match['sep']}{mark}{REDACTED}{mark}")
        at = match.end()
    parts.append(text[at:])
    return "".join(parts)


def _is_sentence(match: re.Match[str]) -> bool:
    """Report whether what follows a name and a colon is prose about it: `vcjob/hang -n c-secret: in trouble`."""
    if not match["sep"].endswith(": "):
        return False
    return match["value"].lower() in _PROSE or _OBJECT.search(match.string[: match.start()]) is not None


def clean(value: Any) -> Any:
    """Return a copy of plain data without secrets, for callers that know no secret values."""
    return Redactor().clean(value)
