"""Are the three parts of the declared scheduler there?"""

from pytest_gpucluster.plain import names
from pytest_gpucluster.scenario import Needs, Scenario, Stage
from pytest_gpucluster.workload import GangSpec, Role, WorkloadError

from .common import HOLD, image, podgroup_of, told


def run(stage: Stage) -> None:
    """Ask for the APIs, dry-run a bare Job, then create one and watch its PodGroup get a phase."""
    if stage.dialect.kind != names.VC_JOB:
        raise WorkloadError(f"what the parts of {stage.dialect.scheduler} must answer is not written yet")
    told(stage, members=1, min_member=1)
    served = [
        stage.served("batch.volcano.sh/v1alpha1", "Job"),
        stage.served("scheduling.volcano.sh/v1beta1", "PodGroup"),
    ]
    if not all(served):
        return
    spec = GangSpec(
        stage.name,
        roles=(Role("worker", 1, HOLD),),
        resources={stage.profile.gpu_resource: 1},
        image=image(stage, "python"),
    )
    bare = stage.dialect.write(spec)
    # Left out on purpose: admission must put them in.
    for field in ("schedulerName", "minAvailable"):
        del bare["spec"][field]
    del bare["spec"]["tasks"][0]["name"]
    stage.submit(bare, role="dry-run", dry_run=True, case="dry-run")
    job = stage.submit(stage.dialect.write(spec), role="subject")
    if not job.ok:
        return
    stage.wait(
        "a PodGroup appears and gets a phase",
        lambda live: bool(((podgroup_of(live, job) or {}).get("status") or {}).get("phase")),
        budget="enqueue",
    )
    stage.delete(job)


probe = Scenario(
    name="probe",
    summary="APIs, admission, controllers and scheduler answer",
    run=run,
    needs=Needs(gpus=1, seconds=2, pods_run=False),
)
