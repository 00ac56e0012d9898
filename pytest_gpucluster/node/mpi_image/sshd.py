#!/usr/bin/env python3
"""An SSH server for the pods of one job: public keys only, one user, commands run by a shell.

As OpenSSH's it listens before it goes to the background, and ignores keys in files that others may write. What it does
not play: accounts other than its own, passwords, terminals, forwarding.
"""

import asyncio
import getopt
import os
import pwd
import signal
import socket
import stat
import sys
from pathlib import Path

import asyncssh

PORT = 22
SHELL = "/bin/sh"
CHUNK = 65536


def owner() -> pwd.struct_passwd:
    """Return the account that the server runs as, the only one that can log in."""
    return pwd.getpwuid(os.getuid())


def writable_by_others(path: Path) -> bool:
    """Report whether somebody but the owner or root may change a file: its keys are then worth nothing."""
    found = path.stat()
    return found.st_uid not in (0, os.getuid()) or bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


class Server(asyncssh.SSHServer):
    """One connection: who may log in is read from the account's authorized_keys each time."""

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        """Keep the connection."""
        self._connection = conn

    def begin_auth(self, username: str) -> bool:
        """Take the keys of the account; everybody has to show one."""
        keys = Path(owner().pw_dir, ".ssh", "authorized_keys")
        if username != owner().pw_name or not keys.is_file():
            return True
        bad = next((path for path in (keys.parent, keys) if writable_by_others(path)), None)
        if bad is None:
            self._connection.set_authorized_keys(str(keys))
        else:
            sys.stderr.write(f"Authentication refused: bad ownership or modes for {bad}\n")
        return True

    def password_auth_supported(self) -> bool:
        """Take no passwords."""
        return False


async def run(session: "asyncssh.SSHServerProcess[bytes]") -> None:
    """Run what a session asks for; it ends when the command has ended and its output is sent."""
    account = owner()
    env = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": account.pw_dir,
        "USER": account.pw_name,
        "LOGNAME": account.pw_name,
        "SHELL": SHELL,
    }
    asked = [SHELL, "-c", session.command] if session.command else [SHELL]
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(
        *asked, stdin=pipe, stdout=pipe, stderr=pipe, env=env, cwd=account.pw_dir, start_new_session=True
    )
    feeding = asyncio.create_task(feed(session, child.stdin)) if child.stdin else None
    outputs = ((child.stdout, session.stdout), (child.stderr, session.stderr))
    await asyncio.gather(*(send(stream, out) for stream, out in outputs if stream))
    code = await child.wait()
    if feeding is not None:
        feeding.cancel()
        await asyncio.gather(feeding, return_exceptions=True)
    if code < 0:
        session.exit_with_signal(signal.Signals(-code).name.removeprefix("SIG"))
    else:
        session.exit(code)


async def feed(session: "asyncssh.SSHServerProcess[bytes]", stdin: asyncio.StreamWriter) -> None:
    """Hand the client's input to the command, for as long as it takes any."""
    try:
        while data := await session.stdin.read(CHUNK):
            stdin.write(data)
            await stdin.drain()
    except (ConnectionError, asyncssh.Error):
        return  # The command has ended, or the client is gone; its exit tells which.
    finally:
        stdin.close()


async def send(stream: asyncio.StreamReader, out: "asyncssh.SSHWriter[bytes]") -> None:
    """Send output to the client; a command whose client is gone still runs to its end."""
    while data := await stream.read(CHUNK):
        try:
            out.write(data)
            await out.drain()
        except (OSError, asyncssh.Error):
            continue


async def serve(listening: socket.socket) -> None:
    """Serve until SIGTERM."""
    over = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, over.set)
    # A key of its own in each run, as an image has whose host keys are made at its start.
    key = asyncssh.generate_private_key("ssh-ed25519")
    async with asyncssh.listen(
        sock=listening, server_factory=Server, server_host_keys=[key], process_factory=run, encoding=None
    ):
        await over.wait()


def to_background() -> None:
    """Go on as a process of its own; the one that was started ends with 0."""
    if os.fork():
        os._exit(0)
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)


def main(arguments: list[str]) -> int:
    """Listen, go to the background unless `-D` is given, and serve."""
    try:
        options, rest = getopt.getopt(arguments, "Ddep:o:f:E:h:q")
        asked = dict(options)
        named = [value for name, value in options if name == "-o"]
        stated = next((one.partition("=")[2] for one in named if one.lower().startswith("port=")), PORT)
        port = int(asked.get("-p") or stated)
    except (getopt.GetoptError, ValueError) as error:
        sys.stderr.write(f"sshd: {error}\n")
        return 1
    if rest:
        sys.stderr.write(f"sshd: Extra argument {rest[0]}.\n")
        return 1
    try:
        listening = socket.create_server(("", port), backlog=128)
    except OSError as error:
        sys.stderr.write(f"sshd: Bind to port {port} on 0.0.0.0 failed: {error.strerror}.\n")
        return 255
    if "-D" not in asked and "-d" not in asked:
        to_background()
    asyncio.run(serve(listening))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
