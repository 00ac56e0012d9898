"""A policy says what it means, and what is wrong with it: a line for each mistake, all at once."""

from datetime import timedelta

import hypothesis
import hypothesis.strategies as st
import pytest
import yaml

from pytest_gpucluster.acceptance import policy
from pytest_gpucluster.requirement import AREAS, Level, catalogue
from tests import amount

GOOD = """\
summary: A policy
age: 36h
stages:
  - name: node
    areas: [inventory]
    rows: [HLT-004]
  - name: training
    if_declared: [mfu]
"""


def read(tmp_path, text):
    """Load a policy from a file."""
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return policy.load(str(path))


def test_a_policy_is_read(tmp_path):
    """Its name is the file's; what is left out has the strict value."""
    found = read(tmp_path, GOOD)
    assert (found.name, found.age, found.nodes, found.waivers) == (
        "mine",
        timedelta(hours=36),
        "all",
        "refused",
    )
    assert [stage.name for stage in found.stages] == ["node", "training"]


@pytest.mark.parametrize("name", policy.SHIPPED)
def test_shipped_policies_are_read(name):
    """Each has a summary, and asks for rows that exist."""
    found = policy.load(name)
    assert found.summary
    assert policy.asked(found, declared=("kueue", "numa", "fabric", "mfu"), site_rows=())


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("age: 36h", "age: soon", "age = 'soon': must be a time such as 14d, 36h or 90m"),
        ("age: 36h", "age: 36", "age = 36: must be a time such as 14d, 36h or 90m"),
        ("age: 36h", "age: -1h", "age = '-1h': must be a time such as 14d, 36h or 90m"),
        ("age: 36h", "age: 0h", "age = '0h': must be a time such as 14d, 36h or 90m"),
        ("age: 36h\n", "", "the key 'age' is missing"),
        ("age: 36h", "agee: 36h", "mine.yaml:2: agee: unknown key; did you mean 'age'?"),
        (
            "[inventory]",
            "[inventroy]",
            "stages.0.areas = 'inventroy': unknown area; did you mean 'inventory'?",
        ),
        ("[inventory]", "inventory", "stages.0.areas = 'inventory': must be a list"),
        ("HLT-004", "HLT-04", "stages.0.rows = 'HLT-04': unknown requirement; did you mean HLT-004?"),
        ("HLT-004", "hlt-004", "did you mean HLT-004?"),
        ("name: node", "name: ''", "stages.0.name = '': must not be empty"),
        ("name: training", "name: node", "two stages are called 'node'"),
        ("    if_declared: [mfu]\n", "", "stages.1: asks for nothing: name areas, if_declared or rows"),
        ("summary: A policy", "nodes: every", "nodes = 'every': unknown value (allowed: all, any)"),
        ("summary: A policy", "waivers: yes", "waivers = 'yes': unknown value (allowed: accepted, refused)"),
        ("summary: A policy", "left_out: {INV-001: ''}", "left_out.INV-001 = '': needs a reason"),
        (
            "summary: A policy",
            "not_applicable: [FAB-001]",
            "not_applicable: must be a mapping of ids to reasons",
        ),
        ("summary: A policy", "not_applicable: {fabrik: no}", "unknown requirement"),
        ("summary: A policy", "summary: [a]", "summary: must be a text"),
        ("summary: A policy", "summary: a\nsummary: b", "the key appears twice"),
        ("summary: A policy", "summary: {", "not valid YAML"),
        ("summary: A policy", "- a", "not valid YAML"),
    ],
)
def test_a_mistake_is_one_line(tmp_path, old, new, said):
    """It names the file, the line where there is one, the key, what is allowed and the nearest match."""
    assert old in GOOD
    with pytest.raises(policy.PolicyError) as error:
        read(tmp_path, GOOD.replace(old, new))
    assert said in str(error.value)
    assert "mine.yaml" in str(error.value)
    assert "\n" not in str(error.value)


