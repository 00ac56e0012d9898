"""Facts about a job, drawn from what its log states: transports by rank, networks, adapters, errors, figures."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from pytest_gpucluster.measure.nccl import faults, networks, table
from pytest_gpucluster.measure.nccl.observations import Seen
from pytest_gpucluster.measure.nccl.troubles import Told

INTRA_NODE = "intra_node"
NVLINK_FABRIC = "nvlink_fabric"
MIXED = "mixed"
FAILED = "failed"
UNKNOWN = networks.UNKNOWN
CHANNEL = "channel"
NETWORK_LINE = "network_line"
NONE = "none"

KEYS = (
    "class", "evidence", "net", "selected_net", "link_layer", "provider", "gdr", "nranks", "nnodes", "n_worlds",
    "net_ranks", "socket_ranks", "no_gdr_ranks", "hcas_listed", "hcas_used", "intra", "pxn", "collnet", "mnnvl", "nvls",
    "errors", "ib_status", "errno", "hca", "timeout_ranks", "rdma_mtu", "torn_lines", "dedup", "rows", "busbw_max",
    "busbw_avg", "wrong", "validated", "out_of_bounds", "ranks_from_factor", "nccl_version", "inter_node_proven",
    "hca_check", "rdma_gdr_check",
)  # fmt: skip
"""What a case may expect."""


@dataclasses.dataclass(frozen=True)
class Given:
    """What is known beforehand.

    Attributes:
        ranks: ranks of the job; None where nobody says.
        nodes: machines of the job.
        pod_nodes: pod (host name of the records) -> machine.
        expected_hcas: adapters that may be used.
        networks: name -> class, for plugins that nobody knows here.
    """

    ranks: int | None = None
    nodes: int | None = None
    pod_nodes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    expected_hcas: tuple[str, ...] | None = None
    networks: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Path:
    """How one rank is connected, as it printed itself."""

    rank: int
    host: str
    kind: str
    """line_patterns.NET, COLLNET or INTRA."""
    name: str
    peer: int
    way: str
    gdr: bool
    carrier: str
    """Class of the network; "" inside a node."""
    hcas: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Facts:
    """What the log shows."""

    kind: str
    evidence: str
    net: tuple[str, ...]
    selected: tuple[str, ...]
    paths: tuple[Path, ...]
    gdr: str
    nranks: int | None
    nnodes: int | None
    worlds: int | None
    ranks: Mapping[int, str]
    """Rank that printed something that identifies it -> host."""
    net_hosts: tuple[str, ...]
    names: Mapping[str, tuple[str, ...]]
    """Network that a process uses or would use -> hosts."""
    carriers: Mapping[str, str]
    """Network -> class."""
    link_layer: str | None
    providers: tuple[str, ...]
    listed: Mapping[str, tuple[str, ...]]
    """Host -> adapters that it lists."""
    hcas_listed: tuple[str, ...]
    hcas_used: tuple[str, ...]
    intra: tuple[str, ...]
    pxn: bool | None
    collnet: bool
    mnnvl: bool | None
    nvls: str | None
    errors: tuple[str, ...]
    fault: Mapping[str, tuple[faults.Fault, str]]
    """Class of error -> one that tells most, and its host."""
    stalls: tuple[faults.Stall, ...]
    timeout_ranks: tuple[int, ...]
    outcomes: tuple[str, ...]
    settings: Mapping[str, Mapping[str, tuple[str, ...]]]
    """Setting from environment or file -> value -> hosts."""
    plugins: Mapping[str, tuple[str, ...]]
    versions: tuple[str, ...]
    sub_worlds: bool
    """Whether only communicators that were split off are seen."""
    troubles: tuple[Told, ...]
    """Errors and warnings of known classes, the one that decides first."""
    unknown: tuple[Told, ...]
    """Warnings and errors of which nobody knows what they mean."""
    one_node: bool
    """Whether the log shows that nothing leaves one node or one NVLink domain."""
    seen: Seen
    given: Given

    def of_rank(self, rank: int) -> tuple[Path, ...]:
        """Return the connections that a rank printed."""
        return tuple(path for path in self.paths if path.rank == rank)

    def ranks_on(self, carrier: str) -> tuple[int, ...]:
        """Return the ranks with a connection over a class of networks."""
        return tuple(sorted({path.rank for path in self.paths if path.carrier == carrier}))

    @property
    def no_gdr_ranks(self) -> tuple[int, ...]:
        """Return the ranks with a connection over a network that is no TCP, without GPUDirect RDMA."""
        return tuple(
            sorted({p.rank for p in self.paths if p.carrier and p.carrier != networks.TCP and not p.gdr})
        )

    @property
    def factor(self) -> tuple[int, int] | None:
        """Return the fewest and the most ranks by the table's factor."""
        return self.seen.table.ranks()

    @property
    def alone(self) -> bool:
        """Report whether one node was told and the log shows no more: then nothing goes between nodes."""
        return self.given.nodes == 1 and self.one_node

    @property
    def between_nodes(self) -> bool | None:
        """Report whether connections between machines were seen; False where all pods sit on one machine."""
        machines = self.given.pod_nodes
        if not machines:
            return None
        if len(set(machines.values())) < 2:
            return False
        over = {machines[host] for host in self.net_hosts if host in machines}
        if not over and len(set(machines.values())) == len(machines):
            # Which pod lies where is not told, only that each has a machine of its own.
            return len(self.net_hosts) > 1
        return len(over) > 1

    def machine(self, host: str) -> str:
        """Return a host with its machine, where that is told."""
        node = self.given.pod_nodes.get(host, "")
        return f"{host} ({node})" if node and node != host else host

    def host_of(self, rank: int) -> str:
        """Return the host of a rank, as far as it is known."""
        return self.ranks.get(rank, "")

    def where(self, rank: int) -> str:
        """Return a rank with its host and machine."""
        host = self.host_of(rank)
        node = self.given.pod_nodes.get(host, "")
        on = f" on {host}" if host else ""
        return f"rank {rank}{on}{f' ({node})' if node and node != host else ''}"

    def values(self) -> dict[str, Any]:
        """Return the facts by the names that cases use; what a verdict adds is not among them."""
        rows = self.seen.table
        worst = self.fault
        status = worst["ib_completion_error"][0].status if "ib_completion_error" in worst else None
        number = worst["ibv_modify_qp"][0].status if "ibv_modify_qp" in worst else None
        hca = next((fault.hca for fault, _ in worst.values() if fault.hca), None)
        factor = self.factor
        given_ranks = self.given.ranks
        if factor and given_ranks is not None and factor[0] <= given_ranks <= factor[1]:
            from_factor: int | None = given_ranks
        else:
            from_factor = table.likely(factor) if factor else 1 if rows.zero else None
        return {
            "class": self.kind,
            "evidence": self.evidence,
            "net": list(self.net),
            "selected_net": list(self.selected),
            "link_layer": self.link_layer,
            "provider": ", ".join(self.providers) or None,
            "gdr": self.gdr,
            "nranks": self.nranks,
            "nnodes": self.nnodes,
            "n_worlds": self.worlds,
            "net_ranks": sorted({p.rank for p in self.paths if p.carrier and p.name.lower() != "socket"}),
            "socket_ranks": list(self.ranks_on(networks.TCP)),
            "no_gdr_ranks": list(self.no_gdr_ranks),
            "hcas_listed": list(self.hcas_listed),
            "hcas_used": list(self.hcas_used),
            "intra": list(self.intra),
            "pxn": self.pxn,
            "collnet": self.collnet,
            "mnnvl": self.mnnvl,
            "nvls": self.nvls,
            "errors": list(self.errors),
            "ib_status": status,
            "errno": number if number is None or number >= 0 else None,
            "hca": hca,
            "timeout_ranks": list(self.timeout_ranks),
            "rdma_mtu": min(self.seen.mtus, default=None),
            "torn_lines": self.seen.torn + rows.torn,
            "dedup": self.seen.folded,
            "rows": rows.rows,
            "busbw_max": rows.busbw_max,
            "busbw_avg": rows.average,
            "wrong": rows.wrong,
            "validated": rows.wrong is not None if rows.rows else None,
            "out_of_bounds": rows.out_of_bounds,
            "ranks_from_factor": from_factor,
            "nccl_version": self.versions[0] if len(self.versions) == 1 else list(self.versions) or None,
        }
