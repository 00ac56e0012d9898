"""A small run with every kind of outcome, made through the journal with a fixed clock."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pytest_gpucluster.evidence import Evidence
from pytest_gpucluster.evidence.log.model import SCHEMA
from pytest_gpucluster.report import decisions, record, text
from pytest_gpucluster.requirement import (
    Cause,
    Finding,
    Number,
    Presupposed,
    Refusal,
    Registry,
    Requirement,
    Verdict,
    requirement,
)

START = datetime(2026, 11, 28, 9, 30, tzinfo=UTC)


@dataclass
class Clock:
    """A clock that moves one second with each look."""

    at: datetime = START

    def __call__(self) -> datetime:
        """Return the next second."""
        self.at += timedelta(seconds=1)
        return self.at


@dataclass(frozen=True)
class Named:
    """All that a declaration needs of a scenario."""

    name: str


@dataclass
class Suite:
    """Requirements declared into a registry of their own."""

    registry: Registry = field(default_factory=Registry)

    def declare(
        self,
        row_id: str,
        judge: Callable[[Any, Mapping[str, Any]], Finding],
        *,
        title: str,
        text: str,
        scenario: str,
        module: str = "suites.sample",
        **rest: Any,
    ) -> Requirement:
        """Declare one row."""

        def test() -> None:
            """Stand in for a test."""

        test.__doc__ = f"{title}.\n\n{text}"
        test.__module__ = module
        test.__qualname__ = f"test_{row_id.lower().replace('-', '_')}"
        rest = {"level": "must", **({} if row_id.startswith("SITE") else {"documents": "R J"}), **rest}
        requirement(row_id, scenario=Named(scenario), judge=judge, registry=self.registry, **rest)(test)
        return self.registry.get(row_id)


def bound(evidence: Evidence, given: Mapping[str, Any]) -> Finding:
    """Judge whether no pod was bound."""
    seen = [line for line in evidence.of_kind("Pod") if line.object["spec"].get("nodeName")]
    if not seen:
        return Finding(
            Verdict.PASS,
            required=f"no member bound while there is room for {given['n'] - 1} of {given['n']}",
            observed="no member bound in 3.2 s, then all 4 within 0.4 s of the room",
            where=("Job.batch.volcano.sh/gang in ns-1",),
            evidence=tuple(line.key for line in evidence.of_kind("Pod")[:1]),
            currency="slots",
        )
    return Finding(
        Verdict.FAIL,
        required=f"no member bound while there is room for {given['n'] - 1} of {given['n']}",
        observed=f"{len(seen)} of {given['n']} members were bound and held slots for 3.2 s while the last "
        "one had no room",
        where=tuple(f"Pod/{line.name} on {line.object['spec']['nodeName']}" for line in seen),
        causes=(
            Cause(
                "the pods were placed by the default scheduler, which knows no gangs",
                "set spec.schedulerName: volcano on the Job and in no template another one",
            ),
            Cause("the gang plugin is not in the scheduler's configuration", "add it to the first tier"),
        ),
        evidence=tuple(line.key for line in seen),
        repeat=("kubectl get pods -n ns-1 -l volcano.sh/job-name=gang -o wide",),
        violation=True,
        currency="slots",
    )


def reached(evidence: Evidence, given: Mapping[str, Any]) -> Presupposed:
    """Report whether the gang gate was reached."""
    groups = evidence.of_kind("PodGroup")
    if not groups:
        return Presupposed("the gang gate was reached", None, "no PodGroup was seen")
    return Presupposed("the gang gate was reached", held=True, observed="PodGroup Inqueue, all pods made")


def constant(finding: Finding) -> Callable[[Any, Mapping[str, Any]], Finding]:
    """Make a judge that always finds the same."""
    return lambda _evidence, _given: finding


def make_suite() -> Suite:
    """Return a suite with one row for each kind of outcome."""
    suite = Suite()
    suite.declare(
        "GANG-001",
        constant(
            Finding(
                Verdict.PASS,
                required="4 of 4 members bound, all met at the barrier; minMember = minAvailable = 4",
                observed="4 of 4 bound on 2 nodes, 4 ranks met at the barrier",
                numbers=(Number("bind spread", 0.031, "s", 1.0, "profile bind_spread"),),
            )
        ),
        title="A gang that fits runs as one",
        text="Every member of a gang that fits MUST be bound, and all MUST run at the same time.",
        scenario="gang-fits",
    )
    suite.declare(
        "GANG-002",
        bound,
        title="No member starts until all can",
        text="While there is room for only N-1 of its N members, none MUST be bound. When room for the last "
        "appears, all MUST be.",
        scenario="gang-scarce",
        presupposes=[reached],
        defects=["gang.binds-partially"],
        documents="R J P",
    )
    suite.declare(
        "GANG-007",
        constant(
            Finding(
                Verdict.NOT_APPLICABLE,
                required="bind spread and start spread under their declared bounds",
                observed="no bound is declared; measured and reported",
                numbers=(Number("start spread", 0.42, "s"),),
            )
        ),
        level="should",
        title="The members of a gang start close together",
        text="The spread of bind and start times SHOULD stay under the declared bound.",
        scenario="gang-fits",
    )
    suite.declare(
        "REF-001",
        constant(
            Finding(
                Verdict.PASS,
                required="nothing bound, no GPU held, refused by the gang scheduler",
                observed="0 of 6 pods bound in 5.0 s; the fitting control ran after",
                refusal=Refusal(
                    "volcano-scheduler v1.14.4", "volcano", "PodGroup/big", "NotEnoughResources", "enqueue",
                    "pod group is not ready, 6 minAvailable <script>alert(1)</script>",
                ),
            )
        ),
        title="A gang larger than the cluster waits without holding a GPU",
        text="A gang that can never fit MUST stay Pending, hold nothing, and say who refused it.",
        scenario="gang-too-large",
    )  # fmt: skip
    suite.declare(
        "REF-002",
        constant(
            Finding(
                Verdict.ENVIRONMENT,
                required="refused at the queue's gate",
                observed="presupposed: a queue of our own: creating one was forbidden (403)",
                causes=(Cause("the account may not create Queues", "apply the role printed by --plan"),),
            )
        ),
        title="A gang above its queue's capability is refused",
        text="A gang that asks for more than its queue's capability MUST be refused.",
        scenario="gang-too-large",
    )
    suite.declare(
        "PLG-003",
        constant(
            Finding(
                Verdict.INCONCLUSIVE,
                required="MASTER_ADDR resolves to the master's pod IP from every member",
                observed="no log line of worker-1 was fetched",
            )
        ),
        title="The master's name resolves to its pod from every member",
        text="MASTER_ADDR MUST resolve to the master's pod IP in every member.",
        scenario="gang-fits",
    )
    suite.declare(
        "FAB-006",
        constant(
            Finding(
                Verdict.FAIL,
                required="bus bandwidth of all-reduce at 1 GiB at least 180 GB/s",
                observed="121 GB/s, data correct",
                numbers=(Number("bus bandwidth", 121.4, "GB/s", 180.0, "fixtures/floors, 2 nodes x 8 H100"),),
                violation=True,
            )
        ),
        title="Bus bandwidth reaches its floor with correct data",
        text="The bus bandwidth of each collective MUST reach the floor declared for this node shape.",
        scenario="fabric",
        documents="R P",
    )
    suite.declare(
        "LIFE-001",
        constant(Finding(Verdict.PASS, "-", "-")),
        title="The Job completes with its master and leaves no worker running",
        text="When rank 0 exits, the Job MUST complete and no worker MUST be left running.",
        scenario="gang-fits",
    )
    suite.declare(
        "SITE-001",
        constant(
            Finding(
                Verdict.PASS,
                required="all 4 members on nodes of one rack",
                observed="4 of 4 on nodes labelled rack=r12",
                where=("Pod/gang-worker-0 on gpu-0",),
            )
        ),
        title="A gang of a quarter rack stays in one rack",
        text="All members of a gang of at most 8 GPUs MUST be bound to nodes of one rack.",
        scenario="gang-fits",
        module="test_site",
    )
    return suite


def nodeid(declared: Requirement) -> str:
    """Return pytest's name of the test of a row."""
    file = "tests/test_site.py" if declared.id.startswith("SITE") else "suites/sample.py"
    return f"{file}::test[{declared.id}]"


