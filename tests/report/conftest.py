"""What the tests of records share: the sample run, and golden files."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.report import sample

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Give the folder of the sample run, which came to its end with every kind of outcome."""
    folder = tmp_path / "run"
    sample.make_run(folder)
    return folder


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Give a comparison with a file in `golden/`; UPDATE_GOLDEN=1 writes the file instead."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if os.environ.get("UPDATE_GOLDEN") == "1":
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8")

    return compare
