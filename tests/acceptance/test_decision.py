"""The gate: what opens it, what closes it, and what is said of it."""

import dataclasses
import datetime as dt
import itertools

import pytest

from pytest_gpucluster.acceptance import decision, policy
from pytest_gpucluster.plain import names
from pytest_gpucluster.profile.model import Waiver
from pytest_gpucluster.report.suites import load_suites
from tests.acceptance.toy import NODES, ago, attempt, cluster, decide, node, profile_of, run, wants

STAGES = (
    policy.Stage("node", rows=("HLT-004",)),
    policy.Stage("scheduling", rows=("GANG-002",)),
    policy.Stage("training", rows=("RDZV-001",)),
)


def waiver(row, expires=dt.date(2027, 1, 1)):
    """Return a waiver of the profile."""
    return Waiver(id=row, reason="known", owner="ops", expires=expires)


def test_a_gate_opens_when_all_passed():
    """It says for what, and until when: a policy's age after its oldest evidence."""
    found = decide(
        [run("r", attempt("GANG-002", at=ago(days=2)), attempt("HLT-004"))], wants("GANG-002", "HLT-004")
    )
    assert found.open
    assert found.purposes == {"scheduling": "yes", "health": "yes"}
    assert found.until == ago(days=-5)


@pytest.mark.parametrize("verdict", ["fail", "environment", "inconclusive", "not_applicable"])
def test_anything_but_a_pass_closes_it(verdict):
    """Also what was not measured."""
    found = decide([run("r", attempt("GANG-002", verdict), attempt("HLT-004"))], wants("GANG-002", "HLT-004"))
    assert not found.open
    assert [each.what for each in found.closers] == ["GANG-002"]
    assert found.until is None
    assert found.purposes["scheduling"] == {"fail": "no", "not_applicable": "not declared"}.get(
        verdict, "undecided"
    )


def test_a_row_that_nobody_tried_closes_it():
    """With the command that tries it."""
    found = decide([run("r", attempt("HLT-004"))], wants("GANG-002", "HLT-004"))
    (closer,) = found.closers
    assert (closer.what, closer.why) == ("GANG-002", "not run: no run tried it")
    assert closer.fix == "run it: pytest --cluster=embedded -k GANG-002"


def test_a_named_row_without_a_test_closes_it_and_one_of_an_area_is_told():
    """What nobody can show is never shown."""
    named = decide([run("r", attempt("HLT-004"))], wants("HLT-004", "HLT-001"))
    assert [(each.what, each.why) for each in named.closers] == [("HLT-001", "it has no test")]
    assert named.purposes == {"health": "undecided"}
    stages = (policy.Stage("a", areas=("health",)),)
    shown = [attempt(row) for row in ("HLT-002", "HLT-003", "HLT-004")]
    of_area = decide([run("r", *shown)], wants(stages=stages))
    assert of_area.open
    assert "HLT-001" in of_area.unbuilt
    assert "HLT-001" not in of_area.rows


def test_a_later_stage_is_ambiguous_while_an_earlier_one_is_red():
    """Only failures: what was not decided has its own reason."""
    rows = [attempt("HLT-004", "fail"), attempt("GANG-002", "fail"), attempt("RDZV-001", "inconclusive")]
    found = decide([run("r", *rows)], wants(stages=STAGES))
    assert [(each.what, each.ambiguous) for each in found.closers] == [
        ("HLT-004", ""), ("GANG-002", "the earlier stage node is red"), ("RDZV-001", ""),
    ]  # fmt: skip


def test_waivers_count_only_where_the_policy_accepts_them():
    """And while they are in force; a purpose with a waived row is no plain yes."""
    rows = [attempt("GANG-002", "fail"), attempt("GANG-001")]
    waived = profile_of(waivers=(waiver("GANG-002"),))
    expired = profile_of(waivers=(waiver("GANG-002", dt.date(2026, 11, 30)),))
    wanted = wants("GANG-001", "GANG-002")
    accepting = dataclasses.replace(wanted, waivers=policy.ACCEPTED)
    found = decide([run("r", *rows)], accepting, profile=waived)
    assert found.open
    assert found.purposes == {"scheduling": "yes, but for 1 waived row"}
    assert found.excused["GANG-002"] == "waived by ops until 2027-01-01: known"
    assert not decide([run("r", *rows)], wanted, profile=waived).open
    assert "waivers: accepted" in decide([run("r", *rows)], wanted, profile=waived).closers[0].fix
    assert not decide([run("r", *rows)], accepting, profile=expired).open


def test_a_waiver_does_not_excuse_what_was_not_measured():
    """It is about a failure."""
    accepting = wants("GANG-002", "GANG-001", waivers=policy.ACCEPTED)
    waived = profile_of(waivers=(waiver("GANG-002"),))
    for verdict in ("inconclusive", "environment"):
        rows = [attempt("GANG-002", verdict), attempt("GANG-001")]
        assert not decide([run("r", *rows)], accepting, profile=waived).open


