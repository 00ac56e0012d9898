"""RDZV-007: the launcher knows where it runs: the labels of its node are in its environment, missing ones empty.

Judged by what the launcher finds in its environment, against the labels of the node that the pod was bound to: what
the init container wrote, and whether it was let to read, explains. A label that the node has and the launcher does not
is the silent failure of this pattern: training goes on and guesses its fabric.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence

from pytest_gpucluster.evidence.log import fields, payload_lines
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.log.payload_lines import Word
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.evidence.scheduling.gangs import Gang
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.rendezvous import dns_wait
from pytest_gpucluster.requirement import Cause, Finding, Number

REQUIRED = (
    "the launcher's environment has the wanted labels of its own node, and an empty variable for each label that "
    "the node lacks"
)
FORBIDDEN = Cause(
    "the pod's service account may not read nodes: they are not namespaced, so a Role does not help",
    "bind a ClusterRole with `get` on nodes to the account of the training pods (a ClusterRoleBinding)",
)
UNREACHABLE = Cause(
    "the API server does not answer the pod: a NetworkPolicy, a token that is not mounted "
    "(automountServiceAccountToken), or an init container that starts before the mesh lets traffic out",
    "read the log of the init container; allow egress to the Service kubernetes.default",
)
NOT_EXPORTED = Cause(
    "the entrypoint sources the file, but the variables stay in its shell: lines NAME=value are not exported",
    "put `set -a` before the line that sources the file, or write `export NAME=value`",
)
NOT_SHARED = Cause(
    "the init container writes another file than the entrypoint sources: the volume is not mounted in both, or "
    "the paths differ",
    "mount one emptyDir in both containers, at the same path",
)
OTHER_NODE = Cause(
    "the labels are those of another node: NODE_NAME is fixed in the template instead of taken from the pod",
    "take it from the downward API: fieldRef spec.nodeName",
)
FAILED = Cause(
    "the init container fails if a label is missing, so one node without a label stops the whole gang",
    "treat a missing label as an empty value: use no `set -e` around the look-up, and ignore its exit code",
)


@dataclasses.dataclass(frozen=True)
class Member:
    """What one member was told of its node."""

    pod: PodStory
    wrote: Word | None
    launched: Word | None

    @property
    def env(self) -> Mapping[str, str]:
        """Return what its launcher found."""
        told = fields.sub(self.launched.data, "env") if self.launched is not None else {}
        return {str(name): str(value) for name, value in told.items()}


def variable(key: str) -> str:
    """Return the variable in which a label arrives."""
    return "NODE_" + re.sub(r"[^A-Z0-9]", "_", key.rpartition("/")[2].upper())


@subjects.judge
def labels_arrive(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge RDZV-007."""
    gang, found = _members(evidence, given)
    keys = tuple(w.key for one in found for w in (one.wrote, one.launched) if w is not None)[:8]
    wanted = [str(key) for key in given.get("labels") or ()] or _asked(found)
    nodes = {line.name: fields.sub(line.object, "metadata", "labels") for line in evidence.of_kind("Node")}
    judged = [one for one in found if one.launched is not None and one.pod.node in nodes]
    right = sum(_arrived(one, nodes[one.pod.node or ""], wanted) for one in judged)
    number = Number(
        "labels that arrived", float(right) if judged else None, "labels",
        float(sum(sum(key in nodes[one.pod.node or ""] for key in wanted) for one in judged)), "labels of the nodes",
    )  # fmt: skip
    told = wording.Findings(REQUIRED, gang, evidence=keys, numbers=(number,))

    for one in judged:
        for text, cause in _faults(one, nodes[one.pod.node or ""], wanted):
            return told.fail(text, cause, where=wording.places((one.pod,)), violation=True)
    for one in found:
        code = dns_wait.init_code(one.pod)
        if (
            code
            and one.launched is None
            and one.wrote is None
            and one.pod.uid in payload_lines.words(evidence).logged
        ):
            return told.fail(
                f"{one.pod.where}: an init container ended with {code}",
                FAILED,
                where=wording.places((one.pod,)),
            )
    for one in found:
        failed = [code for container, code in one.pod.exit_codes if code and container != "topology"]
        if failed and one.launched is None and one.wrote is not None and one.wrote.data.get("ok") is True:
            text = f"{one.pod.where}: labels were written, the entrypoint ended with {failed[0]} before its launcher"
            return told.fail(text, NOT_SHARED, where=wording.places((one.pod,)), violation=True)
    silent = [one.pod for one in found if one.launched is None]
    if not found or silent:
        torn = [pod.name for pod in silent if payload_lines.words(evidence).torn.get(pod.uid)]
        what = f"a line of {wording.listed(torn)} is cut" if torn else "no launcher reported its environment"
        places = {"where": wording.places(silent)} if silent else {}
        return told.inconclusive(
            f"{wording.listed([pod.name for pod in silent]) or 'no member'}: {what}", **places
        )
    unknown = [one.pod.node for one in found if one.pod.node not in nodes]
    if unknown:
        return told.inconclusive(f"the labels of node {unknown[0]} were not seen")
    have = {key for one in judged for key in wanted if nodes[one.pod.node or ""].get(key)}
    lack = {key for one in judged for key in wanted if key not in nodes[one.pod.node or ""]}
    if not have or not lack:
        what = "no wanted label is on any node" if not have else "no wanted label is missing on any node"
        return told.inconclusive(f"{what}: only one of both cases was tried")
    text = (
        f"{len(judged)} launchers have {wording.listed(sorted(have), 4)} of their own node, and an empty variable for "
        f"{wording.listed(sorted(lack), 4)}"
    )
    return told.passed(text)


