"""di-history as its own process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from tests.integration.service_process import ServiceProcess, started, variables
from tests.ports import held_ports
from tests.waiting import START_SECONDS, wait_until

Object = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryProcess(ServiceProcess):
    """A running di-history."""

    port: int

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
        text = requests.get(f"{self.health}/metrics", timeout=60).text
        found = [line for line in text.splitlines() if line.startswith(f"{name} ")]
        return float(found[0].split()[1])


@contextmanager
def running_history(
    folder: Path, kubeconfig: Path, database: str, **given: str
) -> Iterator[HistoryProcess]:
    """Run one until the body ends; its log holds no traceback then.

    Args:
        given: DI_HISTORY_* settings, without the prefix, in lower case.
    """
    with held_ports(2) as (port, health):
        settings: Mapping[str, str] = {
            "auth": "off",
            "binds": f"127.0.0.1:{port}",
            "health_bind": f"127.0.0.1:{health}",
            "database": database,
            "drain_seconds": "0",
            **given,
        }
        log = folder / f"di-history-{port}.log"
        environment = {"KUBECONFIG": str(kubeconfig), **variables("history", settings)}
        with started("history", log, environment) as process:
            found = HistoryProcess(
                process=process, port=port, health=f"http://127.0.0.1:{health}", log=log
            )
            wait_until(found.answers, START_SECONDS, what=f"di-history, see {log}")
            yield found
