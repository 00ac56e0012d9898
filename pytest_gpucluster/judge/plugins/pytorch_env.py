"""Judges of the plugins family: what the pytorch and svc plugins wire."""

from pytest_gpucluster.evidence.log import payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.plugins import pytorch_plan
from pytest_gpucluster.plain import names
from pytest_gpucluster.requirement import Cause, Finding, Verdict

ENV = (
    "process 1 of every regular container has MASTER_ADDR, MASTER_PORT and WORLD_SIZE, and in master and worker tasks "
    "RANK, with the documented values"
)
CONTROL = (
    "without the pytorch plugin, or with a wrong master name, nothing is injected; with a wrong worker name "
    "MASTER_* are set, but WORLD_SIZE counts masters only and workers have no RANK"
)

NO_PLUGIN = Cause(
    "the Job has no pytorch plugin",
    "add `plugins: {pytorch: [--master=master, --worker=worker], svc: []}` to the Job",
)


def _no_master(plan: pytorch_plan.Plan, tasks: str) -> Cause:
    return Cause(
        f"no task is called {plan.master!r}, the plugin's master (tasks: {tasks}): it injects nothing",
        "name the task as in `--master`, or give the plugin the task's name with `--master=`",
    )


def _no_worker(plan: pytorch_plan.Plan, tasks: str) -> Cause:
    return Cause(
        f"no task is called {plan.worker!r}, the plugin's worker (tasks: {tasks}): the master forms "
        "a world of one and the workers have no RANK",
        "name the task as in `--worker`, or give the plugin the task's name with `--worker=`",
    )


OVERRIDDEN = Cause(
    "something set the variable after the plugin did (the template, an entrypoint), or the controllers wrote another "
    "value than documented",
    "look at the last entry of that name in the pod's env, and at the entrypoint of the image",
)


def causes_of(gang: Gang, plan: pytorch_plan.Plan | None) -> tuple[Cause, ...]:
    """Return why a Job's pods lack what the plugin gives, read from the Job itself."""
    if plan is None:
        return (NO_PLUGIN,)
    tasks = ", ".join(str(task.get("name")) for task in (gang.job.tasks if gang.job else []))
    if not plan.masters:
        return (_no_master(plan, tasks),)
    if not plan.workers:
        return (_no_worker(plan, tasks),)
    return (OVERRIDDEN,)


