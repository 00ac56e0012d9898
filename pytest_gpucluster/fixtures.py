"""The public fixtures."""

from collections.abc import Callable

import pytest

from pytest_gpucluster.requirement import Finding


@pytest.fixture
def settle(request: pytest.FixtureRequest) -> Callable[[], Finding]:
    """Return the call with which a test settles its requirement.

    Evidence is obtained and judged before the test begins. Calling it passes, or fails with the text of the
    finding; a row that cannot be decided ends here as environment or inconclusive.
    """
    from pytest_gpucluster.hooks import running

    return running.obtain_decision(request.node)
