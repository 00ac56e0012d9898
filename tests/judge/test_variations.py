"""No row calls a healthy cluster a violation, however it differs from the one where the evidence was recorded."""

import random
from collections.abc import Iterator

import pytest

from pytest_gpucluster import mutants
from pytest_gpucluster.evidence import Evidence
from pytest_gpucluster.report import decisions
from pytest_gpucluster.requirement import Requirement
from tests import amount, recordings
from tests.defects import matrix
from tests.judge.variations import VARIATIONS, times

# One worker reads the recordings, once.
pytestmark = pytest.mark.xdist_group("recordings")

SCENARIOS = sorted({row.scenario.name for row in matrix.rows()})

SHORT = (
    "the recorded windows and times to live are half a second to two: what a watch tells so much later is outside of "
    "them, or was not seen to last"
)
UNREAD = "a refusal that is worded otherwise is not read as one, and a refusal must be seen"
OF_QUEUE = "the state of the queue is told after the answer that it explains: what it was then is not known"
OF_NODES = (
    "what nodes offer is told after the gang was looked at: what was free in a domain then is not known"
)
NEIGHBOUR = "somebody else's gang waits without a place: whether the refused one is in its way is not known"
OF_MAKER = "no floor for the driver of another maker is known: a profile leaves it out of `security.required`"
OF_EXPORTER = "whose exporter serves a resource that a site named is not known: a profile names its metrics"
UNDECIDED = {
    "times.pods-late": dict.fromkeys(
        ("GANG-002", "GANG-005", "GANG-008", "GANG-010", "KUE-004", "LIFE-002", "LIFE-005", "LIFE-009", "LIFE-010",
         "LIFE-011", "NUMA-008", "PLG-008", "REF-005", "REF-006", "REF-007", "REF-008", "REF-009"), SHORT),
    "times.jobs-late": dict.fromkeys(("LIFE-003", "LIFE-005", "KUE-004", "KUE-008"), SHORT),
    "clusters.other-maker": {"INV-011": OF_MAKER},
    "clusters.own-resource-name": {"HLT-003": OF_EXPORTER},
    "clusters.restarted-node": {"NUMA-001": "nobody asked the kubelet of a node that is there besides"},
    "times.queues-late": {"REF-004": OF_QUEUE},
    "times.nodes-late": dict.fromkeys(("GANG-012", "KUE-007"), OF_NODES),
    "neighbours.waiting": {"REF-005": NEIGHBOUR},
    "words.other-words": dict.fromkeys(
        ("GANG-002", "GANG-003", "GANG-004", "GANG-005", "GANG-012", "KUE-002", "KUE-004", "KUE-007", "KUE-008",
         "LIFE-013", "LIFE-014", "REF-001", "REF-002", "REF-005", "REF-006", "REF-007", "REF-009", "TRN-003"), UNREAD),
    "times.other-order": {"REF-004": OF_QUEUE, "LIFE-005": SHORT, "REF-006": SHORT},
}  # fmt: skip
"""Variation -> rows that it may leave undecided, each with the reason."""
BY_TAG = "what a webhook puts beside the containers must be pinned by digest too, and this one names a tag"
VIOLATED = {
    "admitted.native-sidecar": {"INV-007": BY_TAG},
    "admitted.vault-agent": {"INV-007": BY_TAG},
}
"""Variation -> rows that it violates in earnest, each with the reason; a sidecar by digest is that of the mesh."""


def dice():
    """Return what chance comes from: new in each run of everything, else the same, so that it turns no gate red."""
    return random.Random() if amount.all_of_it() else random.Random(7)  # noqa: S311 (not a secret)


def drawn(name):
    """Return the scenarios to try a variation on: all of them, or every third one, the others for its neighbours."""
    return SCENARIOS if amount.all_of_it() else SCENARIOS[sorted(VARIATIONS).index(name) % 3 :: 3]


def judged(vary, scenarios=SCENARIOS) -> Iterator[tuple[Requirement, Evidence]]:
    """Yield each row with the evidence of its scenario, where a variation changed that."""
    for scenario in scenarios:
        before = matrix.evidence(scenario)
        after = vary(before)
        if not matrix.untouched(before, after):
            for row in matrix.rows():
                if row.scenario.name == scenario:
                    yield row, after


