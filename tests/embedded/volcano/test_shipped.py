"""What the installer leaves: the scheduler's configuration and the Deployments of the three parts."""

import pytest
import yaml

from pytest_gpucluster.embedded.volcano import names, shipped
from tests.embedded.support import cluster, run


def test_the_scheduler_configuration_is_the_shipped_one():
    """Anybody can read the actions and plugins that v1.14.4 is installed with."""

    async def scenario():
        async with cluster(volcano=True) as runtime:
            found = runtime.store.get("ConfigMap", names.SYSTEM_NAMESPACE, names.SCHEDULER_CONFIG)
            conf = yaml.safe_load(found["data"][names.SCHEDULER_CONFIG_KEY])
            assert conf["actions"] == "enqueue, allocate, backfill"
            plugins = [plugin["name"] for tier in conf["tiers"] for plugin in tier["plugins"]]
            assert plugins[:3] == ["priority", "gang", "conformance"]
            assert plugins[3:] == ["overcommit", "drf", "predicates", "proportion", "nodeorder", "binpack"]

    run(scenario())


@pytest.mark.parametrize("defect", [None, "scheduler.down", "controllers.down", "admission.down"])
def test_a_part_that_is_down_is_not_available(defect):
    """Each part has a Deployment with the image of the release; only the one that is down says so."""

    async def scenario():
        async with cluster(volcano=True, defects=[defect] if defect else []) as runtime:
            found = {
                d["metadata"]["name"]: d for d in runtime.store.list("Deployment", names.SYSTEM_NAMESPACE)
            }
            assert set(found) == set(shipped.PARTS)
            images = {d["spec"]["template"]["spec"]["containers"][0]["image"] for d in found.values()}
            assert {image.rpartition(":")[2] for image in images} == {"v1.14.4"}
            down = {name for name, d in found.items() if not d["status"].get("availableReplicas")}
            part = (defect or "").partition(".")[0]
            assert down == ({f"volcano-{part}"} if defect else set())

    run(scenario())
