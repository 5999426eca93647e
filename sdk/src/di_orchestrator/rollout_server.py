"""Command that makes an unmodified inference server an engine of a job.

    python -m di_orchestrator.rollout_server --port 8001 -- vllm serve MODEL --port 8000

It runs the server, publishes its address, weight version and number of running requests on the
members' board, answers `/ready` and the task's drain, and ends with the server's exit code. Without
a command it does this for a server that was started separately.
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
from di_orchestrator.pods.messages import Asked, Reply
from di_orchestrator.rollouts import inference
from di_orchestrator.rollouts.engine import Rollout
from di_orchestrator.rollouts.inference import Seen
from di_orchestrator.server.exchange import Clock
from di_orchestrator.warnings_once import Warnings

EVERY_SECONDS = 1.0
"""Seconds between two checks of the server."""
TELL_SECONDS = 10.0
"""Seconds between two entries on the board with the same weights: the number of running requests
changes all the time, and a job can have many engines.
"""
QUIET_SECONDS = 2.0
"""Seconds without running requests after which a draining server is done: a request may have been
sent before it left its Service.
"""
NOT_UP_SECONDS = 60.0
"""Seconds after the start for which a server that does not answer is loading its model."""
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
SILENT_SECONDS = 30.0
"""Maximum wait in seconds for a draining server that does not report its running requests."""


@dataclass
class Finishing:
    """Decides whether a draining server has finished; gets the result of each check. Pure."""

    clock: Clock = time.monotonic
    _since: float | None = field(default=None, init=False)
    _is_quiet: bool = field(default=True, init=False)

    def is_over(self, seen: Seen) -> bool:
        """Return whether it has finished, by this check and the earlier ones."""
        if not seen.is_up:
            return True
        is_quiet = seen.in_hand is not None
        if seen.in_hand or self._since is None or is_quiet != self._is_quiet:
            self._since, self._is_quiet = self.clock(), is_quiet
        wait = QUIET_SECONDS if is_quiet else SILENT_SECONDS
        return not seen.in_hand and self.clock() - self._since >= wait


class Weights:
    """The version of the server's weights, from their sender or from the server itself."""

    def __init__(self) -> None:
        self._told: str | None = None

    def answer(self, asked: Asked) -> Reply:
        """Handle `POST /weights?version=41`.

        Raises:
            LookupError: any other request.
        """
        if (asked.method, asked.path) != ("POST", "/weights"):
            raise LookupError(asked.path)
        self._told = asked.query["version"][:63]
        return Reply()

    def version(self, seen: Seen) -> int | str | None:
        """Return the version, as a number if it is one."""
        found = seen.weight_version if self._told is None else self._told
        is_number = found is not None and found.isascii() and found.isdigit()
        return int(found) if found is not None and is_number else found


class Watcher:
    """Checks a server at the first of some URLs that answers; warns once if none does for long."""

    def __init__(
        self,
        urls: Sequence[str],
        look: Callable[[str], Seen] = inference.look,
        *,
        clock: Clock = time.monotonic,
    ) -> None:
        self._urls = urls
        self._look = look
        self._clock = clock
        self._began = clock()
        self._was_up = False
        self._warnings = Warnings()

    def __call__(self) -> Seen:
        """Return the state of the server."""
        for url in self._urls:
            if (seen := self._look(url)).is_up:
                self._was_up = True
                return seen
        if not self._was_up and self._clock() - self._began >= NOT_UP_SECONDS:
            places = " and ".join(f"{url}/health" for url in self._urls)
            self._warnings.say(f"the server is not up: {places} do not answer with HTTP 200")
        return Seen(False)


def places_of(server: str, address: str) -> tuple[str, ...]:
    """Return the URLs of a server of this pod: at the loopback address, or at the pod's own.

    `di run` gives each pod an address of its own, on which a server for all addresses listens.

    Args:
        server: its URL.
        address: of the pod.
    """
    parts = urlsplit(server)
    if parts.hostname not in _LOOPBACK or address in _LOOPBACK:
        return (server,)
    own = f"{address}:{parts.port}" if parts.port else address
    return server, parts._replace(netloc=own).geturl()


def serve(
    engine: Rollout,
    weights: Weights,
    look: Callable[[], Seen],
    leaving: threading.Event,
    *,
    clock: Clock = time.monotonic,
    pause: Callable[[float], object] = time.sleep,
) -> None:
    """Publish the state of a server until it has drained; `leaving` is set when the pod has to
    leave.
    """
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
    """Run the command; return the exit code. See the module."""
    parser = argparse.ArgumentParser(
        prog="python -m di_orchestrator.rollout_server",
        description="An inference server as an engine of a DIJob.",
    )
    parser.add_argument("--server", default="http://127.0.0.1:8000", help="URL of the server")
    parser.add_argument(
        "--port", type=int, default=8001, help="port of the task's drain, and of /ready"
    )
    parser.add_argument("--path", default="/drain", help="path of the task's drain")
    parser.add_argument("command", nargs="*", help="command of the server, after --")
    given = parser.parse_args(arguments)
    leaving, weights = current_pod.leaving(), Weights()
    address = current_pod.job().address
    url = f"http://{address}:{urlsplit(given.server).port or 80}"
    watcher = Watcher(places_of(given.server.rstrip("/"), address))
    server = subprocess.Popen(given.command) if given.command else None
    try:
        with current_pod.rollout(given.port, given.path, url=url, answer=weights.answer) as engine:
            if server is not None:
                threading.Thread(target=_follow, args=(server, leaving), daemon=True).start()
            serve(engine, weights, watcher, leaving)
            leaving.wait()
    finally:
        if server is not None:
            server.terminate()
    return 0 if server is None else _code(server.wait())


def _follow(server: subprocess.Popen[bytes], leaving: threading.Event) -> None:
    server.wait()
    leaving.set()


def _code(code: int) -> int:
    """Return the exit code as a shell reports it; a server that ends after SIGTERM has not
    failed.
    """
    if code == -15:
        return 0
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
