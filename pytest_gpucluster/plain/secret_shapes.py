"""What secrets look like: keys of known services, tokens, key files, passwords in addresses, words made by chance."""

import itertools
import re

REDACTED = "[redacted]"

# -- shapes that are known -------------------------------------------------------------------------------------------

_PEM = re.compile(r"-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|\Z)", re.DOTALL)
_PEM_BODY = re.compile(r"^(?![0-9a-fA-F]+$)[A-Za-z0-9+/]{60,76}={0,2}$", re.MULTILINE)
"""A line of a PEM block that was cut into lines; a digest in hexadecimal has the same length and is kept."""
_PUTTY = re.compile(r"(PuTTY-User-Key-File-\d: ).*", re.DOTALL)
_JWT = re.compile(r"\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}(?:\.[A-Za-z0-9_-]*)*")
_SCHEME = re.compile(
    r"(?i)\b((?:proxy-)?authorization[\"']?\s*[:=]\s*[\"']?)(?:bearer|basic|digest|token|apikey|negotiate|aws4-hmac-sha256)"
    r"\s+[^\s\"'}]+(?:,\s?\w+=[^\s\"'},]+)*"
)
_HEADER = re.compile(r"(?i)(?<![a-z] )\b((?:proxy-)?authorization[\"']?\s*[:=]\s*[\"']?)[^\s\"'}]+")
_KEY_HEADER = re.compile(
    r"(?i)\b((?:x-[a-z0-9-]*(?:key|token|secret|auth|password|signature)|private-token|job-token|deploy-token|api-key"
    r"|ocp-apim-subscription-key)[\"']?\s*:\s*[\"']?)[^\s\"',}]+"
)
_COOKIE = re.compile(r"(?i)\b((?:set-)?cookie[\"']?\s*:\s*[\"']?)[^\r\n\"']+")
_BEARER = re.compile(r"(?i)\b(bearer\s+)[A-Za-z0-9._~+/=-]{12,}")
_URL_USER = re.compile(r"(://)(?:[^/\s:@\"']*:[^/\s\"']+|[^/\s:@\"']{16,})@(?!sha\d)")
_URL_QUERY = re.compile(
    r"(?i)([?&](?:[\w.-]*(?:token|secret|password|passwd|pwd|apikey|api_key|api-key|signature|credential|auth)[\w-]*=|(?:sig|key"
    r"|code|sas)=(?=[^\s&]{12})))[^\s&\"'<>#]+"
)
_HOOK = re.compile(
    r"(?i)((?:hooks\.slack\.com/(?:services|workflows)|discord(?:app)?\.com/api/webhooks|[\w.-]+\.webhook\.office\.com/webhookb2"
    r"|api\.telegram\.org/bot)/?)[^\s\"'<>]+"
)
_KNOWN_KEY = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    # Clouds.
    r"(?:AKIA|ASIA|AROA|AIDA|ABIA|ACCA)[0-9A-Z]{16}|AIza[A-Za-z0-9_-]{30,}|GOCSPX-[A-Za-z0-9_-]{20,}|ya29\.[A-Za-z0-9_-]{20,}"
    r"|1//0[A-Za-z0-9_-]{20,}|LTAI[A-Za-z0-9]{12,}|AKID[A-Za-z0-9]{13,}|[A-Za-z0-9_~.-]{3}[78]Q~[A-Za-z0-9_~.-]{30,}"
    r"|do[oprt]_v1_[a-f0-9]{32,}|HRKU-[A-Za-z0-9_-]{20,}|dapi[a-f0-9]{32}(?:-\d)?|tskey-[A-Za-z0-9-]{16,}"
    # Models, experiments, registries of packages and images.
    r"|hf_[A-Za-z0-9]{16,}|api_org_[A-Za-z0-9]{16,}|nvapi-[A-Za-z0-9_-]{16,}|sk-[A-Za-z0-9_-]{20,}|gsk_[A-Za-z0-9]{20,}"
    r"|r8_[A-Za-z0-9]{20,}|xai-[A-Za-z0-9]{20,}|pplx-[A-Za-z0-9]{20,}|wandb_v1_[A-Za-z0-9_]{16,}|npm_[A-Za-z0-9]{20,}"
    r"|pypi-AgE[A-Za-z0-9_-]{16,}|rubygems_[a-f0-9]{20,}|dckr_[a-z]{3}_[A-Za-z0-9_-]{20,}|cmVmdGtu[A-Za-z0-9+/=]{20,}"
    r"|AKC[a-z0-9][A-Za-z0-9]{20,}|tgp_v1_[A-Za-z0-9_-]{16,}|key_live_[A-Za-z0-9]{16,}"
    # Code, tickets, chat.
    r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|gl(?:pat|rt|dt|cbt|ptt|ft|soat|agent|imt)-[A-Za-z0-9_-]{16,}"
    r"|GR1348941[A-Za-z0-9_-]{16,}|ATBB[A-Za-z0-9]{20,}|ATATT3[A-Za-z0-9_=-]{20,}|xox[abeoprs]-[A-Za-z0-9-]{10,}"
    r"|xapp-[A-Za-z0-9-]{10,}|lin_api_[A-Za-z0-9]{20,}|ntn_[A-Za-z0-9]{20,}|figd_[A-Za-z0-9_-]{16,}|PMAK-[A-Za-z0-9-]{16,}"
    r"|\d{8,10}:AA[A-Za-z0-9_-]{30,}|[MNO][A-Za-z\d_-]{23,27}\.[A-Za-z\d_-]{6}\.[A-Za-z\d_-]{27,}"
    # Money, mail, monitoring, secrets, databases.
    r"|[srp]k_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/=]{16,}|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"
    r"|SK[0-9a-f]{32}|key-[0-9a-f]{32}|[0-9a-f]{32}-us\d{1,2}|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{20,}|sq0[a-z]{3}-[A-Za-z0-9_-]{16,}"
    r"|EAA[A-Za-z0-9]{40,}|pat[A-Za-z0-9]{14}\.[a-f0-9]{40,}|gl(?:c|sa)_[A-Za-z0-9+/=_]{20,}|sntry[su]_[A-Za-z0-9+/=_]{20,}"
    r"|NRAK-[A-Z0-9]{20,}|NRII-[A-Za-z0-9_-]{20,}|hv[sbr]\.[A-Za-z0-9_-]{16,}|s\.[A-Za-z0-9]{24}(?![A-Za-z0-9])"
    r"|[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{30,}|dp\.[a-z]{2,4}\.[A-Za-z0-9]{20,}|AGE-SECRET-KEY-1[A-Z0-9]{20,}"
    r"|sb[ap]_[A-Za-z0-9_]{20,}|pul-[a-f0-9]{30,}|nfp_[A-Za-z0-9]{20,}|pscale_[a-z]+_[A-Za-z0-9_.-]{20,}|FlyV1\s+fm\d_[A-Za-z0-9+/=_,]+"
    r"|\$(?:2[abxy]|5|6|y|apr1|argon2\w*)\$[A-Za-z0-9./$=,+-]{12,}|ops_eyJ[A-Za-z0-9_-]{20,}|secret-token:[^\s\"']+"
    r"|(?<![.-])[a-z0-9]{6}\.(?!1[0-9a-f]{15})[a-z0-9]{16}(?![A-Za-z0-9.-]))"
)
_BLOCKS = re.compile(
    r"(?im)^(\s*(?:[\w-]*(?:password|passwd|secret|token|key|credentials?)):\s*[|>][-+]?\s*\n)"
    r"((?:[ \t]+\S.*(?:\n|\Z))+)"
)
"""A value of YAML on the lines below its name."""
_TAGGED = re.compile(r"(?i)<((?:\w+:)?\w*(?:password|passwd|secret|token|apikey))\b([^<>]*)>[^<>\s][^<>]*</")
_NETRC = re.compile(r"(?i)\b(machine\s+\S+\s+login\s+\S+\s+password\s+)\S+")
_PGPASS = re.compile(
    r"(?m)(?:^|(?<=\"))([\w.*-]+:(?:\d{2,5}|\*):[A-Za-z*][\w*-]*:[A-Za-z*][\w*-]*:)[^\s\"]+(?=[\"}\s]|$)"
)
_LOGIN = re.compile(
    r"((?:\b(?:curl|wget)\b[^\n]*?\s(?:-u|--user)[ =]?[\"']?)[^\s:\"']*:|\bsshpass\s+-p\s*"
    r"|\b(?:mysql|mysqldump|mariadb|mongo|mongosh|mongodump|ldapsearch|psql|redis-cli|smbclient|kinit|vncviewer)\b"
    r"[^\n|;&]*?\s-[pawP]\s?|\blogin\b[^\n|;&]*?\s-p[ =]?"
    r"|\bopenssl\b[^\n]*?\bpass(?:in|out)?\s+(?:pass:)?)[\"']?[^\s\"']+"
)
_SAYS = re.compile(
    r"(?i)\b((?:password|passwd|passphrase|passcode)s?(?:\s+(?:is|was|for\s+\S+\s+is))?\s+)(\\*[\"'`])[^\"'`\n\\]+\2"
)
_ODBC = re.compile(r"(?i)((?<=;)pwd=)[^;\s\"']+")
_IS = re.compile(
    r"(?i)\b((?:password|passwd|passphrase|passcode|token|secret|api\s?key|credentials?)\s+(?:is|was|=>|->|:=|is\s+now|set\s+to)\s+)"
    r"(?=[^\s\"']*[\d@#$%^&*!_])[^\s\"',;]+"
)