@subjects.judge
def pytorch_env(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge PLG-001."""
    found = pytorch_plan.pytorch_gangs(evidence, given)
    if not found:
        return _no_pytorch(evidence, given)
    findings = [_env_of(evidence, given, gang, plan) for gang, plan in found]
    return wording.gravest(findings)


def _no_pytorch(evidence: Evidence, given: subjects.Given) -> Finding:
    named = subjects.cast(evidence, given, "subject")
    if named:
        return wording.finding(
            Verdict.FAIL,
            ENV,
            f"{named[0].title} no longer has the pytorch plugin",
            named[0],
            causes=(NO_PLUGIN,),
        )
    if payload_lines.words(evidence).of("rank") and not any(
        g.kind == names.VC_JOB for g in subjects.everyone(evidence)
    ):
        text = "the ranks come from the launcher; no Volcano Job declares the pytorch plugin"
        return wording.finding(Verdict.NOT_APPLICABLE, ENV, text)
    return wording.finding(
        Verdict.INCONCLUSIVE, ENV, "no Volcano Job with the pytorch plugin in the evidence"
    )


def _env_of(evidence: Evidence, given: subjects.Given, gang: Gang, plan: pytorch_plan.Plan) -> Finding:
    seen = pytorch_plan.environments(evidence, gang)
    wrong: list[tuple[pytorch_plan.Seen, str]] = []
    for one in seen:
        for name, value in plan.expected(one.pod).items():
            got = one.env.get(name)
            if got != value:
                want = "no value" if value is None else repr(value)
                wrong.append((one, f"{name}={'absent' if got is None else repr(got)}, documented {want}"))
    stray = _stray(gang, plan)
    # What a specification lacks process 1 cannot see; what it has, an entrypoint may still change.
    if wrong:
        bad = [f"{one.pod.name}/{one.container}: {text}" for one, text in wrong]
        pods = tuple({one.pod.uid: one.pod for one, _ in wrong}.values())
        return wording.finding(
            Verdict.FAIL, ENV, wording.listed(bad, 6), gang, violation=True, where=wording.places(pods),
            causes=causes_of(gang, plan), evidence=tuple(dict.fromkeys(one.key for one, _ in wrong))[:8],
        )  # fmt: skip
    if stray and seen:
        return wording.finding(
            Verdict.FAIL, ENV, stray, gang, violation=True, causes=causes_of(gang, plan),
            evidence=tuple(one.key for one in seen[:8]),
        )  # fmt: skip
    if not seen:
        return wording.finding(Verdict.INCONCLUSIVE, ENV, f"{gang.title} has no pod in the evidence", gang)
    members = {pod.slot for pod in gang.pods}
    if len(members) < gang.size:
        text = f"only {len(members)} of {gang.size} pods are in the evidence"
        return wording.finding(Verdict.INCONCLUSIVE, ENV, text, gang)
    printed = {one.pod.uid for one in seen if one.by_process}
    needed = subjects.of(evidence, given).arranged or bool(payload_lines.words(evidence).words)
    mute = [pod.name for pod in gang.pods if pod.uid not in printed]
    if needed and mute:
        text = f"process 1 of {wording.listed(mute)} printed no readable environment"
        return wording.finding(Verdict.INCONCLUSIVE, ENV, text, gang)
    how = "as process 1 printed it" if needed else "in the pod specification (no log in the evidence)"
    text = (
        f"{len(seen)} containers of {len(members)} pods, {how}: MASTER_ADDR {plan.address}, MASTER_PORT {plan.port}, "
        f"WORLD_SIZE {plan.world}, RANK 0 to {plan.world - 1} once each"
    )
    return wording.finding(Verdict.PASS, ENV, text, gang, evidence=tuple(one.key for one in seen[:8]))


def _stray(gang: Gang, plan: pytorch_plan.Plan) -> str:
    """Return how the plugin's task names miss the Job's tasks: what it injects is then no wiring."""
    if plan.masters and not plan.workers and gang.size > plan.masters:
        return (
            f"{gang.name}: WORLD_SIZE is {plan.world} for {gang.size} pods, and only the master has a RANK: no task is "
            f"called {plan.worker!r}"
        )
    return ""


@subjects.judge
def without_plugin_control(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge PLG-005.

    With roles, each of the three wrong Jobs must show its failure. In a recording the Jobs are told by what they
    are: a plugin whose master, or whose worker name, no task has.
    """
    cases = _control_cases(evidence, given)
    if not cases:
        text = "no Job with a wrong master or worker name, and none submitted without the plugin"
        return wording.finding(Verdict.INCONCLUSIVE, CONTROL, text)
    shown: list[str] = []
    causes: list[Cause] = []
    keys: list[str] = []
    for role, gang in cases:
        if gang is None:
            return wording.finding(
                Verdict.INCONCLUSIVE, CONTROL, f"the Job of role {role} is not in the evidence"
            )
        missing = _not_shown(evidence, role, gang)
        if missing:
            return wording.finding(
                Verdict.INCONCLUSIVE, CONTROL, f"{role}: {missing}; the control does not show it", gang
            )
        causes += causes_of(gang, pytorch_plan.plan_of(gang))
        shown.append(f"{role} ({gang.name}): {_what(role, gang)}")
        keys += [pod.keys["created"] for pod in gang.pods[:2]]
    fixes = "; ".join(dict.fromkeys(cause.fix for cause in causes))
    first = cases[0][1]
    return wording.finding(
        Verdict.PASS, CONTROL, f"shown: {'; '.join(shown)}; fix: {fixes}", first, causes=tuple(dict.fromkeys(causes)),
        evidence=tuple(keys),
    )  # fmt: skip


def _control_cases(evidence: Evidence, given: subjects.Given) -> list[tuple[str, Gang | None]]:
    roles = ("no-plugin", "wrong-master", "wrong-worker")
    known = subjects.roles(evidence, given)
    if any(role in known for role in roles):
        cases: list[tuple[str, Gang | None]] = []
        for role in roles:
            played = subjects.cast(evidence, given, role)
            cases.append((role, played[0] if played else None))
        return cases
    found: list[tuple[str, Gang | None]] = []
    for gang in subjects.everyone(evidence):
        plan = pytorch_plan.plan_of(gang)
        if plan is not None and gang.pods and not plan.masters:
            found.append(("wrong-master", gang))
        elif plan is not None and gang.pods and not plan.workers and gang.size > plan.masters:
            found.append(("wrong-worker", gang))
    return found


def _not_shown(evidence: Evidence, role: str, gang: Gang) -> str:
    """Return what speaks against the documented failure, "" where it shows."""
    seen = pytorch_plan.environments(evidence, gang)
    if not seen:
        return f"no pod of {gang.name} was seen"
    plan = pytorch_plan.plan_of(gang)
    if role in ("no-plugin", "wrong-master"):
        names_ = (*pytorch_plan.SHARED, pytorch_plan.RANK)
        injected = [f"{one.pod.name} has {name}" for one in seen for name in names_ if name in one.env]
        return wording.listed(injected, 3)
    if plan is None:
        return f"{gang.name} has no pytorch plugin"
    for one in seen:
        absent = [name for name in pytorch_plan.SHARED if name not in one.env]
        if absent:
            return f"{one.pod.name} has no {absent[0]}"
        if one.env["WORLD_SIZE"] != str(plan.masters):
            return f"{one.pod.name} has WORLD_SIZE {one.env['WORLD_SIZE']}, masters are {plan.masters}"
        if one.pod.task != plan.master and pytorch_plan.RANK in one.env:
            return f"{one.pod.name} has a RANK"
    return ""


def _what(role: str, gang: Gang) -> str:
    if role == "wrong-worker":
        plan = pytorch_plan.plan_of(gang)
        workers = [pod.name for pod in gang.pods if plan is None or pod.task != plan.master]
        return f"WORLD_SIZE counts masters only, no RANK in {wording.listed(workers, 3)}"
    return f"no MASTER_ADDR, MASTER_PORT, WORLD_SIZE or RANK in {len(gang.pods)} pods"
