"""Commands that nodes run: a cancellation in the very moment of their end."""

import asyncio

import pytest

from pytest_gpucluster.node import process


def test_a_cancellation_in_the_moment_of_the_end_is_not_lost(monkeypatch):
    """A probe is cancelled when its container ends, and the probe's own command ends with the container."""
    real = process.Process.wait

    async def scene():
        async def wait(self):
            code = await real(self)
            running.cancel()
            return code

        monkeypatch.setattr(process.Process, "wait", wait)
        running = asyncio.create_task(process.run(["true"], 10))
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(scene())
