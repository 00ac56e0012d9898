"""Causes of judges speak of devices in words of the vendor whose resource is declared."""

import importlib
import pkgutil
import re
from collections.abc import Iterator

import pytest

from pytest_gpucluster import judge
from pytest_gpucluster.judge import vendors, wording
from pytest_gpucluster.requirement import Cause, Verdict

STRANGE = re.compile(r"nvidia|\bxid|\bNVML\b|\bMIG\b", re.IGNORECASE)
OTHERS = ["amd.com/gpu", "habana.ai/gaudi", "google.com/tpu"]


def constants() -> Iterator[tuple[str, Cause]]:
    """Yield every cause that stands in a module of a judge, with its name."""
    for found in pkgutil.walk_packages(judge.__path__, f"{judge.__name__}."):
        module = importlib.import_module(found.name)
        for name, value in vars(module).items():
            if isinstance(value, Cause):
                yield f"{found.name.removeprefix(judge.__name__ + '.')}.{name}", value


CAUSES = {name: cause for name, cause in constants() if STRANGE.search(f"{cause.text} {cause.fix}")}


@pytest.mark.parametrize("resource", OTHERS)
@pytest.mark.parametrize("name", sorted(CAUSES))
def test_other_devices_are_not_looked_at_with_nvidias_tools(name: str, resource: str):
    """No cause of a judge sends the owner of other devices to a tool that he does not have."""
    finding = wording.finding(Verdict.FAIL, "required", "observed", causes=(CAUSES[name],))
    for cause in vendors.worded(finding, resource).causes:
        assert not STRANGE.search(f"{cause.text} {cause.fix}"), cause


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "nvidia.com/mig-1g.5gb", ""])
def test_devices_of_nvidia_keep_their_words(resource: str):
    """Nothing is changed where the words fit, or nobody says whose devices they are."""
    finding = wording.finding(Verdict.FAIL, "required", "observed", causes=tuple(CAUSES.values()))
    assert vendors.worded(finding, resource) is finding


def test_there_are_causes_to_try():
    """The test looks at all modules."""
    assert len(CAUSES) > 10
