"""A create for the job that was not taken: why, by what the API server answered."""

from collections.abc import Iterator

from pytest_gpucluster.diagnose import words
from pytest_gpucluster.diagnose.detect.control import CALL_FAILED, NO_MATCHES, refused_at_admission
from pytest_gpucluster.diagnose.detect.suspecting import fault
from pytest_gpucluster.diagnose.model import Stage, Suspect
from pytest_gpucluster.diagnose.situation import Situation
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.judge import creating


def refused(s: Situation) -> Iterator[Suspect]:
    """The queue was shut, a permission or a namespace was missing, a server failed; else a gate refused the job."""
    told = False
    for line, code, message in creating.refused(s.evidence):
        name = fields.text(line.data, "request").rpartition("/")[2]
        if (s.name and name != s.name) or NO_MATCHES.search(message) or CALL_FAILED.search(message):
            continue  # another job's, or told by those who look at the API and its webhooks
        shut = creating.CLOSED.search(message) is not None
        if "denied the request" in message and not shut:
            continue
        cause = creating.why(code, message)
        seen = f"{fields.text(line.data, 'request')} was answered HTTP {code}: {words.short(message) or 'no message'}"
        rows = ("REF-004",) if shut else ()
        yield fault("not-created", Stage.API, cause, seen, evidence=(line.key,), rows=rows)
        told = True
    if not told:
        yield from refused_at_admission(s)
