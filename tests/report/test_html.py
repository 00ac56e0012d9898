"""The sign-off page is one accessible file that needs nothing else."""

import dataclasses
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pytest_gpucluster.report import html, record, scope
from pytest_gpucluster.requirement import Finding, Verdict
from tests.report import sample

VOID = {"meta", "link", "br", "circle", "path", "rect", "input"}


class Page(HTMLParser):
    """Collects what the tests ask about, and checks that tags are balanced."""

    def __init__(self, text: str) -> None:
        """Read a page."""
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.children: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag with its parent."""
        self.tags.append((tag, dict(attrs)))
        self.children.append((self.open[-1] if self.open else "", tag))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Check that the tag that ends is the one that is open."""
        if tag not in VOID:
            assert self.open.pop() == tag

    def every(self, tag: str) -> list[dict[str, str | None]]:
        """Return the attributes of every tag of a name."""
        return [attrs for name, attrs in self.tags if name == tag]


@pytest.fixture
def page(run: Path) -> str:
    """Give the page of the sample run."""
    return html.render(record.fold(run / record.JOURNAL))


def test_the_page_is_as_it_was(page: str, golden: Callable[[str, str], None]) -> None:
    """The page of the fixed run, without blanks at line ends and empty lines."""
    lines = [line.strip() for line in page.splitlines()]
    golden("report.html", "\n".join(line for line in lines if line) + "\n")


def test_nothing_comes_from_outside(page: str) -> None:
    """No script, no address of another machine, no file but the evidence beside the page."""
    tags = Page(page)
    assert tags.every("script") == []
    assert not re.search(r"https?://|url\(|@import", page)
    assert {attrs["href"] for attrs in tags.every("link")} == {"data:,"}
    links = {str(attrs["href"]) for attrs in tags.every("a")}
    assert all(link.startswith(("#", "evidence/")) for link in links)


def test_tables_are_readable_without_eyes(page: str) -> None:
    """Each table has a caption, each header cell a scope, the page a language, and pictures are hidden."""
    tags = Page(page)
    assert tags.children.count(("table", "caption")) == len(tags.every("table"))
    assert all(attrs.get("scope") in {"col", "row"} for attrs in tags.every("th"))
    assert tags.every("html") == [{"lang": "en"}]
    assert all(attrs.get("aria-hidden") == "true" for attrs in tags.every("svg"))


def test_every_table_fits_a_narrow_screen(page: str) -> None:
    """The counts have few columns; of any other table the cells stand under each other, so that nothing is cut."""
    tables = [str(attrs.get("class")).split() for attrs in Page(page).every("table")]
    assert tables[0] == ["compact", "counts"]
    assert len(re.findall("<th ", page[page.index("<thead>") : page.index("</thead>")])) <= 4
    assert len(tables) > 5
    assert all("stack" in classes for classes in tables[1:])
    assert "prefers-color-scheme: dark" in page


def test_rows_that_nobody_asked_for_are_told_in_one_line(run: Path) -> None:
    """One line for each reason; what was asked for and not reached keeps a row of its own."""
    report = dict(record.fold(run / record.JOURNAL))
    left = [
        {**report["not_run"][0], "id": f"KUE-00{number}", "why": why}
        for number, why in enumerate(["deselected by -m 'gang'", "deselected by -m 'gang'", "not selected"])
    ]
    page = html.render({**report, "not_run": [*report["not_run"], *left]})
    assert "<summary>2 rows were deselected by -m &#39;gang&#39;</summary>" in page
    assert "<summary>1 row was not selected</summary>" in page
    assert "KUE-000, KUE-001" in page
    rows = page[page.index('id="open"') : page.index('id="not-built"')]
    assert rows.count('<span class="id">') == len(report["not_run"]) == 1


@pytest.mark.parametrize(
    "word",
    ["pass", "violation", "environment", "inconclusive", "not applicable", "waived", "not run", "not built"],
)
def test_a_verdict_is_a_word_with_a_shape(page: str, word: str) -> None:
    """No verdict is told by colour alone."""
    assert re.search(
        rf'<span class="verdict v-\w+"><svg class="shape".*?</svg> {word}</span>', page, re.DOTALL
    )


def test_shapes_differ() -> None:
    """Each verdict that is not neutral has a shape of its own."""
    source = Path(html.__file__).with_name("templates") / "shapes.html.j2"
    shapes = re.findall(r'verdict == "\w+" %\}(<\w+ [^/]*?(?:d|r|rx)="[^"]+")', source.read_text())
    assert len(set(shapes)) == len(shapes) == 6


