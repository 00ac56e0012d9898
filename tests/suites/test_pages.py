"""The pages: each is listed, each link and each path that they name exists."""

import itertools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
INDEX = DOCS / "index.md"
SIGNPOSTS = (ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", DOCS / "reference" / "glossary.md")
PAGES = sorted(
    {
        *ROOT.glob("*.md"),
        *DOCS.rglob("*.md"),
        *(ROOT / "dev").rglob("*.md"),
        *(ROOT / "fixtures").rglob("*.md"),
    }
)

LINK = re.compile(r"\]\((?!\w+:)([^)\s#]*)(?:#([^)\s]+))?\)")
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`[^`\n]+`")
PATH = re.compile(r"`(/?[a-z0-9_./{},-]+(?:\.(?:py|md|yaml|jsonl?|html)|/))`")
MADE = ("evidence/", "report.html", "report.json", "run.jsonl")
"""What only a run has: named in the pages, kept nowhere."""


def name(page):
    """Return a page's path for the name of a test."""
    return str(page.relative_to(ROOT))


def text(page):
    """Return a page without its blocks of code."""
    return FENCED.sub("", page.read_text(encoding="utf-8"))


def links(page):
    """Return the relative links of a page outside of code, each as (file, anchor)."""
    return LINK.findall(CODE.sub("", text(page)))


def anchors(page):
    """Return the anchors of a page's headings, as GitHub makes them."""
    found = re.findall(r"^#+ (.+)$", text(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


def alternatives(path):
    """Return the paths that one with braces stands for."""
    parts = [part.strip("{}").split(",") for part in re.split(r"(\{[^}]*\})", path)]
    return ["".join(chosen) for chosen in itertools.product(*parts)]


def test_every_page_is_listed_in_the_index():
    """A page that nobody finds is not read."""
    listed = {(DOCS / file).resolve() for file, _ in links(INDEX)}
    assert [name(page) for page in DOCS.rglob("*.md") if page != INDEX and page not in listed] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_relative_link_leads_somewhere(page):
    """To a file that is there, and to a heading in it."""
    for file, anchor in links(page):
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), f"{name(page)}: no file {file}"
        assert not anchor or anchor in anchors(target), f"{name(page)}: {file} has no heading #{anchor}"


@pytest.mark.parametrize("page", SIGNPOSTS, ids=name)
def test_every_path_that_a_signpost_names_is_there(page):
    """Paths of the repository, or of the package where the page leaves its name out."""
    named = [one for path in PATH.findall(page.read_text(encoding="utf-8")) for one in alternatives(path)]
    assert len(named) > 20
    places = (ROOT, ROOT / "pytest_gpucluster", ROOT / "docs" / "reference")
    lost = [
        path
        for path in named
        if path not in MADE and not any((place / path.lstrip("/")).exists() for place in places)
    ]
    assert lost == []


def test_the_glossary_is_in_the_order_of_the_alphabet():
    """One word a line, each with its place."""
    rows = re.findall(
        r"^\| (.+?) \| (.+?) \| (.+?) \|$", SIGNPOSTS[-1].read_text(encoding="utf-8"), re.MULTILINE
    )
    words = [word.lower() for word, _, _ in rows[2:]]
    assert len(words) > 50
    assert words == sorted(set(words))
