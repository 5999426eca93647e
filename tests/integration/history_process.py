"""di-history as its own process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from tests.failures.sources import shown_log
from tests.ports import held_ports
from tests.waiting import START_SECONDS, STOP_SECONDS, answers_well, wait_until

Object = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryProcess:
    """A running di-history."""

    process: subprocess.Popen[bytes]
    port: int
    health_port: int
    log: Path

    def get(self, path: str, token: str | None = None) -> requests.Response:
        """Ask for a path below /v1."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return requests.get(f"http://127.0.0.1:{self.port}/v1/{path}", headers=headers, timeout=60)

    def job(self, namespace: str, name: str) -> Object:
        """All that is told of a job; AssertionError: nothing yet."""
        answer = self.get(f"jobs/{namespace}/{name}")
        assert answer.status_code == 200, answer.text
        found: Object = answer.json()
        return found

    def metric(self, name: str) -> float:
        """One of its own."""
        text = requests.get(f"http://127.0.0.1:{self.health_port}/metrics", timeout=60).text
        found = [line for line in text.splitlines() if line.startswith(f"{name} ")]
        return float(found[0].split()[1])

    def kill(self) -> None:
        """End it at once, its worker too."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(STOP_SECONDS)


@contextmanager
def running_history(
    folder: Path, kubeconfig: Path, database: str, **variables: str
) -> Iterator[HistoryProcess]:
    """Run one until the body ends; its log holds no traceback then.

    Args:
        variables: DI_HISTORY_* settings, without the prefix, in lower case.
    """
    with held_ports(2) as (port, health):
        settings: Mapping[str, str] = {
            "auth": "off",
            "binds": f"127.0.0.1:{port}",
            "health_bind": f"127.0.0.1:{health}",
            "database": database,
            "drain_seconds": "0",
            **variables,
        }
        environment = {
            **os.environ,
            "KUBECONFIG": str(kubeconfig),
            **{f"DI_HISTORY_{key.upper()}": value for key, value in settings.items()},
        }
        log = folder / f"di-history-{port}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "di_history.main"],
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        found = HistoryProcess(process=process, port=port, health_port=health, log=log)

        def is_ready() -> bool:
            assert process.poll() is None, log.read_text()
            return answers_well(f"http://127.0.0.1:{health}/readyz")

        try:
            with shown_log(log):
                wait_until(is_ready, START_SECONDS, what=f"di-history, see {log}")
                yield found
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait(STOP_SECONDS)
    assert "Traceback" not in log.read_text(), log.read_text()
