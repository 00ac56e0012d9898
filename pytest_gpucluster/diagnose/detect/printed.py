"""What programs print before they end: words whose meaning is known, and the last error in its own words."""

import re

from pytest_gpucluster.diagnose import words
from pytest_gpucluster.diagnose.situation import Situation
from pytest_gpucluster.evidence.objects.pods import PodStory
from pytest_gpucluster.judge import vendors

TAIL = 60
"""Lines from the end of a log in which an error is looked for."""

SHM = "mount an emptyDir of medium Memory at /dev/shm in every pod template"
KNOWN: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (re.compile(r"CUDA out of memory|(?:torch|cuda)\.OutOfMemoryError|CUDA_ERROR_OUT_OF_MEMORY|HIP out of memory|"
                r"hipErrorOutOfMemory|RESOURCE_EXHAUSTED: .*(?:HBM|device memory|[Oo]ut of memory)|"
                r"Ran out of memory in memory space hbm"),
     "the GPU's memory was too small: the program needs more, or another process holds a part of it",
     "read who holds how much in the message; use smaller batches, shard the model more, or use larger devices"),
    (re.compile(r"[Ii]nsufficient shared memory|unable to (?:open|mmap|allocate) shared memory|"
                r"No space left on device.*/dev/shm|/dev/shm.*No space left"),
     "shared memory (/dev/shm) was too small", SHM),
    (re.compile(r"(?:killed by signal: |\()?Bus error|SIGBUS"),
     "a process crashed with a bus error: /dev/shm is too small, or the disk of a mapped file is full",
     f"look at df -h in the pod while it runs; {SHM}"),
    (re.compile(r"inotify.*No space left on device|user limit on (?:total number of )?inotify"),
     "the node's limit of inotify watches is used up", "raise fs.inotify.max_user_watches on the node, or watch less"),
    (re.compile(r"(?:No space left on device|Disk quota exceeded)(?:: '?(?P<at>[^' ]+)'?)?"),
     "a disk is full{0}",
     "find the volume it writes to (df -h and df -i in the pod); give it more room, or write elsewhere"),
    (re.compile(r"ModuleNotFoundError: No module named '?([\w.]+)"),
     ("Python does not find the module {0}: the image lacks it, or it is not on "
     "PYTHONPATH"), ("add it to the image; for a "
     "module of your own, look at workingDir and PYTHONPATH")),
    (re.compile(r"unrecognized arguments?: (.+)|error: argument (\S+)"),
     "the program does not know its arguments", "correct command and args of the pod template"),
    (re.compile(r"CUDA driver version is insufficient|forward compatibility|unsupported display driver"),
     "the node's GPU driver is too old for the image", "use an image with an older CUDA, or update the driver"),
    (re.compile(r"(no kernel image is available|the provided PTX was compiled with[^,]*|hipErrorNoBinaryForGpu)"),
     "the program was not built for this GPU ({0})", "use an image that was built for the GPU's architecture"),
    (re.compile(r"(invalid device ordinal|busy or unavailable)"),
     "the GPU that a process asks for is not there, or another holds it ({0})",
     ("start as many processes as the pod has GPUs, and set the device by LOCAL_RANK; look at the GPU's other "
     "processes")),
    (re.compile(r"(device-side assert[^.]*)"),
     "the program stopped itself on the GPU ({0}): an index out of range, a label that is not valid",
     "run it on the CPU, or with launches that block, to see which line"),
    (re.compile(r"(lib(?:cuda|nvidia-ml|amdhip64|hsa-runtime64)\.so[\w.]{0,20}): cannot open shared object file"),
     "the GPU driver's library {0} is not in the container: it asks for no GPU, or the runtime did not mount it",
     "look at the limits of the container and at its runtime class; the image must not have this library itself"),
    (re.compile(r"(?<![\w.+-])(lib[\w.+-]{1,80}\.so[\w.]{0,20}): cannot open shared object file"),
     "the library {0} is not in the image, or not where it is looked for",
     "add it to the image, or correct LD_LIBRARY_PATH"),
    (re.compile(r"version `?(GLIBC\w*_[\d.]+)'? not found"),
     "the image's C library is too old for the program ({0})", "use a newer base image, or build for the older one"),
    (re.compile(r"sh: (?:line )?\d+: (\S+?): (?:command )?not found|env: '?([^':]+)'?: No such file or directory"),
     "the command {0} is not in the image", "correct it, or add it to the image"),
    (re.compile(r"\bMemoryError\b|std::bad_alloc|Cannot allocate memory|Unable to allocate [\d.]+ [KMGT]iB"),
     "the memory of the container or of its node did not suffice",
     "raise resources.limits.memory, or use less (fewer workers of the data loader)"),
    (re.compile(r"Too many open files|EMFILE"),
     "the limit of open files is used up", ("raise `ulimit -n` (of the container runtime), or share tensors by "
                                           "file_system")),
    (re.compile(r"(Xid.*|uncorrectable ECC.*|(?:CUDA|HIP) error: (?!out of memory).*|GPU has fallen off the bus)"),
     "the GPU, or the program on it, failed: {0}",
     "look at the GPU ({check}); drain the node if it occurs again"),
    (re.compile(r"RendezvousClosedError|Rendezvous for run_id=\S+ is closed"),
     "the rendezvous is closed in its store", "use a fresh run id"),
    (re.compile(r"Signal 9 \(SIGKILL\) received by PID|exitcode *: -9\b|Killed process \d+|"
                r"line \d+: +\d+ Killed\b"),
     "a process of it was killed (SIGKILL): mostly because memory ran out, of the container or of the node",
     "look at dmesg of the node (oom-kill), and at the container's memory limit"),
)  # fmt: skip
"""(what a program prints, what it means, what to do); {0}: the first group of the match."""

