"""The DNS server of the pods: names of headless services and of their pods, from watched objects."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self, cast

from dnslib import QTYPE, RCODE, RR, SOA, A, DNSHeader, DNSRecord
from dnslib.dns import DNSError

from pytest_gpucluster.node.names import hostname

log = logging.getLogger(__name__)

Object = dict[str, Any]
# As CoreDNS answers for cluster names.
TTL_SECONDS = 5
# What a resolver without EDNS takes in a datagram (RFC 1035).
UDP_BYTES = 512


def is_ready(pod: Object) -> bool:
    """Report whether a pod counts as ready: the condition Ready is True and it is not being deleted."""
    if pod["metadata"].get("deletionTimestamp"):
        return False
    conditions = pod.get("status", {}).get("conditions") or []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def has_ended(pod: Object) -> bool:
    """Report whether a pod is in a final phase."""
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


@dataclass
class Zone:
    """Names and addresses, computed from services and pods.

    Attributes:
        domain: Domain of the cluster.
        services: Live view of services, (namespace, name) -> object.
        pods: Live view of pods.
        fixed: SERVICE.NAMESPACE -> address of what no object stands for.
    """

    domain: str
    services: Mapping[tuple[str, str], Object]
    pods: Mapping[tuple[str, str], Object]
    fixed: Mapping[str, str] = field(default_factory=dict)
    _records: dict[str, list[str]] = field(default_factory=dict)
    _stale: bool = True

    def changed(self) -> None:
        """Note that a service or a pod changed; names are computed again when next asked for."""
        self._stale = True

    def lookup(self, name: str) -> list[str] | None:
        """Return the addresses of a name, empty for a name that exists without one, None for no such name."""
        if self._stale:
            self._records = self._compute()
            self._stale = False
        wanted = name.rstrip(".").lower()
        found = self._records.get(wanted)
        return found if found is not None else self._pod_address(wanted)

    def _compute(self) -> dict[str, list[str]]:
        records = {f"{name}.svc.{self.domain}".lower(): [address] for name, address in self.fixed.items()}
        by_namespace: dict[str, list[Object]] = {}
        for pod in self.pods.values():
            if pod.get("status", {}).get("podIP") and not has_ended(pod):
                by_namespace.setdefault(pod["metadata"].get("namespace", ""), []).append(pod)
        for (namespace, name), service in self.services.items():
            spec = service.get("spec") or {}
            base = f"{name}.{namespace}.svc.{self.domain}".lower()
            address = spec.get("clusterIP")
            if address and address != "None":
                records[base] = [address]
                continue
            members = self._members(spec, by_namespace.get(namespace, []))
            if members:
                records[base] = [pod["status"]["podIP"] for pod in members]
            for pod in members:
                if pod["spec"].get("subdomain") == name and pod["spec"].get("hostname"):
                    records.setdefault(f"{hostname(pod).lower()}.{base}", []).append(pod["status"]["podIP"])
        return records

    @staticmethod
    def _members(spec: Object, pods: Iterable[Object]) -> list[Object]:
        selector = spec.get("selector") or {}
        if not selector:
            return []
        every = bool(spec.get("publishNotReadyAddresses"))
        return [
            pod
            for pod in pods
            if selector.items() <= (pod["metadata"].get("labels") or {}).items() and (every or is_ready(pod))
        ]

    def _pod_address(self, name: str) -> list[str] | None:
        suffix = f".pod.{self.domain}".lower()
        if not name.endswith(suffix):
            return None
        label, _, namespace = name.removesuffix(suffix).partition(".")
        address = label.replace("-", ".")
        for (pod_namespace, _), pod in self.pods.items():
            if pod_namespace == namespace and pod.get("status", {}).get("podIP") == address:
                return [address]
        return None


def answer(
    packet: bytes, lookup: Callable[[str], list[str] | None], domain: str, limit: int = 65535
) -> bytes | None:
    """Return the answer to one query, or None for a packet that is none.

    A name that exists without a record of the wanted type gets an empty success, any other name at once
    NXDOMAIN: so the search list of a pod works, and a name outside the cluster fails without a wait.
    An answer of more than `limit` bytes is replaced by one that says to ask again over TCP.
    """
    try:
        query = DNSRecord.parse(packet)
    except (DNSError, ValueError, IndexError):
        return None
    if query.header.qr or not query.questions:
        return None
    reply = DNSRecord(DNSHeader(id=query.header.id, qr=1, aa=1, ra=1, rd=query.header.rd), q=query.q)
    found = lookup(str(query.q.qname))
    if found is None:
        reply.header.rcode = RCODE.NXDOMAIN
    elif query.q.qtype in (QTYPE.A, QTYPE.ANY):
        for address in found:
            reply.add_answer(RR(query.q.qname, QTYPE.A, rdata=A(address), ttl=TTL_SECONDS))
    if not reply.rr:
        soa = SOA(f"ns.dns.{domain}", f"hostmaster.{domain}", (1, 7200, 1800, 86400, TTL_SECONDS))
        reply.add_auth(RR(domain, QTYPE.SOA, rdata=soa, ttl=TTL_SECONDS))
    data: bytes = reply.pack()
    if len(data) > limit:
        header = DNSHeader(id=query.header.id, qr=1, aa=1, ra=1, tc=1, rd=query.header.rd)
        data = DNSRecord(header, q=query.q).pack()
    return data


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, respond: Callable[[bytes], bytes | None]) -> None:
        self._respond = respond
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not isinstance: before Python 3.12 the transport is one in its methods only.
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        reply = self._respond(data)
        if reply is not None and self._transport is not None:
            self._transport.sendto(reply, addr)


class DnsServer:
    """Serves a zone on UDP and TCP; an asynchronous context manager."""

    def __init__(
        self, zone: Zone, address: str, port: int = 53, *, silent: Callable[[], bool] = bool
    ) -> None:
        """Describe; nothing listens yet.

        Args:
            zone: What to serve.
            address: Address to listen on.
            port: Port to listen on.
            silent: Asked at each query whether `network.dns-silent` is planted: no name exists.
        """
        self._zone = zone
        self._address = address
        self._port = port
        self._silent = silent
        self._udp: asyncio.BaseTransport | None = None
        self._tcp: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        """Listen."""
        loop = asyncio.get_running_loop()
        where = (self._address, self._port)
        self._udp, _ = await loop.create_datagram_endpoint(
            lambda: _Datagrams(lambda packet: self._respond(packet, UDP_BYTES)), local_addr=where
        )
        self._tcp = await asyncio.start_server(self._stream, *where)
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Stop listening."""
        if self._udp is not None:
            self._udp.close()
        if self._tcp is not None:
            self._tcp.close()

    def _respond(self, packet: bytes, limit: int = 65535) -> bytes | None:
        lookup = (lambda _name: None) if self._silent() else self._zone.lookup
        return answer(packet, lookup, self._zone.domain, limit)

    async def _stream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                size = int.from_bytes(await reader.readexactly(2))
                reply = self._respond(await reader.readexactly(size))
                if reply is None:
                    break
                writer.write(len(reply).to_bytes(2) + reply)
                await writer.drain()
        writer.close()
