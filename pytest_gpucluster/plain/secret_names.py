"""Which names are those of secrets: variables, keys, options, headers."""

import functools
import re

_SPLIT = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[A-Za-z])(?=\d+$)")

WORDS = frozenset(
    {
        "token", "secret", "password", "passwd", "passphrase", "passcode", "credential", "credentials", "apikey",
        "cookie", "authorization", "auth", "dockerconfigjson", "dockercfg", "jwt", "creds", "passwort",
    }
)  # fmt: skip
"""A name that ends with one of these holds a secret."""

_BEHIND_OTHERS = frozenset({"pass", "pwd", "pat", "sas", "dsn", "psk", "signature", "cred", "otp"})
"""Words that are names of secrets only behind another: `DB_PASS`, but not the `pass` of a count."""
_NO_OWNERS = frozenset(
    {"forward", "backward", "first", "second", "last", "single", "num", "max", "min", "data"}
)
"""Words before those which say that it is about a computation: `forward_pass`."""

_KEY_OWNERS = frozenset(
    {
        "access", "api", "private", "secret", "signing", "encryption", "account", "ssh", "client", "auth", "storage",
        "shared", "master", "license", "hmac", "deploy", "session", "app", "application", "service", "rsa", "aes",
        "subscription", "admin", "wandb", "openai", "anthropic", "ngc", "hf", "function", "instrumentation",
        "consumer", "pem", "tls", "user", "server", "integration", "routing", "write", "webhook",
    }
)  # fmt: skip
_ENDINGS = (
    "password", "passwd", "passphrase", "secret", "token", "apikey", "accesskey", "secretkey", "privatekey", "authkey",
    "accountkey", "sharedkey", "masterkey", "signingkey", "encryptionkey", "credential", "credentials", "dbpass",
)  # fmt: skip
"""What a name written as one word ends with: `mysqlpassword`."""
_STRONG = frozenset(
    {"PASSWORD", "PASSWD", "SECRET", "TOKEN", "APIKEY", "CREDENTIAL", "CREDENTIALS", "PASSPHRASE"}
)
_ABOUT = frozenset(
    {
        "NAME", "NAMES", "FILE", "PATH", "DIR", "ID", "URL", "URI", "ENDPOINT", "TTL", "EXPIRY", "EXPIRES", "LENGTH",
        "LEN", "COUNT", "LIMIT", "TYPE", "SIZE", "NUM", "PARALLELISM", "ENABLED", "REQUIRED", "REF", "VERSION", "HOST",
        "PORT", "AUDIENCE", "ISSUER", "NAMESPACE", "SECONDS", "TIMEOUT", "USER", "USERNAME", "MODE", "RATE", "BUCKET",
        "STORE", "PROVIDER",
    }
)  # fmt: skip
"""Last words of a variable that says something about a secret, and does not hold it."""
_SUFFIX_WORDS = frozenset(
    {"data", "base64", "b64", "value", "hash", "plain", "text", "string", "json", "encoded"}
)
"""Words after which the word before decides: `client-key-data`."""


@functools.lru_cache(maxsize=8192)
def looks_secret(name: str) -> bool:
    """Report whether a name is one that holds a secret, such as `HF_TOKEN`, `client-key-data`, `apiKey`.

    The last word decides: `secretName` and `TOKENIZERS_PARALLELISM` hold none. In a variable in capitals any word does,
    unless the last says what is told about it: `TOKEN_PROD` holds one, `TOKEN_FILE` does not.
    """
    parts = [word for word in _SPLIT.split(name) if word]
    words = [word.lower() for word in parts]
    while len(words) > 1 and (words[-1] in _SUFFIX_WORDS or words[-1].isdecimal()):
        words.pop()
    if not words:
        return False
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last in {"key", "keys"}:
        return before in _KEY_OWNERS or (len(words) > 1 and _is_variable(name))
    if last in {"string", "str"} and before == "connection":
        return True
    if last in WORDS or last.endswith(_ENDINGS) or name.lower().endswith("connectionstring"):
        return True
    if last in _BEHIND_OTHERS:
        return bool(before) and before not in _NO_OWNERS
    return _is_variable(name) and not _ABOUT.intersection(parts[-1:]) and bool(_STRONG.intersection(parts))


def _is_variable(name: str) -> bool:
    return name.isupper() and "_" in name
