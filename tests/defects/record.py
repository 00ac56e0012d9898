"""Keep the evidence of a passing run for the matrix of mutants: `python -m tests.defects.record reports/latest`."""

import argparse
import json
import sys
from pathlib import Path

from pytest_gpucluster.plain import plurals
from tests.defects import matrix


def without_places(text: str) -> str:
    """Return evidence without the folders of this machine, which tracebacks of payloads name."""
    for place, name in ((sys.prefix, "/venv"), (sys.base_prefix, "/python"), (str(Path.cwd()), "/checkout")):
        text = text.replace(f"{place}/", f"{name}/")
    return text


def main(run: Path) -> str:
    """Copy the evidence of every scenario; returns a line that says what was kept, or why nothing was."""
    rows = json.loads((run / "report.json").read_text(encoding="utf-8"))["requirements"]
    red = [row["id"] for row in rows if row["verdict"] not in ("pass", "not_applicable")]
    if red:
        return f"nothing kept: {', '.join(red)} did not pass in {run}"
    matrix.RECORDED.mkdir(parents=True, exist_ok=True)
    wanted = {row.scenario.name for row in matrix.rows()}
    found = {path.stem: path for path in (run / "evidence").glob("*.jsonl")}
    for name in sorted(wanted & set(found)):
        text = found[name].read_text(encoding="utf-8")
        (matrix.RECORDED / f"{name}.jsonl").write_text(without_places(text), encoding="utf-8")
    for path in matrix.RECORDED.glob("*.jsonl"):
        if path.stem not in wanted:
            path.unlink()
    lacking = sorted(wanted - set(found))
    kept = plurals.count(len(wanted & set(found)), "scenario")
    return f"{kept} kept" + (f"; not in the run: {lacking}" if lacking else "")


if __name__ == "__main__":
    parser = argparse.ArgumentParser("python -m tests.defects.record", description=__doc__)
    parser.add_argument("run", metavar="RUN", type=Path, help="folder of a run that passed")
    sys.stdout.write(main(parser.parse_args().run) + "\n")
