"""Whether a TCP port answers: what `nc -z` of the busybox image tells by its exit code.

Like it, one try waits as long as TCP itself where nothing answers at all, unless `-w` says otherwise.
"""

import argparse
import socket
import sys


def main(arguments: list[str]) -> int:
    """Try once; returns 0 where the port took the connection, else 1 and a line on standard error."""
    parser = argparse.ArgumentParser(prog="nc", description=__doc__)
    parser.add_argument("-z", action="store_true", required=True, help="only see whether the port answers")
    parser.add_argument("-w", type=float, default=None, metavar="SECONDS", help="give up after so long")
    parser.add_argument("host")
    parser.add_argument("port", type=int)
    asked = parser.parse_args(arguments)
    try:
        socket.create_connection((asked.host, asked.port), timeout=asked.w).close()
    except OSError as error:
        sys.stderr.write(f"nc: {asked.host} ({asked.port}): {error.strerror or error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
