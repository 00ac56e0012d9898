"""Reads logs as they come: chunks of bytes in, distinct statements out, in memory that does not grow with the log."""

import re
from collections.abc import Iterable
from typing import Any

from pytest_gpucluster.measure.nccl import faults, harmless, launchers, line_patterns, records
from pytest_gpucluster.measure.nccl.line_filter import Screen
from pytest_gpucluster.measure.nccl.observations import First, Link, Member, Process, Seen, Trouble
from pytest_gpucluster.measure.nccl.records import Read, Record

_DONE = 50_000
_FAULTS = 2_000
_SHORT = 400
_WATCH = ("atchdog", "dump signal", "ollective timeout", "eartbeat", "Timeout at NCCL work")
_READ = 8192
_NOBODY = Process("", -1)
_QUOTED = "Last error:"
_TESTED = re.compile(r"Test NCCL failure \S+ '[^/']{0,200}/(?P<text>[^']*)")
_TRACE = re.compile(r"(?P<where>[\w./-]+:\d{1,7}) -> (?P<code>[1-6])$")
_ROCM = re.compile(
    r"(?:HIP|ROCm|ROCr) version|Librccl path|RCCL version|/rccl/|hipify|librccl|\bRCCL_\w+ set by"
)
_AMD = ("HIP", "ROC", "rccl", "RCCL", "hipify")
"""Words of which one stands in each such line."""
_WELL = re.compile(r"\[(?:OK|INFO|SKIP\w*|N/A)\]|\W*NCCL Diag|\W*RAS Diag|\w+ diagnostics completed")
"""What NCCL's own diagnostics print of a check that is well or was not made, and around their checks."""
_KERNEL = re.compile(r"Kernel version: (?P<kernel>\S+)")
_LOUD = re.compile(
    r"(?:^|[\s\]:])\[?[EF]\d{4} \d\d:\d\d:\d\d|\[E \w+\.cpp:\d+\]"
    r"|(?:^|[\]>:] ?)(?:[A-Za-z_]\w*\.)*_?[A-Z]\w*(?:Error|Exception)(?:: |$)|Traceback \(most recent call last\)"
    r"|NCCL ERROR|\b(?:[Ff]atal error|FATAL|[Bb]us error|[Ss]egmentation fault|Test failure)\b"
    r"|\berror: |\bSignal: \w+ \(|^\W*(?:Killed|Aborted|Terminated)\W*$|\bCANCELLED\b"
    r"|\bLink (?:DOWN|down)\b|\b\w+Error:?\s*$"
    r"|\bAssertion [`'\"].*\bfailed\b|\bAER: .*Uncorrect"
    r"|(?:^|[\s\[|])(?:ERROR|CRITICAL)(?:[\]|:]| [-|] )"
    r"|NCCL DIAG +\[(?!(?:OK|INFO|SKIP\w*|N/A)\])"
)
"""What is loud: a line at level E or F, the last line of a Python exception, the words in which shells, launchers,
kernels and libraries end something: an error, whatever it says; a check of NCCL's own diagnostics that is not well."""
_LOADED = re.compile(
    r"NET/Plugin ?:? ?(?:Loaded net plugin (?P<name>.+?) \(v\d+\)|Plugin name set by env to (?P<env>\S+))"
    r"|Successfully loaded external (?:network )?plugin (?P<file>\S+)|P2P plugin (?:v\d+ )?(?P<p2p>\S+)"
    r"|NET/OFI Using (?P<ofi>aws-ofi-nccl \S+)"
)
_INITIALIZED = re.compile(r"Initialized NET plugin (?P<name>.+)")
_ABSENT = re.compile(r"NET/Plugin ?:? ?(?:No plugin found|Could not find: ?)\(?(?P<name>[\w.-]*)")
_FAILED = re.compile(r"Failed to initialize NET plugin (?P<name>\S+)")

_PLUGINS = (("loaded", _LOADED), ("initialized", _INITIALIZED), ("absent", _ABSENT), ("failed", _FAILED))