FAILURE = """def test_an_image_starts_everywhere(stage):
>       assert slowest < 20.0
E       assert 31.4 < 20.0

tests/test_site.py:31: <script>alert(2)</script>"""


def write_site_tests(journal: record.Journal, folder: Path) -> None:
    """Write tests of the site's own, one for each way in which they end."""
    evidence = write_evidence(folder / "evidence" / "site" / "all-reduce.jsonl", evidence_lines("all-reduce"))
    needs = {"capabilities": ["fabric"], "nodes": 2, "gpus": 16, "seconds": 90.0}
    journal.site_test(
        "tests/test_site.py::test_all_reduce", "passed", title="An all-reduce over two nodes is fast enough",
        area="fabric", seconds=41.5, needs=needs, scenarios=["gang-fits"], evidence=evidence,
    )  # fmt: skip
    journal.site_test(
        "tests/test_site.py::test_an_image_starts_everywhere", "failed", title="The image starts within 20 s",
        area="lifecycle", seconds=33.1, needs={"capabilities": [], "nodes": 0, "gpus": 0}, text=FAILURE,
    )  # fmt: skip
    for outcome in ("error", "passed"):
        journal.site_test(
            "tests/test_site.py::test_mirror[a&b]", outcome, title="The mirror answers", seconds=0.8,
            text="fixture 'mirror': connection reset" if outcome == "error" else "",
        )  # fmt: skip
    for name, outcome, why in (
        ("home", "error", "RuntimeError: no such mount: /home"),
        ("login", "environment", "the cluster may not be reached: 401 Unauthorized"),
        ("rdma", "not_applicable", "the profile declares no capability 'rdma'"),
        ("scratch", "skipped", "until the new file system is there (OPS-17)"),
        ("soak", "not_run", "budget: 7200 GPU-seconds are left out"),
    ):
        journal.site_test(
            f"tests/test_site.py::test_{name}", outcome, title=f"test_{name}", level="should", text=why
        )


