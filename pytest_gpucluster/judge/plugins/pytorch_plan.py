"""What the pytorch plugin of a Volcano Job promises to each container, and what was seen in it.

Documented values, as Volcano v1.14.4 injects them (recorded): MASTER_ADDR is `<job>-<master task>-0.<job>`, WORLD_SIZE
counts master and worker pods only, RANK is 0 for the master and i + 1 for worker i, other tasks have no RANK, init
containers have nothing.
"""

import dataclasses
from collections.abc import Mapping

from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects
from pytest_gpucluster.judge.plugins import volcano_jobs
from pytest_gpucluster.plain import names

DEFAULT_PORT = "23456"
"""Port of the plugin where `--port` is absent (Volcano v1.14.4)."""

SHARED = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE")
RANK = "RANK"


@dataclasses.dataclass(frozen=True)
class Plan:
    """The plugin's arguments and the tasks they name."""

    job: str
    master: str
    worker: str
    port: str
    masters: int
    workers: int
    address: str

    @property
    def world(self) -> int:
        """Return the documented WORLD_SIZE: pods of the master and the worker task."""
        return self.masters + self.workers

    def expected(self, pod: PodStory) -> dict[str, str | None]:
        """Return the documented variables of a pod's regular containers; None: it must be absent."""
        shared = {"MASTER_ADDR": self.address, "MASTER_PORT": self.port, "WORLD_SIZE": str(self.world)}
        index = pod.name.rpartition("-")[2]
        rank: str | None = None
        if pod.task == self.master:
            rank = "0"
        elif pod.task == self.worker and index.isdigit():
            rank = str(int(index) + 1)
        return {**shared, RANK: rank}


def plan_of(gang: Gang) -> Plan | None:
    """Return the plan of a Volcano Job with the pytorch plugin, None for other gangs."""
    job = gang.job
    if job is None or job.kind != names.VC_JOB or "pytorch" not in job.plugins:
        return None
    flags: dict[str, str] = {}
    stated = job.plugins.get("pytorch")
    for argument in stated if isinstance(stated, list | tuple) else ():
        flag, _, value = str(argument).lstrip("-").partition("=")
        flags[flag] = value
    master, worker = flags.get("master") or "master", flags.get("worker") or "worker"
    replicas = {str(t.get("name")): fields.number(t, "replicas") or 0 for t in job.tasks}
    spec = next((fields.sub(t, "template", "spec") for t in job.tasks if t.get("name") == master), {})
    host = fields.text(spec, "hostname") or f"{job.name}-{master}-0"
    domain = fields.text(spec, "subdomain") or job.name
    return Plan(
        job.name, master, worker, flags.get("port") or DEFAULT_PORT, replicas.get(master, 0), replicas.get(worker, 0),
        f"{host}.{domain}",
    )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Seen:
    """The variables of one container, and where they were seen."""

    pod: PodStory
    container: str
    env: Mapping[str, str]
    by_process: bool
    """Printed by process 1 of the container; else read from the pod's specification."""
    key: str


def _said(words: payload_lines.Words, pod: PodStory) -> dict[str, payload_lines.Word]:
    """Return the environment that each container printed: of process 1, else of the first process that spoke.

    Containers that share their pod's process namespace have no process 1 of their own.
    """
    found: dict[str, payload_lines.Word] = {}
    for word in words.of("env", pod.uid):
        known = found.get(word.container)
        if known is None or (word.number("pid") == 1 and known.number("pid") != 1):
            found[word.container] = word
    return found


def environments(evidence: Evidence, gang: Gang) -> list[Seen]:
    """Return the environment of every regular container of its task: as its process 1 printed it, else as specified."""
    words = payload_lines.words(evidence)
    found = []
    for pod in gang.pods:
        said = _said(words, pod)
        specified = volcano_jobs.own_containers(gang, pod)
        for container in specified:
            name = str(container.get("name"))
            word = said.get(name) or (next(iter(said.values()), None) if len(specified) == 1 else None)
            if word is not None:
                env = {str(k): str(v) for k, v in fields.sub(word.data, "env").items() if v is not None}
                found.append(Seen(pod, name, env, by_process=True, key=word.key))
            else:
                # A name may stand twice; the last entry is what the process gets.
                env = {
                    str(e.get("name")): str(e.get("value"))
                    for e in fields.items(container, "env")
                    if e.get("value") is not None
                }
                found.append(Seen(pod, name, env, by_process=False, key=pod.keys["created"]))
    return found


def pytorch_gangs(evidence: Evidence, given: subjects.Given) -> list[tuple[Gang, Plan]]:
    """Return the Volcano Jobs under judgement that carry the pytorch plugin, with their plans."""
    named = subjects.cast(evidence, given, "subject")
    gangs = named if named is not None else subjects.everyone(evidence)
    return [(gang, plan) for gang in gangs if (plan := plan_of(gang)) is not None]
