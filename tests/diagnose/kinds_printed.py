"""Kinds that a program's last words tell: each word has its own cause, and a harmless line before it none."""

from tests.diagnose.kinds_said import _ended
from tests.diagnose.kinds_started import Row

TORCHRUN = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"
SPAREE = ["drain"]

KINDS: dict[str, Row] = {
    "an image for another GPU": (
        _ended(1, says=("RuntimeError: CUDA error: no kernel image is available for execution on the device",)),
        "trouble", "member-failed", ["not built for this GPU"], SPAREE,
    ),
    "more ranks than GPUs": (
        _ended(1, says=("RuntimeError: CUDA error: invalid device ordinal",)),
        "trouble", "member-failed", ["LOCAL_RANK"], SPAREE,
    ),
    "an assert on the GPU": (
        _ended(1, says=("RuntimeError: CUDA error: device-side assert triggered",)),
        "trouble", "member-failed", ["stopped itself"], SPAREE,
    ),
    "a library that the image lacks": (
        _ended(1, says=("ImportError: libmkl_rt.so.2: cannot open shared object file: No such file or directory",)),
        "trouble", "member-failed", ["libmkl_rt.so.2", "LD_LIBRARY_PATH"], ["the file file"],
    ),
    "the driver's library": (
        _ended(1, says=("OSError: libcuda.so.1: cannot open shared object file: No such file or directory",)),
        "trouble", "member-failed", ["libcuda.so.1", "asks for no GPU"], ["the file file", "add it to the image"],
    ),
    "an old C library": (
        _ended(1, says=("python: /lib64/libc.so.6: version `GLIBC_2.34' not found (required by python)",)),
        "trouble", "member-failed", ["GLIBC_2.34", "base image"], [],
    ),
    "a command by name": (
        _ended(127, says=("sh: 1: torchrunn: not found",)), "trouble", "member-failed", ["torchrunn"], [],
    ),
    "memory of the host": (
        _ended(1, says=("numpy._core._exceptions._ArrayMemoryError: Unable to allocate 93.1 GiB for an array",)),
        "trouble", "member-failed", ["memory", "limits.memory"], ["GPU's memory"],
    ),
    "open files": (
        _ended(1, says=("OSError: [Errno 24] Too many open files: '/data/a'",)),
        "trouble", "member-failed", ["open files"], [],
    ),
    "a process that a shell saw killed": (
        _ended(1, says=("/run.sh: line 3:    12 Killed                  python train.py",)),
        "trouble", "member-failed", ["SIGKILL", "memory"], [],
    ),
    "a rank that torchrun saw killed": (
        _ended(1, says=(TORCHRUN, "  exitcode  : -9 (pid: 71)", "  traceback : Signal 9 (SIGKILL) received by PID 71")),
        "trouble", "member-failed", ["SIGKILL", "memory"], ["it raised"],
    ),
    "GPU memory in other words": (
        _ended(1, says=("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB.",)),
        "trouble", "member-failed", ["GPU's memory"], [],
    ),
    "memory of a TPU": (
        _ended(1, says=(("jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Ran out of memory in memory "
                        "space hbm"),)),
        "trouble", "member-failed", ["memory", "smaller batches"], ["nvidia-smi"],
    ),
    "an error in its own words": (
        _ended(1, says=("cat: /etc/site.conf: No such file or directory", "ValueError: loss is nan at step 7")),
        "trouble", "member-failed", ["loss is nan at step 7"], ["/etc/site.conf"],
    ),
    "an error in its own words, after which a launcher speaks": (
        _ended(1, says=("KeyError: 'lr'", TORCHRUN, "train.py FAILED")),
        "trouble", "member-failed", ["KeyError: 'lr'"], [],
    ),
    "nothing that is known": (
        _ended(3, says=("bye",)), "trouble", "member-failed", ["exit code 3", "read its log"], ["it raised"],
    ),
    "inotify is no disk": (
        _ended(1, says=("OSError: inotify_add_watch: No space left on device",)),
        "trouble", "member-failed", ["inotify"], ["a disk is full"],
    ),
}  # fmt: skip
"""Kind -> how it is planted, state, code of the first cause, what must be named, what must not."""
