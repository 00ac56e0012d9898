"""INV-009: the scheduler's configuration is readable and has what the rows stand on; it is never assumed."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import yaml

from pytest_gpucluster.evidence.log import api_answers, fields
from pytest_gpucluster.evidence.log.api_answers import Answer
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects import component_versions
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.requirement import Cause, Finding, Presupposed, Verdict

NEEDED = ("enqueue", "allocate")
"""Actions on which the rows about gangs and refusals stand."""

OPTIONAL = {
    "preempt": "preemption (REF-006, LIFE-014)",
    "reclaim": "reclaiming between queues (REF-006)",
    "backfill": "members without requests",
}
"""Action -> what stands on it where it is selected; its absence is told and decides nothing here."""

REQUIRED = f"the scheduler's configuration can be read and has the gang plugin and the actions {' and '.join(NEEDED)}"

NO_ACTION = Cause(
    "an action is missing in the scheduler's configuration",
    "add it to `actions` of volcano-scheduler.conf (kubectl -n volcano-system edit configmap "
    "volcano-scheduler-configmap); the scheduler reloads the file by itself",
)
GANG_OFF = Cause(
    "the gang plugin is configured but switched off: it does not hold a Job back until the gang is whole",
    "remove enableJobReady: false and enableJobPipelined: false from the gang plugin's entry",
)
FALLS_BACK = Cause(
    "the scheduler silently ignores a configuration that it cannot parse, and uses its built-in one",
    "correct volcano-scheduler.conf, and look for the parse error in the scheduler's log",
)
NOT_FOUND = Cause(
    "the ConfigMap has another name or namespace, or the scheduler runs with its built-in configuration",
    "set `namespaces.volcano` in the profile; the ConfigMap's name is read from the scheduler's Deployment",
)


@dataclasses.dataclass(frozen=True)
class Configuration:
    """What a scheduler is configured with.

    Attributes:
        actions: in order.
        plugins: plugin -> its options.
        answer: where it was read.
        key: of the ConfigMap's data, the file's name.
    """

    actions: tuple[str, ...]
    plugins: Mapping[str, Mapping[str, Any]]
    answer: Answer
    key: str

    @property
    def gang_holds(self) -> bool:
        """Report whether the gang plugin is there and holds Jobs back until they are whole."""
        gang = self.plugins.get("gang")
        return gang is not None and gang.get("enableJobReady") is not False


def read(evidence: Evidence) -> Configuration | str:
    """Return the scheduler's configuration, or why it is unknown."""
    answer = api_answers.one(evidence, component_versions.CONFIG)
    if answer is None:
        return "the scheduler's configuration was not requested"
    if not answer.ok:
        return f"{answer.request}: HTTP {answer.code}{': ' + answer.message if answer.message else ''}"
    data = fields.sub(answer.object, "data")
    files = [key for key in data if str(key).endswith(".conf")]
    if not files:
        return f"the ConfigMap has no file *.conf ({wording.listed(sorted(map(str, data))) or 'it is empty'})"
    key = next((name for name in files if "scheduler" in name), files[0])
    try:
        parsed = yaml.safe_load(str(data[key]))
    except yaml.YAMLError as error:
        return f"{key} is not valid YAML: {wording.short(str(error))}"
    if not isinstance(parsed, Mapping) or not isinstance(parsed.get("actions"), str):
        return f"{key} has no line `actions`"
    plugins = {
        fields.text(plugin, "name"): plugin
        for tier in fields.items(parsed, "tiers")
        for plugin in fields.items(tier, "plugins")
        if plugin.get("name")
    }
    actions = tuple(word.strip() for word in parsed["actions"].split(",") if word.strip())
    return Configuration(actions, plugins, answer, key)


@subjects.judge
def configured(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge INV-009."""
    declared = str(given.get("scheduler") or "volcano")
    if declared != "volcano":
        text = f"this row reads Volcano's configuration; the API does not serve the one of {declared}"
        return wording.finding(Verdict.NOT_APPLICABLE, REQUIRED, text)
    found = read(evidence)
    if isinstance(found, str):
        answer = api_answers.one(evidence, component_versions.CONFIG)
        cause = FALLS_BACK if answer is not None and answer.ok else NOT_FOUND
        keys = (answer.line.key,) if answer is not None else ()
        return wording.finding(
            Verdict.INCONCLUSIVE, REQUIRED, f"unknown: {found}", causes=(cause,), evidence=keys
        )
    missing = [action for action in NEEDED if action not in found.actions]
    causes = []
    problems = []
    if not found.gang_holds:
        there = "gang" in found.plugins
        problems.append("the gang plugin is switched off" if there else "the gang plugin is missing")
        causes.append(GANG_OFF if there else wording.NO_GANG_PLUGIN)
    if missing:
        problems.append(f"no action {' and no action '.join(missing)}")
        causes.append(NO_ACTION)
    told = f"actions {', '.join(found.actions)}; plugins {', '.join(found.plugins)}"
    facts = {"actions": list(found.actions), "plugins": list(found.plugins)}
    where = (f"ConfigMap/{fields.text(found.answer.object, 'metadata', 'name')}: {found.key}",)
    if problems:
        return wording.finding(
            Verdict.FAIL,
            REQUIRED,
            f"{'; '.join(problems)} ({told})",
            violation=True,
            where=where,
            causes=tuple(causes),
            evidence=(found.answer.line.key,),
            repeat=("kubectl -n volcano-system get configmap volcano-scheduler-configmap -o yaml",),
            facts=facts,
        )
    absent = [what for action, what in OPTIONAL.items() if action not in found.actions]
    rest = f"; not configured: {', '.join(absent)}" if absent else ""
    return wording.finding(
        Verdict.PASS, REQUIRED, f"{told}{rest}", where=where, evidence=(found.answer.line.key,), facts=facts
    )


def readable(evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether the scheduler's configuration may be read."""
    del given
    name = "the scheduler's configuration may be read"
    answer = api_answers.one(evidence, component_versions.CONFIG)
    if answer is None:
        return wording.presupposed(name, held=None, observed="it was not requested")
    if answer.denied:
        place = _place(answer.request)
        text = f"{answer.request}: HTTP {answer.code}: {answer.message or 'forbidden'}"
        cause = Cause(
            f"the run's account may not get configmaps{place}",
            f"grant it: a Role{place} with get on configmaps, bound to the account of the kubeconfig",
        )
        return wording.presupposed(
            name,
            held=False,
            observed=f"{text} (the run needs get on configmaps{place})",
            causes=(cause,),
            evidence=(answer.line.key,),
        )
    return wording.presupposed(name, held=True, observed=f"HTTP {answer.code}", evidence=(answer.line.key,))


def _place(request: str) -> str:
    """Return ` in NAMESPACE` of a recorded request, "" without one."""
    _, found, namespace = request.rpartition(" in ")
    return f" in {namespace}" if found else ""
