"""The declaration and the registry."""

import dataclasses

import pytest

from pytest_gpucluster.requirement import (
    Cause,
    DeclarationError,
    Finding,
    Level,
    Presupposed,
    Registry,
    Verdict,
    requirement,
    requirement_of,
)


@dataclasses.dataclass(frozen=True)
class _Scenario:
    name: str = "s"


def _passes(_evidence, _given):
    return Finding(Verdict.PASS, "x", "x")


def _declare(registry, requirement_id="GANG-002", function=None, **changed):
    def test_x():
        """Title of it.

        Something MUST hold.
        """

    options = {
        "level": "must",
        "documents": "R J",
        "scenario": _Scenario(),
        "judge": _passes,
        "registry": registry,
        **changed,
    }
    return requirement(requirement_id, **options)(function or test_x)


def test_a_declaration_is_static_and_readable():
    """Level, documents, title and text come from the declaration, without running anything."""
    registry = Registry()
    declared = requirement_of(_declare(registry))
    assert declared is registry.get("GANG-002")
    assert (declared.level, declared.documents) == (Level.MUST, ("R", "J"))
    assert (declared.title, declared.text) == ("Title of it", "Something MUST hold.")
    assert declared.area == "gang"


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"requirement_id": "GANG-2"}, "malformed requirement id 'GANG-2'"),
        ({"requirement_id": "NOPE-002"}, "malformed requirement id"),
        ({"level": "shuold"}, "did you mean 'should'"),
        ({"documents": "R X"}, "unknown document 'X'"),
        ({"documents": ""}, r"GANG-002 names no document: expected one or more of R J P E \+ "),
        ({"judge": None}, r"test_x: GANG-002 has no judge: expected a function of \(evidence, given\)"),
        ({"judge": "gang.whole"}, "GANG-002 has no judge: .* got 'gang.whole'"),
        ({"requirement_id": "SITE-1", "documents": ""}, "malformed requirement id 'SITE-1'"),
        ({"requirement_id": "SITE-001", "documents": "Q"}, "unknown document 'Q'"),
    ],
)
def test_a_wrong_declaration_is_one_clear_line(changed, line):
    """What, where, what is allowed, the nearest match."""
    with pytest.raises(DeclarationError, match=line) as caught:
        _declare(Registry(), **changed)
    assert "\n" not in str(caught.value)
    assert "test_x" in str(caught.value)


def test_a_sites_own_requirement_needs_neither_document_nor_defect():
    """No document stands behind it, and the embedded cluster plants no defect for it; all else is as for any row."""
    registry = Registry()

    @requirement("SITE-001", level="should", scenario=_Scenario(), judge=_passes, registry=registry)
    def test_rack():
        """One rack.

        Small gangs SHOULD stay in one rack.
        """

    declared = registry.get("SITE-001")
    assert requirement_of(test_rack) is declared
    assert (declared.area, declared.documents, declared.defects) == ("site", (), ())
    assert declared.decide(None, {}).verdict is Verdict.PASS


def test_only_a_sites_own_requirement_may_leave_its_documents_out():
    """The default is for them: forgotten anywhere else, it is an error that says so."""
    with pytest.raises(DeclarationError, match=r"test_x: GANG-001 names no document.*only SITE requirements"):

        @requirement("GANG-001", level="must", scenario=_Scenario(), judge=_passes, registry=Registry())
        def test_x():
            """Title.

            It MUST hold.
            """


def test_a_requirement_without_its_sentence_is_refused():
    """The docstring is the normative text: a title alone does not do."""

    def test_y():
        """Title only."""

    with pytest.raises(DeclarationError, match="needs a docstring"):
        _declare(Registry(), function=test_y)


def test_an_id_belongs_to_one_test():
    """A second test with the same id is refused and both are named."""
    registry = Registry()
    _declare(registry)

    def test_other():
        """Title.

        Other MUST hold.
        """

    with pytest.raises(DeclarationError, match="declared twice") as caught:
        _declare(registry, function=test_other)
    assert "test_x" in str(caught.value)
    assert "test_other" in str(caught.value)


def test_an_unknown_id_is_answered_with_the_nearest():
    """Looking up a mistyped id names the nearest and the list."""
    registry = Registry()
    _declare(registry)
    with pytest.raises(DeclarationError, match="did you mean 'GANG-002'"):
        registry.get("GANG-020")


def test_the_registry_is_in_catalogue_order():
    """Area order first, then the number."""
    registry = Registry()
    for number, requirement_id in enumerate(["REF-001", "GANG-004", "INV-001", "GANG-001"]):

        def test_z():
            """Title.

            It MUST hold.
            """

        test_z.__qualname__ = f"test_{number}"
        _declare(registry, requirement_id, function=test_z)
    assert [r.id for r in registry] == ["INV-001", "GANG-001", "GANG-004", "REF-001"]


def _state(held):
    return lambda _e, _g: Presupposed("a prerequisite", held, "seen so", (Cause("c", "f"),), ("k",))


@pytest.mark.parametrize(
    ("finding", "held", "verdict"),
    [
        (Finding(Verdict.PASS, "x", "x"), True, Verdict.PASS),
        (Finding(Verdict.PASS, "x", "x"), False, Verdict.ENVIRONMENT),
        (Finding(Verdict.PASS, "x", "x"), None, Verdict.INCONCLUSIVE),
        (Finding(Verdict.FAIL, "x", "x"), False, Verdict.ENVIRONMENT),
        (Finding(Verdict.FAIL, "x", "x"), None, Verdict.INCONCLUSIVE),
        (Finding(Verdict.FAIL, "x", "x", violation=True), False, Verdict.FAIL),
        (Finding(Verdict.FAIL, "x", "x", violation=True), None, Verdict.FAIL),
        (Finding(Verdict.NOT_APPLICABLE, "x", "x"), None, Verdict.NOT_APPLICABLE),
    ],
)
def test_presuppositions_have_their_say(finding, held, verdict):
    """Rule 6: seen violation, then observed false, then not observed, then the judge."""
    registry = Registry()
    _declare(registry, judge=lambda _e, _g: finding, presupposes=[_state(held)])
    decided = registry.get("GANG-002").decide(None, {})
    assert decided.verdict is verdict
    if verdict in {Verdict.ENVIRONMENT, Verdict.INCONCLUSIVE}:
        assert "a prerequisite: seen so" in decided.observed


def test_observed_false_outranks_not_observed():
    """With both, the row is environment: it names what is known to be wrong."""
    registry = Registry()
    _declare(registry, presupposes=[_state(held=None), _state(held=False)])
    assert registry.get("GANG-002").decide(None, {}).verdict is Verdict.ENVIRONMENT
