"""A create that was not taken: the cause is what is answered, and the code alone only where nothing more is said."""

import pytest

from pytest_gpucluster.judge import creating, presuppositions
from tests import recordings

CALLED = 'Internal error occurred: failed calling webhook "mutatejob.volcano.sh": failed to call webhook: Post "x": '
DENIED = 'admission webhook "validatejob.volcano.sh" denied the request: '


@pytest.mark.parametrize(
    ("code", "message", "cause", "spared"),
    [
        (400, DENIED + "can only submit job to queue with state `Open`, queue `gold` status is `Closing`;",
         "gold is Closing", "refuses it"),
        (400, DENIED + 'unable to find queue: queues.scheduling.volcano.sh "gold" not found', "queue", "closing"),
        (400, DENIED + "job 'minAvailable' should not be greater than total replicas", "validatejob.volcano.sh refuses",
         "queue"),
        (400, 'strict decoding error: unknown field "spec.foo"', "not known to this version", "webhook"),
        (500, CALLED + "x509: certificate has expired or is not yet valid", "certificate", "no pod"),
        (500, CALLED + "dial tcp 10.0.0.1:443: connect: connection refused", "no pod that answers", "certificate"),
        (500, CALLED + 'no endpoints available for service "volcano-admission-service"', "no pod that answers",
         "certificate"),
        (500, CALLED + "context deadline exceeded", "in time", "certificate"),
        (500, "etcdserver: mvcc: database space exceeded", "etcd is full", "webhook"),
        (500, "etcdserver: request timed out", "etcd does not answer", "full"),
        (500, "Internal error occurred: the flux capacitor is discharged", "flux capacitor", "webhook"),
        (503, "", "API server failed", "permission"),
        (403, ('pods "a" is forbidden: exceeded quota: team, requested: '
              'nvidia.com/gpu=8'), "ResourceQuota team", "grant"),
        (403, ('jobs.batch.volcano.sh is forbidden: User "x" cannot create resource "jobs" in API group '
              '"batch.volcano.sh"'),
         "may not create jobs", "quota"),
        (403, 'pods "a" is forbidden: unable to create new content in namespace ml because it is being terminated',
         "being deleted", "may not"),
        (403, 'pods "a" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false',
         "restricted", "may not"),
        (401, "Unauthorized", "expired", "may not"),
        (404, 'namespaces "ml" not found', "namespace ml does not exist", "API is not served"),
        (404, "the server could not find the requested resource", "not served", "namespace"),
        (409, 'jobs.batch.volcano.sh "a" already exists', "exists already", ""),
        (413, "Request entity too large: limit is 3145728", "too large", ""),
        (422, 'Job.batch "a" is invalid: spec.foo: Required value', "schema", ""),
        (429, "Too many requests, please try again later.", "rate", ""),
        (418, "I am a teapot", "I am a teapot", ""),
    ],
)  # fmt: skip
def test_the_answer_tells_the_cause(code: int, message: str, cause: str, spared: str) -> None:
    """Each answer has its own cause and fix, and none of its neighbours'."""
    found = creating.why(code, message)
    assert cause in f"{found.text} {found.fix}", found
    assert not spared or spared not in found.text, found
    assert found.fix
    assert "{" not in found.text + found.fix


@pytest.mark.parametrize("code", [400, 500])
def test_a_row_whose_job_was_not_taken_says_why(code: int) -> None:
    """None of the pods ran because there is no Job: the presupposition has the cause of the answer."""
    message = DENIED + "can only submit job to queue with state `Open`, queue `gold` status is `Closing`;"
    line = {
        "type": "RESPONSE", "t": 1.0, "request": "create Job.batch.volcano.sh/a", "code": code, "case": None,
        "status": {"message": message, "code": code},
    }  # fmt: skip
    found = presuppositions.pods_ran(recordings.evidence_of([line]), {})
    assert found.held is None
    assert f"answered {code}" in found.observed
    assert "gold is Closing" in found.causes[0].text