def known(text: str) -> str:
    """Return a text without what has the shape of a secret that is known."""
    low = text.lower()
    if "-----BEGIN" in text or "PuTTY" in text:
        text = _PUTTY.sub(rf"\g<1>{REDACTED}", _PEM.sub(REDACTED, text))
    if len(text) >= 60 and ("\n" in text or " " not in text):
        text = _PEM_BODY.sub(REDACTED, text)
    if "eyJ" in text:
        text = _JWT.sub(REDACTED, text)
    if "authorization" in low:
        text = _HEADER.sub(rf"\g<1>{REDACTED}", _SCHEME.sub(rf"\g<1>{REDACTED}", text))
    if ":" in text and signs(low):
        text = _KEY_HEADER.sub(rf"\g<1>{REDACTED}", text)
    if "cookie" in low:
        text = _COOKIE.sub(rf"\g<1>{REDACTED}", text)
    if "bearer" in low:
        text = _BEARER.sub(rf"\g<1>{REDACTED}", text)
    if "://" in text:
        text = _URL_USER.sub(rf"\g<1>{REDACTED}@", text)
    if "=" in text and ("?" in text or "&" in text):
        text = _URL_QUERY.sub(rf"\g<1>{REDACTED}", text)
    if "hook" in low or "telegram" in low:
        text = _HOOK.sub(rf"\g<1>{REDACTED}", text)
    return _KNOWN_KEY.sub(REDACTED, text)


