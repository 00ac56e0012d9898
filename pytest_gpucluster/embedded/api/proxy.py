"""The `proxy` sub-resource of a node: a question that is passed on to its kubelet."""

from aiohttp import ClientConnectionError, ClientSession, ClientTimeout, UnixConnector, web

from pytest_gpucluster.embedded.errors import ApiError
from pytest_gpucluster.embedded.objects import Obj, annotations_of, name_of
from pytest_gpucluster.plain.names import ANNOTATION_KUBELET_SOCKET

PASSED = frozenset({"configz", "healthz"})
"""Paths of the kubelet that are passed on; whoever may ask for one more may read and run all that it serves."""


async def serve_proxy(node: Obj, path: str) -> web.Response:
    """Answer with what the node's kubelet says.

    Args:
        node: The node.
        path: What is asked of its kubelet, without a leading slash.

    Raises:
        ApiError: 404 for a path that is not passed on; 503 when the kubelet does not answer.
    """
    if path not in PASSED:
        raise ApiError(404, "NotFound", "the server could not find the requested resource")
    name, socket = name_of(node), annotations_of(node).get(ANNOTATION_KUBELET_SOCKET)
    if not socket:
        raise ApiError(503, "ServiceUnavailable", f"node {name} has no kubelet endpoint")
    try:
        async with (
            ClientSession(connector=UnixConnector(path=socket), timeout=ClientTimeout(total=5.0)) as session,
            session.get(f"http://{name}/{path}") as upstream,
        ):
            return web.Response(
                status=upstream.status, body=await upstream.read(), content_type=upstream.content_type
            )
    except (ClientConnectionError, TimeoutError) as error:
        text = f"the kubelet of node {name} does not answer: {error}"
        raise ApiError(503, "ServiceUnavailable", text) from None
