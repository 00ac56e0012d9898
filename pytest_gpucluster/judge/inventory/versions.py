"""INV-006: the versions of components are recorded and lie in the declared support matrix."""

from collections import Counter
from collections.abc import Mapping, Sequence

from pytest_gpucluster.evidence.log import api_answers, fields
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects import component_versions
from pytest_gpucluster.evidence.objects.component_versions import Seen
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.plain import components as known
from pytest_gpucluster.plain import versions
from pytest_gpucluster.requirement import Cause, Finding, Presupposed, Verdict

REQUIRED = "every component of the declared support matrix has a known version that lies in it"

OUTSIDE = Cause(
    "a component was updated, or not updated, apart from the tested combination",
    "bring it to a version of the matrix, or test the combination and add it to `versions` in the profile",
)
MIXED = Cause(
    "parts of one component, or nodes, have different versions: an update stopped halfway",
    "finish the update (kubectl get deployments -A -o wide; kubectl get nodes -o wide)",
)
NO_TAG = Cause(
    "the image's tag names no version (latest, a build, only a digest)",
    "pin the image to a released tag, or label the Deployment with app.kubernetes.io/version",
)
NOT_THERE = Cause(
    "the component is not installed, or is in an unusual namespace",
    "install it, or set its namespace under `namespaces` in the profile",
)
NO_LABEL = Cause(
    "the nodes carry no label of the driver's version",
    "run GPU feature discovery (part of the GPU Operator), which labels them",
)


@subjects.judge
def versions_supported(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge INV-006."""
    matrix = _matrix(given)
    every = component_versions.seen(evidence, str(given.get("gpu_resource") or "nvidia.com/gpu"))
    told = "; ".join(_told(name, [s for s in every if s.component == name]) for name in _names(every))
    facts = {"versions": {name: _counts(every, name) for name in _names(every)}}
    keys = tuple(dict.fromkeys(s.key for s in every))[: wording.MANY]
    if not every:
        return wording.finding(Verdict.INCONCLUSIVE, REQUIRED, "no component's version was seen")
    if not matrix:
        text = f"recorded: {told}; the profile declares no support matrix (versions)"
        return wording.finding(Verdict.NOT_APPLICABLE, REQUIRED, text, evidence=keys, facts=facts)
    outside = [s for s in every if s.version is not None and _out(s, matrix)]
    unknown = [s for s in every if s.version is None and s.component in matrix]
    unseen = [name for name in matrix if not any(s.component == name for s in every)]
    if outside:
        return _outside(outside, matrix, told, facts)
    if unknown or unseen:
        return _unknown(unknown, unseen, told, facts)
    within = ", ".join(f"{name} in {' or '.join(ranges)}" for name, ranges in matrix.items())
    return wording.finding(Verdict.PASS, REQUIRED, f"{told}: {within}", evidence=keys, facts=facts)


def _matrix(given: subjects.Given) -> dict[str, tuple[str, ...]]:
    return {
        str(name): tuple(map(str, ranges))
        if isinstance(ranges, Sequence) and not isinstance(ranges, str)
        else (str(ranges),)
        for name, ranges in fields.sub(given, "versions").items()
    }


def _out(one: Seen, matrix: Mapping[str, tuple[str, ...]]) -> bool:
    ranges = matrix.get(one.component)
    return ranges is not None and not any(versions.within(one.version or (), r) for r in ranges)


def _names(every: Sequence[Seen]) -> list[str]:
    there = {s.component for s in every}
    return [name for name in known.NAMES if name in there]


def _counts(every: Sequence[Seen], name: str) -> dict[str, int]:
    shown = Counter(versions.printed(s.text) if s.version else s.text for s in every if s.component == name)
    return dict(sorted(shown.items()))


def _told(name: str, found: Sequence[Seen]) -> str:
    return f"{name} {' and '.join(_counts(found, name))}"


def _outside(
    outside: Sequence[Seen], matrix: Mapping[str, tuple[str, ...]], told: str, facts: Mapping[str, object]
) -> Finding:
    names = list(dict.fromkeys(s.component for s in outside))
    parts = [
        f"{name} {' and '.join(_counts(outside, name))} is not in {' or '.join(matrix[name])}"
        f" ({wording.listed([s.where for s in outside if s.component == name], 4)})"
        for name in names
    ]
    return wording.finding(
        Verdict.FAIL,
        REQUIRED,
        f"{'; '.join(parts)}; recorded: {told}",
        violation=True,
        where=tuple(f"{s.where}: {s.text}" for s in outside[: wording.MANY]),
        causes=(OUTSIDE, MIXED),
        evidence=tuple(dict.fromkeys(s.key for s in outside))[: wording.MANY],
        repeat=("kubectl version", "kubectl get deployments -A -o wide", "kubectl get nodes -o wide"),
        facts=facts,
    )


def _unknown(
    unknown: Sequence[Seen], unseen: Sequence[str], told: str, facts: Mapping[str, object]
) -> Finding:
    parts = [f"{s.component} of {s.where} cannot be read from {s.text!r}" for s in unknown[:4]]
    parts += [f"{name} was not seen" for name in unseen]
    causes: dict[Cause, None] = {}
    if unknown:
        causes[NO_TAG] = None
    for name in unseen:
        if name == "driver":
            causes[NO_LABEL] = None
        elif name == "nccl":
            text = "NCCL's version is in the log of a collective, not in the API"
            causes[
                Cause(text, "judge it with the fabric rows, and leave nccl out of `versions` until they run")
            ] = None
        else:
            causes[NOT_THERE] = None
    return wording.finding(
        Verdict.INCONCLUSIVE,
        REQUIRED,
        f"unknown versions: {'; '.join(parts)}; recorded: {told or 'nothing'}",
        where=tuple(f"{s.where}: {s.text}" for s in unknown[: wording.MANY]),
        causes=tuple(causes),
        evidence=tuple(dict.fromkeys(s.key for s in unknown))[: wording.MANY],
        facts=facts,
    )


def deployments_readable(evidence: Evidence, given: subjects.Given) -> Presupposed:
    """Say whether the Deployments of declared components could be read."""
    del given
    name = "the Deployments of declared components may be read"
    asked = api_answers.read(evidence, component_versions.DEPLOYMENTS)
    for answer in asked:
        if answer.denied:
            namespace = answer.case.rpartition(":")[2]
            text = f"{answer.request}: HTTP {answer.code}: {answer.message or 'forbidden'}"
            return wording.presupposed(
                name,
                held=False,
                observed=f"{text} (the run needs list on deployments.apps in {namespace})",
                causes=(_grant("list", "deployments.apps", namespace),),
                evidence=(answer.line.key,),
            )
    return wording.presupposed(name, held=True, observed=f"{len(asked)} namespaces were read")


def _grant(verb: str, resource: str, namespace: str) -> Cause:
    return Cause(
        f"the run's account may not {verb} {resource} in {namespace}",
        f"grant it: a Role in {namespace} with {verb} on {resource}, bound to the account of the kubeconfig",
    )
