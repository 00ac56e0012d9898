"""Are the three parts of the declared scheduler there?"""

from collections.abc import Callable

from pytest_gpucluster.plain import names, schedulers
from pytest_gpucluster.scenario import Handle, Live, Needs, Scenario, Stage
from pytest_gpucluster.scenario.programs import image, speaking
from pytest_gpucluster.workload import GangSpec, Role, WorkloadError

from .common import HOLD, looked_at, told

API = "kueue.x-k8s.io/v1beta2"


def run(stage: Stage) -> None:
    """Ask for the APIs, dry-run what admission answers, then create a Job and watch what the scheduler makes of it."""
    told(stage, members=1, min_member=1)
    asks = {
        schedulers.VOLCANO: _ask_volcano,
        schedulers.NATIVE: _ask_native,
        schedulers.KUEUE: _ask_kueue,
    }
    if stage.dialect.name not in asks:
        raise WorkloadError(f"{stage.dialect.name} is no gang scheduler with parts of its own")
    spec = GangSpec(
        stage.name,
        roles=(Role("worker", 1, HOLD),),
        resources={stage.profile.gpu_resource: 1},
        image=image(stage, "python"),
    )
    if not asks[stage.dialect.name](stage, spec):
        return
    job = stage.gang(spec, dialect=speaking(stage, {stage.profile.gpu_resource: 1}))
    if job.ok:
        said = stage.wait(
            "the scheduler says what it thinks of the gang", looked_at(stage, job), budget="enqueue"
        )
        if said and stage.dialect.served_by_name:
            # A scheduler of this kind under any name gives PodGroups a phase: pods show whether it serves this one.
            stage.wait(
                "the scheduler looks at a pod", pod_looked_at(job), budget="bind", unless=held_back(job)
            )


def pod_looked_at(job: Handle) -> Callable[[Live], bool]:
    """Report whether a pod of a gang has a node, or a condition in which a scheduler says why it has none."""

    def check(live: Live) -> bool:
        return any(
            (pod.get("spec") or {}).get("nodeName")
            or any(c.get("type") == "PodScheduled" for c in (pod.get("status") or {}).get("conditions") or ())
            for pod in live.pods_of(job)
        )

    return check


def held_back(job: Handle) -> Callable[[Live], str]:
    """Return why a gang has no pods yet: its PodGroup was refused at enqueue; "" where it was not."""

    def check(live: Live) -> str:
        for group in live.objects("PodGroup", owner_uid=job.uid):
            for event in live.events_about(str(group["metadata"]["uid"])):
                if event.get("type") == "Normal" and event.get("reason") == "Unschedulable":
                    return f"refused at enqueue: {event.get('message')}"
        return ""

    return check


def _ask_volcano(stage: Stage, spec: GangSpec) -> bool:
    """Ask for Volcano's APIs, and let its admission complete a bare Job; returns whether it is there at all."""
    served = [
        stage.served("batch.volcano.sh/v1alpha1", "Job"),
        stage.served("scheduling.volcano.sh/v1beta1", "PodGroup"),
    ]
    if not all(served):
        return False
    bare = stage.dialect.write(spec)
    # Left out on purpose: admission must put them in.
    for field in ("schedulerName", "minAvailable"):
        del bare["spec"][field]
    del bare["spec"]["tasks"][0]["name"]
    stage.submit(bare, role="dry-run", dry_run=True, case="dry-run")
    return True


def _ask_native(stage: Stage, spec: GangSpec) -> bool:
    """Ask for the API of native gangs, and whether the fields that ask for one are kept; returns whether it is there.

    Where the feature is off the API server drops these fields without a word: a pod, or a Job, then runs alone.
    """
    if not stage.served("scheduling.k8s.io/v1beta1", "PodGroup"):
        return False
    job = stage.dialect.write(spec)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": spec.name},
        "spec": {**job["spec"]["template"]["spec"], "schedulingGroup": {"podGroupName": spec.name}},
    }
    stage.submit(pod, role="dry-run", dry_run=True, case="dry-run")
    stage.submit(job, role="dry-run", dry_run=True, case="dry-run-job")
    return True


def _ask_kueue(stage: Stage, spec: GangSpec) -> bool:
    """Ask for Kueue's APIs, and whether its admission suspends a Job; returns whether it is there at all."""
    served = [stage.served(API, kind) for kind in ("ClusterQueue", "LocalQueue", "Workload")]
    if not all(served):
        return False
    stage.submit(stage.dialect.write(spec), role="dry-run", dry_run=True, case="dry-run")
    return True


probe = Scenario(
    name="probe",
    summary="APIs, admission, controllers and scheduler answer",
    run=run,
    needs=Needs(gpus=1, seconds=2, pods_run=False),
    rests=(names.POD_GROUP, names.NATIVE_POD_GROUP),
)
