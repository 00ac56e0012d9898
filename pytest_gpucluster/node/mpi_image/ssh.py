"""An SSH client with the options that mpiexec and scripts give: it logs in by key and runs a command.

It is as strict as OpenSSH's: a private key that others may read is not used, a configuration that others may write is
an error, and a host key that is not known is refused unless StrictHostKeyChecking is `no`. It never asks.
"""

import asyncio
import getopt
import os
import pwd
import socket
import stat
import sys
from pathlib import Path

import asyncssh

FLAGS = "46AaCfgkNnqTtvXxYy"
VALUES = "bceFiIJlmopS"
FAILED = 255
"""Exit code of the client's own failures; any other one is the command's."""
KEYS = ("id_rsa", "id_ecdsa", "id_ed25519")
CHUNK = 65536
TOO_OPEN = "Permissions {mode:04o} for '{path}' are too open.\nLoad key \"{path}\": bad permissions\n"


class ClientError(Exception):
    """The client cannot go on; the text is for people."""


def home() -> Path:
    """Return the home folder as the accounts have it, whatever HOME says."""
    return Path(pwd.getpwuid(os.getuid()).pw_dir)


def config_files(named: str | None) -> list[str]:
    """Return the configuration to read.

    Raises:
        ClientError: others may write it.
    """
    path = Path(named) if named else home() / ".ssh" / "config"
    if named == "none" or not path.is_file():
        return []
    found = path.stat()
    if found.st_uid not in (0, os.getuid()) or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ClientError(f"Bad owner or permissions on {path}")
    return [str(path)]


def usable_keys(named: list[str]) -> list[str]:
    """Return the private keys that nobody else may read; those that others may are named on standard error."""
    paths = [Path(each).expanduser() for each in named] or [home() / ".ssh" / name for name in KEYS]
    usable = []
    for path in paths:
        if not path.is_file():
            continue
        found = path.stat()
        mode = stat.S_IMODE(found.st_mode)
        if found.st_uid == os.getuid() and mode & 0o077:
            sys.stderr.write(TOO_OPEN.format(mode=mode, path=path))
        elif not os.access(path, os.R_OK):
            sys.stderr.write(f'Load key "{path}": Permission denied\n')
        else:
            usable.append(str(path))
    return usable


def strictness(options: dict[str, str], files: list[str]) -> str:
    """Return StrictHostKeyChecking: as an option, else as the configuration has it for all hosts, else `ask`."""
    if "stricthostkeychecking" in options:
        return options["stricthostkeychecking"].lower()
    for path in files:
        for line in Path(path).read_text().splitlines():
            word, _, value = line.strip().replace("=", " ").partition(" ")
            if word.lower() in ("host", "match"):
                break
            if word.lower() == "stricthostkeychecking":
                return value.strip().lower()
    return "ask"


async def talk(arguments: list[str]) -> int:
    """Log in and run the command; returns its exit code."""
    given, rest = getopt.getopt(arguments, FLAGS + "".join(f"{letter}:" for letter in VALUES))
    if not rest:
        raise ClientError("usage: ssh [options] destination [command]")
    pairs = [value.replace("=", " ", 1).partition(" ") for name, value in given if name == "-o"]
    options = {name.strip().lower(): value.strip() for name, _, value in pairs}
    plain = dict(given)
    user, _, host = rest[0].rpartition("@")
    user = user or plain.get("-l") or options.get("user", "")
    files = config_files(plain.get("-F"))
    named = [value for name, value in given if name == "-i"]
    strict = strictness(options, files)
    asked = {
        "config": files,
        "client_keys": usable_keys(named or ([options["identityfile"]] if "identityfile" in options else []))
        or None,
        "agent_path": None,
        "preferred_auth": "publickey",
        **({"username": user} if user else {}),
        **({"known_hosts": None} if strict in ("no", "off") else {}),
        **({"connect_timeout": float(options["connecttimeout"])} if "connecttimeout" in options else {}),
    }
    port = plain.get("-p") or options.get("port")
    if port:
        asked["port"] = int(port)
    who = user or pwd.getpwuid(os.getuid()).pw_name
    try:
        async with asyncssh.connect(host, **asked) as connection:
            return await command(connection, " ".join(rest[1:]), closed="-n" in plain)
    except socket.gaierror as error:
        raise ClientError(f"ssh: Could not resolve hostname {host}: {error.strerror}") from error
    except asyncssh.PermissionDenied as error:
        raise ClientError(f"{who}@{host}: Permission denied (publickey).") from error
    except asyncssh.HostKeyNotVerifiable as error:
        raise ClientError("Host key verification failed.") from error
    except TimeoutError as error:
        raise ClientError(f"ssh: connect to host {host} port {port or 22}: Connection timed out") from error
    except OSError as error:
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise ClientError(f"ssh: connect to host {host} port {port or 22}: {why}") from error
    except asyncssh.Error as error:
        raise ClientError(f"ssh: {host}: {error.reason}") from error


async def command(connection: asyncssh.SSHClientConnection, line: str, *, closed: bool) -> int:
    """Run a command at the other side, with this process's input and output; returns its exit code."""
    process = await connection.create_process(line or None, encoding=None)
    feeding = asyncio.create_task(feed(process, closed=closed))
    await asyncio.gather(receive(process.stdout, 1), receive(process.stderr, 2))
    await process.wait_closed()
    feeding.cancel()
    return FAILED if process.exit_status is None else int(process.exit_status)


async def feed(process: "asyncssh.SSHClientProcess[bytes]", *, closed: bool) -> None:
    """Send standard input. Read in a thread: the stream is shared with other processes and must stay blocking."""
    loop = asyncio.get_running_loop()
    while not closed and (data := await loop.run_in_executor(None, os.read, 0, CHUNK)):
        process.stdin.write(data)
    process.stdin.write_eof()


async def receive(stream: "asyncssh.SSHReader[bytes]", to: int) -> None:
    """Write what comes to a stream of this process."""
    while data := await stream.read(CHUNK):
        while data:
            data = data[os.write(to, data) :]


def main(arguments: list[str]) -> int:
    """Do what is asked; returns the exit code."""
    try:
        return asyncio.run(talk(arguments))
    except (ClientError, getopt.GetoptError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return FAILED


if __name__ == "__main__":
    # Not by way of `sys.exit`: a thread may still wait for input that never comes.
    os._exit(main(sys.argv[1:]))
