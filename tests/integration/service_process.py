"""A service of this repository as a process of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.failures.sources import shown_log
from tests.waiting import STOP_SECONDS, answers_well


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceProcess:
    """A running service.

    Attributes:
        health: URL of its probes.
    """

    process: subprocess.Popen[bytes]
    health: str
    log: Path

    def answers(self, probe: str = "readyz") -> bool:
        """Whether a probe answers 200. Raises AssertionError if the process has ended."""
        assert self.process.poll() is None, self.log.read_text()
        return answers_well(f"{self.health}/{probe}")

    def terminate(self) -> int:
        """SIGTERM, and the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_SECONDS)

    def kill(self) -> None:
        """SIGKILL to it and its worker, as when a node loses power."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(STOP_SECONDS)


def variables(service: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Settings of a service as environment variables; their names are in lower case."""
    return {f"DI_{service.upper()}_{key.upper()}": value for key, value in settings.items()}


@contextmanager
def started(
    service: str,
    log: Path,
    environment: Mapping[str, str],
    *,
    end: signal.Signals = signal.SIGTERM,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a service until the block ends; its log holds no traceback then.

    Args:
        service: its name without ``di-``.
        environment: variables besides those of this process.
        end: the signal at the end.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", f"di_{service}.main"],
            env={**os.environ, **environment},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        with shown_log(log):
            yield process
    finally:
        if process.poll() is None:
            process.send_signal(end)
        process.wait(STOP_SECONDS)
    assert "Traceback" not in log.read_text(), log.read_text()
