"""What the page of pytest-html says above its table: environment, answer, causes, and a link to the run.

pytest-html escapes nothing of a summary: all that comes from a cluster or a profile is escaped here. Its environment
table is made by a script, which takes plain text.
"""

import html
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pytest_gpucluster.report import causes, page

_FEW = 12
"""Causes that are listed; the run's own page has all."""


def environment(report: Mapping[str, Any]) -> dict[str, str]:
    """Return what was tested, by whom, and what was declared: rows of the environment table."""
    cluster, run = report["cluster"], report["run"]
    machines = cluster.get("machines") or {}
    versions = {**(cluster.get("versions") or {}), **(cluster.get("components") or {})}
    found = {
        "Cluster": f"{cluster.get('name') or '-'} ({cluster.get('provider') or '-'})",
        "Cluster uid": str(cluster.get("uid") or ""),
        "Cluster versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
        "GPU nodes": ", ".join(machines) if len(machines) <= _FEW else str(len(machines)),
        "Run": str(run["id"]),
        "Run by": str(run["by"]),
        "Profile": ", ".join(page.profile_sources(report)),
        "Profile SHA-256": page.profile_digest(report),
        "Planted defects": ", ".join(run["defects"]),
        "pytest-gpucluster": str(run["plugin"]),
    }
    return {name: value for name, value in found.items() if value}


def lines(banner: str, ailments: Sequence[causes.Ailment], again: str, href: str) -> Iterator[str]:
    """Yield the summary as markup.

    Args:
        banner: the answer in one line.
        ailments: what keeps rows from green.
        again: the command that runs those rows again.
        href: of the run's own page.
    """
    yield f"<p><strong>{html.escape(banner)}</strong></p>"
    yield f'<p><a href="{html.escape(href)}">The page of the run</a> has evidence, causes and what was not shown.</p>'
    if not ailments:
        return
    yield f"<p>{html.escape(causes.head(ailments)).replace('the last line', 'the command below')}:</p>"
    yield "<ol>"
    for one in ailments[:_FEW]:
        fix = f"<br>Fix: {html.escape(one.fix)}" if one.fix else ""
        rows = html.escape(f"{', '.join(one.rows)} ({one.verdict.replace('_', ' ')})")
        yield f"<li>{html.escape(one.text)}<br>{rows}{fix}</li>"
    yield "</ol>"
    if len(ailments) > _FEW:
        yield f"<p>and {len(ailments) - _FEW} more causes, on the page of the run</p>"
    yield f"<p><code>{html.escape(again)}</code></p>"


def href(run_page: Path, from_page: Path) -> str:
    """Return a relative link from one page to another."""
    return quote(os.path.relpath(run_page.resolve(), from_page.resolve().parent))
