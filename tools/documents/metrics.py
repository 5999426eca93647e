"""The table of all metrics, from what the services declare."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from prometheus_client.core import Metric

from di_dashboard.shared.metrics import Metrics as DashboardMetrics
from di_history.metrics import Metrics as HistoryMetrics
from di_kube.cache import WatchCache
from di_kube.resources import Resource
from di_operator.leadership.election import Election
from di_operator.metrics.jobs.collect import JobMetrics, Source
from di_operator.metrics.metrics import Metrics as OperatorMetrics
from di_operator.process.controller import JobKey
from di_operator.process.queue import KeyQueue
from di_operator.wiring import expose
from di_server.metrics import Metrics as ServerMetrics
from di_webhook.metrics import Metrics as WebhookMetrics

FILE = Path(__file__).resolve().parents[2] / "docs" / "reference/metrics.md"
_HEAD = """# Metrics

What the services serve at `/metrics`; those worth an alert are in
[runbook.md](../how-to/runbook.md). Made by `make generate` from their declarations.

"""


def document() -> str:
    """The whole document."""
    return _HEAD + "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    for service, families in _families().items():
        yield f"## {service}\n"
        yield "| metric | type | what |"
        yield "|---|---|---|"
        for family in sorted(families, key=lambda each: each.name):
            # As it is exposed.
            name = f"{family.name}_total" if family.type == "counter" else family.name
            yield f"| `{name}` | {family.type} | {family.documentation} |"
        yield ""


def _families() -> dict[str, list[Metric]]:
    operator, server, history = OperatorMetrics(), ServerMetrics(), HistoryMetrics()
    webhook = WebhookMetrics(monotonic=time.monotonic)
    # Only their names and words are taken here, so there is nothing to measure.
    expose(operator, KeyQueue[JobKey](), _NoCaches(), cast("Election", _Nobody()), dict)
    of_jobs = JobMetrics(Source(leads=lambda: False, now=lambda: datetime.now(UTC), most=0))
    return {
        "operator": [*operator.registry.collect(), *of_jobs.begin()()],
        "server": list(server.registry.collect()),
        "history": list(history.registry.collect()),
        "webhook": list(webhook.registry.collect()),
        "dashboard": list(DashboardMetrics().registry.collect()),
    }


class _NoCaches(dict[Resource, WatchCache]):
    def __missing__(self, resource: Resource) -> WatchCache:
        return cast("WatchCache", _NoCache())


class _NoCache:
    def tally(self, _index: str) -> dict[str, int]:
        """How many objects there are by value; none."""
        return {}


class _Nobody:
    def holds(self) -> bool:
        """Whether it leads; never."""
        return False
