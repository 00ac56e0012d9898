"""How a gang is started again, by what made it: each kind of job has its own word for it."""

from pytest_gpucluster.diagnose.situation import Situation
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.plain import names


def maker(s: Situation) -> str:
    """Return the kind of what made the pods, such as `JobSet`; "" where nobody did, or it is not known."""
    if s.job is not None:
        if s.job.kind == names.BATCH_JOB:
            return fields.text(fields.owner(s.job.last), "kind") or "Job"
        return "vcjob" if s.vcjob is not None else s.job.kind.partition(".")[0]
    return next((kind for p in s.pods if (kind := fields.text(fields.owner(p.last), "kind"))), "")


AGAIN = {
    "vcjob": "PodFailed -> RestartJob would restart the gang",
    "Job": "the Job replaces a failed pod up to backoffLimit times, one by one; podFailurePolicy can end it at once",
    "JobSet": "the JobSet restarts all up to spec.failurePolicy.maxRestarts times",
    "TrainJob": "its runtime's failurePolicy (maxRestarts of the JobSet) restarts all",
    "PyTorchJob": "restartPolicy of its replicas (OnFailure, ExitCode) and runPolicy.backoffLimit say what follows",
    "MPIJob": "runPolicy.backoffLimit says how often its launcher is tried again",
}
"""Kind of what made the pods -> how it starts the gang again."""


def again(s: Situation) -> str:
    """Return how the gang would be started again after a failure, "" where what made it does not do that."""
    return AGAIN.get(maker(s), "")


def then(s: Situation, fix: str) -> str:
    """Return a fix with how the gang is started again."""
    how = again(s)
    return f"{fix}; {how}" if how else fix


def of_volcano(s: Situation) -> bool:
    """Report whether the pods are, or may be, those of a Volcano Job, so that its plugins are worth a word."""
    return s.vcjob is not None or (s.job is None and any(p.task for p in s.pods))
