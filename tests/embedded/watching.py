"""What a replay takes down of a cluster: every change from now on, with the seconds since then."""

import asyncio
from collections.abc import Collection
from typing import Any

from pytest_gpucluster.embedded.runtime import Runtime


async def watch(
    runtime: Runtime, kinds: Collection[str], stream: list[dict[str, Any]], without: Collection[str] = ()
) -> None:
    """Add the changes of some kinds to a stream until cancelled, but for those in some namespaces."""
    begun = asyncio.get_running_loop().time()
    first = runtime.store.version
    with runtime.store.subscribe(kinds) as changes:
        async for kind, key, obj in changes:
            if int(obj["metadata"]["resourceVersion"]) <= first:
                continue
            if obj["metadata"].get("namespace") in without:
                continue
            at = asyncio.get_running_loop().time() - begun
            stream.append({"t": round(at, 3), "type": kind, "kind": key, "object": obj})
