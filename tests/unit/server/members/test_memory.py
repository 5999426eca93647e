"""The memory of the members' board is little more than the text of its entries, however many
clients read it.
"""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from typing import Any

from di_server.members.board import Board
from di_server.members.entry import Entry
from di_server.members.requests import says
from di_service.serving.later import LATER
from tests.unit.server.fakes import Harness

ENTRIES = 500
WAITING = 30
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


def test_clients_that_wait_for_the_same_share_their_answers(harness: Harness) -> None:
    path = "/v2alpha1/rl.cartpole/members"
    app = harness.client.application
    harness.members.merge("other", [(large(number), 0.0) for number in range(ENTRIES)])
    first = harness.client.get(path)
    query = f"wait=20&generation={first.get_json()['data']['generation']}"
    kept: list[Any] = []
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(WAITING):
            with app.test_request_context(f"{path}?{query}") as context:
                kept.append(app.full_dispatch_request().get_data())
                later = context.request.environ[LATER]
                kept.append(later.subscribe(kept.append))
        assert harness.members.waiting == WAITING
        harness.members.merge("other", [(large(ENTRIES), 0.0)])
        harness.members.step()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    bodies = [each for each in kept if isinstance(each, bytes)]
    assert len(bodies) == 2 * WAITING
    # One answer for those whose wait is over, and one with the news.
    assert after - before < 4 * len(first.data)


def test_answers_are_not_kept_beyond_a_sweep() -> None:
    board = board_of(2)
    answer = weakref.ref(board.answer("job", None))
    assert board.answer("job", None) is answer()
    board.sweep(1.0, lambda _: True)
    gc.collect()
    assert answer() is None


def large(number: int) -> Entry:
    return Entry(
        namespace="rl",
        job_uid="uid-1",
        pod=f"cartpole-collector-{number}",
        pod_uid=f"uid-of-{number}",
        task="collector",
        says=says({"url": "http://10.0.0.1", "more": "x" * 900}),
        version=1,
    )


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
