"""Commands that nodes run: their end, and a cancellation in the very moment of the end."""

import asyncio

import pytest

from pytest_gpucluster.node import process


def test_a_command_says_its_code_and_what_it_wrote():
    """Both streams count."""

    async def scene():
        assert await process.run(["sh", "-c", "echo out; echo err >&2; exit 3"], 10) == (3, "out\nerr\n")

    asyncio.run(scene())


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
