"""Words of commands that are written as they are: launchers, shells, ranks and rendezvous; others are withheld."""

import re
from collections.abc import Iterator, Sequence

from pytest_gpucluster.plain import secret_names, withheld

_COMMAND_WORDS = """
sh bash dash zsh ash env exec set unset export trap wait exit sleep true false echo printf test cd if then else elif
fi for in do done while until case esac break continue return function local nohup timeout seq eval source cat grep
awk sed head tail tr cut sort mkdir chmod chown cp mv rm ls touch ln find xargs tee date hostname whoami id uname
ulimit sysctl mount df du ps kill pkill top free nproc lscpu numactl taskset ip ifconfig ping nc nslookup dig getent
host curl wget ssh sshd scp infinity TERM INT HUP EXIT ready waiting up term python python3 pip torchrun
torch.distributed.run torch.distributed.launch deepspeed accelerate launch mpirun mpiexec orterun horovodrun ray start
srun composer colossalai nvidia-smi dcgmi ibstat ibv_devinfo all_reduce_perf all_gather_perf reduce_scatter_perf
sendrecv_perf broadcast_perf alltoall_perf nccl-tests train train.py main.py tini dumb-init entrypoint.sh run.sh
start.sh static c10d etcd etcd-v2 nccl gloo mpi auto gpu cpu cuda none localhost default restart always never all
worker master launcher
"""
_COMMANDS = frozenset(_COMMAND_WORDS.split())
_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,40}|[a-z_]{1,24}")
"""Names to which a script or an `env` sets something."""
_FLAG = re.compile(
    r"--[a-z][A-Za-z0-9_.-]{0,48}|-[A-Za-z]{1,2}|-(?:np|hostfile|host|map-by|bind-to|mca|ppn|genv|nnodes)"
)
_FLAG_WORDS = """
nnodes nproc-per-node node-rank rdzv-backend rdzv-endpoint rdzv-id rdzv-conf master-addr master-port max-restarts
monitor-interval start-method role standalone local-addr num-machines num-processes machine-rank main-process-ip
main-process-port scheduler-conf hostfile num-gpus num-nodes world-size rank backend dist-backend address head
num-cpus np host mca map-by bind-to
"""
_KNOWN_FLAGS = frozenset(_FLAG_WORDS.split())
"""Options of launchers; a value of theirs is where and how often processes run."""
_AMOUNT = re.compile(r"[A-Za-z]|-?\d{1,9}(?:\.\d{1,9})?(?:[smhdkKMGT]|[KMGT]i|ms)?(?::\d{1,9})?")
_VARIABLE = re.compile(
    r"\${1,2}(?:\w+|\(\w+\)|\{\w+\}|[?!@*#$])(?:[:.,/](?:\d{1,5}|\${1,2}(?:\w+|\(\w+\)|\{\w+\})))*"
)
_HOST = re.compile(
    r"[a-z0-9][a-z0-9-]*-\d+\.[a-z0-9][a-z0-9-]*(?:\.[a-z0-9.-]+)?(?::\d+)?|(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?|"
    r"\$\(?MASTER_ADDR\)?(?:\.[a-z0-9.-]+)?(?::\S+)?|[a-z0-9-]+(?:\.[a-z0-9-]+)*\.svc(?:\.cluster\.local)?(?::\d+)?"
)
_PROGRAM = re.compile(r"[\w./-]*/s?bin/[\w.-]+|[\w./-]*\w\.(?:py|sh)|/dev/\w+|/etc/volcano/[\w.*-]+")
_TOKENS = re.compile(r"(\s+|[;&|<>(){}`\"'\\\[\]]+(?!\w*\)))|((?:\$[({]\w+[)}]|[^\s;&|<>(){}`\"'\\\[\]])+)")
_PUNCTUATION = re.compile(r"[^A-Za-z0-9]{0,3}")


def kept(words: Sequence[object]) -> list[object]:
    """Return the words of a command or of its arguments; those that nobody reads are withheld."""
    out: list[object] = []
    flag = ""
    for word in words:
        if not isinstance(word, str):
            out.append(word)
            continue
        out.append(_script(word) if any(c in word for c in " \n\t;|&") else _word(word, flag))
        flag = word if _FLAG.fullmatch(word) else ""
    return out


def _script(text: str) -> str:
    """Return a script; it may hold what was withheld before."""
    parts: list[str] = []
    at = 0
    for mark in withheld.MARK.finditer(text):
        parts += [*_pieces(text[at : mark.start()]), mark[0]]
        at = mark.end()
    return "".join([*parts, *_pieces(text[at:])])


def _pieces(text: str) -> Iterator[str]:
    flag = ""
    for gap, word in _TOKENS.findall(text):
        if gap or not word:
            yield gap
            continue
        yield _word(word, flag)
        # A number is plain, but not behind `password:`.
        named = word.endswith(":") and secret_names.looks_secret(word[:-1])
        flag = word.rstrip(":") if named or _FLAG.fullmatch(word) else ""


def _word(word: str, flag: str) -> str:
    """Return one word that follows an option, "" for none."""
    name, equals, value = word.partition("=")
    if equals and value and (name.startswith("-") or _NAME.fullmatch(name) is not None):
        return f"{name}={_value(value, name)}" if _named(name) else withheld.of(word)
    if flag and not word.startswith("-"):
        return _value(word, flag)
    begun = (
        bool(equals)
        and not value
        and (_NAME.fullmatch(name) is not None or _FLAG.fullmatch(name) is not None)
    )
    return word if begun or not word or _FLAG.fullmatch(word) or _is_plain(word) else withheld.of(word)


def _named(name: str) -> bool:
    return _NAME.fullmatch(name) is not None or _FLAG.fullmatch(name) is not None


def _value(value: str, name: str) -> str:
    if secret_names.looks_secret(name):
        return withheld.of(value)
    known = name.lstrip("-").replace("_", "-") in _KNOWN_FLAGS or withheld.variable(name, value) is None
    return (
        value
        if _is_plain(value) or (known and re.fullmatch(r"[\w.:,$(){}/-]{1,120}", value))
        else withheld.of(value)
    )


def _is_plain(word: str) -> bool:
    return (
        word in _COMMANDS
        or withheld.MARK.fullmatch(word) is not None
        or any(one.fullmatch(word) for one in (_AMOUNT, _VARIABLE, _HOST, _PROGRAM, _PUNCTUATION))
    )