@pytest.mark.parametrize("name", sorted(VARIATIONS))
def test_a_healthy_cluster_is_called_healthy(name):
    """Every row keeps its verdict; what one table lists may be undecided, and what the other lists must fail."""
    seen, changed = 0, {}
    for row, evidence in judged(VARIATIONS[name], drawn(name)):
        seen += 1
        finding = decisions.decide(row, evidence)
        open_ = row.id in UNDECIDED.get(name, {}) and finding.verdict == "inconclusive"
        expected = "fail" if row.id in VIOLATED.get(name, {}) else matrix.baseline()[row.id]
        if str(finding.verdict) != expected and not open_:
            changed[row.id] = f"{finding.verdict}: {finding.observed[:200]}"
    assert changed == {}
    assert seen or not amount.all_of_it(), "a variation that changes nothing shows nothing"


KINDS = sorted({line.kind for name in SCENARIOS for line in matrix.evidence(name).lines if line.kind})


@pytest.mark.parametrize("seconds", [0.05, 0.12, 0.24, 0.35, 0.5])
def test_no_watch_that_is_late_makes_a_violation(seconds):
    """Watches of one kind or of several are behind the others, by up to half a second."""
    chance = dice()
    half = [SCENARIOS[int(seconds * 100) % 2 :: 2], SCENARIOS][amount.all_of_it()]
    for kinds in [KINDS] if not amount.all_of_it() else [[kind] for kind in KINDS]:
        late = [kind for kind in kinds if len(kinds) == 1 or chance.random() < 0.5]
        failed = {
            row.id: finding.observed[:200]
            for row, evidence in judged(times.late_watch(*late, by=seconds), half)
            if (finding := decisions.decide(row, evidence)).verdict == "fail"
        }
        assert failed == {}, f"late: {late}"


ALONE = [name for name in sorted(VARIATIONS) if name.partition(".")[0] in ("admitted", "clusters", "words")]
"""What nobody else has a part in: without roles a row speaks of all gangs."""


def test_a_stream_of_a_real_cluster_gets_no_worse():
    """Where no header says who is who, as in what users record; a sample, but for everything."""
    folders, chance = recordings.folders(), dice()
    worse = []
    for folder in folders if amount.all_of_it() else chance.sample(folders, 12):
        name = chance.choice(ALONE)
        before = recordings.stream(folder.name)
        after = VARIATIONS[name](before)
        for row, judge in recordings.JUDGES.items():
            finding = judge(after, after.given)
            if finding.verdict == "fail" and judge(before, before.given).verdict != "fail":
                worse.append(f"{row} on {folder.name} under {name}: {finding.observed[:200]}")
    assert worse == []


TIMELESS = [name for name in sorted(VARIATIONS) if not name.startswith("times.")]
"""What moves lines in time may undo what a mutant did to times."""
RED = sorted(
    (mutant, row)
    for mutant, made in mutants.MUTANTS.items()
    for row, to in made.flips.items()
    if to == "fail"
)


LABELS = "only NVIDIA's labels say how many GPUs a node has, or that it has any: they say nothing of another resource"
TAKEN_AWAY = dict.fromkeys(
    ((mutant, name) for mutant in ("inventory.counted-twice", "inventory.offered-twice", "inventory.plugin-gone")
     for name in ("clusters.other-maker", "clusters.own-resource-name")), LABELS,
)  # fmt: skip
"""(mutant, variation) -> why the variation takes away what showed the violation."""


def test_a_violation_stays_red_on_every_cluster():
    """What makes a row fail does not pass because the cluster differs; a sample, but for everything."""
    rows = {row.id: row for row in matrix.rows()}
    green, chance = [], dice()
    for mutant, row in RED if amount.all_of_it() else chance.sample(RED, 100):
        name = chance.choice(TIMELESS)
        broken = mutants.MUTANTS[mutant].act(matrix.evidence(rows[row].scenario.name))
        finding = decisions.decide(rows[row], VARIATIONS[name](broken))
        if finding.verdict == "pass" and (mutant, name) not in TAKEN_AWAY:
            green.append(f"{row} under {mutant} and {name}: {finding.observed[:200]}")
    assert green == []
