"""PLG-008: with the mpi plugin mpiexec reaches a rank on every worker, and the Job ends with its launcher."""

import dataclasses
import re
from collections.abc import Iterator

from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.evidence.training import ssh
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.lifecycle import completion
from pytest_gpucluster.judge.plugins import pytorch_plan, ssh_causes, ssh_logins, volcano_jobs
from pytest_gpucluster.requirement import Cause, Finding, Verdict

LAUNCHES = (
    "svc and ssh are forced on, the master has MPI_HOST with the names of the workers and logs in to each without a "
    "password, mpiexec runs a rank on each, and the end of the launcher ends the Job"
)
FORCED = ("svc", "ssh")
"""Plugins that the admission of Jobs adds to mpi."""
VARIABLE = "MPI_HOST"

SIGNALS = range(129, 193)
"""Exit codes of what a signal ended."""
UNREACHED = 213
"""What Open MPI ends with if it did not get as far as its ranks."""
DAEMON = re.compile(r"\b(?:daemons?|orted|prted)\b", re.IGNORECASE)
PRINTED = re.compile(
    r"exited? with (?:a )?non-?zero|non-zero exit|Traceback|Error: |unable to (?:find|launch) the specified",
    re.IGNORECASE,
)
"""What mpiexec says of a program that it ran, or could not run, and what such a program prints."""

NOT_FORCED = Cause(
    "the admission of Jobs did not add them: Volcano's mutating webhook is absent or does not see the namespace",
    "install vc-webhook-manager with its MutatingWebhookConfiguration, or write `svc: []` and `ssh: []` into the Job",
)
OTHER_TASKS = Cause(
    "no task is called as the plugin's `--master` or `--worker` says",
    "name the tasks as in the arguments, or give the plugin the tasks' names",
)
OVERRIDDEN = Cause(
    "the controllers did not inject it, or something set the variable after the plugin did (template, entrypoint)",
    "look at the last entry of MPI_HOST in the pod's env, at the order of the plugin's arguments (all after an unknown "
    "one are ignored), and at the log of vc-controller-manager",
)
NO_MPIEXEC = Cause(
    "the image has no mpiexec",
    "use an image with Open MPI (Debian: openmpi-bin), in PATH also of a login over SSH",
)
DAEMONS = Cause(
    "mpiexec's daemons on the workers did not start or could not connect back: Open MPI is not in PATH of a login over "
    "SSH, another version is in the workers' image, or the pods' network drops its ports",
    "log in to a worker and run `prted --version` (Open MPI 5) or `orted --version` (4); keep ports above 1024 open "
    "between the pods",
)
PROGRAM = Cause(
    "mpiexec ran the program on the workers, and it ended with an error: a module or a library that a worker's image "
    "lacks, or a rank that failed",
    "read what the ranks printed in the launcher's log, and run the program alone in a worker",
)
NOT_STARTED = Cause(
    "mpiexec itself could not be started or was ended from outside: its file may not be run, memory ran out",
    "run `mpiexec --version` in the launcher; look at reason and exit code of its container",
)
HUNG = Cause(
    "mpiexec did not end in time: a rank waits for another one, or for a network that it cannot reach",
    "let Open MPI use the pods' interface alone: `--mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0`",
)
SINGLETONS = Cause(
    "each rank believes itself alone: the program was built for another MPI than the mpiexec that started it",
    "use the mpiexec of the MPI that the program was built with (`ldd` of the program, or `mpi4py.get_config()`)",
)


@dataclasses.dataclass(frozen=True)
class Plan:
    """The mpi plugin's task names, and the hosts that it promises to the master."""

    master: str
    worker: str
    hosts: tuple[str, ...]


def plan_of(gang: Gang) -> Plan | None:
    """Return the plan of a Volcano Job with the mpi plugin, None for others."""
    if gang.job is None or "mpi" not in gang.job.plugins:
        return None
    flags = volcano_jobs.flags(gang.job, "mpi")
    master, worker = flags.get("master") or "master", flags.get("worker") or "worker"
    return Plan(master, worker, tuple(volcano_jobs.hosts(gang.job).get(worker, ())))


