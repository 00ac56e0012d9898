"""Records that lack keys which later ones have: read with a line that says so, or refused in one line."""

import json

import pytest

from pytest_gpucluster import cli
from pytest_gpucluster.report import record, seal, verify, write
from tests.report import sample

NEEDED = {"schema", "requirements", "run", "run.id", "requirements.id", "requirements.verdict", "requirements.finding",
          "scenarios.name", "site_tests.nodeid", "site_tests.outcome", "not_run.id"}  # fmt: skip
"""Keys without which a record says nothing."""


def run_of(folder):
    """Make a whole run and return its suite."""
    suite = sample.make_run(folder, partial=False)
    write.write_all(folder)
    return suite


def paths(report):
    """Return the keys of a report, those of lists for all items at once."""
    found = [(key,) for key in report]
    for key, value in report.items():
        if key in ("answer", "counts", "not_built", "waivers", "files", "decision"):
            continue
        if isinstance(value, dict) and key not in ("profile", "cluster", "requests"):
            found += [(key, inner) for inner in value]
        if isinstance(value, list) and value and isinstance(value[0], dict):
            found += [(key, inner) for inner in value[0] if inner != "earlier"]  # only of what was repeated
    return found


def without(report, path):
    """Return a report without a key."""
    made = json.loads(json.dumps(report))
    if len(path) == 1:
        del made[path[0]]
        return made
    for of in made[path[0]] if isinstance(made[path[0]], list) else [made[path[0]]]:
        of.pop(path[1], None)
    return made


def looked_at(folder, registry):
    """Return (record, verification, "") or (None, None, why it is refused)."""
    try:
        return record.load(folder), verify.verify(folder, registry=registry), ""
    except record.RecordError as error:
        return None, None, str(error)


def test_each_key_may_be_missing(tmp_path):
    """What is filled in never makes the answer better; the keys that a record cannot do without are named."""
    suite = run_of(tmp_path)
    file = tmp_path / record.REPORT
    whole = json.loads(file.read_text(encoding="utf-8"))
    tried = paths(whole)
    assert len(tried) > 60
    for path in tried:
        file.write_text(json.dumps(without(whole, path)), encoding="utf-8")
        name = ".".join(path)
        found, checked, refused = looked_at(tmp_path, suite.registry)
        assert bool(refused) is (name in NEEDED), (name, refused)
        if refused:
            assert "\n" not in refused
            assert any(word in refused for word in (path[-1], "is not a report", "names no schema"))
            continue
        assert found["answer"]["word"] != "yes"
        assert not checked.ok  # the file is not the sealed one
        assert name in found.get(record.LACKING, ()), name
        assert any(name in note for note in checked.notes), name


LATER = (
    "decision",
    "cleanup",
    "cleanup.proof",
    "scenarios.seen",
    "run.by",
    "run.asked",
    "requirements.waiver",
    "problems",
)


@pytest.mark.parametrize("path", LATER)
@pytest.mark.parametrize("command", ["verify", "report", "gate"])
def test_commands_read_a_sealed_record_that_lacks_a_key(tmp_path, capsys, path, command):
    """It was made by a version that did not know the key; each command ends with a status and says something."""
    run_of(tmp_path)
    file = tmp_path / record.REPORT
    file.write_text(
        json.dumps(without(json.loads(file.read_text(encoding="utf-8")), path.split("."))), encoding="utf-8"
    )
    (tmp_path / seal.SUMS).write_text(seal.text(tmp_path), encoding="utf-8")
    words = [command, str(tmp_path)] + (
        ["--policy", "weekly", "--for", "embedded"] if command == "gate" else []
    )
    status = cli.main(words)
    told = capsys.readouterr()
    assert status in (0, 1, 2, 3)
    assert (told.out + told.err).strip()
    assert "Traceback" not in told.err