def said(text: str) -> str:
    """Return a text without what commands, files and sentences say to be a secret."""
    low = text.lower()
    if "\n" in text:
        text = _BLOCKS.sub(rf"\g<1>  {REDACTED}\n", text)
    if "</" in text:
        text = _TAGGED.sub(rf"<\g<1>\g<2>>{REDACTED}</", text)
    if "machine" in low:
        text = _NETRC.sub(rf"\g<1>{REDACTED}", text)
    if text.count(":") >= 4:
        text = _PGPASS.sub(rf"\g<1>{REDACTED}", text)
    if " -" in text or "pass" in low:
        text = _LOGIN.sub(rf"\g<1>{REDACTED}", text)
    if "pwd=" in low:
        text = _ODBC.sub(rf"\g<1>{REDACTED}", text)
    if signs(low):
        text = _SAYS.sub(rf"\g<1>\g<2>{REDACTED}\g<2>", text)
        text = _IS.sub(rf"\g<1>{REDACTED}", text)
    return text


_SIGNS = (
    "key", "token", "pass", "secret", "auth", "cred", "pwd", "pat", "cookie", "jwt", "docker", "sas", "dsn", "psk",
    "otp", "signature", "connection",
)  # fmt: skip


def signs(low: str) -> bool:
    """Report whether a text in small letters has what is in every name of a secret; most texts have nothing of it."""
    return any(sign in low for sign in _SIGNS)


