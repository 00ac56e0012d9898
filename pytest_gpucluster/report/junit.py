"""JUnit XML from the report alone.

A violation is a `failure`; environment and inconclusive are an `error`, so that a pipeline can repeat trouble and
never repeats a violation away; what does not apply or was not run is `skipped`. A test of the site's own that failed
is a `failure` of the type `asserted`. Left-overs and a run that did not come to its end are cases of their own.
"""

import re
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree as ET

from pytest_gpucluster.report import answer, scope, site

_UNPRINTABLE = re.compile(r"[^\x09\x0a\x0d\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot hold; logs of containers can."""


def render(report: Mapping[str, Any]) -> str:
    """Return the report as JUnit XML: a case for each requirement, and each test of the site's own."""
    suite = ET.Element("testsuite", name="gpucluster")
    _properties(suite, _suite_properties(report))
    for row in report["requirements"]:
        _decided(suite, row)
    for row in report["not_run"]:
        case = _case(suite, row, 0.0)
        message = _text(f"not run: {row['why']}")
        # Selected and left out is never green; what nobody selected is skipped.
        if answer.is_cut_off(row):
            ET.SubElement(case, "error", type="not run", message=message)
        else:
            ET.SubElement(case, "skipped", message=message)
    for test in report["site_tests"]:
        _site_test(suite, test)
    _run_cases(suite, report)
    _totals(suite)
    if report["run"].get("started"):
        suite.set("timestamp", str(report["run"]["started"]).removesuffix("Z")[:19])
    root = ET.Element("testsuites", name="gpucluster")
    root.append(suite)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite_properties(report: Mapping[str, Any]) -> dict[str, str]:
    cluster = report["cluster"]
    decision = report["decision"]
    by_policy = {}
    if decision:
        by_policy = {
            "gpucluster.policy": str(decision["policy"]["name"]),
            "gpucluster.gate": "open" if decision["open"] else "closed",
            "gpucluster.gate_text": decision["text"],
            **{f"gpucluster.purpose.{name}": word for name, word in decision["purposes"].items()},
        }
    return {
        **by_policy,
        "gpucluster.run": report["run"]["id"],
        "gpucluster.plugin": report["run"]["plugin"],
        "gpucluster.cluster": str(cluster.get("name", "")),
        "gpucluster.provider": str(cluster.get("provider", "")),
        "gpucluster.answer": report["answer"]["word"],
        "gpucluster.answer_text": scope.banner(report),
        "gpucluster.not_built": " ".join(row["id"] for row in report["not_built"]),
        "gpucluster.defects": " ".join(report["run"]["defects"]),
    }


def _decided(suite: ET.Element, row: Mapping[str, Any]) -> None:
    case = _case(suite, row, row["seconds"])
    finding = row["finding"]
    message = _text(f"{row['id']}: required: {finding['required']}; observed: {finding['observed']}")
    body = _text(row["failure_text"] or message)
    if row["waiver"] and row["verdict"] in {"fail", "environment", "inconclusive"}:
        # Shown as waived and never green: what a waiver excuses is for a reader to decide, not for the counter.
        waiver = row["waiver"]
        told = _text(
            f"waived until {waiver['expires'] or 'further notice'} by {waiver['owner']}: {waiver['reason']}"
        )
        ET.SubElement(case, "failure", type="waived", message=f"{told}; {message}").text = body
        return
    if answer.is_flaky(row):
        told = _text(f"passed only on repetition, after {', '.join(row['earlier'])}")
        ET.SubElement(case, "flakyFailure", type="flaky", message=told)
    match row["verdict"]:
        case "pass":
            pass
        case "not_applicable":
            ET.SubElement(case, "skipped", message=message)
        case "fail":
            ET.SubElement(case, "failure", type="violation", message=message).text = body
        case other:
            ET.SubElement(case, "error", type=other, message=message).text = body


def _site_test(suite: ET.Element, test: Mapping[str, Any]) -> None:
    case = ET.SubElement(
        suite,
        "testcase",
        classname="gpucluster.site",
        name=_text(test["nodeid"]),
        time=f"{test['seconds']:.3f}",
    )
    properties = {
        "gpucluster.title": test["title"],
        "gpucluster.level": test["level"],
        "gpucluster.area": test["area"],
        "gpucluster.asserted": test["outcome"],
        "gpucluster.needs": site.needs_text(test["needs"]),
        "gpucluster.scenarios": " ".join(test["scenarios"]),
        "gpucluster.evidence": test["evidence"] or "",
        "gpucluster.sha256": test["sha256"] or "",
        "gpucluster.earlier": " ".join(test["earlier"]),
    }
    _properties(case, {name: value for name, value in properties.items() if value})
    message = _text(f"{test['title']}: {site.first_line(test)}" if test["text"] else test["title"])
    body = _text(test["text"] or message)
    if site.is_flaky(test):
        told = _text(f"passed only on repetition, after {', '.join(test['earlier'])}")
        ET.SubElement(case, "flakyFailure", type="flaky", message=told)
    match test["outcome"]:
        case "passed":
            pass
        case "failed":
            ET.SubElement(case, "failure", type="asserted", message=message).text = body
        case "skipped" | "not_applicable":
            ET.SubElement(case, "skipped", message=message)
        case other:
            ET.SubElement(case, "error", type=other.replace("_", " "), message=message).text = body


def _case(suite: ET.Element, row: Mapping[str, Any], seconds: float) -> ET.Element:
    case = ET.SubElement(
        suite,
        "testcase",
        classname=f"gpucluster.{row['area']}",
        name=_text(f"{row['id']} {row['title']}"),
        time=f"{seconds:.3f}",
    )
    properties = {
        "gpucluster.requirement": row["id"],
        "gpucluster.level": row["level"],
        "gpucluster.documents": " ".join(row["documents"]),
    }
    if "verdict" in row:
        properties |= {
            "gpucluster.verdict": row["verdict"],
            "gpucluster.scenario": row["scenario"],
            "gpucluster.evidence": row["evidence"] or "",
            "gpucluster.sha256": row["sha256"] or "",
        }
        properties |= {
            f"gpucluster.number.{number['name']}": f"{number['value']} {number['unit']}".strip()
            for number in row["finding"].get("numbers") or []
            if number.get("value") is not None
        }
        if answer.is_flaky(row):
            properties["gpucluster.earlier"] = " ".join(row["earlier"])
        if row["waiver"]:
            properties["gpucluster.waived_by"] = row["waiver"]["owner"]
    _properties(case, properties)
    return case


def _run_cases(suite: ET.Element, report: Mapping[str, Any]) -> None:
    left = report["cleanup"]["left_overs"]
    if left:
        case = ET.SubElement(suite, "testcase", classname="gpucluster.run", name="cleanup", time="0.000")
        message = _text(f"{len(left)} objects were left on the cluster")
        ET.SubElement(case, "error", type="cleanup", message=message).text = _text("\n".join(left))
    decision = report["decision"]
    if decision and not decision["open"]:
        # Rows may all be green while what the policy asks for was never run.
        case = ET.SubElement(suite, "testcase", classname="gpucluster.run", name="gate", time="0.000")
        told = [f"{each['what']}: {each['why']}; fix: {each['fix']}" for each in decision["closers"]]
        message = _text(f"policy {decision['policy']['name']}: {decision['text']}")
        ET.SubElement(case, "failure", type="gate", message=message).text = _text("\n".join(told))
    if report["run"]["interrupted"]:
        case = ET.SubElement(suite, "testcase", classname="gpucluster.run", name="end", time="0.000")
        ET.SubElement(case, "error", type="interrupted", message="the run did not finish")


def _properties(parent: ET.Element, values: Mapping[str, str]) -> None:
    element = ET.SubElement(parent, "properties")
    for name, value in values.items():
        ET.SubElement(element, "property", name=_text(name), value=_text(value))


def _totals(suite: ET.Element) -> None:
    cases = suite.findall("testcase")
    suite.set("tests", str(len(cases)))
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(sum(1 for case in cases if case.find(tag) is not None)))
    suite.set("time", f"{sum(float(case.get('time', '0')) for case in cases):.3f}")


def _text(value: str) -> str:
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", value)