def _members(evidence: Evidence, given: subjects.Given) -> tuple[Gang | None, list[Member]]:
    """Return the gang whose members were to be told, and what each was."""
    words = payload_lines.words(evidence)
    named = subjects.cast(evidence, given, "held", "subject")
    for gang in subjects.everyone(evidence) if named is None else named:
        found = [
            Member(pod, words.last("labels", pod.uid), words.last("launching", pod.uid)) for pod in gang.pods
        ]
        if named is not None or any(one.wrote for one in found):
            return gang, found
    return None, []


def _asked(found: Sequence[Member]) -> list[str]:
    """Return the labels that were missing by the word of the init containers, where nobody says which were wanted."""
    return [str(key) for one in found if one.wrote is not None for key in one.wrote.data.get("missing") or ()]


def _arrived(one: Member, labels: Mapping[str, object], wanted: Sequence[str]) -> int:
    return sum(key in labels and one.env.get(variable(key)) == str(labels[key]) for key in wanted)


def _faults(one: Member, labels: Mapping[str, object], wanted: Sequence[str]) -> Iterator[tuple[str, Cause]]:
    """Yield what is wrong with one launcher's environment, and why."""
    wrote = fields.sub(one.wrote.data, "env") if one.wrote is not None else {}
    for key in wanted:
        name, right = variable(key), str(labels.get(key, ""))
        got = one.env.get(name)
        if got == right:
            continue
        where = f"{one.pod.where}: {name} of the launcher"
        if got is None:
            lost = name in wrote
            yield (
                f"{where} is not set{', although it was written' if lost else ''}",
                NOT_EXPORTED if lost else NOT_SHARED,
            )
        elif not got:
            code = one.wrote.number("code") if one.wrote is not None else None
            error = str(one.wrote.data.get("error") or "") if one.wrote is not None else ""
            text = f"{where} is empty, the node has {key}={right}"
            if code in (401, 403):
                yield f"{text}; the API server answered {code}: {wording.short(error)}", FORBIDDEN
            elif error:
                yield f"{text}; {wording.short(error)}", UNREACHABLE
            else:
                yield text, NOT_SHARED
        else:
            node = one.wrote.data.get("node") if one.wrote is not None else ""
            asked = f" (asked for {node})" if node and node != one.pod.node else ""
            yield (
                f"{where} is {got}, the node {one.pod.node} has {right or 'no such label'}{asked}",
                OTHER_NODE,
            )