@subjects.judge
def reaches_every_rank(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge PLG-008."""
    jobs = volcano_jobs.of(evidence, given, "mpi")
    if not subjects.of(evidence, given).arranged:
        jobs = tuple(gang for gang in jobs if plan_of(gang) is not None)
    if not jobs:
        return wording.finding(
            Verdict.INCONCLUSIVE, LAUNCHES, "no Volcano Job with the mpi plugin in the evidence"
        )
    return wording.gravest([_of_job(evidence, given, gang) for gang in jobs])


def _of_job(evidence: Evidence, given: subjects.Given, gang: Gang) -> Finding:
    plan = plan_of(gang)
    found = wording.Findings(LAUNCHES, gang)
    if plan is None:
        return found.fail(f"{gang.title} has no mpi plugin", ssh_causes.NO_PLUGIN)
    absent = [name for name in FORCED if gang.job is None or name not in gang.job.plugins]
    if absent:
        text = f"{gang.title} has the mpi plugin without {wording.listed(absent)}"
        return found.fail(text, NOT_FORCED, violation=True)
    wrong = list(_hosts_wrong(evidence, gang, plan))
    if wrong:
        cause = OVERRIDDEN if plan.hosts and _masters(gang, plan) else OTHER_TASKS
        return found.fail(
            wording.listed([text for _, text, _ in wrong], 4), cause, violation=True,
            where=wording.places({pod.uid: pod for pod, _, _ in wrong}.values()),
            evidence=tuple(key for _, _, key in wrong)[:8],
        )  # fmt: skip
    masters = _masters(gang, plan)
    told = {one.pod.uid for one in pytorch_plan.environments(evidence, gang) if one.by_process}
    mute = [pod.name for pod in gang.pods if pod.uid not in told]
    if mute:
        return found.inconclusive(f"process 1 of {wording.listed(mute)} printed no readable environment")
    logins = ssh.logins(evidence, masters)
    failed = ssh_logins.failures(evidence, gang, logins, found)
    return (
        failed
        or _unentered(plan, masters, logins, found)
        or _launched(evidence, gang, plan, found)
        or _ended(evidence, given, gang, plan, found)
    )


def _masters(gang: Gang, plan: Plan) -> list[PodStory]:
    return [pod for pod in gang.pods if pod.task == plan.master]


def _hosts_wrong(evidence: Evidence, gang: Gang, plan: Plan) -> Iterator[tuple[PodStory, str, str]]:
    """Yield (pod, how its MPI_HOST differs from the documented one, key of the line)."""
    for one in pytorch_plan.environments(evidence, gang):
        wanted = ",".join(plan.hosts) if one.pod.task == plan.master and plan.hosts else None
        got = one.env.get(VARIABLE)
        if got != wanted or (one.pod.task == plan.master and not plan.hosts):
            said = "absent" if got is None else repr(got)
            documented = "no value" if wanted is None else repr(wanted)
            yield (
                one.pod,
                f"{one.pod.name}/{one.container}: {VARIABLE} is {said}, documented {documented}",
                one.key,
            )


def _unentered(
    plan: Plan, masters: list[PodStory], logins: list[ssh.Login], found: wording.Findings
) -> Finding | None:
    if not masters:
        return found.inconclusive(f"no pod of task {plan.master} is in the evidence")
    entered = {(one.pod.uid, one.to) for one in logins}
    missing = [host for pod in masters for host in plan.hosts if (pod.uid, host) not in entered]
    if missing:
        return found.inconclusive(
            f"no login of the master to {wording.listed(missing, 4)} is in the evidence"
        )
    return None


def _launched(evidence: Evidence, gang: Gang, plan: Plan, found: wording.Findings) -> Finding | None:
    """Return what is wrong with, or not known of, mpiexec and its ranks; None if every worker had its rank."""
    masters = _masters(gang, plan)
    launches = ssh.launches(evidence, masters)
    mute = [pod.name for pod in masters if pod.uid not in {one.pod.uid for one in launches}]
    for one in launches:
        if one.contradictory and not one.code:
            text = f"{one.pod.name} told neither success nor failure of mpiexec (ok {one.ok}, exit code {one.code})"
            return found.inconclusive(text, evidence=(one.key,))
        if one.code != 0:
            text = f"mpiexec of {one.pod.name} ended with {one.code}: {wording.short(ssh_logins.last_line(one.error))}"
            causes = _of_launch(one, spoke=bool(ssh.ranks(evidence, one.pod)))
            return found.fail(text, *causes, violation=True, where=(one.pod.where,), evidence=(one.key,))
        if one.hosts != plan.hosts:
            return found.inconclusive(
                f"mpiexec was given {wording.listed(one.hosts)}, not the hosts of {VARIABLE}"
            )
    if mute:
        return found.inconclusive(f"{wording.listed(mute)} did not tell what became of mpiexec")
    for pod in masters:
        unfit = _ranks(evidence, gang, pod, plan)
        if unfit is not None:
            return unfit
    return None


def _of_launch(launch: ssh.Launch, *, spoke: bool) -> tuple[Cause, ...]:
    """Return why mpiexec failed; ranks that spoke had daemons that started them."""
    code = launch.code or 0
    if code < 0 or (code == 127 and "Permission denied" in launch.error):
        return (NOT_STARTED,)
    if code in SIGNALS:
        # Of a rank, or its own.
        return (NOT_STARTED, PROGRAM)
    if code == 127 and (not spoke or launch.error.startswith("mpiexec: ")):
        return (NO_MPIEXEC,)
    if code == 124:
        return (HUNG,) if spoke else (HUNG, DAEMONS)
    if DAEMON.search(launch.error) or (code == UNREACHED and not PRINTED.search(launch.error)):
        return (DAEMONS,)
    return (PROGRAM,) if spoke or PRINTED.search(launch.error) else (DAEMONS, PROGRAM)


def _ranks(evidence: Evidence, gang: Gang, master: PodStory, plan: Plan) -> Finding | None:
    """Return what is wrong with the ranks that a launcher started, None if each worker had exactly one."""
    ranks = ssh.ranks(evidence, master)
    keys = tuple(one.key for one in ranks[:8])
    world = len(plan.hosts)
    wrong = wording.Findings(LAUNCHES, gang, violation=True, where=(master.where,), evidence=keys)
    if len(ranks) > 1 and all(one.world == 1 for one in ranks):
        return wrong.fail(f"{len(ranks)} ranks spoke, each of a world of 1", SINGLETONS)
    strange = next((one for one in ranks if one.world != world or one.rank not in range(world)), None)
    if strange is not None:
        text = f"a rank said that it is {strange.rank} of {strange.world}, on {world} hosts"
        return wrong.fail(text)
    numbers = [one.rank for one in ranks]
    if len(set(numbers)) < len(numbers):
        return wrong.fail(
            f"ranks {wording.listed([str(n) for n in sorted(numbers, key=str)])}: one spoke twice"
        )
    missing = [str(number) for number in range(world) if number not in numbers]
    if missing:
        text = f"rank {wording.listed(missing)} of {world} did not speak"
        return wording.finding(Verdict.INCONCLUSIVE, LAUNCHES, text, gang, evidence=keys)
    workers = sorted(host.partition(".")[0] for host in plan.hosts)
    hosts = sorted(one.host.partition(".")[0] for one in ranks)
    if hosts != workers:
        return wrong.fail(f"ranks ran on {wording.listed(hosts)}, the workers are {wording.listed(workers)}")
    right = world * (world + 1) / 2
    off = next((one for one in ranks if one.total != right), None)
    if off is not None:
        return wrong.fail(f"rank {off.rank} got {off.total} as the sum of {world} ranks, it is {right:g}")
    return None


def _ended(
    evidence: Evidence, given: subjects.Given, gang: Gang, plan: Plan, found: wording.Findings
) -> Finding:
    """Judge whether the launcher's end ended the Job, as for any task with TaskCompleted -> CompleteJob."""
    mine = [{"kind": gang.kind, "name": gang.name, "uid": gang.uid}]
    end = completion.completes_with_policy(evidence, {**given, "roles": {"subject": mine}})
    keys = (*(one.key for pod in _masters(gang, plan) for one in ssh.ranks(evidence, pod)), *end.evidence)[:8]
    start = (
        f"{VARIABLE} names {wording.count(len(plan.hosts), 'worker')}, each let the master in, each ran a rank that "
        "had the right sum; "
    )
    return found.of(end.verdict, f"{start}{end.observed}", *end.causes, evidence=keys, where=end.where)
