"""A training of several processes in each pod, without a framework, each step of which is a
collective: a process that is at another step than the others ends with an error.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

LOCAL = 2
"""Processes of each pod."""
INTERVAL = 10
"""Steps between two checkpoints."""
_WORDS = struct.Struct("!qq")


def launch() -> int:
    """Run the processes of this pod, as torchrun does, and return their exit code."""
    pod, pods = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    own = [
        subprocess.Popen(
            [sys.executable, __file__],
            env={
                **os.environ,
                "PROCESS": str(each),
                "RANK": str(pod * LOCAL + each),
                "WORLD_SIZE": str(pods * LOCAL),
            },
        )
        for each in range(LOCAL)
    ]

    def end(*_: object) -> None:
        for each in own:
            each.terminate()

    signal.signal(signal.SIGTERM, end)
    while None in (codes := [each.poll() for each in own]) and not any(codes):
        time.sleep(0.05)
    for each in own:
        if any(codes):
            each.kill()
        each.wait()
    return 1 if any(codes) else 0


class Collective:
    """The connections of all processes with the first one."""

    def __init__(self) -> None:
        self.rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        self._peers: list[socket.socket] = []
        if self.rank == 0:
            with socket.create_server(address) as server:
                self._peers = [server.accept()[0] for _ in range(size - 1)]
        while not self._peers:
            try:
                self._peers.append(socket.create_connection(address, timeout=60))
            except OSError:
                time.sleep(0.05)

    def agree(self, kind: int, value: int, answer: int = 0) -> int:
        """Wait for all processes, which must have the same kind and value; return the answer of the
        first one.
        """
        if self.rank:
            self._peers[0].sendall(_WORDS.pack(kind, value))
            return int(_WORDS.unpack(_read(self._peers[0]))[1])
        for peer in self._peers:
            said = _WORDS.unpack(_read(peer))
            if said != (kind, value):
                raise SystemExit(f"a process is at {said}, the first one at {(kind, value)}")
        for peer in self._peers:
            peer.sendall(_WORDS.pack(kind, answer))
        return answer


def _read(peer: socket.socket) -> bytes:
    found = b""
    while len(found) < _WORDS.size:
        part = peer.recv(_WORDS.size - len(found))
        if not part:
            raise SystemExit("a process is gone")
        found += part
    return found


def train(notes: Path) -> None:
    """Train until the notes have a file "enough"."""
    import di_orchestrator as di  # noqa: PLC0415  # the launcher does not need it

    group = Collective()
    (notes / f"pid-{group.rank}").write_text(str(os.getpid()))

    def note(text: str) -> None:
        if group.rank == 0:
            with (notes / "steps").open("a") as opened:
                opened.write(f"{text}\n")

    def write(folder: Path) -> None:
        group.agree(2, 0)
        (folder / f"part-{group.rank}").write_text(str(step))

    with di.training(total_steps=1_000_000) as run:
        saved = run.checkpoint.restore()
        step = 0 if saved is None else int((saved / f"part-{group.rank}").read_text())
        note(f"begin {step}")
        while not run.stopping:
            is_enough = group.agree(1, step, int((notes / "enough").exists()))
            if is_enough:
                break
            step += 1
            time.sleep(0.01)
            run.report(step)
            note(f"step {step}")
            if step % INTERVAL == 0 or run.checkpoint.is_due:
                run.save(write, step=step, shards=True)


if __name__ == "__main__":
    if "PROCESS" in os.environ:
        train(Path(os.environ["NOTES"]))
    else:
        sys.exit(launch())
