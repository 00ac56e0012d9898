"""ssh between members: what the client or the server says, each of which has its own cause."""

import re
from collections.abc import Iterator

from pytest_gpucluster.diagnose import words
from pytest_gpucluster.diagnose.detect.complaining import command_line
from pytest_gpucluster.diagnose.detect.suspecting import LIKELY, fault
from pytest_gpucluster.diagnose.model import Stage, Suspect
from pytest_gpucluster.diagnose.situation import Situation
from pytest_gpucluster.judge import wording
from pytest_gpucluster.requirement import Cause

SSH = re.compile(
    r"ssh: connect to host|Permission denied \((?:publickey|password|keyboard)|Host key verification failed|"
    r"ssh: (?:command )?not found|unable to (?:reliably )?start (?:one or more )?daemons|no ssh|sshd: no hostkeys|"
    r"UNPROTECTED PRIVATE KEY|Bad (?:owner or )?permissions|kex_exchange_identification|ssh_exchange_identification|"
    r"ssh: Could not resolve hostname|Load key .* (?:invalid format|error in libcrypto)|"
    r"Permissions \d+ for '[^']*' are too open",
    re.IGNORECASE,
)
"""What ssh, sshd and mpirun print when a login does not come about."""

TABLE: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (re.compile(r"ssh: (?:command )?not found|no ssh", re.IGNORECASE),
     "the image has no ssh client", "put an ssh client (openssh-client) into the image of the task that runs mpirun"),
    (re.compile(r"no hostkeys", re.IGNORECASE),
     "sshd has no host keys and ends", "run ssh-keygen -A before sshd, in the image or in the worker's command"),
    (re.compile(r"UNPROTECTED PRIVATE KEY|too open|Bad (?:owner or )?permissions", re.IGNORECASE),
     "ssh does not use the key, because others than its owner may read it, or its folder",
     "leave /root/.ssh from the plugin unchanged (mode 0600): fsGroup, another user and a copy of it change the mode"),
    (re.compile(r"Host key verification failed", re.IGNORECASE),
     "ssh does not know the host key of the worker",
     ("set StrictHostKeyChecking no for these hosts (the ssh plugin's config does), and let nothing in the image "
     "replace /root/.ssh/config")),
    (re.compile(r"Permission denied \(", re.IGNORECASE),
     ("the worker does not take the key: it is not in authorized_keys of the user that logs in, or sshd forbids that "
     "user"),
     ("run both sides as the same user, leave /root/.ssh from the plugin unchanged (the image or a volume must "
     "not cover "
     "it), and look at PermitRootLogin and StrictModes of sshd")),
    (re.compile(r"Load key", re.IGNORECASE),
     "the key cannot be read", "leave /root/.ssh from the plugin unchanged; use an openssh that knows its kind of key"),
    (re.compile(r"timed? ?out", re.IGNORECASE),
     "port 22 of the worker does not answer", ("find what drops it: kubectl get networkpolicies{space}, a firewall "
                                              "between the nodes, or a worker that does not run")),
    (re.compile(r"exchange_identification", re.IGNORECASE),
     "the connection was closed before the login: too many at once (MaxStartups of sshd), or sshd or a proxy closed it",
     "raise MaxStartups in sshd_config, or start with fewer at once (plm_rsh_num_concurrent); read the worker's log"),
)  # fmt: skip
"""(what is printed, what it means, what to do)."""


def ssh_refused(s: Situation) -> Iterator[Suspect]:
    """The master cannot log in to its workers although the plugins are there."""
    job = s.vcjob
    hits = _hits(s) if job is not None and {"mpi", "ssh"} & set(job.plugins) else {}
    if not hits or s.phase == "Completed":
        return
    if any(p.name in hits and p.phase == "Succeeded" for p in s.pods):
        return
    pod, (line, key) = next(iter(hits.items()))
    text, fix = _why(s, pod, line)
    seen = f"{pod} says: {words.short(line)!r}"
    yield fault(
        "ssh-refused", Stage.CONNECT, Cause(text, fix), seen, LIKELY, evidence=(key,), rows=("PLG-008",)
    )


def mine(s: Situation, text: str) -> bool:
    """Report whether a complaint is one of ssh in a job that is wired for it: it is told here and not as another."""
    return s.vcjob is not None and bool({"mpi", "ssh"} & set(s.vcjob.plugins)) and bool(SSH.search(text))


def _hits(s: Situation) -> dict[str, tuple[str, str]]:
    """Return pod -> (line, key) of the newest line that says most."""
    found: dict[str, tuple[str, str]] = {}
    for pod, lines in s.logs.items():
        told = [(str(line.data.get("line") or ""), line.key) for line in lines]
        said = [one for one in told if SSH.search(one[0])]
        telling = [one for one in said if any(pattern.search(one[0]) for pattern, *_ in TABLE)]
        if said:
            found[pod] = (telling or said)[-1]
    return found


def _why(s: Situation, pod: str, line: str) -> tuple[str, str]:
    others = [p for p in s.pods if p.name != pod and p.phase != "Running"]
    if others:
        return (
            f"ssh to the workers fails while {wording.listed([p.name for p in others], 4)} do not run",
            "start mpirun once the workers run (minAvailable of all tasks, a wait in the command)",
        )
    for pattern, text, fix in TABLE:
        if pattern.search(line):
            return f"ssh to the workers fails although they run: {text}", fix.format(space=s.space)
    commands = {task: command_line(spec) for task, spec in s.specs.items()}
    servers = [task for task, command in commands.items() if "sshd" in command]
    silent = [task for task, command in commands.items() if not command]
    if "refused" in line.lower() and not servers and not silent:
        return (
            "ssh to the workers fails: no task starts sshd",
            "make the worker's command start /usr/sbin/sshd -D (mkdir -p /var/run/sshd first)",
        )
    if "refused" in line.lower():
        worker = next((p.name for p in s.pods if p.name != pod), "WORKER")
        return (
            "nothing listens on port 22 of the worker: sshd did not start or has ended, or it listens on another port",
            (
                f"read the worker's log (kubectl logs{s.space} {worker}); use an image with sshd and make its "
                "command start "
                "/usr/sbin/sshd -D; give the mpi plugin the same --port"
            ),
        )
    return (
        "ssh to the workers fails although they run",
        (
            "use an image with sshd, read the worker's log, and leave /root/.ssh from the plugin unchanged "
            "(mode 0600)"
        ),
    )
