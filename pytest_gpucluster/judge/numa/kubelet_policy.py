"""NUMA-001, NUMA-005: every kubelet runs the declared policy and scope, by what it says and by what it does."""

import dataclasses
from collections.abc import Iterable, Sequence

from pytest_gpucluster.evidence.hardware import numa_trials as reading
from pytest_gpucluster.evidence.hardware.numa_trials import RAN, Stated, Trial
from pytest_gpucluster.evidence.log.model import Evidence
from pytest_gpucluster.evidence.objects import node_status
from pytest_gpucluster.judge import subjects, wording
from pytest_gpucluster.judge.numa import shared
from pytest_gpucluster.requirement import Cause, Finding, Verdict

Said = tuple[Stated | None, Stated | None]
"""What a node's kubelet and what an exporter say of it."""

UNKNOWN = Cause(
    "the run may not read the kubelet's configuration",
    "grant get on nodes/proxy to the run for this row, or leave a node free, so that test pods can show it",
)
DISAGREE = Cause(
    "the node's NodeResourceTopology differs from its kubelet's configuration",
    "look at what writes it (the topology updater of NFD, or another exporter) and at its age",
)


@dataclasses.dataclass(frozen=True)
class Behaviour:
    """How one node behaved.

    Attributes:
        node: the node.
        policies: the Topology Manager policies that behave like this; none where it cannot be told.
        why: why it cannot be told, "" where it can.
        trials: the pods that showed it.
    """

    node: str
    policies: tuple[str, ...]
    why: str
    trials: tuple[Trial, ...]

    @property
    def told(self) -> str:
        """Return the policies as a finding names them."""
        return " or ".join(self.policies)


def behaviour(told: shared.Terms, node: str, tried: Sequence[Trial]) -> Behaviour:
    """Tell a node's policy from a pod that is too large for a NUMA node and one of what it leaves.

    single-numa-node refuses the first and takes the second, restricted takes the first and may refuse the second, the
    others take both, and turn no pod away for topology.
    """
    own = [t for t in tried if t.node == node]
    large = next((t for t in shared.misfits(told, own) if t.outcome != reading.OPEN), None)
    if large is None:
        return Behaviour(node, (), "no kubelet there decided a pod too large for a NUMA node", ())
    if shared.refused_otherwise([large]):
        return Behaviour(node, (), shared.why_refused(large), (large,))
    after = [
        t
        for t in shared.fitting(told, own)
        if t.pod.created >= large.since - 1.0 and t.outcome != reading.OPEN
    ]
    small = next((t for t in after if len(t.each) == 1), None)
    shown = (large,) if small is None else (large, small)
    if large.topology:
        if small is None or small.outcome != RAN:
            return Behaviour(node, (), "no fitting pod was admitted after the one that does not fit", shown)
        return Behaviour(node, (shared.SINGLE,), "", shown)
    if small is not None and small.topology and small.fitted:
        return Behaviour(node, ("restricted",), "", shown)
    strict = next((t for t in own if t.topology), None)
    if strict is not None:
        # best-effort and none turn nothing away for topology: this one asked for CPUs too, or found devices split.
        return Behaviour(node, ("restricted",), "", (strict, large))
    both = (
        ("best-effort", "none")
        if small is not None and small.outcome == RAN
        else ("restricted", "best-effort", "none")
    )
    return Behaviour(node, both, "", shown)


