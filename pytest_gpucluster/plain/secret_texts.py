"""Texts without the secrets in them: what a name that holds a secret is set to, and what looks like one."""

import functools
import re
from collections.abc import Callable

from pytest_gpucluster.plain import secret_shapes, withheld
from pytest_gpucluster.plain.secret_names import looks_secret
from pytest_gpucluster.plain.secret_shapes import REDACTED

_ASSIGNED = re.compile(
    r"(?P<name>[A-Za-z_][A-Za-z0-9_.-]*)(?P<sep>\\{0,7}[\"']?\s?(?:=>|:=|[=:]|%3[Dd])\s?)"
    r"(?P<value>(?P<q>\\{0,7}\")(?:[^\"\\]|\\(?!\"))*\\{0,7}\"|'[^']*'|[^\s,;&\"'{}\[\]]+)"
)
_QUOTE = re.compile(r"\\*[\"']?")
_OPTION = re.compile(
    r"(?<![\w-])(?P<name>--?[A-Za-z][A-Za-z0-9_-]*)(?P<sep>[ \t]+)(?P<value>\"[^\"]*\"|'[^']*'|[^\s\"'\[<-][^\s\"']*)"
)
_PHRASE = re.compile(
    r"(?im)(?:^|(?<=\"))(?P<name>[ \t]*[\w.-]*(?:password|passwd|passphrase|pwd):[ \t]+)"
    r"(?P<value>[^\s\"'\[<{|>][^\n,{}\"\\]*)(?=\"|$)"
)
"""A line of YAML; what follows may have blanks."""
_LEAF = re.compile(r"(?P<place>(?:^|[.\s=])(?:env|annotations)\.)(?P<name>[\w./-]+)=(?P<value>[^\s].*)")
"""A leaf of a profile that is set on a command line: `fabric.env.NAME=VALUE`."""

_OBJECT = re.compile(
    r"(?:(?:^|\s)-n\s|--namespace[ =]|\bnamespaces?/?\s?'?|"
    r"\b(?:\w*job|\w*jobs|podgroup|pods?|workload|queue|\w*queue|node|service|secret|configmap|resourcequota|"
    r"\w+\.[a-z.-]+)/)$",
    re.IGNORECASE,
)
"""What stands before the name of an object: `-n c-secret`, `pod/get-token`; a colon after it begins a sentence."""
_PROSE_WORDS = """
a accepted an and any are as at cannot could denied disabled does each enabled expected expired failed for from had
has have in incorrect invalid is it may mismatch missing must no none not of ok on or refused rejected required
revoked should the there this to unable unauthorized unexpected unknown unsupported valid was were when will with
wrong
"""
_PROSE = frozenset(_PROSE_WORDS.split())
"""Words that begin what a sentence says after a colon, and are nobody's secret."""
_STATE_WORDS = """
Pending Running Succeeded Failed Unknown Completed Completing Complete Error Evicted Terminating Terminated Waiting
Ready NotReady Unschedulable Inqueue Restarting Aborted Aborting Suspended Admitted Preempted DeadlineExceeded
ContainerCreating PodInitializing ContainerCannotRun StartError OOMKilled CrashLoopBackOff ImagePullBackOff
ErrImagePull ErrImageNeverPull InvalidImageName ImageInspectError RegistryUnavailable CreateContainerError
CreateContainerConfigError RunContainerError PostStartHookError PreStopHookError ContainerStatusUnknown NodeLost
NodeAffinity NodeShutdown Shutdown TerminationByKubelet TopologyAffinityError UnexpectedAdmissionError OutOfcpu
OutOfmemory OutOfpods FailedMount FailedScheduling FailedCreate BackOff Unhealthy Killing Pulled Pulling Created
Started Scheduled
"""
_STATES = frozenset(_STATE_WORDS.split())
"""What Kubernetes says of a pod, whatever the pod is called: `secret-0: Error`."""
_ORDINAL = re.compile(r"(?:[a-z0-9]+-)+\d{1,5}")
"""The name of a pod of a set or a gang; a number behind it counts something of it."""
_COUNTED = re.compile(r"(?:[a-z0-9]+[ _-])*tokens?(?:[ _-]id)?", re.IGNORECASE)
_OF_MODELS = re.compile(
    r"(?:eos|bos|pad|unk|mask|sep|cls|stop|special|image|next|last|first|max|num|new|start|end|begin)[_-]tokens?",
    re.IGNORECASE,
)
_FEW = re.compile(r"-?\d{1,5}(?:\.\d{1,6})?[.;]?")
_MANY = re.compile(r"-?\d{1,9}[.;]?")
"""Numbers of tokens, and ids of tokens of a model; six digits behind `token` alone may be a passcode."""
_WORD = re.compile(r"[A-Za-z]+[.,;:]?")
_SENTENCE = re.compile(r"\s+[A-Za-z(\"']")
_DASHED = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)+")

