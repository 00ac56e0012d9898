"""Container logs, fetched from the node's kubelet endpoint."""

from aiohttp import ClientConnectionError, ClientSession, ClientTimeout, UnixConnector, web

from pytest_gpucluster.embedded.errors import ApiError, bad_request
from pytest_gpucluster.embedded.objects import Obj, annotations_of, name_of, namespace_of
from pytest_gpucluster.embedded.store import Store
from pytest_gpucluster.plain.names import ANNOTATION_KUBELET_SOCKET

_PASSED = (
    "follow", "previous", "timestamps", "sinceSeconds", "sinceTime", "tailLines", "limitBytes",
)  # fmt: skip


def container_of(pod: Obj, asked: str | None) -> str:
    """Return the container whose log is meant.

    Raises:
        ApiError: 400 when none is named and there are several, or when the named one does not exist.
    """
    spec = pod["spec"]
    regular = [c["name"] for c in spec.get("containers") or []]
    names = [c["name"] for c in spec.get("initContainers") or []] + regular
    if asked:
        if asked not in names:
            raise bad_request(f"container {asked} is not valid for pod {name_of(pod)}")
        return asked
    if len(regular) == 1:
        return str(regular[0])
    raise bad_request(
        f"a container name must be specified for pod {name_of(pod)}, choose one of: [{' '.join(regular)}]"
    )


def socket_of(store: Store, pod: Obj) -> str:
    """Return the kubelet socket of the node that a pod is bound to.

    Raises:
        ApiError: 400 when the pod has no node, 500 when the node has no kubelet endpoint.
    """
    node_name = pod["spec"].get("nodeName")
    if not node_name:
        raise bad_request(f"pod {name_of(pod)} does not have a host assigned")
    node = store.find("Node", None, node_name)
    path = annotations_of(node or {}).get(ANNOTATION_KUBELET_SOCKET)
    if not path:
        text = f"an error on the server: node {node_name} has no kubelet endpoint"
        raise ApiError(500, "InternalError", text)
    return path


async def serve_log(request: web.Request, store: Store, pod: Obj) -> web.StreamResponse:
    """Answer a log request by passing on what the kubelet says.

    Raises:
        ApiError: 400 and 500 as the functions above; 502 when the kubelet does not answer.
    """
    container = container_of(pod, request.query.get("container"))
    path = socket_of(store, pod)
    query = {k: request.query[k] for k in _PASSED if k in request.query}
    url = f"http://kubelet/containerLogs/{namespace_of(pod)}/{name_of(pod)}/{container}"
    timeout = ClientTimeout(total=None, sock_connect=5.0)
    try:
        async with (
            ClientSession(connector=UnixConnector(path=path), timeout=timeout) as session,
            session.get(url, params=query) as upstream,
        ):
            if upstream.status != 200:
                text = (await upstream.text()).strip() or "the kubelet refused the log"
                reason = "NotFound" if upstream.status == 404 else "BadRequest"
                raise ApiError(upstream.status, reason, text)
            response = web.StreamResponse(headers={"Content-Type": "text/plain"})
            await response.prepare(request)
            async for chunk in upstream.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response
    except ClientConnectionError as error:
        text = f"the kubelet of node {pod['spec']['nodeName']} does not answer: {error}"
        raise ApiError(502, "InternalError", text) from None
    except ConnectionError:
        raise  # the client has left