WEAK: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (re.compile(r"can't open file '?(?P<at>[^':]+)'?|No such file or directory: '(?P<named>[^']+)'|"
                r"(?<![\w./-])(?P<first>[\w./-]+): No such file or directory"),
     "the file {0} is missing", "correct the path, or add the file to the image or a volume"),
    (re.compile(r"[Pp]ermission denied: '(?P<at>[^']+)'|(?<![\w./-])(?P<first>/[\w./-]+): [Pp]ermission denied|"
                r"(?:[Pp]ermission denied|EACCES)(?! ?\()"),
     "it lacks a permission (permission denied){0}",
     "look at the image's user, fsGroup and the security context"),
)  # fmt: skip
"""Words that programs also print and go on: they count where no other error comes after them."""

RAISED = re.compile(
    r"(?:^|[\s\]:])(?P<said>(?:\w+\.)*(?!ChildFailed|CalledProcess)\w*(?:Error|Exception)\b: \S.*|panic: .*|fatal: .*)$"
)
"""How programs print the error that ended them."""


def lines(s: Situation, pod: PodStory, container: str = "") -> list[str]:
    """Return the lines that a container wrote; those of all where its log is not told from others'."""
    every = s.logs.get(pod.name, ())
    mine = [one for one in every if container and str(one.data.get("container") or container) == container]
    return [str(one.data.get("line") or "") for one in (mine if container else every)]


def meaning(told: list[str], pod: PodStory) -> tuple[str, str, bool] | None:
    """Return (what the last words mean, what to do, whether that is known); None where they tell of no error."""
    raised = ""
    weak: tuple[str, str] | None = None
    for text in reversed(told[-TAIL:]):
        if (hit := _of(text, KNOWN, pod)) is not None:
            return *hit, True
        if weak is None and not raised:
            weak = _of(text, WEAK, pod)
        found = RAISED.search(text.rstrip())
        if found and not raised and weak is None:
            raised = words.short(found["said"])
    if weak is not None:
        return *weak, True
    return (f"it raised {raised!r}", "follow its message", False) if raised else None


def _of(
    text: str, table: tuple[tuple[re.Pattern[str], str, str], ...], pod: PodStory
) -> tuple[str, str] | None:
    for pattern, meant, fix in table:
        found = pattern.search(text)
        if found:
            group = next((g for g in found.groups() if g), "")
            named = found.groupdict()
            if named and "is missing" not in meant:
                group = f": {group}" if group else ""
            check = vendors.check(vendors.resource_of(pod.last), pod.node or "its node", text)
            return meant.format(group.strip(), check=check), fix.format(group.strip(), check=check)
    return None
