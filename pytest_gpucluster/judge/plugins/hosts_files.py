"""PLG-006: the svc plugin publishes the hosts of every task, the env plugin each pod's index.

Documented, and recorded with Volcano v1.14.4: `VC_<TASK>_HOSTS` (comma list) and `VC_<TASK>_NUM` for every task, dashes
as underscores, in upper case; the folder /etc/volcano with a file `<task>.host` (one host a line) for each; and
`VC_TASK_INDEX` and `VK_TASK_INDEX`, the number at the end of the pod's name.
"""

from collections.abc import Collection, Iterator, Mapping

from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects.owners import JobStory
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.plugins import pytorch_plan, volcano_jobs
from pytest_gpucluster.requirement import Cause, Finding, Verdict

FOLDER = "/etc/volcano"
INDEXES = ("VC_TASK_INDEX", "VK_TASK_INDEX")
REQUIRED = (
    f"each container has VC_<TASK>_HOSTS and VC_<TASK>_NUM of every task and the hosts files in {FOLDER} (svc plugin), "
    f"and its index in {INDEXES[0]} and {INDEXES[1]} (env plugin)"
)
NO_SVC = Cause(
    "the svc plugin did not act: it is not on the Job, its ConfigMap is gone, or the container was made without it",
    "add `svc: []` to the Job's plugins; look at the ConfigMap <job>-svc and at the container's volumeMounts",
)
NO_ENV = Cause(
    "the env plugin did not act: it is not on the Job, or the template also sets the variable, after it",
    "add `env: []` to the Job's plugins, and leave VC_TASK_INDEX and VK_TASK_INDEX out of the templates",
)

Wrong = tuple[PodStory, str, Cause]