MISTAKES = """\
summary: [a]
agee: 36h
nodes: every
waivers: yes
stages:
  - name: node
    areas: [inventroy, fabrik]
    rows: HLT-004
  - nme: training
    if_declared: [mfu]
  - 7
  - name: node
left_out: {INV-001: '', INV-01: why}
not_applicable: [x]
"""
SAID = (
    "1: summary: must be a text", "2: agee: unknown key; did you mean 'age'?", "3: nodes = 'every': unknown value",
    "4: waivers = 'yes': unknown value", "7: stages.0.areas = 'inventroy': unknown area; did you mean 'inventory'?",
    "7: stages.0.areas = 'fabrik': unknown area; did you mean 'fabric'?",
    "8: stages.0.rows = 'HLT-004': must be a list",
    "9: stages.1.nme: unknown key; did you mean 'name'?", "11: stages.2 = 7: must be a mapping",
    "12: stages.3: asks for nothing", "stages: two stages are called 'node'",
    "13: left_out.INV-001 = '': needs a reason",
    "13: left_out.INV-01 = 'INV-01': unknown requirement", "14: not_applicable: must be a mapping",
)  # fmt: skip


def test_all_mistakes_are_told_at_once(tmp_path):
    """In the order of the file, each once; what is misspelt is not missing too, and nothing follows from a mistake."""
    with pytest.raises(policy.PolicyError) as error:
        read(tmp_path, MISTAKES)
    lines = str(error.value).split("\n")
    assert all(any(said in line for line in lines) for said in SAID)
    assert len(lines) == len(SAID) == len(set(lines))
    numbers = [int(line.split("mine.yaml:")[1].split(":")[0]) for line in lines]
    assert numbers == sorted(numbers)


@pytest.mark.parametrize(
    "text", ["", "stages: []\nage: 1d", "[]", "age: 1d\nstages: {}", "age: 1d\nstages: [a]"]
)
def test_a_policy_that_asks_for_nothing_is_refused(tmp_path, text):
    """A gate without a stage would always be open."""
    with pytest.raises(policy.PolicyError):
        read(tmp_path, text)


def test_an_unknown_policy_has_its_nearest(tmp_path):
    """So has one whose file is not there."""
    with pytest.raises(policy.PolicyError, match="did you mean 'weekly'"):
        policy.load("weekl")
    with pytest.raises(policy.PolicyError, match="cannot be read: No such file"):
        policy.load(str(tmp_path / "no.yaml"))
    (tmp_path / "latin.yaml").write_bytes(b"summary: \xe9")
    with pytest.raises(policy.PolicyError, match="not UTF-8"):
        policy.load(str(tmp_path / "latin.yaml"))


def test_an_area_asks_for_its_musts_and_controls():
    """A SHOULD closes a gate only if it is named; a row that is left out does not."""
    stages = (policy.Stage("a", areas=("gang",)), policy.Stage("b", rows=("GANG-007", "GANG-001")))
    wanted = policy.Policy("p", "", timedelta(1), "all", "refused", stages, {}, {"GANG-008": "why"}, "")
    found = {each.id: each for each in policy.asked(wanted, declared=(), site_rows=())}
    musts = {
        row.id for row in catalogue.rows() if row.area == "gang" and row.level in {Level.MUST, Level.CONTROL}
    }
    assert set(found) == musts - {"GANG-008"} | {"GANG-007"}
    assert (found["GANG-001"].stage, found["GANG-001"].named) == ("a", False)
    assert (found["GANG-007"].stage, found["GANG-007"].named) == ("b", True)


def test_what_a_profile_does_not_declare_is_not_asked():
    """`if_declared` follows the profile; the rows of the site follow the runs."""
    stages = (policy.Stage("a", areas=("site",), if_declared=("mfu",)),)
    wanted = policy.Policy("p", "", timedelta(1), "all", "refused", stages, {}, {}, "")
    assert policy.asked(wanted, declared=(), site_rows=()) == ()
    found = policy.asked(wanted, declared=("mfu",), site_rows=("SITE-001",))
    assert {each.id for each in found} >= {"SITE-001", "MFU-001"}


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=6)
    | st.sampled_from(["1d", "all", "GANG-001", "gang"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["age", "stages", "name", "areas", "rows", "nodes", "x"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@amount.examples(200)
@hypothesis.given(_VALUES)
def test_any_document_is_a_policy_or_lines_that_name_it(tmp_path_factory, value):
    """Wrong types anywhere never end in anything else."""
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(yaml.safe_dump(value), encoding="utf-8")
    try:
        found = policy.load(str(path))
    except policy.PolicyError as error:
        said = str(error)
        assert all("any.yaml" in line for line in said.split("\n"))
    else:
        assert found.stages
        assert all(map(asks, found.stages))


def asks(stage):
    """Report whether a stage asks for anything."""
    return bool(stage.areas or stage.if_declared or stage.rows)


def test_each_area_can_be_named():
    """What a stage may name are the areas of the catalogue."""
    assert set(policy.AREA_NAMES) == {area for area, _ in AREAS.values()}
