"""What di-history counts of records and logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from di_history.metrics import Metrics
from tests.unit.history import test_batches as batches
from tests.unit.history import test_ended_logs as ended_logs
from tests.unit.history import test_uploads as uploads
from tests.waiting import wait_until


@pytest.fixture
def metrics(monkeypatch: pytest.MonkeyPatch) -> Metrics:
    """The metrics of what those modules start."""
    found = Metrics()
    for module in (batches, ended_logs, uploads):
        monkeypatch.setattr(module, "Metrics", lambda: found)
    return found


def value(metrics: Metrics, name: str, **labels: str) -> float:
    found = metrics.registry.get_sample_value(f"di_history_{name}", labels)
    assert found is not None, name
    return found


@pytest.mark.proves(
    "metrics.md#history/di-history-writes-total",
    "metrics.md#history/di-history-records-total",
    "metrics.md#history/di-history-write-seconds",
)
def test_writes_and_records_are_counted(metrics: Metrics) -> None:
    database = batches.Database()
    database.away = True
    with batches.running(database) as running:
        running.put("rl", [batches.entry(number) for number in range(3)])
        wait_until(lambda: database.refused >= 2)
        database.away = False
        assert running.drained(10)
    assert value(metrics, "writes_total", result="failed") == database.refused
    assert value(metrics, "writes_total", result="good") == len(database.marks)
    assert value(metrics, "records_total") == 3
    # The clock of the test goes on by a second at each look.
    assert value(metrics, "write_seconds_sum") == len(database.marks)


@pytest.mark.proves("metrics.md#history/di-history-whole-logs-total")
def test_whole_logs_are_counted_as_stored_or_lost(metrics: Metrics, tmp_path: Path) -> None:
    uploads.test_a_refused_log_does_not_block_others(tmp_path)
    counts = [value(metrics, "whole_logs_total", result=each) for each in ("stored", "lost")]
    assert counts == [1, 1]


@pytest.mark.proves("metrics.md#history/di-history-logs-total")
def test_logs_of_ended_containers_are_counted_as_kept_or_lost(metrics: Metrics) -> None:
    ended_logs.test_a_short_log_is_kept_whole()
    ended_logs.test_a_missing_log_is_recorded_as_lost()
    assert [value(metrics, "logs_total", result=each) for each in ("kept", "lost")] == [1, 1]


@pytest.mark.proves(
    "metrics.md#history/di-history-records-waiting",
    "metrics.md#history/di-history-waiting-bytes",
    "metrics.md#history/di-history-spooled-bytes",
    "metrics.md#history/di-history-followed-seconds",
)
def test_what_waits_and_how_old_the_picture_is_are_read_at_each_scrape(metrics: Metrics) -> None:
    metrics.count_waiting(lambda: 3, lambda: 512)
    metrics.show_spooled(lambda: 4096)
    ages = iter([None, 12.0])
    metrics.show_followed(lambda: next(ages))
    assert (value(metrics, "records_waiting"), value(metrics, "waiting_bytes")) == (3, 512)
    assert value(metrics, "spooled_bytes") == 4096
    first, second = (value(metrics, "followed_seconds") for _ in range(2))
    assert str(first) == "nan"
    assert second == 12
