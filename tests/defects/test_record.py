"""What is kept of a run names no folder of the machine that it was made on."""

import re
import sys

import pytest

from tests.defects import matrix
from tests.defects.record import without_places

PLACE = re.compile(r"/(?:work|home|Users|opt)/|/\.pyenv/|/\.venv/")


@pytest.mark.parametrize("path", sorted(matrix.RECORDED.glob("*.jsonl")), ids=lambda path: path.stem)
def test_recordings_name_no_folder_of_a_machine(path):
    """Tracebacks of payloads do; readers elsewhere would look for them."""
    assert PLACE.findall(path.read_text(encoding="utf-8")) == []


def test_folders_are_taken_out():
    """Those of the environment and of its interpreter."""
    said = f'File \\"{sys.prefix}/lib/x.py\\", {sys.base_prefix}/lib/y.py'
    assert without_places(said) == 'File \\"/venv/lib/x.py\\", /python/lib/y.py'
