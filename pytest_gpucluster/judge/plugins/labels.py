"""PLG-007: every pod of a Volcano Job says whose it is."""

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects.owners import JobStory
from pytest_gpucluster.evidence.objects.pods import PodStory, pods
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.plugins import volcano_jobs
from pytest_gpucluster.plain import names
from pytest_gpucluster.requirement import Cause, Finding, Verdict

JOB, TASK, INDEX = "volcano.sh/job-name", "volcano.sh/task-spec", "volcano.sh/task-index"
REQUIRED = f"every pod carries the labels {JOB}, {TASK} and {INDEX} of its place, and the Job as its controlling owner"
NOT_SET = Cause(
    "the Job controller did not set them, or something between it and the API server removed them (a mutating "
    "webhook, a policy engine)",
    "read `kubectl get pods --show-labels`; list the cluster's mutating webhooks for pods, and the version of "
    "vc-controller-manager (1.5 and later set all three)",
)
ORPHAN = Cause(
    "the pod's owner is not the Job in its labels: the pod is left over from a Job of the same name, or "
    "was made by hand",
    "delete it, and give each Job its own name",
)


@subjects.judge
def labelled(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge PLG-007."""
    gangs = [(gang, _pods(evidence, gang)) for gang in volcano_jobs.of(evidence, given)]
    judged = [(gang, mine, gang.job) for gang, mine in gangs if mine and gang.job is not None]
    if not judged:
        text = subjects.nothing(evidence, "pod of a Volcano Job")
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text)
    findings = [_judge(evidence, gang, mine, job) for gang, mine, job in judged]
    return wording.gravest(findings)


def _pods(evidence: Evidence, gang: Gang) -> list[PodStory]:
    """Return the pods of a Job, and those that bear a name of its places without being known as its own."""
    places = {f"{gang.name}-{task.get('name')}-" for task in (gang.job.tasks if gang.job else [])}
    own = {pod.uid for pod in gang.pods}
    strange = [
        pod
        for pod in pods(evidence)
        if pod.uid not in own
        and pod.namespace == gang.namespace
        and any(pod.name == place + volcano_jobs.index_of(pod.name) for place in places)
    ]
    return [*gang.pods, *strange]


def _judge(evidence: Evidence, gang: Gang, mine: list[PodStory], job: JobStory) -> Finding:
    bad: list[str] = []
    wrong: list[PodStory] = []
    causes: list[Cause] = []
    for pod in mine:
        labels, owner = _at_any_time(evidence, pod, job)
        bad += [f"{pod.name}: {text}" for text in (*labels, *owner)]
        wrong += [pod] if labels or owner else []
        causes += [NOT_SET] if labels else []
        causes += [ORPHAN] if owner else []
    keys = tuple(pod.keys["created"] for pod in (wrong or mine))[:8]
    if bad:
        return wording.finding(
            Verdict.FAIL, REQUIRED, wording.listed(bad, 4), gang, violation=True, where=wording.places(wrong),
            causes=tuple(dict.fromkeys(causes)), evidence=keys,
        )  # fmt: skip
    places = {pod.name for pod in mine}
    if len(places) < gang.size:
        text = f"only {len(places)} of {gang.size} pods of {gang.title} are in the evidence"
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text, gang, evidence=keys)
    text = (
        f"{len(places)} pods of {gang.title} carry job, task and index, and name the Job as their controller"
    )
    return wording.finding(Verdict.PASS, REQUIRED, text, gang, evidence=keys)


def _at_any_time(evidence: Evidence, pod: PodStory, job: JobStory) -> tuple[list[str], list[str]]:
    """Return what is wrong with a pod's labels and with its owner, as it was last or at any time before."""
    states = [pod.last, *(line.object for line in reversed(evidence.history(pod.uid)))]
    labels = next((bad for obj in states if (bad := _labels(pod, obj, job))), [])
    return labels, next((bad for obj in states if (bad := _owner(obj, job))), [])


def _labels(pod: PodStory, obj: fields.Object, job: JobStory) -> list[str]:
    """Return what is wrong with a pod's labels at a time."""
    tasks = {str(task.get("name")) for task in job.tasks}
    found = []
    told = fields.sub(obj, "metadata", "labels")
    job_name, task, index = (told.get(label) for label in (JOB, TASK, INDEX))
    if job_name != job.name:
        found.append(_differs(JOB, job_name, job.name))
    if task is None or (tasks and task not in tasks):
        found.append(_differs(TASK, task, f"one of {wording.listed(sorted(tasks))}"))
    elif not pod.name.startswith(f"{job.name}-{task}-"):
        found.append(f"{TASK} is {task!r}, but its name belongs to another task")
    if index is None or index != volcano_jobs.index_of(pod.name):
        found.append(_differs(INDEX, index, volcano_jobs.index_of(pod.name)))
    return found


def _differs(label: str, got: object, wanted: str) -> str:
    return f"label {label} is {'absent' if got is None else repr(got)}, documented {wanted}"


def _owner(obj: fields.Object, job: JobStory) -> list[str]:
    """Return what is wrong with a pod's owner at a time."""
    owner = fields.owner(obj)
    kind = names.kind_key(str(owner.get("apiVersion") or ""), str(owner.get("kind") or ""))
    if kind != names.VC_JOB or owner.get("name") != job.name:
        title = f"{owner.get('kind')}/{owner.get('name')}" if owner else "absent"
        return [f"owner is {title}, documented Job/{job.name}"]
    if job.uid and owner.get("uid") and owner.get("uid") != job.uid:
        return [f"owner is another Job of that name (uid {owner.get('uid')})"]
    return [] if owner.get("controller") else [f"Job/{job.name} is an owner, not its controller"]
