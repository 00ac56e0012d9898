"""The exporter of a node answers a page that Prometheus' own parser reads, with values that are renewed."""

import asyncio
import json
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pytest_gpucluster.node import config, defects, exporter


def told(folder, *planted):
    """Return the configuration of two nodes."""
    nodes = [{"name": name, "gpus": 2} for name in ("gpu-0", "gpu-1")]
    line = {
        "nodes": nodes,
        "api_socket": "/none",
        "state_dir": str(folder),
        "metrics_port": 0,
        "defects": list(planted),
    }
    return config.parse(json.dumps(line))


def energy(page):
    """Return UUID -> energy of a page, and check that each metric is of every GPU."""
    families = {family.name: family for family in text_string_to_metric_families(page)}
    assert set(families) == set(exporter.FAMILIES)
    assert {len(family.samples) for family in families.values()} == {2}
    found = families["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"].samples
    return {one.labels["UUID"]: one.value for one in found}


@pytest.mark.parametrize(("node", "renewed"), [("gpu-0", True), ("gpu-1", False)])
def test_values_are_renewed_at_each_collection(tmp_path, node, renewed):
    """A planted departure hits the last node alone."""
    now = [5.0]
    made = told(tmp_path, defects.METRICS_STALE)
    spec = next(one for one in made.nodes if one.name == node)
    one = exporter.Exporter(spec, made, "127.0.0.1", clock=lambda: now[0])
    one.collect()
    before = energy(one._page)
    now[0] = 6.0
    one.collect()
    after = energy(one._page)
    assert before.keys() == after.keys()
    assert all((after[gpu] > value) is renewed for gpu, value in before.items())


async def _read(one):
    async with one:
        port = one._runner.addresses[0][1]
        url = f"http://127.0.0.1:{port}/metrics"
        return await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=10).read().decode())


def test_it_answers_over_http(tmp_path):
    """At the address that it was given."""
    made = told(tmp_path)
    page = asyncio.run(_read(exporter.Exporter(made.nodes[0], made, "127.0.0.1")))
    assert all(uuid.endswith(".gpu-0") for uuid in energy(page))