_ROUNDS = 8
CACHED = 256
"""Characters of a text that is remembered: objects of a cluster say the same thousands of times."""

_SAFE = re.compile(
    r"[\w.,/+-]{0,15}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT[\d:.]{8,18}Z?|"
    r"[a-z][a-z0-9.-]{0,40}/[a-z.-]{1,24}|(?:[a-z0-9]{1,12}[.-]){1,12}[a-z0-9]{1,12}"
)
"""Texts in which nothing can be found: too short, or an id, a time, the name of a resource or a machine."""


_SIZED = re.compile(rf"{withheld.MARK.pattern}|<\d+ (?:base64 )?bytes>|<redacted>")


def is_replaced(value: str) -> bool:
    """Report whether a text is what stands in place of a secret."""
    return value == REDACTED or _SIZED.fullmatch(value) is not None


def plain(text: str) -> str:
    """Return a value of an object, such as a name or an image, without what is a secret in it."""
    return _plain(text) if len(text) <= CACHED else _plain_whole(text)


def free(text: str) -> str:
    """Return what somebody wrote, or a program said, without the secrets in it."""
    return _free(text) if len(text) <= CACHED else _free_whole(text)


def _plain_whole(text: str) -> str:
    return text if _SAFE.fullmatch(text) else _settled(text, _plain_once)


def _free_whole(text: str) -> str:
    return text if _SAFE.fullmatch(text) else _settled(text, _free_once)


def _settled(text: str, once: Callable[[str], str]) -> str:
    """Return a text from which nothing more is taken: without one secret, what was beside it may look like another."""
    for _ in range(_ROUNDS):
        before, text = text, once(text)
        if text == before:
            break
    return text


def _plain_once(text: str) -> str:
    return _unassigned(secret_shapes.known(text))


def _free_once(text: str) -> str:
    escaped = "\\n" in text and "\n" not in text
    if escaped:  # a text within JSON has lines too
        text = text.replace("\\n", "\n")
    text = _unassigned(secret_shapes.said(secret_shapes.known(text)))
    text = secret_shapes.by_chance(text)
    text = "\n".join(continued(text.split("\n"))) if "\n" in text and REDACTED in text else text
    return text.replace("\n", "\\n") if escaped else text


_plain = functools.lru_cache(maxsize=32768)(_plain_whole)
_free = functools.lru_cache(maxsize=8192)(_free_whole)


def forget() -> None:
    """Forget the texts that are remembered, as whoever measures must."""
    for one in (_plain, _free):
        one.cache_clear()


# -- what names are set to -------------------------------------------------------------------------------------------


def _unassigned(text: str) -> str:
    """Return a text without the values of names that hold secrets."""
    if "env." in text or "annotations." in text:
        text = _LEAF.sub(_without_leaf, text)
    if not secret_shapes.signs(text.lower()):
        return text
    if "-" in text and " " in text:
        text = _OPTION.sub(_without_option, text)
    if not any(sign in text for sign in "=:%"):
        return text
    if ": " in text:
        text = _PHRASE.sub(_without_phrase, text)
    return _without_assigned(text)


def _without_option(found: re.Match[str]) -> str:
    name, value = found["name"], found["value"]
    if not looks_secret(name) or value.lower() in _PROSE or REDACTED in value:
        return found[0]
    return f"{name}{found['sep']}{REDACTED}"


