"""What the job plugins wire, and what the task templates ask for: environment, ssh, GPUs, sizes."""

import re
from collections.abc import Iterator, Mapping

from pytest_gpucluster.diagnose import words
from pytest_gpucluster.diagnose.detect import shells
from pytest_gpucluster.diagnose.detect.complaining import command_line
from pytest_gpucluster.diagnose.detect.suspecting import LIKELY, POSSIBLE, SURE, fault, note
from pytest_gpucluster.diagnose.model import Stage, Suspect
from pytest_gpucluster.diagnose.situation import Situation
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.judge import vendors, wording
from pytest_gpucluster.judge.gang import job_faults
from pytest_gpucluster.judge.plugins import pytorch_env, pytorch_plan
from pytest_gpucluster.requirement import Cause

WIRED = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")
USES = re.compile(r"\$[({]?(MASTER_ADDR|MASTER_PORT|WORLD_SIZE|RANK)\b")
MPI_RUN = re.compile(r"\b(mpirun|mpiexec|orterun|horovodrun)\b|\$[({]?MPI_HOST\b")
LAUNCHER = re.compile(r"\btorchrun\b|torch\.distributed\.(run|launch)\b|\bdeepspeed\b|accelerate launch")
NNODES = re.compile(r"--nnodes[= ]+(?P<least>\d+)(?::(?P<most>\d+))?")
PER_NODE = re.compile(r"--nproc[_-]per[_-]node[= ]+(?P<n>\w+)")

UNSET = re.compile(
    r"environment variable (\w+) (?:is )?(?:expected|not set|missing)|KeyError: '(MASTER_ADDR|MASTER_PORT|WORLD_SIZE|"
    r"RANK)'|(MASTER_ADDR|MASTER_PORT|WORLD_SIZE|RANK): (?:unbound variable|parameter not set)|"
    r"\$\((MASTER_ADDR|MASTER_PORT|WORLD_SIZE|RANK)\)"
)
"""What launchers and shells print when a variable is not there, or stayed unexpanded."""

NO_HOSTS = re.compile(r"MPI_HOST\b.*(?:unbound variable|parameter not set)|KeyError: 'MPI_HOST'")

NO_GPU = re.compile(
    r"no NVIDIA (?:GPU|driver)|Found no NVIDIA|No CUDA GPUs are available|no GPUs? found|No HIP GPUs|no "
    r"CUDA-capable device|"
    r"Torch not compiled with CUDA|CUDA_ERROR_NO_DEVICE|nvidia-smi: (?:command )?not found|libcuda\.so\S* .*not found",
    re.IGNORECASE,
)
GPU_IMAGE = re.compile(r"cuda|nvcr\.io/nvidia|rocm", re.IGNORECASE)


def own_env(spec: fields.Object) -> frozenset[str]:
    """Return the variables that the containers of a template set themselves."""
    return frozenset(str(e.get("name")) for c in fields.containers(spec) for e in fields.items(c, "env"))


def _log_hits(s: Situation, pattern: re.Pattern[str]) -> dict[str, tuple[str, str]]:
    """Return pod -> (line, key) of the newest log line that fits."""
    found = {}
    for pod, lines in s.logs.items():
        for line in reversed(lines):
            text = str(line.data.get("line") or "")
            if pattern.search(text):
                found[pod] = (text.strip(), line.key)
                break
    return found