# -- words made by chance --------------------------------------------------------------------------------------------

LONG = re.compile(r"[A-Za-z0-9+/_=-]{16,}")
_UID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_CHUNK = re.compile(r"[A-Za-z0-9]+")
_HEX = re.compile(r"[0-9a-fA-F]+")
_DIGEST = re.compile(
    r"(?i)(?:sha-?\d*|md5|digest|commit|revision|rev|hash|checksum|etag|uid|id|sandbox|container|containerd|docker|cri-o|image|pod|"
    r"snapshot|layer|blob|opaque|fingerprint|guid|0x|@|scope|slice)[\"'(\s:=/@_\[-]*$"
)
"""What stands before a digest or an id in hexadecimal."""
_TELLING = re.compile(r"(?i)key|token|secret|passw|credential|auth|login|wandb|datadog|logg?ed in")
_AROUND = 40
"""Characters before a word of hexadecimal digits in which the name of a key makes it one."""


def by_chance(text: str) -> str:
    """Return a text without words that nobody would choose: base64, random letters and digits.

    Names, paths, digests, uids and symbols of programs are kept: their letters come in words, or in groups that are
    short.
    """
    return LONG.sub(lambda found: _judged(text, found), text)


def _judged(text: str, found: re.Match[str]) -> str:
    word = found[0]
    if word.startswith("_Z"):  # the name of a function of C++ in a trace
        return word
    bare = _UID.sub("", word)
    if _is_mixed(bare) or _is_padded(bare, text, found):
        return REDACTED
    chunks = [chunk for chunk in _CHUNK.findall(bare) if len(chunk) >= 24]
    if any(_is_random(chunk, text, found) for chunk in chunks):
        return REDACTED
    return word


def _is_mixed(word: str) -> bool:
    """Report whether small letters, capitals and digits follow each other as in no word and no name."""
    chunks = _CHUNK.findall(word)
    count = sum(map(len, chunks))
    if count < 18:
        return False
    kinds = [sum(map(test, word)) for test in (str.islower, str.isupper, str.isdigit)]
    if kinds[0] < 2 or kinds[1] < 2:
        return False
    turns = sum(_turns(chunk) for chunk in chunks)
    return turns >= count * (0.40 if kinds[2] >= 2 else 0.44)


def _is_padded(word: str, text: str, found: re.Match[str]) -> bool:
    """Report whether a word is base64 that ends with its padding."""
    bare = word.rstrip("=")
    if len(bare) == len(word) or len(word) % 4 or "_" in bare or "-" in bare:
        return False
    after = text[found.end() : found.end() + 1]
    return after not in ('"', "'", "$", "<", "[") and bare.lower() != bare and bare.upper() != bare


def _is_random(chunk: str, text: str, found: re.Match[str]) -> bool:
    """Report whether letters of one kind and digits are mixed as in no name; what is before a digest tells it."""
    digits = sum(map(str.isdigit, chunk))
    if not 3 <= digits < len(chunk) or _turns(chunk) < len(chunk) // 5:
        return False
    if not _HEX.fullmatch(chunk):
        return chunk.islower() or chunk.isupper()
    if len(chunk) < 32:
        return False
    before = text[max(0, found.start() - _AROUND) : found.start() + found[0].find(chunk)]
    if _DIGEST.search(before) and not _TELLING.search(before):
        return False
    return len(chunk) != 64 or _TELLING.search(before) is not None


def _turns(chunk: str) -> int:
    """Return how often a letter is followed by one of another kind."""
    kinds = [1 if c.islower() else 2 if c.isupper() else 3 for c in chunk]
    return sum(a != b for a, b in itertools.pairwise(kinds))
