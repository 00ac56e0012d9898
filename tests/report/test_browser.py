"""The page in a browser: axe finds nothing in any form, it fits 400 pixels, and the keyboard reaches all of it.

Needs Chromium, which no Python package brings. Where there is none these tests say so; in CI they fail.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_gpucluster.report import claims, coverage, html, record
from tests.report import large, sample

NAMES = ("chromium", "chromium-browser", "google-chrome")
QUIET = ("--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run")
FORMS = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "print": {"media": "print"},
    "narrow": {"width": 400},
}


def _absent(what: str) -> None:
    """Skip where there is no browser, and fail where there must be one."""
    text = f"the page was not looked at: {what}"
    if os.environ.get("CI"):
        pytest.fail(text)
    pytest.skip(text)


@pytest.fixture(scope="module")
def browser() -> Iterator:
    """Give a headless Chromium."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _absent("playwright is not installed (pip install '.[dev]')")
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        _absent(f"none of {', '.join(NAMES)} is on the PATH (apt-get install chromium)")
    with sync_playwright() as driver:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = driver.chromium.launch(executable_path=found, args=[*QUIET, *sandbox])
        try:
            yield browser
        finally:
            browser.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    """Give a page with every kind of outcome, pools of nodes, drawings of GPUs, a policy that closed, and claims."""
    folder = tmp_path_factory.mktemp("pages")
    sample.make_run(folder / "run")
    report = large.widened(record.fold(folder / "run" / record.JOURNAL), coverage.COLUMNS + 1)
    report["profile"]["values"]["claims"] = [{"figure": "mfu", "value": 0.5, "origin": "offer, page 4"}]
    report["claims"] = claims.compared(report)
    images = {
        role: f"registry.example/team/training/{role}@sha256:{'0' * 64}" for role in ("python", "torch")
    }
    report["profile"]["values"]["images"] = images
    report["decision"] = {
        "open": False, "text": "closed: 1 row", "at": "2026-11-28T09:30:00Z", "until": None,
        "policy": {"name": "acceptance", "summary": "What an acceptance asks for"},
        "purposes": {"scheduling": "yes", "speed": "no", "numa": "not declared", "health": "undecided"},
        "closers": [{"what": "GANG-002", "why": "it is violated", "fix": "x", "stage": "gang", "ambiguous": "y"}],
        "notes": ["FAB-006 is waived"], "rows": [],
    }  # fmt: skip
    found = folder / "report.html"
    found.write_text(html.render(report), encoding="utf-8")
    return found


@pytest.fixture
def view(browser, file):
    """Give a function that opens the page in a form, and shows all that is folded."""
    contexts = []

    def opened(*, color_scheme="light", media="screen", width=1280, unfold=True):
        size = {"width": width, "height": 900}
        context = browser.new_context(viewport=size, color_scheme=color_scheme, offline=True)
        contexts.append(context)
        page = context.new_page()
        page.goto(file.as_uri())
        page.emulate_media(media=media, color_scheme=color_scheme)
        if unfold:
            page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        return page

    yield opened
    for context in contexts:
        context.close()


def violations(page, rules=()) -> list[str]:
    """Return what axe finds wrong, each with its places.

    Args:
        page: the page.
        rules: the only ones to ask about; none: all that axe has.
    """
    from axe_playwright_python.sync_playwright import Axe

    options = {"resultTypes": ["violations"], **({"runOnly": list(rules)} if rules else {})}
    found = Axe().run(page, options=options).response
    assert rules or len(found["passes"]) > 10, "axe looked at nothing"
    return [
        f"{each['id']}: {each['help']}: {[node['html'][:120] for node in each['nodes'][:3]]}"
        for each in found["violations"]
    ]


@pytest.mark.parametrize("form", FORMS)
def test_axe_finds_nothing(view, form):
    """Names, roles, order of headings, contrast, places that scroll: in light, dark, print and on 400 pixels."""
    assert violations(view(**FORMS[form])) == []


def test_axe_sees_what_is_wrong(view):
    """Or the test above would show nothing: a name, the language and a contrast that are spoilt are all found."""
    page = view()
    page.evaluate(
        "document.querySelectorAll('label').forEach(each => each.remove());"
        "document.documentElement.removeAttribute('lang');"
        "document.querySelector('.small').style.color = '#ddd'"
    )
    rules = ["label", "html-has-lang", "color-contrast"]
    found = [each.partition(":")[0] for each in violations(page, rules)]
    assert sorted(found) == sorted(rules)


@pytest.mark.parametrize("width", [400, 1200])
def test_nothing_is_wider_than_the_window(view, width):
    """Nobody scrolls sideways to read."""
    page = view(width=width)
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_drawings_and_sentences_are_read_on_400_pixels(view):
    """A drawing scrolls and keeps its letters; a sentence is never as wide as a table that scrolls."""
    page = view(width=400)
    heights = page.eval_on_selector_all(
        "#requirements svg.drawing text, tr.drawn svg.drawing text",
        "texts => texts.map(text => text.getBoundingClientRect().height).filter(height => height > 0)",
    )
    assert heights
    assert min(heights) >= 8
    widths = page.eval_on_selector_all(
        "caption:not(.unseen), p", "all => all.map(each => each.getBoundingClientRect().right)"
    )
    assert max(widths) <= 400


def test_the_keyboard_reaches_rows_and_filters(view):
    """The first key leads past the contents; arrows choose what is shown, without a script of ours."""
    page = view(unfold=False)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('href')") == "#rows"
    page.focus("#show-all")
    page.keyboard.press("ArrowRight")
    assert page.is_checked("#show-red")
    assert page.is_hidden("#GANG-001")
    assert page.is_visible("#GANG-002")
    page.focus("#in-all")
    page.keyboard.press("ArrowRight")
    assert page.is_hidden("#REF-002")
    assert page.is_visible("#GANG-002")


def test_a_filter_hides_only_other_verdicts(view):
    """Each choice shows the rows of its verdict; a link leads to a row whatever is chosen."""
    page = view(unfold=False)
    for mark, shown in {"pass": "GANG-001", "fail": "GANG-002", "not_applicable": "GANG-007"}.items():
        page.check(f"#show-{mark}")
        seen = page.eval_on_selector_all("tr[id]", "rows => rows.filter(r => r.offsetParent).map(r => r.id)")
        assert shown in seen
        assert not set(seen) & {"GANG-001", "GANG-002", "GANG-007"} - {shown}
    page.evaluate("location.hash = '#GANG-001'")
    assert page.is_visible("#GANG-001")


def test_print_shows_all_rows_with_page_numbers(view):
    """Whatever was chosen on the screen; on several pages."""
    page = view(unfold=False)
    page.check("#show-fail")
    page.emulate_media(media="print")
    assert page.is_visible("#GANG-001")
    assert page.is_hidden(".filters")
    assert page.pdf(prefer_css_page_size=True).count(b"/Type /Page\n") > 2
