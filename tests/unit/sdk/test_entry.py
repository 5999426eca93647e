"""An entry on the board: sent at once when it changes, and repeated."""

from __future__ import annotations

import logging
import queue
from collections.abc import Mapping
from typing import Any

import pytest

from di_orchestrator.errors import DIError, Refused, Unreachable
from di_orchestrator.server import board
from di_orchestrator.server.api import Heartbeat
from di_orchestrator.server.board import Entry

NEVER = 3600.0


class Board:
    """Takes entries, or raises configured failures."""

    def __init__(self, *failures: DIError, seconds: float = NEVER) -> None:
        self.failures = list(failures)
        self.seconds = seconds
        self.said: queue.Queue[Mapping[str, Any]] = queue.Queue()

    def __call__(self, said: Mapping[str, Any]) -> Heartbeat:
        self.said.put(said)
        if self.failures:
            raise self.failures.pop(0)
        return Heartbeat(self.seconds, 3 * self.seconds)

    def next(self) -> Mapping[str, Any]:
        return self.said.get(timeout=60)


def test_a_changed_entry_is_sent_at_once() -> None:
    board = Board()
    entry = Entry(board)
    for load in (1, 2):
        entry.put({"load": load})
        assert board.next() == {"load": load}
    entry.put({"load": 2})
    entry.put({"load": 3})
    assert board.next() == {"load": 3}
    entry.close()


@pytest.mark.proves("sdk.md#reference/di-say-url-str-more-any-none")
def test_an_entry_is_repeated_until_it_is_closed() -> None:
    board = Board(seconds=0.001)
    entry = Entry(board)
    entry.put({"load": 1})
    assert [board.next() for _ in range(3)] == [{"load": 1}] * 3
    entry.close()
    assert entry._thread is not None
    entry._thread.join(60)
    assert not entry._thread.is_alive()
    entry.put({"load": 2})
    assert {"load": 2} not in list(board.said.queue)


def test_a_failed_entry_is_sent_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(board, "AGAIN_SECONDS", 0.001)
    taken = Board(*[Unreachable("away")] * 2, Refused("PUT /x", 413, "too long"))
    entry = Entry(taken)
    with caplog.at_level(logging.WARNING):
        entry.put({"load": 1})
        assert [taken.next() for _ in range(4)] == [{"load": 1}] * 4
    entry.close()
    assert [record.message for record in caplog.records] == [
        "away (said once)",
        "PUT /x: too long (HTTP 413) (said once)",
    ]


def test_a_deleted_pod_stops_sending_its_entry(caplog: pytest.LogCaptureFixture) -> None:
    taken = Board(Refused("PUT /x", 409, "the pod is ending"))
    entry = Entry(taken)
    entry.put({"load": 1})
    taken.next()
    assert entry._thread is not None
    entry._thread.join(60)
    assert not entry._thread.is_alive()
    # It drains: nothing is wrong.
    assert caplog.records == []