def evidence_lines(scenario: str, *, partial: bool = False) -> list[dict[str, Any]]:
    """Return the lines of a small evidence file; `partial` binds some members."""
    lines: list[dict[str, Any]] = [
        {"type": "HEADER", "schema": SCHEMA, "scenario": scenario, "clock": "receipt", "given": {"n": 4}},
        {"type": "SPAN", "kind": "Pod", "start": 0.0, "end": None, "how": "list"},
        {"type": "ADDED", "t": 0.1, "kind": "PodGroup", "object": {"metadata": {"name": "pg", "uid": "g"}}},
    ]
    for rank in range(4):
        spec = {"nodeName": f"gpu-{rank % 2}"} if partial and rank < 3 else {}
        meta = {"name": f"gang-worker-{rank}", "uid": f"u{rank}"}
        lines.append(
            {
                "type": "ADDED",
                "t": 0.2 + rank / 100,
                "kind": "Pod",
                "object": {"metadata": meta, "spec": spec},
            }
        )
    return lines


def write_evidence(path: Path, lines: list[dict[str, Any]]) -> Path:
    """Write lines as JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def read(path: Path) -> Evidence:
    """Read the small files of this module."""
    from pytest_gpucluster.evidence.log import ingest

    return ingest.read(path)


def make_run(folder: Path, *, partial: bool = True, end: bool = True, clock: Clock | None = None) -> Suite:
    """Write the journal and evidence of the sample run into a folder and return its suite."""
    suite = make_suite()
    journal = record.Journal(folder / record.JOURNAL, clock=clock or Clock())
    journal.run_start(
        run="20261128-093000-ab12",
        plugin="0.1.0",
        command=["pytest", "suites", "--cluster=prod-a"],
        cluster={
            "name": "prod-a",
            "provider": "existing",
            "context": "prod-a-admin",
            "versions": {"kubernetes": "v1.37.0", "volcano": "v1.14.4"},
            "nodes": [{"name": f"gpu-{n}", "gpus": 8, "driver": "580.95", "ready": True} for n in range(2)],
        },
        profile={
            "name": "prod-a",
            "scheduler": "volcano",
            "queue": "training",
            "gpu_resource": "nvidia.com/gpu",
            "gpus_per_node": 8,
            "budgets": {"bind": 30.0, "run": 120.0},
            "waivers": [
                {"id": "FAB-006", "reason": "cables on order", "owner": "net-ops", "expires": "2026-12-31"}
            ],
        },
        sources={
            "name": "clusters/prod-a.yaml", "scheduler": "clusters/prod-a.yaml", "queue": "command line",
            "gpu_resource": "clusters/prod-a.yaml", "gpus_per_node": "clusters/prod-a.yaml",
            "budgets.bind": "environment GPUCLUSTER_BUDGETS__BIND", "waivers": "clusters/prod-a.yaml",
        },
        versions={"pytest": "9.2.0", "Python": "3.11"},
        evidence_schema=SCHEMA,
    )  # fmt: skip
    journal.declared(suite.registry)
    files: dict[str, Path] = {}
    for name in ("gang-fits", "gang-scarce", "gang-too-large", "fabric"):
        files[name] = write_evidence(
            folder / "evidence" / f"{name}.jsonl",
            evidence_lines(name, partial=partial and name == "gang-scarce"),
        )
        journal.scenario(
            name, seconds=4.25, requests={"create Job": 2, "watch Pod": 1}, evidence=files[name],
            summary="one workload, put through its life",
        )  # fmt: skip
    for declared in suite.registry:
        if declared.id == "LIFE-001":
            continue
        path = files[declared.scenario.name]
        evidence = read(path)
        finding = decisions.decide(declared, evidence)
        shown = (
            ""
            if finding.verdict is Verdict.PASS
            else text.failure_text(declared, finding, evidence_path=Path("/run") / path.name)
        )
        journal.requirement(
            declared,
            finding,
            presupposed=decisions.presupposed(declared, evidence),
            seconds=0.012,
            evidence=path,
            nodeid=nodeid(declared),
            text=shown,
        )
    write_site_tests(journal, folder)
    journal.not_run(suite.registry.get("LIFE-001"), "would block others: slots are not permitted")
    if end:
        journal.cleanup(["Queue/gpucluster-q (still there after 30 s)"])
        journal.run_end(exit_status=1, interrupted=False)
    return suite