def rank_variables(s: Situation) -> Iterator[Suspect]:
    """MASTER_ADDR and RANK are empty: the pytorch plugin is missing, or its names fit no task."""
    gang, job = s.gang, s.vcjob
    if gang is None or job is None:
        return
    plan = pytorch_plan.plan_of(gang)
    users = {task: sorted(set(USES.findall(command_line(spec)))) for task, spec in s.specs.items()}
    users = {task: [v for v in used if not _given(s, task, v)] for task, used in users.items()}
    users = {task: used for task, used in users.items() if used}
    unset = _log_hits(s, UNSET)
    causes = pytorch_env.causes_of(gang, plan)
    matched = plan is not None and plan.masters and (plan.workers or gang.size <= plan.masters)
    if matched:
        return
    tasks = ", ".join(str(task.get("name")) for task in job.tasks)
    seen = f"tasks: {tasks}; plugins: {wording.listed(sorted(map(str, job.plugins)), 6) or 'none'}"
    if users:
        seen += "; " + wording.listed([f"task {t} uses {', '.join(used)}" for t, used in users.items()], 3)
    if unset:
        pod, (line, _) = next(iter(unset.items()))
        seen += f"; {pod} prints: {words.short(line)!r}"
    lacking = _lacking(s)
    if lacking:
        seen += f"; {wording.listed(lacking, 4)}"
    keys = tuple(key for _, key in unset.values())[:4]
    rows = ("PLG-005", "PLG-001")
    look = (f"kubectl get vcjob{s.space} {s.name} -o jsonpath='{{.spec.plugins}} {{.spec.tasks[*].name}}'",)
    more = {"where": wording.places(s.pods), "evidence": keys or (job.key,), "rows": rows, "look": look}
    if plan is None and not users and not unset:
        return  # a job that does not ask for the variables needs no plugin
    if plan is None and not unset and not (s.pods or users):
        return
    yield fault("rank-variables", Stage.WIRE, causes[0], seen, SURE, **more)


def _given(s: Situation, task: str, variable: str) -> bool:
    """Report whether a task sets a variable itself, or may: by env, by a map that it reads whole, or in its command."""
    template = _template(s, task)
    whole = any(fields.items(box, "envFrom") for box in fields.containers(template))
    sets = re.search(rf"(?<![\w$]){variable}=", command_line(s.specs.get(task, template)))
    return whole or sets is not None or variable in own_env(template)


def _template(s: Situation, task: str) -> fields.Object:
    for one in s.vcjob.tasks if s.vcjob else []:
        if one.get("name") == task:
            return fields.sub(one, "template")
    return {}


def _lacking(s: Situation) -> list[str]:
    """Return which pods lack which variables in their specification."""
    found = []
    for pod in s.pods:
        there = own_env(pod.last)
        missing = [name for name in WIRED if name not in there]
        if missing:
            found.append(f"{pod.name} has no {', '.join(missing)}")
    return found


def svc_missing(s: Situation) -> Iterator[Suspect]:
    """The master's name cannot exist: no svc plugin, no Service, or pods without a name in it."""
    gang, job = s.gang, s.vcjob
    if gang is None or job is None or s.ended:
        return
    needs = [p for p in ("pytorch", "mpi", "tensorflow", "ray") if p in job.plugins]
    if needs and "svc" not in job.plugins:
        cause = Cause(
            f"the admission did not add the svc plugin to a Job with the {needs[0]} plugin: pods have no names",
            "add `svc: []` to spec.plugins, and check that Volcano's admission runs (kubectl get "
            "mutatingwebhookconfigurations)",
        )
        seen = f"plugins: {wording.listed(sorted(map(str, job.plugins)), 6)}"
        yield fault(
            "svc-missing", Stage.WIRE, cause, seen, where=(s.title,), evidence=(job.key,), rows=("PLG-003",)
        )
        return
    if "svc" not in job.plugins or not s.pods:
        return
    services = s.objects("Service", s.namespace)
    if s.object("Service", gang.name, s.namespace) is None and s.looked_at("Service"):
        cause = Cause(
            f"the headless Service {gang.name} that gives the pods their names does not exist",
            "look at the events of the Job and at vc-controller-manager; another object of that name, or a "
            "quota, prevents it; delete the job and submit it again",
        )
        seen = f"{len(services)} Services in namespace {s.namespace}, but none is called {gang.name}"
        yield fault(
            "service-missing", Stage.WIRE, cause, seen, where=(f"Service/{gang.name}",), rows=("PLG-003",),
            look=(f"kubectl get service{s.space}",),
        )  # fmt: skip


