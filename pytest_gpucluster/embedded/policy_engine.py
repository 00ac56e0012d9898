"""A policy engine of the cluster's owner, which is none of the schedulers': off unless its defect is planted."""

from pytest_gpucluster.embedded.admission import AdmissionHook
from pytest_gpucluster.embedded.errors import denied
from pytest_gpucluster.embedded.objects import Obj
from pytest_gpucluster.embedded.runtime import Runtime
from pytest_gpucluster.embedded.store import Store

FOREIGN = "admission.foreign-policy"
WEBHOOK = "validation.gatekeeper.sh"
REFUSAL = '[must-have-owner] you must provide labels: {"owner"}'
KINDS = ("Job.batch.volcano.sh", "Job.batch")


def install(runtime: Runtime) -> None:
    """Add the policy engine's webhook: under its defect it denies every new Job, for a reason of its own."""

    def deny(job: Obj, old: Obj | None, store: Store) -> Obj:
        del old, store
        if runtime.has(FOREIGN):
            raise denied(WEBHOOK, REFUSAL)
        return job

    runtime.admission.extend(AdmissionHook(kind, "CREATE", deny, "validating") for kind in KINDS)
