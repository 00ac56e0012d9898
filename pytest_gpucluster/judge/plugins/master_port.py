"""PLG-002: the master's port is 23456 unless the Job says otherwise with `--port`."""

from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.plugins import pytorch_plan, volcano_jobs
from pytest_gpucluster.requirement import Cause, Finding, Verdict

REQUIRED = (
    "MASTER_PORT in every regular container, and the declared container port, is the Job's --port, or "
    f"{pytorch_plan.DEFAULT_PORT} if the Job gives none"
)
KNOWN = ("master", "worker", "port", "wait-master-enabled", "wait-master-timeout", "wait-master-image")
"""Arguments of the plugin (Volcano v1.14.4); older versions know the first three."""
NO_PORT = Cause(
    "the plugin did not declare its port on the container",
    "look at the plugin's log in vc-controller-manager; a NetworkPolicy or mesh that reads declared ports will miss it",
)


@subjects.judge
def master_port(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge PLG-002: with roles, a Job with `--port` and one without must both be there; else those that are."""
    gangs = [
        (g, p)
        for g in volcano_jobs.of(evidence, given, "held", "unanswered")
        if (p := pytorch_plan.plan_of(g)) and p.masters
    ]
    keys: list[str] = []
    shown: dict[bool, str] = {}
    for gang, plan in gangs:
        seen = pytorch_plan.environments(evidence, gang)
        wrong = [(one, text) for one in seen if (text := _wrong(one, plan))]
        if wrong:
            text = wording.listed([f"{one.pod.name}/{one.container}: {text}" for one, text in wrong], 4)
            return wording.finding(
                Verdict.FAIL, REQUIRED, text, gang, violation=True, causes=_causes(gang, plan),
                where=wording.places({one.pod.uid: one.pod for one, _ in wrong}.values()),
                evidence=tuple(one.key for one, _ in wrong)[:8],
            )  # fmt: skip
        if seen and (subjects.of(evidence, given).arranged is False or any(one.by_process for one in seen)):
            asked = "port" in volcano_jobs.flags(gang.job, "pytorch") if gang.job else False
            shown[asked] = f"{gang.name}: {plan.port} in {len(seen)} containers"
            keys += [one.key for one in seen[:4]]
    missing = [
        what for asked, what in ((True, "with --port"), (False, "without --port")) if asked not in shown
    ]
    if not shown or (missing and subjects.of(evidence, given).arranged):
        text = f"no Job {' and none '.join(missing)} whose containers' environment was seen"
        return wording.finding(
            Verdict.INCONCLUSIVE, REQUIRED, text, gangs[0][0] if gangs else None, evidence=tuple(keys)
        )
    parts = [f"{'with' if asked else 'without'} --port {text}" for asked, text in sorted(shown.items())]
    tried = f" (no Job {' and '.join(missing)} in the evidence)" if missing else ""
    text = f"{'; '.join(parts)}{tried}"
    return wording.finding(Verdict.PASS, REQUIRED, text, gangs[0][0], evidence=tuple(keys))


def _wrong(one: pytorch_plan.Seen, plan: pytorch_plan.Plan) -> str:
    """Return how a container's port differs from the Job's, "" where it does not."""
    got = one.env.get("MASTER_PORT")
    if got != plan.port:
        return f"MASTER_PORT is {'absent' if got is None else repr(got)}, the Job's is {plan.port}"
    container = next((c for c in fields.containers(one.pod.last) if c.get("name") == one.container), {})
    declared = [fields.number(port, "containerPort") for port in fields.items(container, "ports")]
    if not plan.port.isdigit() or int(plan.port) in declared:
        return ""
    return (
        f"container port {plan.port} is not declared "
        f"({wording.listed([str(port) for port in declared]) or 'none is'})"
    )


def _causes(gang: Gang, plan: pytorch_plan.Plan) -> tuple[Cause, ...]:
    """Return why the port differs: an argument that ends the reading of all later ones, or the containers' own."""
    arguments = [str(a) for a in (gang.job.plugins.get("pytorch") if gang.job else None) or ()]
    for argument in arguments:
        flag = argument.lstrip("-").partition("=")[0]
        if flag == "port":
            break
        if flag not in KNOWN:
            return (
                Cause(
                    f"the plugin does not know the argument {argument!r}: it ignores this and all that follow",
                    "remove it, or put it after --port",
                ),
            )
    own = Cause(
        "the template or the image's entrypoint sets MASTER_PORT too, or the controllers ignored the argument",
        f"leave MASTER_PORT to the plugin; check that vc-controller-manager injects {plan.port}",
    )
    return (own, NO_PORT)
