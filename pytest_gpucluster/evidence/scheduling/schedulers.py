"""How each scheduler says that it refuses a gang: reporter, object and reason class, as data.

Texts differ between versions and only explain; what decides is who said which reason about which object. Read from
recorded streams of Volcano v1.14.4, Kubernetes 1.34 (default-scheduler) and 1.37 (native PodGroup).
"""

import dataclasses
import re
from collections.abc import Mapping

from pytest_gpucluster.evidence.objects.owners import Said
from pytest_gpucluster.plain import schedulers as known

ADMISSION, ENQUEUE, PLACEMENT = known.ADMISSION, known.ENQUEUE, known.PLACEMENT
QUOTA = known.QUOTA


@dataclasses.dataclass(frozen=True)
class Rule:
    """One way of saying no.

    Attributes:
        gate: where the refusal happens: enqueue and quota (no pods are made) or placement (all pods exist, unbound).
        source: `event` or `condition`.
        about: kind of the object.
        type: the event's type, or `ConditionType=Status`.
        reasons: reason classes.
    """

    gate: str
    source: str
    about: str
    type: str
    reasons: frozenset[str]

    def fits(self, source: str, about: str, said: Said) -> bool:
        """Report whether something said is of this class."""
        return (
            source == self.source
            and about == self.about
            and said.type == self.type
            and said.reason in self.reasons
        )


@dataclasses.dataclass(frozen=True)
class Scheduler:
    """How one scheduler is read.

    Attributes:
        name: what it is called in findings.
        whole: it places gangs whole or not at all.
        rules: how it refuses.
        fits_reason: reason of a PodScheduled=False condition of a pod for which there would have been room.
        fits_text: what the message of such a condition holds, where the reason is the same as of the others.
    """

    name: str
    whole: bool
    rules: tuple[Rule, ...]
    fits_reason: str = ""
    fits_text: str = ""

    def refuses(self, gate: str, source: str, about: str, said: Said) -> bool:
        """Report whether something said is a refusal at a gate."""
        return any(rule.gate == gate and rule.fits(source, about, said) for rule in self.rules)

    def would_fit(self, reason: str, message: str) -> bool:
        """Report whether a pod condition says that this pod would have had a place."""
        if self.fits_reason and reason == self.fits_reason:
            return True
        return bool(self.fits_text) and self.fits_text in message


VOLCANO = Scheduler(
    name="volcano",
    whole=True,
    rules=(
        # overcommit and proportion (or capacity): before any pod is made.
        Rule(ENQUEUE, "event", "PodGroup", "Normal", frozenset({"Unschedulable"})),
        # gang: the Warning event of the same reason comes with every gang, also healthy ones, and decides nothing.
        Rule(PLACEMENT, "condition", "PodGroup", "Unschedulable=True", frozenset({"NotEnoughResources"})),
        Rule(
            PLACEMENT, "condition", "Pod", "PodScheduled=False", frozenset({"Unschedulable", "Schedulable"})
        ),
        Rule(PLACEMENT, "event", "Pod", "Warning", frozenset({"FailedScheduling"})),
    ),
    fits_reason="Schedulable",
    # Where the configuration has preempt, the pods that idle room would hold have the reason Unschedulable and read
    # "once resource is released", although nothing is being released.
    fits_text=" can possibly be assigned to ",
)

NATIVE = Scheduler(
    name="default-scheduler (native PodGroup)",
    whole=True,
    rules=(
        Rule(
            PLACEMENT,
            "condition",
            "PodGroup",
            "PodGroupInitiallyScheduled=False",
            frozenset({"Unschedulable"}),
        ),
        Rule(PLACEMENT, "condition", "Pod", "PodScheduled=False", frozenset({"Unschedulable"})),
        Rule(PLACEMENT, "event", "Pod", "Warning", frozenset({"FailedScheduling"})),
    ),
    fits_text="pod group is unschedulable, ",
)

KUEUE = Scheduler(
    name="kueue",
    # By quota: whole or not at all where quota is no larger than what the nodes have.
    whole=True,
    rules=(
        Rule(
            QUOTA,
            "condition",
            "Workload",
            "QuotaReserved=False",
            frozenset(
                {
                    *("Pending", "Inadmissible", "Waiting"),
                    # With the feature UnadmittedWorkloadsObservability (on from 0.20).
                    *("ExceedsMaxQuota", "WaitingForQuota", "NoMatchingFlavor", "TopologyPlacementFailed"),
                    *("WaitingForPreemptedWorkloads", "WaitingForPodsReady", "Misconfigured", "Suspended"),
                }
            ),
        ),
    ),
)

DEFAULT = Scheduler(
    name="default-scheduler",
    whole=False,
    rules=(
        Rule(PLACEMENT, "condition", "Pod", "PodScheduled=False", frozenset({"Unschedulable"})),
        Rule(PLACEMENT, "event", "Pod", "Warning", frozenset({"FailedScheduling"})),
    ),
)

OF_QUEUE, OF_CLUSTER = "queue", "cluster"

ENQUEUE_CLASSES: Mapping[str, tuple[str, str]] = {
    r"queue resource quota insufficient": (
        OF_QUEUE,
        "the queue's share is too small (proportion or capacity)",
    ),
    r"overused": (OF_CLUSTER, "the cluster's total is taken (overcommit)"),
}
"""Text classes of an enqueue refusal: whose limit, and what it means. They alternate for one gang, so one line never
decides; that none of many speaks of a limit says something."""

CAPACITY_CLASS = re.compile(r"\bInsufficient ([\w./-]+)")
"""Resource named by a scheduler that found no node."""

DEFAULT_NAME = "default-scheduler"


def meaning_of_enqueue(message: str) -> str:
    """Return what an enqueue refusal means, in words."""
    for pattern, (_, meaning) in ENQUEUE_CLASSES.items():
        if re.search(pattern, message):
            return meaning
    return "refused before any pod was made"


def limit_of_enqueue(message: str) -> str:
    """Return whose limit an enqueue refusal speaks of: `queue`, `cluster`, "" for words that are not known."""
    return next((limit for pattern, (limit, _) in ENQUEUE_CLASSES.items() if re.search(pattern, message)), "")


def placing(scheduler_name: str, *, native_gang: bool, volcano_group: bool) -> Scheduler:
    """Return how the scheduler that places a gang's pods is read.

    Args:
        scheduler_name: spec.schedulerName of the pods.
        native_gang: the pods belong to a native PodGroup with a gang policy.
        volcano_group: the pods belong to a PodGroup of Volcano.
    """
    if scheduler_name == DEFAULT_NAME:
        return NATIVE if native_gang else DEFAULT
    if volcano_group or scheduler_name.startswith("volcano"):
        return dataclasses.replace(VOLCANO, name=scheduler_name)
    return dataclasses.replace(DEFAULT, name=scheduler_name)