def mpi_wiring(s: Situation) -> Iterator[Suspect]:
    """A task runs mpirun, and the mpi plugin, or ssh, is not there."""
    job = s.vcjob
    if job is None:
        return
    users = [task for task, spec in s.specs.items() if MPI_RUN.search(command_line(spec))]
    given = {v for task in users for v in own_env(_template(s, task))}
    if not users or "mpi" in job.plugins or {"ssh", "svc"} <= set(job.plugins):
        if users and "mpi" in job.plugins and "ssh" not in job.plugins:
            yield _no_ssh(s, "the admission did not add ssh to a Job with the mpi plugin")
        return
    hosts = any("MPI_HOST" in command_line(s.specs[task]) for task in users) and "MPI_HOST" not in given
    ssh = _log_hits(s, shells.SSH) or _log_hits(s, NO_HOSTS)
    if not hosts and ("ssh" in job.plugins or not ssh):
        return  # its ranks may all be in one pod, or the pods may have keys of their own
    tasks = [str(task.get("name")) for task in job.tasks]
    master = users[0]
    workers = [t for t in tasks if t != master] or ["worker"]
    lacks = "MPI_HOST is not set, no ssh keys are shared, and the workers refuse the master"
    cause = Cause(
        f"the Job has no mpi plugin: {lacks if hosts else 'nothing in it shares ssh keys or starts sshd'}",
        f"add `plugins: {{mpi: [--master={master}, --worker={workers[0]}, --port=22]}}`; it turns ssh and svc on",
    )
    seen = (
        f"task {wording.listed(users, 3)} runs mpirun; plugins: "
        f"{wording.listed(sorted(map(str, job.plugins)), 6) or 'none'}"
    )
    if ssh:
        pod, (line, _) = next(iter(ssh.items()))
        seen += f"; {pod} prints: {words.short(line)!r}"
    yield fault(
        "mpi-plugin", Stage.WIRE, cause, seen, SURE, where=wording.places(s.pods) or (s.title,),
        rows=("PLG-009", "PLG-008"),
        evidence=(job.key, *(key for _, key in ssh.values()))[:4],
    )  # fmt: skip


def _no_ssh(s: Situation, text: str) -> Suspect:
    cause = Cause(
        text, "add `ssh: []` and `svc: []` to spec.plugins, and check that Volcano's admission runs"
    )
    plugins_ = sorted(map(str, s.vcjob.plugins)) if s.vcjob else []
    return fault(
        "mpi-plugin", Stage.WIRE, cause, f"plugins: {wording.listed(plugins_, 6)}", rows=("PLG-008",)
    )


def gpus_not_asked_for(s: Situation) -> Iterator[Suspect]:
    """The pods of a GPU program ask for no GPU, so that they land where there is none."""
    specs = s.specs
    if not specs or s.phase == "Completed":
        return
    asks = {task: any(_is_gpu(r) for r in fields.scarce_resources(spec)) for task, spec in specs.items()}
    blind = _log_hits(s, NO_GPU)
    without = [task for task, has in asks.items() if not has and not vendors.claims(specs[task])]
    if not without:
        return
    hit_tasks = {p.task or p.name for p in s.pods if p.name in blind}
    launched = [t for t in without if LAUNCHER.search(command_line(specs[t]))]
    twins = [t for t in launched if any(asks.values())]
    images = [
        t
        for t in without
        if any(GPU_IMAGE.search(fields.text(c, "image")) for c in fields.containers(specs[t]))
    ]
    tasks = sorted(hit_tasks & set(without)) or twins or [t for t in launched if t in images]
    if not tasks or (not hit_tasks and not twins and any(asks.values())):
        return
    resource = _resource(s, blind, tasks)
    indexes = {str(t.get("name")): n for n, t in enumerate(s.vcjob.tasks)} if s.vcjob else {}
    places = [f"spec.tasks[{indexes[t]}].template.spec.containers[*]" if t in indexes else t for t in tasks]
    cause = Cause(
        f"task {wording.listed(tasks, 4)} asks for no GPU: {resource} is missing from its limits",
        f"add resources.limits `{resource}: N` to {wording.listed(places, 4)}",
    )
    seen = "; ".join(
        [f"task {t}: limits {dict(_limits(specs[t])) or 'none'}" for t in tasks[:3]]
        + [f"{pod} says: {words.short(line)!r}" for pod, (line, _) in list(blind.items())[:1]]
    )
    certainty = SURE if hit_tasks else LIKELY if twins else POSSIBLE
    keys = tuple(key for _, key in blind.values())[:4]
    make = fault if certainty > POSSIBLE else _as_note
    yield make("gpu-limit", Stage.WIRE, cause, seen, certainty, evidence=keys, rows=("HLT-004",))


