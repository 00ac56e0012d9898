"""A policy engine of the cluster's owner, which is none of the schedulers': off without its defects."""

from pytest_gpucluster.embedded.admission import AdmissionHook
from pytest_gpucluster.embedded.errors import denied
from pytest_gpucluster.embedded.objects import Obj
from pytest_gpucluster.embedded.runtime import Runtime
from pytest_gpucluster.embedded.store import Store

FOREIGN = "admission.foreign-policy"
MIRROR = "admission.rewrites-images"
WEBHOOK = "validation.gatekeeper.sh"
REFUSAL = '[must-have-owner] you must provide labels: {"owner"}'
KINDS = ("Job.batch.volcano.sh", "Job.batch")


def install(runtime: Runtime) -> None:
    """Add the policy engine's webhooks.

    Under its defect one denies every new Job, for a reason of its own. The other points the images of pods to a mirror
    and names them by tag there.
    """

    def deny(job: Obj, old: Obj | None, store: Store) -> Obj:
        del old, store
        if runtime.has(FOREIGN):
            raise denied(WEBHOOK, REFUSAL)
        return job

    def rewrite(pod: Obj, old: Obj | None, store: Store) -> Obj:
        del old, store
        for part in ("initContainers", "containers") if runtime.has(MIRROR) else ():
            for container in pod["spec"].get(part) or ():
                name, at, _ = str(container.get("image") or "").partition("@")
                container["image"] = f"{name}:mirrored" if at else name
        return pod

    runtime.admission.append(AdmissionHook("Pod", "CREATE", rewrite))
    runtime.admission.extend(AdmissionHook(kind, "CREATE", deny, "validating") for kind in KINDS)
