"""The report as CTRF (Common Test Report Format, ctrf.io), specification 0.0.0; what is ours stands under `extra`.

CTRF knows passed, failed, skipped, pending and other. Only a pass is `passed`; a violation is `failed`, also a waived
one; `environment` and `inconclusive` are `other`, so that nobody counts them as a failure of the cluster or as nothing;
what does not apply or was not selected is `skipped`; what was selected and left out is `pending`.
"""

import json
import uuid
from collections.abc import Mapping
from typing import Any

from pytest_gpucluster.plain import times
from pytest_gpucluster.report import answer, scope, site

SPEC = "0.0.0"
"""Version of the specification, as it names itself."""

STATUSES: Mapping[str, str] = {
    "pass": "passed",
    "fail": "failed",
    "environment": "other",
    "inconclusive": "other",
    "not_applicable": "skipped",
}
"""Verdict -> status."""

_ASSERTED: Mapping[str, str] = {
    "passed": "passed", "failed": "failed", "skipped": "skipped", "not_applicable": "skipped", "not_run": "pending",
}  # fmt: skip
"""Outcome of a test of the site's own -> status; any other is `other`."""

_SPACE = uuid.UUID("8f6a1c8e-5d0b-5a52-9a8a-5a4f9f0f7c11")
"""Name space of the ids of reports: the same run has the same id whenever its report is made."""


def render(report: Mapping[str, Any]) -> str:
    """Return the report as CTRF."""
    run, cluster = report["run"], report["cluster"]
    tests = [
        *map(_decided, report["requirements"]),
        *map(_not_run, report["not_run"]),
        *map(_site_test, report["site_tests"]),
    ]
    own = {
        "answer": report["answer"],
        "answer_text": scope.banner(report),
        **({"decision": report["decision"]} if report["decision"] else {}),
        "not_built": [row["id"] for row in report["not_built"]],
        "left_overs": report["cleanup"]["left_overs"],
        "problems": report["problems"],
        "planted_defects": run["defects"],
    }
    document = {
        "reportFormat": "CTRF",
        "specVersion": SPEC,
        "reportId": str(uuid.uuid5(_SPACE, str(run["id"]))),
        "timestamp": str(run["ended"] or run["started"] or ""),
        "generatedBy": f"pytest-gpucluster {run['plugin']}",
        "results": {
            "tool": {"name": "pytest-gpucluster", "version": str(run["plugin"])},
            "summary": _summary(report, tests),
            "tests": tests,
            "environment": {
                "reportName": f"GPU cluster conformance of {cluster.get('name') or 'an unnamed cluster'}",
                "testEnvironment": str(cluster.get("name") or ""),
                "extra": {
                    "provider": cluster.get("provider"),
                    "versions": cluster.get("versions") or {},
                    "run": run["id"],
                    "command": run["command"],
                },
            },
        },
        "extra": own,
    }
    return json.dumps(document, indent=1, ensure_ascii=False, default=str) + "\n"


def _summary(report: Mapping[str, Any], tests: list[dict[str, Any]]) -> dict[str, Any]:
    counts = {
        name: sum(test["status"] == name for test in tests)
        for name in (*dict.fromkeys(STATUSES.values()), "pending")
    }
    return {
        "tests": len(tests),
        **counts,
        "flaky": sum(bool(test.get("flaky")) for test in tests),
        "start": _milliseconds(report["run"]["started"]),
        "stop": _milliseconds(report["run"]["ended"] or report["run"]["started"]),
    }


def _milliseconds(text: Any) -> int:
    """Return a time of day in milliseconds since 1970, 0 for none."""
    try:
        when = times.parse_time(str(text))
    except ValueError:
        return 0
    return round(when.timestamp() * 1000)


def _decided(row: Mapping[str, Any]) -> dict[str, Any]:
    finding = row["finding"]
    waiver = row["waiver"] if row["verdict"] != "pass" else None
    return _test(
        f"{row['id']} {row['title']}",
        STATUSES.get(row["verdict"], "other"),
        row["seconds"],
        row["area"],
        raw=row["verdict"],
        message=f"required: {finding['required']}; observed: {finding['observed']}",
        trace=row["failure_text"],
        tags=[row["level"], *row["documents"]],
        earlier=row["earlier"],
        flaky=answer.is_flaky(row),
        extra={
            "requirement": row["id"],
            "level": row["level"],
            "waiver": waiver,
            "evidence": row["evidence"],
            "sha256": row["sha256"],
            "numbers": finding.get("numbers") or [],
            "causes": finding.get("causes") or [],
            "where": finding.get("where") or [],
        },
    )


def _not_run(row: Mapping[str, Any]) -> dict[str, Any]:
    status = "pending" if answer.is_cut_off(row) or answer.is_asked(row) else "skipped"
    return _test(
        f"{row['id']} {row['title']}", status, 0.0, row["area"], raw="not run", message=f"not run: {row['why']}",
        tags=[row["level"], *row["documents"]], extra={"requirement": row["id"], "level": row["level"]},
    )  # fmt: skip


def _site_test(test: Mapping[str, Any]) -> dict[str, Any]:
    return _test(
        test["title"], _ASSERTED.get(test["outcome"], "other"), test["seconds"], "site",
        raw=test["outcome"], message=site.first_line(test) if test["text"] else "", trace=test["text"],
        tags=[test["level"], *([test["area"]] if test["area"] else [])], earlier=test["earlier"],
        flaky=site.is_flaky(test), path=str(test["nodeid"]).partition("::")[0],
        extra={"asserted_by_the_site": True, "nodeid": test["nodeid"], "evidence": test["evidence"]},
    )  # fmt: skip


def _test(name: str, status: str, seconds: float, area: str, **more: Any) -> dict[str, Any]:
    """Return one test; what is empty is left out."""
    found = {
        "name": name,
        "status": status,
        "duration": round(float(seconds) * 1000),
        "suite": ["gpucluster", area or "site"],
        "rawStatus": more.get("raw"),
        "message": more.get("message"),
        "trace": more.get("trace"),
        "tags": more.get("tags"),
        "filePath": more.get("path"),
        "retries": len(more.get("earlier") or ()),
        "flaky": more.get("flaky") or None,
        "extra": more.get("extra"),
    }
    return {key: value for key, value in found.items() if value or key == "duration"}