@subjects.judge
def told_apart(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge NUMA-005."""
    told = shared.of(evidence, given)
    required = f"every node behaves as policy {told.policy}, and as no other"
    other = shared.undeclared(told, required)
    if other is not None:
        return other
    tried = reading.trials(evidence, given)
    nodes = list(dict.fromkeys(t.node for t in tried if t.node))
    found = [behaviour(told, node, tried) for node in nodes]
    wrong = [b for b in found if b.policies and told.policy not in b.policies]
    if wrong:
        shown = [t for b in wrong for t in b.trials]
        causes = dict.fromkeys(c for b in wrong for c in shared.causes_of_running(evidence, b.trials[0]))
        return shared.violation(
            required,
            wording.listed([f"{b.node} behaves as {b.told} ({_told(b.trials)})" for b in wrong], 4),
            shown,
            causes=tuple(causes),
            facts={"behaviour": {b.node: list(b.policies) for b in found}},
        )
    open_ = [b for b in found if b.policies != (told.policy,)]
    if not found or open_:
        text = wording.listed(
            [f"{b.node}: {b.why or f'{b.told} cannot be told apart here'}" for b in open_], 4
        )
        shown = [t for b in open_ for t in b.trials]
        return wording.finding(
            Verdict.INCONCLUSIVE,
            required,
            text or "no pod that could show a policy was tried",
            where=shared.where(shown),
            evidence=shared.keys(shown),
        )
    shown = [t for b in found for t in b.trials]
    return wording.finding(
        Verdict.PASS,
        required,
        f"{wording.count(len(found), 'node')} behave as {told.policy}: {_told(found[0].trials)} on {found[0].node}",
        where=shared.where(shown),
        evidence=shared.keys(shown),
        repeat=shared.repeat(shown),
        facts={"behaviour": {b.node: list(b.policies) for b in found}},
    )


def _told(trials: Iterable[Trial]) -> str:
    return ", then ".join(f"{t.asked} GPUs {'rejected' if t.outcome != RAN else 'admitted'}" for t in trials)


@subjects.judge
def policy_set(evidence: Evidence, given: subjects.Given) -> Finding:
    """Judge NUMA-001."""
    told = shared.of(evidence, given)
    required = f"every GPU node runs the Topology Manager policy {told.policy} with scope {told.scope}"
    other = shared.undeclared(told, required)
    if other is not None:
        return other
    tried = reading.trials(evidence, given)
    said = shared.stated(evidence)
    gpu_nodes = [m.name for m in node_status.gpu_nodes(evidence, told.resource)]
    nodes = sorted({*gpu_nodes, *said, *(t.node for t in tried if t.node)})
    if not nodes:
        return wording.finding(Verdict.INCONCLUSIVE, required, "no GPU node was seen")
    views = [_view(told, node, tried, said.get(node, (None, None))) for node in nodes]
    wrong = [v for v in views if v.wrong]
    if wrong:
        causes = dict.fromkeys(cause for v in wrong for cause in v.causes)
        return wording.finding(
            Verdict.FAIL,
            required,
            wording.listed([f"{v.node}: {v.wrong}" for v in wrong], 4),
            violation=True,
            where=tuple(f"Node/{v.node}: {v.wrong}" for v in wrong[: wording.MANY]),
            causes=tuple(causes),
            evidence=tuple(key for v in wrong for key in v.keys)[: wording.MANY],
            repeat=tuple(f"kubectl get --raw /api/v1/nodes/{v.node}/proxy/configz" for v in wrong[:1]),
            facts={"nodes": {v.node: v.shown for v in views}},
        )
    unknown = [v for v in views if not v.shown]
    if unknown:
        return wording.finding(
            Verdict.INCONCLUSIVE,
            required,
            f"unknown on {wording.listed([f'{v.node} ({v.lacking})' for v in unknown], 4)}",
            where=tuple(f"Node/{v.node}" for v in unknown[: wording.MANY]),
            causes=(UNKNOWN,),
            evidence=tuple(key for v in unknown for key in v.keys)[: wording.MANY],
        )
    return wording.finding(
        Verdict.PASS,
        required,
        f"{wording.count(len(views), 'GPU node')}: {wording.listed([f'{v.node} {v.shown}' for v in views], 4)}",
        evidence=tuple(key for v in views for key in v.keys)[: wording.MANY],
        facts={"nodes": {v.node: v.shown for v in views}},
    )


@dataclasses.dataclass(frozen=True)
class _View:
    """What is known of one node: what is wrong, how it was shown right, or what is lacking."""

    node: str
    wrong: str = ""
    shown: str = ""
    lacking: str = ""
    causes: tuple[Cause, ...] = ()
    keys: tuple[str, ...] = ()


def _view(told: shared.Terms, node: str, tried: Sequence[Trial], said: Said) -> _View:
    kubelet, exporter = said
    shows = behaviour(told, node, tried)
    scope = _scope(told, [t for t in tried if t.node == node])
    view = _View(node, keys=tuple(s.key for s in said if s is not None) + shared.keys(shows.trials))
    sound = kubelet is not None and kubelet.known
    for each, whose in ((kubelet, "its kubelet"), (exporter, "its NodeResourceTopology")):
        if each is None or not each.known:
            continue
        alone = (DISAGREE,) if each is exporter and sound else ()
        if each.policy != told.policy:
            text = f"{whose} says policy {each.policy}"
            return dataclasses.replace(view, wrong=text, causes=alone or (shared.POLICY,))
        if each.scope and each.scope != told.scope:
            text = f"{whose} says scope {each.scope}"
            return dataclasses.replace(view, wrong=text, causes=alone or (shared.SCOPE,))
    # Devices without NUMA nodes are never rejected: then a node's behaviour says nothing about its policy.
    blind = bool(shows.trials) and shows.trials[0].outcome == RAN and _unreported(shows.trials)
    if shows.policies and told.policy not in shows.policies and not blind:
        text = f"it behaves as {shows.told}"
        if kubelet is not None and kubelet.known:
            text += f", although it reports ({kubelet.policy})"
        return dataclasses.replace(
            view, wrong=text, causes=(shared.NOT_RESTARTED if sound else shared.POLICY, shared.NO_TOPOLOGY)
        )
    if scope and scope != told.scope:
        text = f"a pod was admitted container by container: the kubelet behaves as scope {scope}"
        return dataclasses.replace(view, wrong=text, causes=(shared.SCOPE,))
    shown, lacking = _known(told, kubelet, shows, scope)
    return dataclasses.replace(view, shown=shown, lacking=lacking)


def _unreported(trials: Iterable[Trial]) -> bool:
    return any(t.unreported for t in trials)


def _known(told: shared.Terms, kubelet: Stated | None, shows: Behaviour, scope: str) -> tuple[str, str]:
    """Return (how a node was shown right, "" where it was not; what is lacking then)."""
    if kubelet is not None and kubelet.known:
        proven = " and behaves accordingly" if shows.policies == (told.policy,) else ""
        return f"says {kubelet.policy}, {kubelet.scope}{proven}", ""
    lacking = kubelet.denied if kubelet is not None else "its kubelet was not asked"
    if shows.policies != (told.policy,):
        return "", f"{lacking}; {shows.why or 'pods did not show it'}"
    if not scope:
        return "", f"{lacking}; pods showed the policy but not the scope"
    return f"behaves as {told.policy}, {scope} ({lacking})", ""


def _scope(told: shared.Terms, own: Sequence[Trial]) -> str:
    """Tell the scope from a pod that fits no NUMA node as a whole and one container by container; "" without one."""
    if told.policy != shared.SINGLE:
        return ""
    for trial in shared.split(told, own):
        if trial.outcome == RAN:
            return "container"
        if trial.topology and trial.fitted:
            return "pod"
    return ""
