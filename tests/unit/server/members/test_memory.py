"""The memory of the members' board is little more than the text of its entries."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

from di_server.members.board import Board
from di_server.members.entry import Entry
from di_server.members.requests import says

ENTRIES = 500
# Bytes: 1,170 on Python 3.11, and 4,000 more for each of the two texts that keeps the room it was
# written in.
MOST_OF_AN_ENTRY = 2000


def test_an_entry_takes_little_more_memory_than_its_text() -> None:
    board_of(2)  # what is made once for all
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        board = board_of(ENTRIES)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(board) == ENTRIES
    assert (after - before) / ENTRIES < MOST_OF_AN_ENTRY


def board_of(entries: int) -> Board:
    """As the handlers fill it, and read once."""
    board = Board()
    for number in range(entries):
        body: dict[str, Any] = {"url": f"http://10.0.0.1:{number}", "rank": number}
        board.put(
            Entry(
                namespace="rl",
                job_uid="job",
                pod=f"job-collector-{number}",
                pod_uid=f"{number:08}-0000-4000-8000-{0:012}",
                task="collector",
                says=says(body),
                version=number,
            ),
            lambda _: True,
            heard=0.0,
        )
    assert len(board.answer("job", None).members) == entries
    return board
