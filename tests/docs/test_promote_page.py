"""The page "Promote a queue": its commands parse, its YAML is valid, its pipelines are the same three steps."""

import re
import shlex

import pytest
import yaml

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


def test_its_yaml_is_valid(text: str) -> None:
    """Each block is a mapping."""
    blocks = re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 4
    assert all(isinstance(yaml.safe_load(block), dict) for block in blocks)


def test_each_pipeline_closes_runs_and_opens(text: str) -> None:
    """In shell, on GitHub and on GitLab: held before the run, opened on that run after it."""
    pipelines = [promotion_page.pipeline()]
    blocks = [
        yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    ]
    pipelines += [
        "\n".join(step.get("run", "") for step in block["jobs"]["conformance"]["steps"])
        for block in blocks
        if "jobs" in block
    ]
    pipelines += ["\n".join(block["conformance"]["script"]) for block in blocks if "conformance" in block]
    assert len(pipelines) == 3
    for each in pipelines:
        held, ran, opened = each.index("--hold"), each.index("pytest --cluster"), each.index("--run ")
        assert held < ran < opened
