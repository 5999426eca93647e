"""An inference server as an engine of a job, unchanged.

    python -m di_orchestrator.rollout_server --port 8001 -- vllm serve MODEL --port 8000

It runs the server, says on the members' board where it is, which weights it has and how many
requests are in its hands, answers `/ready` and the task's drain, and ends with the server's exit
code. Without a command it does so for a server that somebody else runs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from di_orchestrator import current_pod
from di_orchestrator.pods.hub import Asked, Reply
from di_orchestrator.rollouts import inference
from di_orchestrator.rollouts.engine import Rollout
from di_orchestrator.rollouts.inference import Seen
from di_orchestrator.server.exchange import Clock

EVERY_SECONDS = 1.0
"""From one look at the server to the next."""
TELL_SECONDS = 10.0
"""From one entry on the board to the next, while the weights are the same: what is in hand changes
all the time, and a job has many engines."""
QUIET_SECONDS = 2.0
"""A server that had nothing in hand for so long while it drains is done: a request may have been on
its way when it left its Service."""
SILENT_SECONDS = 30.0
"""So long one is waited for that does not say what it has in hand."""


@dataclass
class Finishing:
    """Whether a server that takes nothing new has finished; it is shown each look. Pure."""

    clock: Clock = time.monotonic
    _since: float | None = field(default=None, init=False)
    _is_quiet: bool = field(default=True, init=False)

    def is_over(self, seen: Seen) -> bool:
        """By this look, and those before."""
        if not seen.is_up:
            return True
        is_quiet = seen.in_hand is not None
        if seen.in_hand or self._since is None or is_quiet != self._is_quiet:
            self._since, self._is_quiet = self.clock(), is_quiet
        wait = QUIET_SECONDS if is_quiet else SILENT_SECONDS
        return not seen.in_hand and self.clock() - self._since >= wait


class Weights:
    """The version of the server's weights, from the sender of the weights or the server itself."""

    def __init__(self) -> None:
        self._told: str | None = None

    def answer(self, asked: Asked) -> Reply:
        """`POST /weights?version=41` tells.

        Raises:
            LookupError: anything else.
        """
        if (asked.method, asked.path) != ("POST", "/weights"):
            raise LookupError(asked.path)
        self._told = asked.query["version"][:63]
        return Reply()

    def version(self, seen: Seen) -> int | str | None:
        """As a number, if it is one."""
        found = seen.weight_version if self._told is None else self._told
        is_number = found is not None and found.isascii() and found.isdigit()
        return int(found) if found is not None and is_number else found


def serve(
    engine: Rollout,
    weights: Weights,
    look: Callable[[], Seen],
    leaving: threading.Event,
    *,
    clock: Clock = time.monotonic,
    pause: Callable[[float], object] = time.sleep,
) -> None:
    """Tell of a server until it has drained; `leaving` is set when the pod is to go."""
    finishing, told, told_at = Finishing(clock), None, -TELL_SECONDS
    while True:
        seen = look()
        version = weights.version(seen)
        if not seen.is_up:
            engine.lacks()
        elif not engine.is_ready or version != told or clock() - told_at >= TELL_SECONDS:
            told, told_at = version, clock()
            engine.has(version, inHand=seen.in_hand)
        if engine.asked or leaving.is_set():
            if finishing.is_over(seen):
                engine.done()
                return
            pause(EVERY_SECONDS / 4)
        else:
            engine.wait(EVERY_SECONDS)


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m di_orchestrator.rollout_server",
        description="An inference server as an engine of a DIJob.",
    )
    parser.add_argument("--server", default="http://127.0.0.1:8000", help="where it serves")
    parser.add_argument("--port", type=int, default=8001, help="of the task's drain, and of /ready")
    parser.add_argument("--path", default="/drain", help="of the task's drain")
    parser.add_argument("command", nargs="*", help="what runs the server, after --")
    given = parser.parse_args(arguments)
    leaving, weights = current_pod.leaving(), Weights()
    url = f"http://{current_pod.job().address}:{urlsplit(given.server).port or 80}"
    server = subprocess.Popen(given.command) if given.command else None
    try:
        with current_pod.rollout(given.port, given.path, url=url, answer=weights.answer) as engine:
            if server is not None:
                threading.Thread(target=_follow, args=(server, leaving), daemon=True).start()
            serve(engine, weights, lambda: inference.look(given.server), leaving)
            leaving.wait()
    finally:
        if server is not None:
            server.terminate()
    return 0 if server is None else _code(server.wait())


def _follow(server: subprocess.Popen[bytes], leaving: threading.Event) -> None:
    server.wait()
    leaving.set()


def _code(code: int) -> int:
    """As a shell tells it; a server that was asked to end, and did, has not failed."""
    if code == -15:
        return 0
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
