"""Creates that were not taken: the diagnosis has the cause of the answer."""

import pytest

from pytest_gpucluster import diagnose
from tests.diagnose.planting import Dump

DENIED = 'admission webhook "validatejob.volcano.sh" denied the request: '
SHUT = DENIED + "can only submit job to queue with state `Open`, queue `gold` status is `Closing`;"


def _answered(code: int, message: str, name: str = "torch") -> Dump:
    dump = Dump().drop("Job", "PodGroup", "Pod", "Event")
    status = {"code": code, "message": message}
    line = {"type": "RESPONSE", "case": "", "request": f"create Job.batch.volcano.sh/{name}", "code": code}
    dump.extra.append({**line, "status": status})
    return dump


@pytest.mark.parametrize(
    ("code", "message", "first", "words"),
    [
        (400, SHUT, "not-created", "gold is Closing"),
        (400, 'strict decoding error: unknown field "spec.foo"', "not-created", "not known to this version"),
        (403, ('jobs is forbidden: User "x" cannot create resource "jobs" in API '
              'group'), "not-created", "may not create"),
        (500, "etcdserver: mvcc: database space exceeded", "not-created", "etcd is full"),
        (500, "Internal error occurred: flux", "not-created", "flux"),
        (400, DENIED + "duplicated task name a", "refused-at-admission", "duplicated task name a"),
    ],
)  # fmt: skip
def test_a_create_that_was_not_taken(code: int, message: str, first: str, words: str):
    """The first cause is the answer's, and it is trouble."""
    found = _answered(code, message).diagnose()
    text = " ".join(diagnose.render(found).split())
    assert found.state.value == "trouble", text
    assert found.suspects[0].code == first, text
    assert words in text, text
