"""The Volcano Jobs under judgement, and the names that Volcano gives to what belongs to them."""

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects.owners import JobStory
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects
from pytest_gpucluster.plain import names


def of(evidence: Evidence, given: subjects.Given, *roles: str) -> tuple[Gang, ...]:
    """Return the Volcano Jobs that play one of these roles (`subject` where none is named), else all of them."""
    named = subjects.cast(evidence, given, *(roles or ("subject",)))
    gangs = named if named is not None else subjects.everyone(evidence)
    return tuple(gang for gang in gangs if gang.job is not None and gang.job.kind == names.VC_JOB)


def own_containers(gang: Gang, pod: PodStory) -> list[fields.Object]:
    """Return the regular containers of a pod that its task asks for.

    What admission puts beside them, such as the proxy of a service mesh, is no container of the task: the plugins act
    on the template. Where the template is not in the evidence every regular container counts.
    """
    every = list(fields.containers(pod.last))
    tasks = gang.job.tasks if gang.job is not None and gang.job.kind == names.VC_JOB else []
    template = next((fields.sub(task, "template") for task in tasks if task.get("name") == pod.task), {})
    asked = {str(one.get("name")) for one in fields.items(template, "spec", "containers")}
    return [one for one in every if str(one.get("name")) in asked] if asked else every


def flags(job: JobStory, plugin: str) -> dict[str, str]:
    """Return the arguments that a Job gives to a plugin, by name; `--flag` alone is true."""
    found: dict[str, str] = {}
    for argument in job.plugins.get(plugin) or ():
        flag, equals, value = str(argument).lstrip("-").partition("=")
        found[flag] = value if equals else "true"
    return found


def hosts(job: JobStory) -> dict[str, list[str]]:
    """Return task -> the names under which its pods reach each other, without the namespace.

    A host name that is fixed in the template is one name for all pods of the task, and so is listed once.
    """
    found = {}
    for task in job.tasks:
        name, spec = str(task.get("name")), fields.sub(task, "template", "spec")
        fixed, domain = fields.text(spec, "hostname"), fields.text(spec, "subdomain") or job.name
        count = fields.number(task, "replicas") or 0
        pods = [fixed] if fixed else [f"{job.name}-{name}-{index}" for index in range(count)]
        found[name] = [f"{pod}.{domain}" for pod in pods]
    return found


def index_of(name: str) -> str:
    """Return the index at the end of a pod's name, "" where there is none."""
    index = name.rpartition("-")[2]
    return index if index.isdigit() else ""
