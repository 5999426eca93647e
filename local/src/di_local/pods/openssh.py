"""`ssh`, `sshd` and `ssh-keygen` between the pods of a run, for groups of MPI.

    python -I openssh.py NAME ARGUMENTS...

The script that starts MPI in a cluster (di_operator.builders.mpi) runs unchanged with these in
place of OpenSSH. Each pod listens at a socket beside the file DI_LOCAL_HOSTS, which only its user
can use. A client passes its own input and output to the pod, so that nothing has to be copied.
Imports nothing of ours.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

REFUSED: Final = 255
"""Exit code of `ssh` itself, as opposed to that of the command."""
_STREAMS: Final = (0, 1, 2)
_LONGEST: Final = 1 << 20
"""Bytes of a command."""


def log_in(arguments: Sequence[str]) -> int:
    """Run a command in another pod; return its exit code."""
    words = list(arguments)
    while words and words[0].startswith("-"):
        del words[: 2 if words[0] == "-F" else 1]
    host, command = words[0], " ".join(words[1:])
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(_socket(host))
        except OSError as error:
            print(f"ssh: connect to host {host}: {error.strerror}", file=sys.stderr)
            return REFUSED
        socket.send_fds(connection, [json.dumps(command).encode()], _STREAMS)
        connection.shutdown(socket.SHUT_WR)
        code = connection.recv(1)
    return code[0] if code else REFUSED


def serve(arguments: Sequence[str]) -> int:
    """Run the commands of clients, each by the ForceCommand of the settings, until it is ended."""
    settings = Path(arguments[arguments.index("-f") + 1]).read_text().splitlines()
    forced = dict(line.split(" ", 1) for line in settings)["ForceCommand"]
    path = _socket(os.environ["DI_LOCAL_ADDRESS"])
    Path(path).unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(128)
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_session, args=(connection, forced), daemon=True).start()


def _session(connection: socket.socket, forced: str) -> None:
    with connection:
        data, streams, _, _ = socket.recv_fds(connection, _LONGEST, len(_STREAMS))
        while part := connection.recv(_LONGEST):
            data += part
        environment = {**os.environ, "SSH_ORIGINAL_COMMAND": json.loads(data)}
        stdin, stdout, stderr = streams
        command = ["/bin/sh", "-c", forced]
        try:
            code = subprocess.call(
                command, env=environment, stdin=stdin, stdout=stdout, stderr=stderr
            )
        finally:
            for each in streams:
                os.close(each)
        # As a shell reports a signal.
        connection.sendall(bytes([code if code >= 0 else 128 - code]))


def _socket(address: str) -> str:
    """Return the path of a pod's socket, which is relative because its length is limited."""
    os.chdir(Path(os.environ["DI_LOCAL_HOSTS"]).parent)
    return f"ssh-{address}"


def main() -> int:
    """Run the command that is the first argument; return the exit code of the process."""
    name, *arguments = sys.argv[1:]
    if name == "ssh-keygen":
        # A key without a user: the socket's permissions decide who may log in.
        print("none none")
        return 0
    return {"ssh": log_in, "sshd": serve}[name](arguments)


if __name__ == "__main__":
    sys.exit(main())