def test_what_a_container_says_stays_text(page: str) -> None:
    """Markup in evidence is shown, never obeyed."""
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_the_page_says_whether_to_trust_and_why(page: str) -> None:
    """The answer stands at the top with its reasons, and left-overs are told."""
    head = page[: page.index("<h2")]
    assert "May this cluster be trusted" in head
    assert "GANG-002 is violated" in head
    assert "Queue/gpucluster-q" in head


def test_each_row_shows_numbers_refusal_and_sum(page: str) -> None:
    """Floor with origin, the refusing component, and the evidence with its SHA-256 are on the page."""
    assert "bus bandwidth: 121.4 GB/s (limit 180 GB/s, from fixtures/floors, 2 nodes x 8 H100)" in page
    assert "volcano-scheduler v1.14.4, at enqueue: NotEnoughResources reported by volcano" in page
    assert re.search(
        r'href="evidence/gang-scarce\.jsonl">gang-scarce</a>\s*<div class="sha mono">sha256 ', page
    )


def test_a_bare_record_makes_a_page(tmp_path: Path) -> None:
    """A run that was killed at once still has its page, which says so."""
    record.Journal(tmp_path / record.JOURNAL).run_start(
        run="r", plugin="1", command=[], cluster={}, profile={}, sources={}
    )
    page = html.render(record.fold(tmp_path / record.JOURNAL))
    assert "was killed before its end" in page
    Page(page)


def test_the_embedded_cluster_and_planted_defects_are_told(tmp_path: Path) -> None:
    """Nobody takes a run on the embedded cluster, or one that is meant to fail, for a real one."""
    journal = record.Journal(tmp_path / record.JOURNAL)
    journal.run_start(
        run="r", plugin="1", command=[], cluster={"provider": "embedded"}, profile={}, sources={},
        defects=["gang.binds-partially"],
    )  # fmt: skip
    page = html.render(record.fold(tmp_path / record.JOURNAL))
    assert "says nothing about any real cluster" in page
    assert "gang.binds-partially" in page


def test_a_yes_says_for_what_and_lists_the_rest(tmp_path: Path) -> None:
    """In bold stands only for what it is; what it says nothing of is a list, in the words of the one line."""
    journal = record.Journal(tmp_path / record.JOURNAL)
    journal.run_start(run="r", plugin="1", command=[], cluster={}, profile={}, sources={})
    suite = sample.make_suite()
    journal.requirement(suite.registry.get("GANG-001"), Finding(Verdict.PASS, "-", "-"))
    journal.not_run(suite.registry.get("LIFE-001"), "not selected")
    journal.cleanup([])
    journal.run_end(exit_status=0, interrupted=False)
    report = record.fold(tmp_path / record.JOURNAL)
    page = html.render(report)
    head, _, rest = page.partition('<p class="word">')
    assert "May this cluster be trusted" in head
    word = rest.partition("</svg>")[2].partition("</p>")[0].strip()
    beside = rest.partition("<dt>Not shown</dt>")[2].partition("</dd>")[0]
    told = [word, *re.findall("<li>(.*)</li>", beside)]
    assert [part.lower() for part in told] == scope.banner(report).lower().split("; ")
    assert len(told) > 2


@pytest.mark.parametrize("name", [None, "", "/etc/passwd", "../x", "javascript:alert(1)", "a/../../b"])
def test_a_link_never_leads_out_of_the_run(name: str | None) -> None:
    """A record from elsewhere cannot make the page link to anything but its own evidence."""
    assert html.evidence_href(name) is None


def test_a_long_list_of_reasons_is_cut(tmp_path: Path) -> None:
    """The top of the page stays one look; the tables have the rest."""
    journal = record.Journal(tmp_path / record.JOURNAL)
    journal.run_start(run="r", plugin="1", command=[], cluster={}, profile={}, sources={})
    row = sample.make_suite().registry.get("GANG-001")
    for number in range(1, 16):
        made = dataclasses.replace(row, id=f"INV-{number:03}")
        journal.requirement(made, Finding(Verdict.FAIL, "-", "-"))
    journal.run_end(exit_status=1, interrupted=False)
    page = html.render(record.fold(tmp_path / record.JOURNAL))
    assert "and 4 more, in the tables below" in page
