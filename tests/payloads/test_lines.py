"""What the programs print is what the reference and the readers know: events, fields, and which every line has."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

import payloads
from docs import payload_lines as page
from pytest_gpucluster.evidence.log import payload_forms, payload_lines, payload_meanings

SPEAKER = {
    "GPUCLUSTER_POD": "p-0", "NODE_NAME": "n", "KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "1"
}  # fmt: skip
"""Who the programs are; no API answers at that port."""

FOLDER = pathlib.Path(payloads.__file__).parent


def test_every_event_that_is_printed_has_a_meaning_and_no_other() -> None:
    """A new event is told in the reference, and an old one goes from it."""
    assert set(page.printed()) == set(payload_meanings.EVENTS)
    assert set(page.recorded()) <= set(page.printed())
    assert set(payload_forms.FORMS) <= set(page.printed())


def test_every_field_that_is_printed_has_a_meaning_and_no_other() -> None:
    """Those of a form, those that a program names, and those of the recorded runs."""
    known = {(event, name) for event in page.printed() for name, _ in page.fields(event)}
    assert {key for key in known if not payload_meanings.of(*key)} == set()
    names = {name for _, name in known} | {f"{event}.{name}" for event, name in known}
    assert set(payload_meanings.FIELDS) - names == set()


def test_a_form_asks_for_no_field_that_a_program_leaves_out() -> None:
    """Wherever an event is printed, well or not, all that its form asks for is named there, or added to it."""
    for one in page.prints():
        # The plugin's own `devices` tells what it offers, and no judge reads it.
        if one.whole and one.program != "device_plugin.py":
            parts = {part.partition(".")[0] for part in payload_forms.FORMS.get(one.event, ())}
            assert parts - set(payload_meanings.SPEAKER) <= one.named, one


@pytest.mark.parametrize(
    ("words", "events"),
    [
        (["access.py"], ["access"]),
        (["numa.py"], ["devices"]),
        (["gang.py", "env"], ["env", "argv"]),
        (["ready.py", "network", "--interface=lo", "--within=5"], ["gate-began", "gate"]),
        (["ready.py", "launch"], ["launching"]),
        (["ready.py", "labels", "kubernetes.io/hostname", "--file=env"], ["labels"]),
        (["members.py", "wait", "localhost", "--within=5"], ["waiting", "waited"]),
        (["stall.py", "--rank=0", "--bound=30"], ["place", "passed"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_program_prints_whole_lines(words: list[str], events: list[str], tmp_path: pathlib.Path) -> None:
    """Each line has the fields that its form asks for, and none that nobody knows."""
    done = subprocess.run(
        [sys.executable, str(FOLDER / words[0]), *words[1:]],
        capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path,
        env={**os.environ, "GPUCLUSTER_POD": "p-0", **SPEAKER},
    )  # fmt: skip
    found = [obj for line in done.stdout.splitlines() for obj in payload_lines.find(line)[0]]
    assert list(dict.fromkeys(obj["event"] for obj in found)) == events, done.stderr
    for obj in found:
        word = payload_lines.Word(0.0, "u", obj["pod"], obj["container"], obj["event"], obj, "LOG:p-0@0.000")
        assert payload_forms.lacks(word) == "", json.dumps(obj)
        assert set(payload_meanings.SPEAKER) <= set(obj)
        assert set(obj) - set(payload_meanings.SPEAKER) <= {name for name, _ in page.fields(obj["event"])}