def test_what_does_not_apply_needs_a_reason():
    """Of the row or of its area; a row about another scheduler has one."""
    rows = [attempt("FAB-001", "not_applicable"), attempt("GANG-002")]
    wanted = wants("FAB-001", "GANG-002")
    assert not decide([run("r", *rows)], wanted).open
    for key in ("FAB-001", "fabric"):
        found = decide([run("r", *rows)], dataclasses.replace(wanted, not_applicable={key: "no GPUs here"}))
        assert found.open
        assert found.excused == {"FAB-001": "does not apply: no GPUs here"}
        assert found.purposes == {"scheduling": "yes", "fabric": "not declared"}
    native = profile_of(scheduler="native")
    about_volcano = [attempt("REF-003", "not_applicable"), attempt("HLT-004")]
    values = {"scheduler": "native"}
    assert decide(
        [run("r", *about_volcano, profile=values)], wants("REF-003", "HLT-004"), profile=native
    ).open


def test_nothing_but_excuses_opens_nothing():
    """A policy of which nothing passed is not satisfied."""
    wanted = wants("FAB-001", not_applicable={"FAB-001": "why"})
    found = decide([run("r", attempt("FAB-001", "not_applicable"))], wanted)
    assert [each.what for each in found.closers] == ["policy"]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (run("r", attempt("GANG-002"), profile={"name": "other"}), "it was made for the profile 'other'"),
        (run("r", attempt("GANG-002"), of=cluster(uid="c-9")), "it is of another cluster: its API server"),
        (run("r", attempt("GANG-002"), planted=("gang.x",)), "defects were planted: gang.x"),
        (
            run("r", attempt("GANG-002"), reused="/runs/r0"),
            "evidence of another run; name that one: /runs/r0",
        ),
        (run("r", attempt("GANG-002"), profile={"gpus_per_node": 4}), "otherwise since: gpus_per_node"),
        (run("r", attempt("GANG-002"), of=cluster(volcano="v1.13.0")), "another version: volcano v1.13.0"),
    ],
)
def test_a_run_that_says_nothing_of_this_cluster_is_not_counted(made, said):
    """Alone it closes the gate; beside a good one it is told."""
    now = cluster(volcano="v1.14.4")
    alone = decide([made], wants("GANG-002"), now=now)
    assert said in alone.ignored["r"]
    assert said in alone.closers[0].why
    good = run("good", attempt("GANG-002"), of=now)
    both = decide([made, good], wants("GANG-002"), now=now)
    assert both.open
    assert list(both.ignored) == ["r"]


def test_connection_and_waivers_of_a_profile_may_change():
    """They change nothing in what is judged, nor does what the provider claims; a floor does."""
    values = profile_of().model_dump(mode="json")
    fabric = {**values["fabric"], "slow_share": 0.1}
    wanted = wants("GANG-002")
    assert decide([run("r", attempt("GANG-002"), profile={"waivers": [{"id": "x"}]})], wanted).open
    assert decide([run("r", attempt("GANG-002"), profile={"claims": [{"figure": "mfu"}]})], wanted).open
    changed = decide([run("r", attempt("GANG-002"), profile={"fabric": fabric})], wanted)
    assert changed.ignored == {"r": "the profile says otherwise since: fabric.slow_share"}


def test_a_run_that_left_something_closes_and_its_passes_do_not_count():
    """What failed in it does."""
    doubted = run("r", attempt("GANG-002"), attempt("HLT-004", "fail"), distrust=("the run did not finish",))
    good = run("good", attempt("GANG-002", at=ago(days=1)), attempt("HLT-004", at=ago(days=1)))
    found = decide([doubted, good], wants("GANG-002", "HLT-004"))
    assert [(each.what, each.why) for each in found.closers] == [
        ("r", "the run did not finish"), ("HLT-004", "fail: as seen"),
    ]  # fmt: skip
    assert found.rows["GANG-002"].run == "good"


@pytest.mark.parametrize("nodes", [policy.ALL, policy.ANY])
def test_coverage_is_asked_of_all_nodes_or_of_one(nodes):
    """As the policy has it; a node out of order closes a gate that asks for all."""
    now = cluster(node("gpu-0"), node("gpu-1", "NotReady"), node("gpu-2"))
    rows = [attempt("INV-002", nodes=[NODES[0], NODES[2]]), attempt("GANG-002")]
    found = decide([run("r", *rows)], wants("INV-002", "GANG-002", nodes=nodes), now=now)
    if nodes == policy.ANY:
        assert found.open
        assert found.excused["INV-002"].startswith("the policy asks for one node: 2 of 3 GPU nodes")
    else:
        assert [each.what for each in found.closers] == ["INV-002", "gpu-1"]
        assert found.closers[1].why == "the node is NotReady"


