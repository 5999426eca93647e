"""Sending reports: the newest wins, callers do not wait, the last one arrives."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import Any

import pytest

from di_orchestrator.errors import BadEnvironment, Refused, Unreachable
from di_orchestrator.training_run.sender import INTERVAL_SECONDS, Sender, interval_of


class Slow:
    """A server that answers when it is let."""

    def __init__(self) -> None:
        self.taken: list[Any] = []
        self.begun = threading.Semaphore(0)
        self.let = threading.Semaphore(0)

    def __call__(self, report: Mapping[str, Any]) -> None:
        self.begun.release()
        self.let.acquire()
        self.taken.append(report["step"])


def test_the_newest_report_replaces_waiting_ones() -> None:
    slow = Slow()
    sender = Sender(slow, interval=0)
    sender.tell({"step": 0})
    slow.begun.acquire()
    for step in range(1, 1000):
        sender.tell({"step": step})
    slow.let.release(2)
    assert sender.close(10)
    assert slow.taken == [0, 999]


def test_sending_does_not_block_and_closing_is_bounded() -> None:
    slow = Slow()
    sender = Sender(slow)
    sender.tell({"step": 0})
    slow.begun.acquire()
    sender.tell({"step": 1})
    assert not sender.close(0.01)
    slow.let.release(2)
    assert sender.close(10)


def test_the_last_report_skips_the_interval() -> None:
    taken: list[float] = []
    sender = Sender(lambda report: taken.append(report["step"]), interval=3600)
    sender.tell({"step": 0})
    while not taken:
        time.sleep(0.001)
    sender.tell({"step": 1})
    assert sender.close(10)
    assert taken == [0, 1]


def test_a_sender_without_reports_closes_at_once() -> None:
    assert Sender(lambda _: None).close(10)


@pytest.mark.parametrize(
    "error",
    [Refused("POST /x", 422, "step: no"), Unreachable("away"), OSError("a bug")],
    ids=["refused", "away", "a bug"],
)
def test_a_failed_report_is_one_warning(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    tried = []

    def fail(report: Mapping[str, Any]) -> None:
        tried.append(report)
        raise error

    with caplog.at_level(logging.WARNING, "di_orchestrator"):
        sender = Sender(fail, interval=0)
        for step in range(5):
            before = len(tried)
            sender.tell({"step": step})
            while len(tried) == before:
                time.sleep(0.001)
        assert sender.close(10)
    assert len(tried) == 5
    assert len(caplog.records) == 1


def test_a_local_run_can_shorten_the_interval_of_reports() -> None:
    assert interval_of({}) == INTERVAL_SECONDS
    assert interval_of({"DI_REPORT_SECONDS": "0.25"}) == 0.25
    for bad in ("often", "0", "-1", "nan", "inf", ""):
        with pytest.raises(BadEnvironment, match=r"DI_REPORT_SECONDS is .* should be a number"):
            interval_of({"DI_REPORT_SECONDS": bad})