def _resource(s: Situation, blind: Mapping[str, tuple[str, str]], tasks: list[str]) -> str:
    """Return the GPU resource that is meant: of the other tasks, of the nodes, or of what logs and images name."""
    asked = [r for spec in s.specs.values() for r in fields.scarce_resources(spec) if _is_gpu(r)]
    known = asked or sorted(r for r in s.advertised if _is_gpu(r))
    if known:
        return known[0]
    images = [fields.text(c, "image") for t in tasks for c in fields.containers(s.specs[t])]
    said = " ".join((*images, *(line for line, _ in blind.values())))
    if re.search(r"rocm|\bHIP\b|amd", said, re.IGNORECASE):
        return "amd.com/gpu"
    return (
        "nvidia.com/gpu"
        if re.search(r"cuda|nvidia", said, re.IGNORECASE)
        else "the GPU resource of its nodes"
    )


def _as_note(code: str, stage: Stage, cause: Cause, seen: str, _certainty: object, **more: object) -> Suspect:
    return note(code, stage, cause, seen, **more)


def _is_gpu(resource: str) -> bool:
    """Report whether a resource is GPUs, whole, shared or in parts."""
    vendor, _, name = resource.partition("/")
    return bool(name) and (
        name.startswith(("gpu", "mig-", "vgpu", "gaudi", "tpu", "neuron"))
        or (vendor.startswith("gpu.") and name != "")
    )


def _limits(spec: fields.Object) -> Mapping[str, object]:
    found: dict[str, object] = {}
    for container in fields.containers(spec):
        found.update(fields.sub(container, "resources", "limits"))
    return found


def too_few_nodes(s: Situation) -> Iterator[Suspect]:
    """The launcher waits for more nodes than the Job has pods."""
    counts = {
        str(one.get("name")): fields.number(one, "replicas") or 0
        for one in (s.vcjob.tasks if s.vcjob else [])
    }
    launched = {t: spec for t, spec in s.specs.items() if LAUNCHER.search(command_line(spec))}
    pods = sum(counts.get(t, 1) for t in launched)
    for task, spec in launched.items():
        told = NNODES.search(command_line(spec))
        if told is None or int(told["least"]) <= pods or s.phase == "Completed":
            continue
        cause = Cause(
            f"the launcher waits for {wording.count(int(told['least']), 'node')}, but the Job has "
            f"{wording.count(pods, 'pod')} that start it",
            "make --nnodes equal to the number of those pods (replicas of all tasks that run it)",
        )
        seen = f"task {task}: {told.group(0)}; replicas: {wording.listed([f'{t} {n}' for t, n in counts.items()], 6)}"
        yield fault(
            "too-few-nodes", Stage.WIRE, cause, seen, LIKELY, where=(s.title,), rows=("RDZV-001", "ELA-003")
        )
        return


def role_minimum_ignored(s: Situation) -> Iterator[Suspect]:
    """Task minimums that Volcano ignores because minAvailable of the Job is below their sum."""
    for one in job_faults.roles_not_gated(s.evidence, {}):
        if s.vcjob is not None and one.uid == s.vcjob.uid:
            rows = ("GANG-005",)
            yield note(
                "role-minimum-ignored", Stage.WIRE, one.cause, one.observed, evidence=(one.key,), rows=rows
            )