def test_the_newest_run_of_this_profile_stands_in_for_the_cluster():
    """If the cluster is not asked: a run of something else is not the measure."""
    old = run("old", attempt("GANG-002", at=ago(days=1)))
    foreign = run("foreign", attempt("GANG-002"), of=cluster(uid="c-9"), profile={"name": "other"})
    found = decision.decide(
        [foreign, old], wants("GANG-002"), profile_of(), ago(hours=0), registry=load_suites()
    )
    assert found.open
    assert found.compared == "the newest run, old"


def test_the_order_of_runs_changes_nothing():
    """Each permutation of four runs decides the same."""
    runs = [
        run(
            "a", attempt("FAB-003", "fail", at=ago(days=3), red=["gpu-1"]), attempt("MFU-001", at=ago(days=3))
        ),
        run("b", attempt("FAB-003", at=ago(days=2), nodes=["gpu-0"])),
        run("c", attempt("GANG-002", "fail", at=ago(days=2)), attempt("MFU-001", nodes=["gpu-2"])),
        run("d", attempt("GANG-002", at=ago(days=1)), attempt("FAB-003", at=ago(days=1), nodes=["gpu-1"])),
    ]
    wanted = wants("FAB-003", "MFU-001", "GANG-002")
    decided = [decide(list(order), wanted) for order in itertools.permutations(runs)]
    assert decided[0].open
    assert {str(each.as_dict() | {"runs": 0}) for each in decided} == {
        str(decided[0].as_dict() | {"runs": 0})
    }


def test_a_decision_is_plain_data():
    """For a record and for machines: times as text, every row, every reason."""
    found = decide(
        [run("r", attempt("GANG-002"), attempt("INV-002"))], wants("GANG-002", "INV-002")
    ).as_dict()
    assert found["open"] is True
    assert found["at"] == "2026-12-01T12:00:00Z"
    assert found["until"] == "2026-12-08T11:00:00Z"
    assert found["runs"] == {"r": "digest of r"}
    rows = {row["row"]: row for row in found["rows"]}
    assert rows["INV-002"]["nodes"]["gpu-0"]["at"] == "2026-12-01T11:00:00Z"
    assert names.nearest("opne", found) == "open"


def test_a_stage_of_the_sites_rows_asks_for_one():
    """Forgetting the site's tests opens no gate."""
    stages = (policy.Stage("a", areas=("site",)), policy.Stage("b", rows=("GANG-002",)))
    found = decide([run("r", attempt("GANG-002"))], wants(stages=stages))
    assert [each.what for each in found.closers] == ["site"]
    both = decide([run("r", attempt("GANG-002"), attempt("SITE-001"))], wants(stages=stages))
    assert both.closers == ()


def test_where_one_node_is_enough_none_is_not():
    """A policy of any node asks for one that passed and is there."""
    now = cluster(*(node(name, machineID="new") for name in NODES))
    rows = [attempt("INV-002"), attempt("FAB-003", nodes=["gpu-0", "gpu-1"]), attempt("GANG-002")]
    found = decide([run("r", *rows)], wants("INV-002", "FAB-003", "GANG-002", nodes=policy.ANY), now=now)
    assert [(each.what, each.fix.partition(":")[0]) for each in found.closers] == [
        ("INV-002", "run it on the nodes named, or remove them from the cluster"), ("FAB-003", "run it again"),
    ]  # fmt: skip


def test_a_gate_is_open_until_the_first_thing_ends_on_which_it_rests():
    """The evidence of each node where all are asked for, and the last day of a waiver."""
    runs = [
        run("a", attempt("MFU-001", at=ago(days=5), nodes=["gpu-0"])),
        run("b", attempt("MFU-001", at=ago(days=1), nodes=["gpu-1", "gpu-2"]), attempt("GANG-002", "fail")),
    ]
    assert decide(runs, wants("MFU-001")).until == ago(days=-2)
    any_node = decide(runs, wants("MFU-001", nodes=policy.ANY))
    assert any_node.until == ago(days=-6)
    wanted = wants("MFU-001", "GANG-002", waivers=policy.ACCEPTED)
    for day, until in (
        (dt.date(2026, 12, 1), dt.datetime(2026, 12, 2, tzinfo=dt.UTC)),
        (dt.date(2026, 12, 20), ago(days=-2)),
        (dt.date.max, ago(days=-2)),
    ):
        waived = decide(runs, wanted, profile=profile_of(waivers=(waiver("GANG-002", day),)))
        assert waived.open
        assert waived.until == until
        later = decision.decide(
            runs, wanted, profile_of(waivers=(waiver("GANG-002", day),)), until, registry=load_suites()
        )
        assert later.open == (until == ago(days=-2))
        after = until + dt.timedelta(seconds=1)
        assert not decision.decide(
            runs, wanted, profile_of(waivers=(waiver("GANG-002", day),)), after, registry=load_suites()
        ).open


def test_a_row_of_a_run_that_is_not_counted_says_so():
    """Nobody is told that a row was not tried which stands green in the run."""
    found = decide([run("r", attempt("GANG-002"), planted=("gang.x",))], wants("GANG-002"))
    assert found.closers[1].why == "not run: r tried it and is not counted"