@subjects.judge
def published(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge PLG-006."""
    gangs = [gang for gang in volcano_jobs.of(evidence, given) if gang.job is not None]
    gangs = [gang for gang in gangs if gang.job and {"svc", "env"} & set(gang.job.plugins)]
    if not gangs:
        text = "no Volcano Job with the svc or env plugin in the evidence"
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text)
    findings = [_judge(evidence, given, gang, gang.job) for gang in gangs if gang.job is not None]
    return wording.gravest(findings)


def _judge(evidence: Evidence, given: subjects.Given, gang: Gang, job: JobStory) -> Finding:
    seen = list(pytorch_plan.environments(evidence, gang))
    data = _config(evidence, gang)
    svc, index = "svc" in job.plugins, "env" in job.plugins
    wrong: list[Wrong] = []
    unread: list[str] = []
    for one in seen:
        env = dict(one.env) if one.by_process else {**one.env, **_referred(one.pod, one.container, data)}
        where = f"{one.pod.name}/{one.container}"
        unseen = set() if one.by_process or data else _references(one.pod, one.container)
        if svc:
            wrong += [(one.pod, f"{where}: {text}", NO_SVC) for text in _hosts_in(env, job, unseen)]
            unread += [one.pod.name] if unseen else []
        if index:
            wrong += [(one.pod, f"{where}: {text}", NO_ENV) for text in _index_in(env, one.pod)]
    files = list(_files(evidence, gang, job, data)) if svc else []
    wrong += [(pod, text, NO_SVC) for pod, text, bad in files if bad]
    keys = tuple(one.key for one in seen[:8])
    if wrong:
        return wording.finding(
            Verdict.FAIL, REQUIRED, wording.listed([text for _, text, _ in wrong], 4), gang, violation=True,
            where=wording.places({pod.uid: pod for pod, _, _ in wrong}.values()), evidence=keys,
            causes=tuple(dict.fromkeys(cause for _, _, cause in wrong)),
        )  # fmt: skip
    if unread:
        text = f"{wording.listed(unread)} take their hosts from ConfigMap {gang.name}-svc, which is not in the evidence"
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text, gang, evidence=keys)
    missing = _missing(evidence, given, gang, seen, files)
    if missing:
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, missing, gang, evidence=keys)
    how = "as process 1 printed them" if all(one.by_process for one in seen) else "as specified"
    parts = (
        [f"hosts and numbers of tasks {wording.listed(sorted(volcano_jobs.hosts(job)))}, and files"]
        if svc
        else []
    )
    parts += ["indexes"] if index else []
    text = f"{' and '.join(parts)} are right in {len(seen)} containers of {gang.size} pods, {how}"
    return wording.finding(Verdict.PASS, REQUIRED, text, gang, evidence=keys)


def _missing(
    evidence: Evidence,
    given: subjects.Given,
    gang: Gang,
    seen: list[pytorch_plan.Seen],
    files: list[tuple[PodStory, str, bool]],
) -> str:
    """Return what was not seen, so that nothing can be said of it."""
    plugins = gang.job.plugins if gang.job else {}
    arranged = subjects.of(evidence, given).arranged
    if arranged and not {"svc", "env"} <= set(plugins):
        return f"{gang.title} has plugins {wording.listed(sorted(map(str, plugins)))}: svc and env were to be tried"
    pods = {one.pod.name for one in seen}
    if len(pods) < gang.size:
        return f"only {len(pods)} of {gang.size} pods of {gang.title} are in the evidence"
    # A side container that was ended with its gang may not have been read; its pod's other containers were.
    spoke = {one.pod.name for one in seen if one.by_process}
    mute = sorted({one.pod.name for one in seen} - spoke)
    if arranged and mute:
        return f"process 1 of {wording.listed(mute)} printed no readable environment"
    unread = [pod.name for pod in gang.pods if pod.uid not in {p.uid for p, _, _ in files}]
    if "svc" in plugins and unread:
        return f"no hosts file of {wording.listed(unread)} could be read"
    return ""


def variable(task: str) -> str:
    """Return a task's name as it stands in variables."""
    return task.replace("-", "_").upper()


def _hosts_in(env: Mapping[str, str], job: JobStory, unseen: Collection[str] = ()) -> Iterator[str]:
    for task, listed in volcano_jobs.hosts(job).items():
        wanted = {"HOSTS": ",".join(listed), "NUM": str(len(listed))}
        for end, value in wanted.items():
            name = f"VC_{variable(task)}_{end}"
            if env.get(name) != value and not (name in unseen and name not in env):
                yield _differs(name, env.get(name), value)


def _index_in(env: Mapping[str, str], pod: PodStory) -> Iterator[str]:
    for name in INDEXES:
        if env.get(name) != volcano_jobs.index_of(pod.name):
            yield _differs(name, env.get(name), volcano_jobs.index_of(pod.name))


def _differs(name: str, got: str | None, wanted: str) -> str:
    return f"{name} is {'absent' if got is None else repr(got)}, documented {wanted!r}"


def _config(evidence: Evidence, gang: Gang) -> fields.Object:
    """Return the data of the Job's hosts ConfigMap as last seen."""
    found: fields.Object = {}
    for line in evidence.of_kind("ConfigMap"):
        meta = fields.sub(line.object, "metadata")
        if line.name == f"{gang.name}-svc" and str(meta.get("namespace") or "") == gang.namespace:
            found = fields.sub(line.object, "data") or found
    return found


def _referred(pod: PodStory, container: str, data: fields.Object) -> dict[str, str]:
    """Return the variables that a container takes from the hosts ConfigMap, as far as that was seen."""
    found = {}
    spec = next((c for c in fields.containers(pod.last) if c.get("name") == container), {})
    for entry in fields.items(spec, "env"):
        reference = fields.sub(entry, "valueFrom", "configMapKeyRef")
        key = str(reference.get("key") or "")
        if key and str(reference.get("name") or "").endswith("-svc") and key in data:
            found[str(entry.get("name"))] = str(data[key])
    return found


def _references(pod: PodStory, container: str) -> set[str]:
    """Return the variables that a container takes from a ConfigMap: without it in the evidence they are unknown."""
    spec = next((c for c in fields.containers(pod.last) if c.get("name") == container), {})
    return {
        str(entry.get("name"))
        for entry in fields.items(spec, "env")
        if fields.sub(entry, "valueFrom", "configMapKeyRef").get("key")
    }


def _files(
    evidence: Evidence, gang: Gang, job: JobStory, data: fields.Object
) -> Iterator[tuple[PodStory, str, bool]]:
    """Yield (pod, what was seen of its hosts files, whether it is wrong): as printed, else as mounted."""
    words = payload_lines.words(evidence)
    wanted = {f"{task.replace('-', '_')}.host": listed for task, listed in volcano_jobs.hosts(job).items()}
    for pod in gang.pods:
        printed = {str(w.data.get("path")): w for w in words.of("file", pod.uid)}
        if printed:
            for name, listed in wanted.items():
                word = printed.get(f"{FOLDER}/{name}")
                got = None if word is None else str(word.data.get("text") or "").split()
                if got is None:
                    yield pod, f"{pod.name}: no file {FOLDER}/{name}", True
                elif got != listed and not (word is not None and word.data.get("cut")):
                    yield (
                        pod,
                        f"{pod.name}: {FOLDER}/{name} lists {wording.listed(got)}, documented {wording.listed(listed)}",
                        True,
                    )
                else:
                    yield pod, f"{pod.name}: {FOLDER}/{name}", False
        elif words.of("env", pod.uid):
            # The payload tells its files right after its environment: it found none.
            yield pod, f"{pod.name}: no hosts file in {FOLDER}", True
        else:
            yield from _mounted(gang, pod, wanted, data)


def _mounted(
    gang: Gang, pod: PodStory, wanted: Mapping[str, list[str]], data: fields.Object
) -> Iterator[tuple[PodStory, str, bool]]:
    if not data:
        return
    for container in volcano_jobs.own_containers(gang, pod):
        if not any(mount.get("mountPath") == FOLDER for mount in fields.items(container, "volumeMounts")):
            yield pod, f"{pod.name}/{container.get('name')}: nothing is mounted at {FOLDER}", True
            return
    for name, listed in wanted.items():
        bad = str(data.get(name) or "").split() != listed
        yield pod, f"{pod.name}: file {name} of ConfigMap lists {data.get(name)!r}" if bad else name, bad
