"""ELA-006: the image in which training runs has what the declared rendezvous backend needs.

Asked in the image itself, by each worker before its agent starts: what is missing there makes every worker end with
whatever torchrun misses first.
"""

from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.elastic import shared
from pytest_gpucluster.requirement import Cause, Finding

REQUIRED = "the workers' image has torch and what the declared rendezvous backend needs, and all of it can be imported"
ETCD = Cause(
    "the image lacks the client of etcd: torch names it as needed but does not bring it",
    "add `pip install python-etcd urllib3` to the image (python-etcd 0.4.5 works up to Python 3.13), or use a store "
    "pod, which needs no client",
)
TORCH = Cause("the image has no torch", "name an image with torch in the profile (images.torch)")
BROKEN = Cause(
    "the client is installed but cannot be imported: its dependencies do not match it, or this Python",
    "import it in the image by hand, and pin the versions that go together",
)


def _odd(word: payload_lines.Word, backend: str) -> str:
    """Return what a worker that lacks nothing says against it, "" for nothing."""
    missing = fields.sub(word.data, "missing")
    if missing:
        return f"names {wording.listed(list(missing))} as missing"
    if not word.data.get("torch"):
        return "names no torch"
    if backend == "etcd-v2" and not fields.sub(word.data, "modules"):
        return "names no client of etcd"
    return ""


@subjects.judge
def in_the_image(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge ELA-006."""
    named = subjects.cast(evidence, given, "training")
    pods = {pod.uid: pod for gang in (named or subjects.everyone(evidence)) for pod in gang.pods}
    words = [word for word in payload_lines.words(evidence).of("elastic-client") if word.uid in pods]
    backend = shared.declared_text(given, "backend")
    started = [pod for pod in pods.values() if pod.running is not None]
    gang = named[0] if named else None
    told = wording.Findings(REQUIRED, gang, evidence=tuple(word.key for word in words)[:8])
    lacking = [word for word in words if word.data.get("ok") is not True]
    if lacking:
        missing = fields.sub(lacking[0].data, "missing")
        text = (
            "; ".join(f"{name}: {why}" for name, why in missing.items()) or "it did not say what is missing"
        )
        absent = any("ModuleNotFoundError" in str(why) for why in missing.values())
        cause = TORCH if "torch" in missing else ETCD if absent else BROKEN
        return told.fail(f"{lacking[0].pod} cannot use {backend}: {text}", cause, violation=True)
    other = [word for word in words if backend and word.data.get("backend") != backend]
    if other:
        return told.inconclusive(
            f"{other[0].pod} was asked for {other[0].data.get('backend')}, declared is {backend}"
        )
    mute = [pod.name for pod in started if pod.uid not in {word.uid for word in words}]
    if mute or not words:
        return told.inconclusive(f"{wording.listed(mute) or 'no worker'} did not say what its image has")
    for word in words:
        odd = _odd(word, backend)
        if odd:
            return told.inconclusive(f"{word.pod} says that all is there, but {odd}")
    modules = fields.sub(words[0].data, "modules")
    more = "".join(f", {name} {version}" for name, version in modules.items())
    text = (
        f"{wording.count(len(words), 'worker')} found torch {words[0].data.get('torch')}{more} for {backend}"
    )
    return told.passed(f"{text}, on Python {words[0].data.get('python')}")
