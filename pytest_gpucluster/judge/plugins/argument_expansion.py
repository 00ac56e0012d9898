"""PLG-004: references to variables in the arguments of a container are expanded.

What Kubernetes documents: `$(NAME)` becomes the value of the container's variable NAME; `$$(NAME)` becomes `$(NAME)`;
a name that the container does not have stays as it is written. So `$(RANK)` in a task that gets no RANK arrives as
the five letters, which launchers report as a malformed number.
"""

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping

from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.plugins import pytorch_plan, volcano_jobs
from pytest_gpucluster.requirement import Cause, Finding, Number, Verdict

REQUIRED = (
    "`$(NAME)` in a container's command and arguments arrives as the value of NAME, for the variables that the "
    "job plugins set; `$$(NAME)` and unknown names arrive as `$(NAME)`"
)
NOT_EXPANDED = Cause(
    "the container's arguments were not expanded: a wrapper or webhook rewrote the command, or the runtime does "
    "not take it from the pod's specification",
    "compare `kubectl get pod -o yaml` with /proc/1/cmdline in the container; put the program itself into `command`",
)
UNSET = Cause(
    "the container has no such variable (the plugin gives RANK to master and worker tasks only, and nothing to init "
    "containers), and Kubernetes leaves an unknown name unchanged",
    "name the tasks as in the plugin's --master and --worker, or set the variable in the task's template",
)

_REFERENCE = re.compile(r"\$\$|\$\(([^)]*)\)")
GIVEN = re.compile(r"^(MASTER_ADDR|MASTER_PORT|WORLD_SIZE|RANK|VC_\w+|VK_TASK_INDEX|MPI_HOST)$")
"""Variables that job plugins of Volcano give."""


@dataclasses.dataclass(frozen=True)
class Asked:
    """A container whose command line refers to variables."""

    pod: PodStory
    container: str
    words: tuple[str, ...]
    env: Mapping[str, str | None]
    """What it has: the value, or None where that is known to the cluster only."""
    open: bool
    """Whether it may have more than is known here (envFrom)."""

    def unset(self) -> list[str]:
        """Return the plugins' variables that it refers to and does not have."""
        return [name for name in _names(self.words) if GIVEN.match(name) and name not in self.env]

    def pattern(self, word: str) -> re.Pattern[str]:
        """Return what a word must arrive as."""
        parts, at = [], 0
        for match in _REFERENCE.finditer(word):
            parts.append(re.escape(word[at : match.start()]))
            parts.append(self._value(match))
            at = match.end()
        return re.compile("".join([*parts, re.escape(word[at:])]), re.DOTALL)

    def _value(self, match: re.Match[str]) -> str:
        name = match.group(1)
        if match.group(0) == "$$":
            return re.escape("$")
        if name in self.env:
            value = self.env[name]
            return ".*" if value is None else re.escape(value)
        # Kubernetes gives each container variables of the namespace's Services.
        service = re.search(r"_(SERVICE_HOST|SERVICE_PORT|PORT)(_|$)", name)
        return ".*" if self.open or service else re.escape(match.group(0))


def _names(words: Iterable[str]) -> list[str]:
    """Return the names that words refer to, once each."""
    found = [match.group(1) for word in words for match in _REFERENCE.finditer(word)]
    return [name for name in dict.fromkeys(found) if name]


@subjects.judge
def expanded(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge PLG-004."""
    asked = [one for gang in volcano_jobs.of(evidence, given) for one in _asked(evidence, gang)]
    if not asked:
        text = "no container of a Volcano Job refers to a variable in its command line"
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text)
    words = payload_lines.words(evidence)
    bad: list[str] = []
    wrong: list[PodStory] = []
    mute: list[str] = []
    keys: list[str] = []
    for one in asked:
        said = [w for w in words.of("argv", one.pod.uid) if w.container == one.container]
        if not said:
            mute.append(f"{one.pod.name}/{one.container}")
            continue
        keys.append(said[0].key)
        differs = _differences(one, [str(word) for word in said[0].data.get("argv") or ()])
        bad += [f"{one.pod.name}/{one.container}: {text}" for text in differs]
        wrong += [one.pod] if differs else []
    number = Number("containers whose arguments refer to variables", len(asked) - len(mute), "containers")
    if bad:
        return wording.finding(
            Verdict.FAIL, REQUIRED, wording.listed(bad, 4), violation=True, where=wording.places(wrong),
            causes=(NOT_EXPANDED,), evidence=tuple(keys[:8]), numbers=(number,), repeat=_repeat(wrong[0]),
        )  # fmt: skip
    unset = [
        f"{one.pod.name}/{one.container} has no {wording.listed(one.unset())}" for one in asked if one.unset()
    ]
    if unset:
        text = f"{wording.listed(unset, 4)}: there is nothing to expand"
        return wording.finding(
            Verdict.INCONCLUSIVE, REQUIRED, text, causes=(UNSET,), evidence=tuple(keys[:8]),
            where=wording.places(one.pod for one in asked if one.unset()),
        )  # fmt: skip
    if mute:
        text = f"process 1 of {wording.listed(mute)} printed no readable arguments"
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, text, evidence=tuple(keys[:8]))
    example = next(word for word in asked[0].words if "$" in word)
    text = (
        f"{len(asked)} containers got expanded arguments, as process 1 printed them; for example {example!r}"
    )
    return wording.finding(
        Verdict.PASS, REQUIRED, text, evidence=tuple(keys[:8]), numbers=(number,),
        where=wording.places(one.pod for one in asked),
    )  # fmt: skip


def _repeat(pod: PodStory) -> tuple[str, ...]:
    space = f" -n {pod.namespace}" if pod.namespace else ""
    return (f"kubectl get pod{space} {pod.name} -o jsonpath='{{.spec.containers[*].args}}'",)


def _asked(evidence: Evidence, gang: Gang) -> Iterator[Asked]:
    seen = {(one.pod.uid, one.container): one for one in pytorch_plan.environments(evidence, gang)}
    for pod in gang.pods:
        for container in volcano_jobs.own_containers(gang, pod):
            name = str(container.get("name"))
            line = [*(container.get("command") or ()), *(container.get("args") or ())]
            words = tuple(str(word) for word in line)
            env: dict[str, str | None] = {str(e.get("name")): None for e in fields.items(container, "env")}
            env |= _literals(container)
            one = seen.get((pod.uid, name))
            env |= dict(one.env) if one is not None and one.by_process else {}
            # A shell writes `$(date)` too: what names no variable of the container or of a plugin is none of ours.
            if not any(name in env or GIVEN.match(name) for name in _names(words)):
                continue
            yield Asked(pod, name, words, env, open=bool(container.get("envFrom")))


def _literals(container: fields.Object) -> dict[str, str]:
    """Return the values that stand in the specification and depend on no other variable."""
    found = {
        str(e.get("name")): str(e.get("value") or "")
        for e in fields.items(container, "env")
        if "valueFrom" not in e
    }
    return {name: value for name, value in found.items() if "$" not in value}


def _differences(asked: Asked, argv: list[str]) -> list[str]:
    """Return how the words that refer to variables arrived otherwise than documented; compared from the end."""
    tail = argv[-len(asked.words) :]
    if len(tail) < len(asked.words):
        # Python drops nothing at the end: what is missing stands in front (an interpreter that was exchanged).
        tail = [""] * (len(asked.words) - len(tail)) + tail
    found = []
    for word, got in zip(asked.words, tail, strict=True):
        if "$" in word and asked.pattern(word).fullmatch(got) is None:
            found.append(f"{word!r} arrived as {got!r}")
    return found