class Reader:
    """Reads the logs of one job: one stream of all ranks, or several streams one after another."""

    def __init__(self, seen: Seen | None = None) -> None:
        """Start with nothing, or go on with what was seen."""
        self.seen = seen or Seen()
        self._screen = Screen()
        self._host = ""
        self._done: set[bytes] = set()
        self._source = launchers.NOBODY
        self._quoted: tuple[str, int] | None = None
        self._untimed: tuple[str, Process, int, str] | None = None
        self._order = 0

    def feed(self, chunk: bytes) -> None:
        """Read a part of a stream; where it is cut does not matter."""
        for raw, clean in self._screen.feed(chunk):
            self._raw(raw, clean)

    def end(self) -> None:
        """End a stream; what it left open is read as a line that was cut."""
        for raw, clean in self._screen.close():
            self._raw(raw, clean)
        self.seen.long |= self._screen.long
        self._screen = Screen()
        self._quoted = self._untimed = None

    def start(self, host: str = "") -> None:
        """Begin another stream.

        Args:
            host: stands for the host of all its records, such as the name of the pod whose log it is; "" for the
                names that the records have.
        """
        self.end()
        if host != self._host:
            self._done.clear()
        self._host = host

    def _raw(self, raw: bytes, clean: bool) -> None:
        if raw in self._done:
            return
        seen = self.seen
        torn, rows = seen.torn, (seen.table.rows, seen.table.torn)
        for text in records.texts(raw):
            self._line(records.read(text, clean=clean))
        # What is counted is counted each time it stands there.
        if b"Last error" in raw or self._quoted is not None:
            return
        if len(raw) < _SHORT and clean and torn == seen.torn and rows == (seen.table.rows, seen.table.torn):
            if len(self._done) >= _DONE:
                self._done.clear()
            self._done.add(raw)

    def _line(self, read: Read) -> None:
        seen = self.seen
        seen.torn += read.torn
        seen.folded |= read.folded
        self._source = launchers.source(read.head if read.records else read.text)
        if not seen.rocm and any(word in read.text for word in _AMD):
            seen.rocm = _ROCM.search(read.text[:_READ]) is not None
        if not read.records:
            self._bare(read)
            return
        if len(read.head) > 2:
            self._bare(Read(read.head, (), read.head, torn=0, folded=False, clean=False), whole=False)
        for record in read.records:
            self._record(record)
        if not read.clean and not read.records[-1].clean and _may_be_cut(read.records[-1]):
            seen.cut = True

    def _bare(self, read: Read, *, whole: bool = True) -> None:
        """Read a line, or the part of one, in which NCCL's own prefix does not stand."""
        seen, text = self.seen, read.text
        if whole and self._quotes(text):
            return
        found = line_patterns.version(text) if "ersion" in text or "nccl-library" in text else None
        if found:
            seen.versions.add(found)
        watched = faults.watchdog(text[:_READ]) if any(word in text for word in _WATCH) else None
        if watched:
            self._fault(_NOBODY, watched[0], stamp=launchers.glog_time(text))
            if watched[1]:
                seen.put(_any(seen.stalls), watched[1])
        works = faults.last_work(text[:_READ]) if "ork: " in text else None
        if works:
            seen.put(_any(seen.works), works)
        if seen.table.read(text, clean=read.clean and whole) or not whole or watched:
            return
        fault = faults.of(text[:_READ])
        if fault and fault.kind != "hint":
            self._fault(
                _NOBODY, fault, stamp=launchers.glog_time(text), told=fault.kind not in faults.PROGRAM
            )
        elif not fault and (
            _LOUD.search(text[:_READ]) or (("own" in text or "able" in text) and faults.link(text[:_READ]))
        ):
            self._strange(_NOBODY, "", text[:_READ], launchers.glog_time(text))
        said = faults.outcome(text[:_READ])
        if said and len(seen.outcomes) < 100:
            seen.outcomes.add(said)

    def _quotes(self, text: str) -> bool:
        """Read what PyTorch or nccl-tests quote of NCCL; say whether the line is nothing else.

        PyTorch has it behind `Last error:`, on that line or on a following one with the same tags.
        """
        said, alone = "", False
        at = text.find(_QUOTED)
        tested = _TESTED.search(text) if "Test NCCL failure" in text else None
        if at >= 0:
            said = text[at + len(_QUOTED) :].strip(" '\"")
            self._quoted = None if said else (text[:at].rstrip(), 8)
        elif self._quoted is not None:
            tag, left = self._quoted
            said = text[len(tag) :].strip() if text.startswith(tag) else ""
            self._quoted = None if said or left <= 1 else (tag, left - 1)
            alone = bool(said)
        elif tested:
            said = tested["text"].strip()
        if said:
            self._fault(_NOBODY, faults.of(said, "WARN") or faults.Fault("last_error", said[:_READ]))
        return alone

    def _record(self, record: Record) -> None:
        seen = self.seen
        seen.records += 1
        seen.headless += record.headless
        host = self._host or record.host
        process = Process(host, record.pid)
        if host and not host.startswith("?") and len(seen.hosts) < 100_000:
            seen.hosts.add(host)
        if record.level == "WARN":
            self._warning(process, record)
        text = record.text
        if self._connection(process, record, text) or self._communicator(process, record, text):
            return
        trace = _TRACE.match(text)
        if trace and process not in seen.traces and len(seen.traces) < _FAULTS:
            seen.traces[process] = (trace["where"], int(trace["code"]))
        self._network(process, record, text)
        fault = faults.of(text[:_READ], record.level)
        if (
            fault is None
            and record.level == "WARN"
            and record.where.startswith(("ofi_init", "nccl_net_ofi_init", "nccl_net_ofi_create"))
        ):
            fault = faults.Fault("plugin_init", text[:_READ])
        if fault:
            self._fault(process, fault, record.where, record.stamp)
        elif record.level not in {"INFO", "TRACE", "VERSION"} or (
            record.level == "INFO" and faults.odd(text[:_READ])
        ):
            if record.level == "DIAG" and _WELL.match(text):
                pass
            elif not harmless.why(text):
                self._strange(process, record.where, text[:_READ], record.stamp)
            elif len(seen.noted) < 100:
                seen.noted.add(text[:_READ])
        said = faults.outcome(text[:_READ])
        if said and len(seen.outcomes) < 100:
            seen.outcomes.add(said)

    def _warning(self, process: Process, record: Record) -> None:
        first = First(record.stamp, self.seen.records, process, record.where, record.text[:_READ])
        best = self.seen.first
        earlier = best is None or (bool(first.stamp and best.stamp) and first.stamp < best.stamp)
        if earlier:
            self.seen.first = first

    def _connection(self, process: Process, record: Record, text: str) -> bool:
        seen = self.seen
        if not line_patterns.looks_like_channel(text):
            return False
        channel = line_patterns.channel(text, clean=record.clean)
        if channel is not None:
            seen.put(_any(seen.links), Link(process, record.device, channel))
            return True
        if line_patterns.is_ring_dump(text):
            return True
        seen.torn += 1
        return True

    def _communicator(self, process: Process, record: Record, text: str) -> bool:
        seen = self.seen
        timed = line_patterns.timings(text)
        if timed:
            seen.put(_any(seen.timings), (process, *timed))
            return True
        if not line_patterns.looks_like_comm(text):
            return False
        comm = line_patterns.comm(text)
        if comm is not None:
            seen.put(_any(seen.members), Member(process, record.device, comm))
            if comm.phase == "ABORT":
                seen.put(_any(seen.aborts), (process, comm.rank))
        elif not record.clean:
            seen.torn += 1
        return True

    def _network(self, process: Process, record: Record, text: str) -> None:
        seen = self.seen
        text, comm, nranks = line_patterns.rccl_tail(text)
        if comm:
            seen.put(_any(seen.timings), (process, -1, nranks))
        network = line_patterns.selected(text)
        if network is not None:
            seen.put(_any(seen.selected if record.clean else seen.half_selected), (process, network))
            return
        setting = line_patterns.setting(text)
        if setting is not None:
            if record.clean:
                seen.put(_any(seen.settings), (process, *setting))
                if setting[0] == "NCCL_IB_DISABLE" and setting[1].strip() not in {"", "0"}:
                    self._fault(process, faults.Fault("ib_disabled_by_env", f"NCCL_IB_DISABLE={setting[1]}"))
            return
        listed = line_patterns.using_list(text)
        if listed is not None:
            if listed[1]:
                seen.put(_any(seen.lists), (process, *listed))
            return
        self._device(process, text)

    def _device(self, process: Process, text: str) -> None:
        seen = self.seen
        if "ersion" in text or "nccl-library" in text:
            version = line_patterns.version(text)
            if version:
                seen.versions.add(version)
        if "rovider" in text:
            provider = line_patterns.provider(text)
            if provider:
                seen.put(_any(seen.providers), (process, provider))
        if "GPU Direct RDMA" in text:
            self._gpu_direct(process, text)
        if text.startswith("NET/"):
            virtual = line_patterns.virtual(text)
            if virtual:
                seen.put(_any(seen.virtual), (process.host, *virtual))
            mtu = line_patterns.rdma_mtu(text)
            if mtu:
                seen.mtus.add(mtu)
        if "NVL" in text:
            nvls = line_patterns.nvls(text)
            if nvls:
                seen.nvls.add(nvls)
            seen.mnnvl |= line_patterns.mnnvl_in_use(text)
        seen.collnet |= "Connected CollNet" in text or text.startswith("Connected Collnet")
        if "lugin" in text or "NET/OFI" in text:
            self._plugin(text)
        kernel = _KERNEL.search(text) if "Kernel" in text else None
        if kernel and len(seen.kernels) < 100:
            seen.kernels.add(kernel["kernel"])

    def _gpu_direct(self, process: Process, text: str) -> None:
        ability = line_patterns.adapter_gdr(text)
        if ability:
            self.seen.put(_any(self.seen.adapters_gdr), (process, *ability))
        pair = line_patterns.pair_gdr(text)
        if pair:
            self.seen.put(_any(self.seen.pairs_gdr), (process, *pair))

    def _plugin(self, text: str) -> None:
        for state, shape in _PLUGINS:
            match = shape.search(text)
            if match and len(self.seen.plugins) < 1000:
                name = next((value for value in match.groups() if value), "")
                self.seen.plugins.add((state, name[:120]))

    def _fault(
        self, process: Process, fault: faults.Fault, where: str = "", stamp: str = "", *, told: bool = True
    ) -> None:
        """Keep an error; what a program alone says (not `told`) is no class of NCCL's messages."""
        seen, source = self.seen, self._source
        rank = fault.rank if fault.rank >= 0 else source.rank
        key = (fault.kind, process, rank, source.pod)
        self._order += 1
        if key not in seen.troubles and len(seen.troubles) < _FAULTS:
            seen.troubles[key] = Trouble(fault, process, rank, source.pod, where, stamp, self._order)
            if process is _NOBODY and not stamp:
                self._untimed = key
        if fault.kind == "process_ended" and stamp and self._untimed is not None:
            # The launcher says when the process ended whose error stands in front of it.
            seen.troubles[self._untimed] = seen.troubles[self._untimed]._replace(stamp=stamp)
            self._untimed = None
        if not told:
            return
        if len(seen.faults) >= _FAULTS:
            # The kind is kept for certain; what else such a line says repeats.
            process, fault = _NOBODY, faults.Fault(fault.kind, status=fault.status, rank=fault.rank)
        seen.put(_any(seen.faults), (process, fault))

    def _strange(self, process: Process, where: str, text: str, stamp: str) -> None:
        """Keep a warning or an error of no known class."""
        source = self._source
        self._order += 1
        key = (process, f"{source.pod}/{source.rank}", text)
        if key not in self.seen.warned and len(self.seen.warned) < _FAULTS:
            self.seen.warned[key] = Trouble(
                faults.Fault("", text), process, source.rank, source.pod, where, stamp, self._order
            )


def _any(one: Any) -> "set[object]":
    """Let sets of several types share one bound."""
    found: set[object] = one
    return found


def _may_be_cut(record: Record) -> bool:
    """Say whether the last record of a log that does not end with a line feed may lack its end."""
    text = record.text
    if line_patterns.looks_like_channel(text):
        return line_patterns.channel(text, clean=False) is None and not line_patterns.is_ring_dump(text)
    return not text or (line_patterns.looks_like_comm(text) and line_patterns.comm(text) is None)


def read(streams: Iterable[Iterable[bytes]]) -> Seen:
    """Read streams of chunks one after another, as the logs of one job."""
    reader = Reader()
    for stream in streams:
        for chunk in stream:
            reader.feed(chunk)
        reader.end()
    return reader.seen
