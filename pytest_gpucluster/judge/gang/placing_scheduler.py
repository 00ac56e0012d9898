"""By whom members are placed: a scheduler that their Job does not name is not the one that a row is about."""

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects.pods import LABEL_REPLICATED_JOB, PodStory
from pytest_gpucluster.evidence.scheduling import gangs, schedulers
from pytest_gpucluster.judge import needs, subjects
from pytest_gpucluster.plain import names
from pytest_gpucluster.requirement import Cause

CHANGED = Cause(
    "something between the controllers and the API server changes schedulerName of pods",
    "look for mutating webhooks on pods (kubectl get mutatingwebhookconfigurations; the admission of YuniKorn is one) "
    "and exclude the suite's namespace from them",
)


def elsewhere(evidence: Evidence, given: subjects.Given, wants: needs.Needs) -> tuple[str, str] | None:
    """Return which member names another scheduler than its Job does, and the key of its line; None for nobody.

    Recordings are read as they are.
    """
    if not needs.of_ours(evidence):
        return None
    for gang in needs.look(evidence, given, wants).gangs:
        for pod in gang.pods:
            wanted = _asked(gang, pod)
            if wanted and pod.scheduler != wanted:
                text = f"{pod.name} carries schedulerName {pod.scheduler}, {gang.title} asks for {wanted}"
                return text, pod.keys["created"]
    return None


def _asked(gang: gangs.Gang, pod: PodStory) -> str:
    """Return the scheduler that a Job asks for a member, "" where its Job was not seen."""
    if gang.job is None:
        return ""
    spec = fields.sub(gang.job.last, "spec")
    if gang.job.kind == names.VC_JOB:
        tasks = {str(task.get("name")): task for task in fields.items(spec, "tasks")}
        own = fields.text(tasks.get(pod.task, {}), "template", "spec", "schedulerName")
        return own or fields.text(spec, "schedulerName") or schedulers.DEFAULT_NAME
    if gang.job.kind == names.BATCH_JOB:
        return fields.text(spec, "template", "spec", "schedulerName") or schedulers.DEFAULT_NAME
    if gang.job.kind == names.JOBSET:
        template = next(
            (
                fields.sub(one, "template")
                for one in gang.job.replicated
                if fields.text(one, "name") == pod.labels.get(LABEL_REPLICATED_JOB)
            ),
            {},
        )
        asked = fields.text(template, "spec", "template", "spec", "schedulerName")
        return asked or (schedulers.DEFAULT_NAME if template else "")
    return ""
