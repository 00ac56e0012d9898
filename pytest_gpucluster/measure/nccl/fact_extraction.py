"""Draws the facts from what was seen: one world, its ranks, how each is connected, and what went wrong."""

from collections.abc import Iterable, Mapping

from pytest_gpucluster.measure.nccl import faults, line_patterns, networks, troubles
from pytest_gpucluster.measure.nccl.facts import (
    CHANNEL,
    FAILED,
    INTRA_NODE,
    MIXED,
    NETWORK_LINE,
    NONE,
    NVLINK_FABRIC,
    UNKNOWN,
    Facts,
    Given,
    Path,
)
from pytest_gpucluster.measure.nccl.observations import Link, Process, Seen

NOTHING_GIVEN = Given()


def draw(seen: Seen, given: Given = NOTHING_GIVEN) -> Facts:
    """Draw the facts."""
    return _Drawing(seen, given).facts()


class _Drawing:
    """One pass over what was seen."""

    def __init__(self, seen: Seen, given: Given) -> None:
        self.seen = seen
        self.given = given
        self.roots = {m for m in seen.members if not m.comm.split}
        self.nranks = self._nranks()
        self.world = self._world_ranks()
        self.several = self._several()
        self.links = self._links()

    def host(self, host: str) -> str:
        """Return a host; of a name that is glued to other text, the known host at its end, or none."""
        if not host.startswith("?"):
            return host
        ends = [known for known in self.seen.hosts if host[1:].endswith(known)]
        return max(ends, key=len, default="")

    def _nranks(self) -> int | None:
        sizes = [m.comm.nranks for m in self.seen.members]
        sizes += [nranks for _, _, nranks in self.seen.timings]
        sizes += [link.channel.nranks for link in self.seen.links]
        largest = max(sizes, default=0)
        if largest:
            return largest
        return 1 if self.seen.table.single_ranks() else None

    def _world_ranks(self) -> dict[tuple[Process, int], int]:
        """Return (process, its device or -1) -> its rank in the largest communicator, where it has one there."""
        by_process: dict[Process, set[int]] = {}
        for member in self.seen.members:
            if member.comm.nranks == self.nranks:
                by_process.setdefault(member.process, set()).add(member.comm.rank)
        for process, rank, nranks in self.seen.timings:
            if nranks == self.nranks and rank >= 0:
                by_process.setdefault(process, set()).add(rank)
        return {(process, -1): next(iter(ranks)) for process, ranks in by_process.items() if len(ranks) == 1}

    def _several(self) -> bool:
        """Say whether there are communicators of several sizes: then a connection's ranks are not the world's."""
        return len({m.comm.nranks for m in self.seen.members} | {n for _, _, n in self.seen.timings}) > 1

    def _links(self) -> list[tuple[str, int, Link]]:
        """Return host, rank and connection; without those whose rank cannot be, since their line was torn."""
        found = []
        for link in self.seen.links:
            rank = link.channel.rank
            if self.nranks is not None and self.nranks > 1 and max(rank, link.channel.peer) >= self.nranks:
                continue
            if self.several:
                rank = self.world.get((link.process, -1), rank)
            found.append((self.host(link.process.host), rank, link))
        return found

    def _nnodes(self) -> int | None:
        stated = [
            m.comm.nodes
            for m in self.seen.members
            if m.comm.phase == "NODES" and m.comm.nranks == self.nranks
        ]
        return max(stated, default=None)

    def _worlds(self) -> int | None:
        largest = [m for m in self.roots if m.comm.nranks == self.nranks]
        unique = {m.comm.unique for m in largest if m.comm.unique}
        if unique:
            return len(unique)
        firsts = {(m.process, m.comm.comm) for m in largest if m.comm.rank == 0}
        if firsts:
            return len(firsts)
        if self.nranks == 1 and self.seen.table.single_ranks():
            return len({(d[1], d[2]) for d in self.seen.table.devices}) or None
        return 1 if largest else None

    def _ranks(self) -> dict[int, str]:
        ranks: dict[int, str] = {}
        stated = [(m.comm.rank, m.process, m.comm.nranks) for m in self.seen.members]
        stated += [(rank, process, nranks) for process, rank, nranks in self.seen.timings if rank >= 0]
        for rank, process, nranks in sorted(stated):
            if nranks == self.nranks:
                ranks[rank] = ranks.get(rank) or self.host(process.host)
        known = set(ranks)
        for host, rank, link in sorted(self.links, key=lambda one: (one[1], one[0])):
            if self.several and (link.process, -1) not in self.world:
                continue
            if rank not in known:
                ranks[rank] = ranks.get(rank) or host
        return ranks

    def _listed(self) -> dict[str, set[line_patterns.Hca]]:
        found: dict[str, set[line_patterns.Hca]] = {}
        for process, _, hcas in self.seen.lists:
            found.setdefault(self.host(process.host), set()).update(hcas)
        return found

    def _used(self, host: str, link: Link, listed: Mapping[str, set[line_patterns.Hca]]) -> tuple[str, ...]:
        """Return the adapters behind a device index: of the host's own list, or of the one that all hosts share."""
        index = link.channel.device
        made = {
            names
            for where, number, names in self.seen.virtual
            if self.host(where) == host and number == index
        }
        if made:
            return tuple(sorted({name for names in made for name in names}))
        own = listed.get(host)
        if own is None:
            lists = list(listed.values())
            if not lists or any(one != lists[0] for one in lists[1:]):
                return ()
            own = lists[0]
        return tuple(sorted({hca.name for hca in own if hca.slot == index}))

    def _carrier(self, name: str, process: Process | None = None) -> str:
        own = {provider for who, provider in self.seen.providers if process is not None and who == process}
        if not own and process is not None:
            host = self.host(process.host)
            own = {provider for who, provider in self.seen.providers if self.host(who.host) == host}
        providers = own or {provider for _, provider in self.seen.providers}
        kind = networks.of(name, providers, self.given.networks)
        if kind == UNKNOWN and networks.is_libfabric(name) and not providers:
            # No provider is named: only one that reaches GPU memory can be told, by the connections themselves.
            links = [link for _, _, link in self.links if link.channel.name == name]
            if links and all(link.channel.gdr for link in links):
                return networks.RDMA
        return kind

    def _selected(self) -> set[tuple[Process, str]]:
        """Return the choices; of those that may be cut, the ones that agree with a whole name."""
        whole = set(self.seen.selected)
        names = {name for _, name in whole} | {link.channel.name for _, _, link in self.links}
        for process, name in self.seen.half_selected:
            longer = any(other != name and other.startswith(name) for other in names)
            if name in names or (not longer and self._carrier(name) != UNKNOWN):
                whole.add((process, name))
        return whole

    def facts(self) -> Facts:
        """Put the facts together."""
        seen = self.seen
        listed = self._listed()
        selected = self._selected()
        paths = tuple(
            sorted(self._paths(listed), key=lambda p: (p.rank, p.host, p.kind, p.name, p.peer, p.way, p.gdr))
        )
        nnodes = self._nnodes()
        by_channel = sorted({path.name for path in paths if path.carrier})
        selection = sorted({name for _, name in selected})
        mnnvl = self._mnnvl()
        ranks = self._ranks()
        one_node = self._one_node(nnodes, ranks, paths, mnnvl)
        net = by_channel or ([] if one_node else selection)
        names = self._names(selected, one_node=one_node)
        errors, worst, timeouts = self._errors(names)
        by_process = {process: rank for (process, _), rank in self.world.items()}
        known = troubles.known(seen, self.host, by_process, ranks)
        fatal = any(one.fatal for one in known) or bool(seen.outcomes)
        kind = self._kind(paths, net, names, one_node=one_node, mnnvl=mnnvl, fatal=fatal)
        return Facts(
            kind=kind,
            evidence=self._evidence(paths),
            net=tuple(net),
            selected=tuple(selection),
            paths=paths,
            gdr=self._gdr(paths, net, kind, one_node=one_node),
            nranks=self.nranks,
            nnodes=nnodes,
            worlds=self._worlds(),
            ranks=ranks,
            net_hosts=tuple(sorted({path.host for path in paths if path.carrier and path.host})),
            names=names,
            carriers={name: self._carrier(name) for name in {*names, *net, *selection}},
            link_layer=_link_layer(listed),
            providers=tuple(sorted({provider for _, provider in seen.providers})),
            listed={host: tuple(sorted({h.name for h in hcas})) for host, hcas in sorted(listed.items())},
            hcas_listed=tuple(sorted({hca.name for hcas in listed.values() for hca in hcas})),
            hcas_used=tuple(sorted({hca for path in paths for hca in path.hcas})),
            intra=tuple(sorted({path.name for path in paths if path.kind == line_patterns.INTRA})),
            pxn=self._pxn(),
            collnet=seen.collnet or any(path.kind == line_patterns.COLLNET for path in paths),
            mnnvl=mnnvl,
            nvls="used" if "used" in seen.nvls else "available" if seen.nvls else None,
            errors=errors,
            fault=worst,
            stalls=tuple(sorted(seen.stalls)),
            timeout_ranks=timeouts,
            outcomes=tuple(sorted(seen.outcomes)),
            settings=self._settings(),
            plugins=_grouped(seen.plugins),
            versions=tuple(sorted({version for _, version in seen.versions})),
            sub_worlds=bool(seen.members) and not any(m.comm.nranks == self.nranks for m in self.roots),
            troubles=known,
            unknown=troubles.unknown(seen, self.host, by_process, ranks),
            one_node=one_node,
            seen=seen,
            given=self.given,
        )

    def _paths(self, listed: Mapping[str, set[line_patterns.Hca]]) -> Iterable[Path]:
        carriers: dict[tuple[str, Process], str] = {}
        found = set()
        for host, rank, link in self.links:
            channel = link.channel
            carrier = ""
            if channel.kind != line_patterns.INTRA:
                key = (channel.name, link.process)
                if key not in carriers:
                    carriers[key] = self._carrier(channel.name, link.process)
                carrier = carriers[key]
            used = self._used(host, link, listed) if carrier == networks.RDMA else ()
            found.add(
                Path(
                    rank,
                    host,
                    channel.kind,
                    channel.name,
                    channel.peer,
                    channel.way,
                    channel.gdr,
                    carrier,
                    used,
                )
            )
        return found

    def _mnnvl(self) -> bool | None:
        stated = {m.comm.mnnvl for m in self.seen.members if m.comm.mnnvl >= 0}
        joined = any(link.channel.name == "P2P/MNNVL" for _, _, link in self.links)
        if 1 in stated or joined or self.seen.mnnvl:
            return True
        broken = any(fault.kind == "imex" for _, fault in self.seen.faults)
        return False if stated or broken else None

    def _one_node(
        self, nnodes: int | None, ranks: Mapping[int, str], paths: Iterable[Path], mnnvl: bool | None
    ) -> bool:
        """Say whether the log shows that nothing leaves one node or one NVLink domain."""
        if any(path.carrier for path in paths):
            return False
        if nnodes is not None:
            return nnodes == 1
        if mnnvl and any(path.name == "P2P/MNNVL" for path in paths):
            return True
        complete = (
            self.nranks is not None and self.nranks > 1 and sum(r < self.nranks for r in ranks) == self.nranks
        )
        return complete and len(set(ranks.values())) == 1 and "" not in ranks.values()

    def _names(self, selected: set[tuple[Process, str]], *, one_node: bool) -> dict[str, tuple[str, ...]]:
        found: dict[str, set[str]] = {}
        if not one_node:
            for process, name in selected:
                found.setdefault(name, set()).add(self.host(process.host))
        for host, _, link in self.links:
            if link.channel.kind == line_patterns.NET:
                found.setdefault(link.channel.name, set()).add(host)
        return {name: tuple(sorted(hosts)) for name, hosts in sorted(found.items())}

    def _kind(
        self,
        paths: tuple[Path, ...],
        net: list[str],
        names: Mapping[str, tuple[str, ...]],
        *,
        one_node: bool,
        mnnvl: bool | None,
        fatal: bool,
    ) -> str:
        if fatal and not paths:
            return FAILED
        kinds = {path.carrier for path in paths if path.carrier}
        apart = {name for name in names if not networks.is_reduction(name)}
        if len(apart) > 1 or len(kinds) > 1:
            return MIXED
        if kinds:
            return next(iter(kinds))
        if net:
            return self._carrier(net[0])
        if mnnvl and (one_node or any(path.name == "P2P/MNNVL" for path in paths)):
            return NVLINK_FABRIC
        return INTRA_NODE if one_node or paths else UNKNOWN

    def _gdr(self, paths: tuple[Path, ...], net: list[str], kind: str, *, one_node: bool) -> str:
        over = [path for path in paths if path.carrier]
        if over:
            with_gdr = {path.way for path in over if path.gdr}
            without = {path.way for path in over if not path.gdr}
            if not without:
                return "all"
            if not with_gdr:
                return "none"
            return "recv_only" if with_gdr == {"receive"} and without == {"send"} else "some"
        if one_node or kind in {INTRA_NODE, NVLINK_FABRIC}:
            return "n/a"
        if net and all(self._carrier(name) == networks.TCP for name in net):
            return "none"
        abilities = {able for _, able, _ in self.seen.adapters_gdr}
        return "none" if abilities == {False} else "unknown"

    def _pxn(self) -> bool | None:
        over = [link for _, _, link in self.links if link.channel.kind == line_patterns.NET]
        return any(link.channel.proxied for link in over) if over else None

    def _evidence(self, paths: tuple[Path, ...]) -> str:
        seen = self.seen
        if paths:
            return CHANNEL
        nodes = any(m.comm.phase == "NODES" for m in seen.members)
        lines = (
            seen.selected
            or seen.half_selected
            or seen.lists
            or seen.adapters_gdr
            or seen.pairs_gdr
            or seen.nvls
        )
        return NETWORK_LINE if lines or nodes or seen.mnnvl else NONE

    def _errors(
        self, names: Mapping[str, tuple[str, ...]]
    ) -> tuple[tuple[str, ...], dict[str, tuple[faults.Fault, str]], tuple[int, ...]]:
        worst: dict[str, tuple[faults.Fault, str]] = {}
        for process, fault in sorted(self.seen.faults, key=lambda one: (_telling(one[1]), one[0])):
            worst.setdefault(fault.kind, (fault, self.host(process.host)))
        kinds = set(worst)
        abilities = {able for _, able, _ in self.seen.adapters_gdr}
        if abilities == {False}:
            kinds.add("gdr_disabled")
        if len([name for name in names if not networks.is_reduction(name)]) > 1:
            kinds.add("network_name_mismatch")
        if self.seen.table.single_ranks():
            kinds.add("single_rank_worlds")
        if len({version for _, version in self.seen.versions}) > 1:
            kinds.add("mixed_versions")
        timeouts = {
            fault.rank
            for _, fault in self.seen.faults
            if fault.kind == "watchdog_timeout" and fault.rank >= 0
        }
        return tuple(sorted(kinds)), worst, tuple(sorted(timeouts))

    def _settings(self) -> dict[str, dict[str, tuple[str, ...]]]:
        found: dict[str, dict[str, set[str]]] = {}
        for process, name, value in self.seen.settings:
            found.setdefault(name, {}).setdefault(value, set()).add(self.host(process.host))
        return {
            name: {value: tuple(sorted(hosts)) for value, hosts in sorted(values.items())}
            for name, values in sorted(found.items())
        }


def _telling(fault: faults.Fault) -> tuple[bool, bool, int, str, str, int]:
    """Order faults of one kind: flushes are consequences, and those that name a number or an adapter tell more."""
    flushed = fault.kind == "ib_completion_error" and fault.status == 5
    return flushed, fault.status < 0 and not fault.hca, fault.status, fault.hca, fault.detail, fault.rank


def _link_layer(listed: Mapping[str, set[line_patterns.Hca]]) -> str | None:
    links = {hca.link for hcas in listed.values() for hca in hcas}
    if not links:
        return None
    return MIXED if len(links) > 1 else next(iter(links))


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = {}
    for state, name in pairs:
        found.setdefault(state, set()).add(name)
    return {state: tuple(sorted(names)) for state, names in sorted(found.items())}
