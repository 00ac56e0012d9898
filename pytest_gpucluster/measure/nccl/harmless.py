"""Warnings of NCCL and RCCL that say nothing against a run, each with why. Any other warning is not good news."""

import re

_NAMED: tuple[tuple["re.Pattern[str]", str], ...] = (
    (re.compile(r"NUMA auto balancing enabled"),
     "a host setting that costs speed; its faults are reported elsewhere"),
    (re.compile(r'Missing "(?:iommu=pt|HSA_\w+=\S+)"'), "a setting of the host that RCCL prefers"),
    (re.compile(r"HSA_NO_SCRATCH_RECLAIM"), "a setting that RCCL prefers"),
    (re.compile(r"Got (?:non-fatal )?async event ?: ?(?:GID table change|client reregistration|SM change|subnet manager"
                r" change|event queue|communication established)|GID table changed"),
     "the subnet's manager was changed or addresses were added; connections stay"),
    (re.compile(r"NCCL_(?:WORK_FIFO_(?:BYTES|DEPTH)|CGA_CLUSTER_SIZE|NET_MERGE_POLICY)\b.*"
                r"(?:being ignored|too big|defaulting|too small)"), "a setting is ignored, and a default is used"),
    (re.compile(r"NCCL_SOCKET_NTHREADS is greater|total number of sockets is greater"),
     "a setting is cut to its largest value"),
    (re.compile(r"M(?:IN|AX)_NCHANNELS set by environment is ignored|User asked for a m(?:in|ax)imum of \d+ channels"
                r"|m(?:in|ax)CTAs \d+ is larger than"), "a setting is cut to its largest value"),
    (re.compile(r"PARAM: Duplicate (?:registration|option)"), "a setting is known twice"),
    (re.compile(r"MSCCL(?:\+\+)?: Cannot enable|disabling MSCCL|MSCCL Internal Scheduler: Unable to find"),
     "an algorithm of RCCL stays off, and another is used"),
    (re.compile(r"Cannot initialize CollNet, using point-to-point network instead|disabling CollNet"),
     "reduction in the network stays off; the network itself is judged by its own lines"),
    (re.compile(r"Ignoring SHM locality"), "a setting is ignored, and a default is used"),
    (re.compile(r"Unable to open \S+, not dumping topology"), "a file of notes was not written"),
    (re.compile(r"Missing \"amdgpu\.\w+\"|rocprofiler-register failed"), "a tool of AMD is missing"),
)  # fmt: skip


def why(text: str) -> str:
    """Return why a warning says nothing against a run, "" where nobody knows that."""
    return next((reason for shape, reason in _NAMED if shape.search(text)), "")
