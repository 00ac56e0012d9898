"""What rows of elastic jobs stand on: a store that answers as the declared backend expects."""

from pytest_gpucluster.evidence.log import payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects import pods as stories
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.elastic import shared
from pytest_gpucluster.requirement import Cause, Presupposed

NO_V2 = Cause(
    "this etcd has no v2 API: it is off by default since 3.4 and gone in 3.6, and torch's etcd-v2 backend speaks "
    "nothing else",
    "run etcd 3.5 or older with --enable-v2, or set elastic.backend to c10d-store-pod, which needs no etcd",
)
OTHER = Cause(
    "something else answers at the endpoint: another service, a proxy, or a store of another kind than declared",
    "check host and port of elastic.endpoint, and which backend it is of",
)
UNREACHABLE = Cause(
    "nobody listens at the endpoint, or a NetworkPolicy or a mesh stands before it",
    "look at the pod behind it (kubectl get endpoints) and at policies of both namespaces",
)
UNRESOLVED = Cause(
    "the endpoint's name has no address: the Service is missing, selects no pod, or cluster DNS does not answer",
    "kubectl get service,endpointslices in the namespace of the endpoint; look it up from a pod",
)
STORE_ENDED = Cause(
    "the pod with the store has ended",
    "read its log; an etcd that calls --enable-v2 an unknown flag is 3.6 or later: take 3.5",
)
CAUSES = {"no-v2": NO_V2, "garbage": OTHER, "unreachable": UNREACHABLE, "unresolved": UNRESOLVED}


def store_answers(evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether the store answered the workers as the declared backend expects."""
    name = "the store of the rendezvous answers"
    made = {uid for _, _, uid in subjects.roles(evidence, given).get("store", ())}
    stores = [pod for pod in stories.pods(evidence) if pod.uid in made]
    for pod in stores:
        if pod.finished is not None:
            last = [
                text for line in evidence.logs(pod.uid) if (text := str(line.data.get("line") or "").strip())
            ]
            code = max((code for _, code in pod.exit_codes), default=0)
            text = f"{pod.where} ended with {code}: {wording.short(_telling(last))}"
            gone_v2 = any("enable-v2" in line and "not defined" in line for line in last)
            causes = (NO_V2,) if gone_v2 else (STORE_ENDED,)
            return wording.presupposed(name, held=False, observed=text, causes=causes)
    words = payload_lines.words(evidence).of("elastic-endpoint")
    refused = [word for word in words if word.data.get("ok") is not True]
    if refused and len(refused) == len(words):
        word = refused[0]
        cause = CAUSES.get(str(word.data.get("kind")), UNREACHABLE)
        text = f"{word.pod}: {word.data.get('endpoint')}: {wording.short(str(word.data.get('error')))}"
        return wording.presupposed(name, held=False, observed=text, causes=(cause,), evidence=(word.key,))
    good = [word for word in words if word.data.get("ok") is True]
    if good:
        version = str(good[0].data.get("version") or "")
        text = f"{good[0].data.get('endpoint')} answered {wording.count(len(good), 'worker')}"
        keys = tuple(word.key for word in good[:2])
        shown = f"{text}, etcd {version}" if version else text
        return wording.presupposed(name, held=True, observed=shown, evidence=keys)
    inside = shared.declared_text(given, "backend") == "c10d"
    formed = bool(payload_lines.words(evidence).of("elastic-formed"))
    text = (
        "the store is inside a worker"
        if inside
        else "worlds formed"
        if formed
        else "no worker asked the store"
    )
    return wording.presupposed(name, held=True if inside or formed else None, observed=text)


def _telling(lines: list[str]) -> str:
    """Return the line of a log that says why it ended: the first that names a flag or an error, else the last."""
    told = (line for line in lines if "not defined" in line or "rror" in line or "panic" in line)
    return next(told, lines[-1] if lines else "it said nothing")
