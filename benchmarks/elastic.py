"""How long an elastic job is without a step after it lost a worker, and which part of that is whose.

Reads the evidence of a run of the scenario `elastic-training`, or takes it down on the embedded cluster first:

    python benchmarks/elastic.py [EVIDENCE.jsonl]

Parts, from the loss to the first step of the smaller world: the ranks notice; the agents end them and meet again, which
is torch's time-outs (a lost agent counts, the last call) and nothing of ours; the new ranks import torch and form their
group; the first step, which loads the checkpoint and trains once. The target is 12 s on two quiet cores.
"""

import argparse
import itertools
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
TARGET = 12.0


def recorded() -> pathlib.Path:
    """Run the rows of the scenario on the embedded cluster and return its evidence."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "suites",
        "--cluster=embedded",
        "-q",
        "-n",
        "0",
        "-k",
        "ELA-001",
    ]
    subprocess.run(command, cwd=ROOT, check=False)
    return ROOT / "reports" / "latest" / "evidence" / "elastic-training.jsonl"


def main() -> int:
    """Print the parts of each loss that a smaller world followed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("evidence", nargs="?", type=pathlib.Path)
    path = parser.parse_args().evidence or recorded()
    sys.path.insert(0, str(ROOT))
    from pytest_gpucluster.evidence import read
    from pytest_gpucluster.evidence.scheduling import gangs
    from pytest_gpucluster.evidence.training import elastic
    from pytest_gpucluster.judge.elastic.shrink import loss_of

    evidence = read(path)
    stories = [elastic.training(evidence, gang) for gang in gangs.gangs(evidence)]
    story = next(one for one in stories if len(one.worlds) > 1)
    worst = 0.0
    for change in story.changes:
        loss = loss_of(story, change, evidence.end)
        new = next((w for w in loss.new if w.size < loss.old.size), None) if loss else None
        if loss is None or new is None or new.first_step is None:
            continue
        told = [word.t for word in loss.old.broken.values() if word.t > change.t]
        began = [word.t for word in story.began if change.t < word.t <= new.began and word.uid in new.formed]
        marks = [change.t, min(told, default=change.t), max(began), new.whole, new.first_step]
        parts = [b - a for a, b in itertools.pairwise(marks)]
        names = ("notice", "meet again (torch)", "import and form (torch)", "first step")
        print(f"{change.what}: {marks[-1] - marks[0]:.2f} s to the first step of a world of {new.size}")
        print("  " + ", ".join(f"{name} {part:.2f} s" for name, part in zip(names, parts, strict=True)))
        worst = max(worst, marks[-1] - marks[0])
    print(f"longest {worst:.2f} s, target {TARGET:g} s")
    return 0 if 0 < worst <= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