def _without_phrase(found: re.Match[str]) -> str:
    first = found["value"].partition(" ")[0].lower().rstrip(".,;")
    if (
        first in _PROSE
        or withheld.MARK.match(found["value"])
        or _DASHED.fullmatch(found["name"].strip(" \t:"))
    ):
        return found[0]
    return f"{found['name']}{REDACTED}"


def _without_leaf(found: re.Match[str]) -> str:
    name, value = found["name"], found["value"]
    judge = withheld.variable if found["place"].endswith("env.") else withheld.annotation
    placed = withheld.of(value) if looks_secret(name) else judge(name, value)
    return found[0] if placed is None else f"{found['place']}{name}={placed}"


def _without_assigned(text: str) -> str:
    """Return a text without the values of names that hold secrets; a value may be a name itself: `error: token: x`."""
    parts: list[str] = []
    at = 0
    while (match := _ASSIGNED.search(text, at)) is not None:
        value = match["value"]
        nothing = not value.strip("\\")  # what is left of an escape: its rest was taken out before
        if not looks_secret(match["name"]) or nothing or REDACTED in value or _is_said(match):
            end = (
                match.end("sep") if value.endswith((":", "=")) or match["sep"].endswith(" ") else match.end()
            )
            end = match.end("sep") if value[:1] in "\\\"'" and match["sep"].strip() else end
            parts.append(text[at:end])
            at = end
            continue
        quote = _QUOTE.match(value)
        mark = quote[0] if quote else ""
        closing = mark if mark.strip("\\") else ""
        parts.append(f"{text[at : match.start()]}{match['name']}{match['sep']}{mark}{REDACTED}{closing}")
        at = match.end()
    parts.append(text[at:])
    return "".join(parts)


def _is_said(match: re.Match[str]) -> bool:
    """Report whether what follows a name and a colon is prose about it: `vcjob/hang -n c-secret: in trouble`."""
    if match["value"].startswith("<") and withheld.MARK.match(match.string, match.start("value")):
        return True
    if _is_counted(match["name"], match["value"]):
        return True
    if not match["sep"].endswith(": ") or match["sep"].startswith(('"', "'", "\\")):
        return match["name"] == "PWD" and match["value"].startswith("/")
    value = match["value"].lower()
    if match["name"].islower() and match.string[: match.start()].endswith("/"):
        return True
    if match["value"].rstrip(".,;:") in _STATES:
        return True
    if value.rstrip(".,;:") in _PROSE or _OBJECT.search(match.string[: match.start()]) is not None:
        return True
    goes_on = _WORD.fullmatch(match["value"]) and _SENTENCE.match(match.string, match.end())
    before = match.string[: match.start()].rstrip(" ")[-1:]
    return bool(goes_on) and (before.isalpha() or _DASHED.fullmatch(match["name"]) is not None)


def _is_counted(name: str, value: str) -> bool:
    """Report whether a number is one of tokens of text, or counts something of a pod."""
    if _FEW.fullmatch(value):
        return _COUNTED.fullmatch(name) is not None or _ORDINAL.fullmatch(name) is not None
    return _MANY.fullmatch(value) is not None and _OF_MODELS.fullmatch(name) is not None


# -- what goes over several lines ------------------------------------------------------------------------------------

_REST = re.compile(r"\s*[\"']?[A-Za-z0-9+/=_.-]{4,}[\"'\\,]{0,3}\s*")


def goes_on(line: str, width: int) -> bool:
    """Report whether a line is the rest of a secret that filled the line before."""
    word = line.strip()
    return (
        0 < len(word) <= width
        and _REST.fullmatch(line) is not None
        and not (word.isalpha() and (word.islower() or word.istitle()))
    )


def continued(lines: list[str]) -> list[str]:
    """Return clean lines; those that go on with what was replaced at the end of the one before are replaced too."""
    made: list[str] = []
    follows = False
    for line in lines:
        rest = follows and line.strip() and goes_on(line, 76) and len(line.strip()) >= 8
        made.append(REDACTED if rest else line)
        follows = bool(rest) or line.rstrip(" \r\"'\\").endswith(REDACTED)
    return made
