"""The page "Promote a queue": its commands parse, its YAML is valid, its pipelines are the same three steps."""

import re
import shlex

import pytest

from pytest_gpucluster.cli import gate, gatekeeper, promote
from tests.fixtures import promotion_page

PARSERS = {"promote": promote.parser, "gate": gate.parser, "gatekeeper": gatekeeper.parser}
COMMAND = re.compile(rf"gpucluster ({'|'.join(PARSERS)}) (.*?)(?: (?:\|\||>>).*)?$", re.MULTILINE)


@pytest.fixture(scope="module")
def text() -> str:
    """Return the page."""
    return promotion_page.PAGE.read_text(encoding="utf-8")


def test_every_command_of_the_page_parses(text: str) -> None:
    """Its options exist, and what one needs is given."""
    code = "".join(re.findall(r"^```.*?^```", text, re.MULTILINE | re.DOTALL))
    found = COMMAND.findall(code)
    assert {name for name, _ in found} == {*PARSERS}
    for name, words in found:
        options = PARSERS[name]().parse_args(shlex.split(words))
        if name == "promote":
            promote.check(options)


def test_its_yaml_is_valid() -> None:
    """Each block is a mapping."""
    blocks = promotion_page.documents()
    assert len(blocks) >= 4
    assert all(isinstance(block, dict) for block in blocks)


def test_each_pipeline_closes_runs_and_opens() -> None:
    """In shell, on GitHub and on GitLab: held before the run, opened on that run after it."""
    pipelines = [script() for script in promotion_page.PIPELINES.values()]
    for each in pipelines:
        held, ran, opened = each.index("--hold"), each.index("pytest --cluster"), each.index("--run ")
        assert held < ran < opened
