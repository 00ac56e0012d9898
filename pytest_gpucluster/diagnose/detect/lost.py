"""A gang that was whole and is no more: the member that it lost, and who took its place."""

from pytest_gpucluster.diagnose import machines
from pytest_gpucluster.diagnose.detect.limits import amount
from pytest_gpucluster.diagnose.detect.suspecting import fault
from pytest_gpucluster.diagnose.model import Stage, Suspect
from pytest_gpucluster.diagnose.situation import Situation
from pytest_gpucluster.evidence.log import fields
from pytest_gpucluster.evidence.objects.pods import FINISHED
from pytest_gpucluster.evidence.objects.pods import pods as every_pod
from pytest_gpucluster.judge import wording
from pytest_gpucluster.requirement import Cause


def member_lost(s: Situation, base: str, text: str, keys: tuple[str, ...]) -> Suspect:
    """Return that the gang lost a member and has no room for its replacement, and who took its place."""
    gone = wording.listed([p.name for p in s.unbound], 4)
    shut = [
        line.name
        for line in s.objects("Node")
        if machines.closed(line.object, s.unbound[0].last) == "is cordoned"
    ]
    took = _takers(s)
    more = f"; {wording.listed(took, 4)} took the place" if took else ""
    more += f"; cordoned: {wording.listed(shut, 4)}" if shut else ""
    if not shut and "were unschedulable" in text:
        more += "; a cordoned node, which the evidence does not name"
    cause = Cause(
        f"the gang lost a member, and there is no room for its replacement {gone}{more}",
        (
            f"end or move {took[0].partition(' ')[0]}, or add a node"
            if took
            else "make room for it (uncordon or add a node, free the place that was taken)"
        )
        + "; a gang is admitted whole but nothing keeps it whole: a policy PodEvicted -> RestartJob would restart it",
    )
    return fault(
        "member-lost",
        Stage.PLACE,
        cause,
        base,
        where=wording.places(s.unbound),
        evidence=keys,
        rows=("GANG-009", "GANG-010"),
    )


def _takers(s: Situation) -> list[str]:
    """Return the pods of others that came to the lost member's node, or after it was lost, with what they hold."""
    resources = list(dict.fromkeys(r for p in s.unbound for r in fields.scarce_resources(p.last)))
    lost = min((p.created for p in s.unbound), default=s.now)
    mine = {p.uid for p in (s.gang.pods if s.gang else s.loose)}
    nodes_ = {p.node for p in (s.gang.pods if s.gang else ()) if p.deleted is not None and p.node}
    found = []
    for pod in every_pod(s.evidence):
        if (
            pod.uid in mine
            or pod.bound is None
            or pod.bound < lost
            or pod.deleted is not None
            or pod.phase in FINISHED
        ):
            continue
        held = [f"{amount(n)} {r}" for r in resources if (n := fields.demands(pod.last).get(r))]
        if held:
            found.append(
                (pod.node not in nodes_, pod.bound, f"Pod/{pod.name} ({', '.join(held)} on {pod.node})")
            )
    return [text for *_, text in sorted(found)]
