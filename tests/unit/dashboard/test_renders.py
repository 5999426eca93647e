"""One rendering for all that ask for a page at once, and never one from before they asked."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from di_dashboard.pages.renders import Renders
from tests.waiting import wait_until


class Slow:
    """Pages whose rendering a test releases."""

    def __init__(self) -> None:
        self.renders = Renders()
        self.begun = 0
        self.may_end = threading.Semaphore(0)

    def page(self) -> str:
        self.begun += 1
        number = self.begun
        assert self.may_end.acquire(timeout=30)
        return f"page {number}"

    def ask(self, pool: ThreadPoolExecutor, key: str = "/") -> Future[str]:
        """Asked for, and known to be so."""
        asking = threading.Event()

        def get() -> str:
            asking.set()
            return self.renders.get(key, self.page)

        found = pool.submit(get)
        assert asking.wait(60)
        return found


def test_requests_during_a_rendering_share_the_next_one() -> None:
    slow = Slow()
    with ThreadPoolExecutor(20) as pool:
        first = slow.ask(pool)
        wait_until(lambda: slow.begun == 1)
        later = [slow.ask(pool) for _ in range(10)]
        wait_until(lambda: slow.renders.waiting("/") == 10)
        slow.may_end.release(2)
        assert first.result(60) == "page 1"
        assert {each.result(60) for each in later} == {"page 2"}
    assert slow.begun == 2


def test_pages_do_not_wait_for_each_other() -> None:
    slow = Slow()
    with ThreadPoolExecutor(2) as pool:
        both = [slow.ask(pool, "/a"), slow.ask(pool, "/b")]
        wait_until(lambda: slow.begun == 2)
        slow.may_end.release(2)
        assert {each.result(60) for each in both} == {"page 1", "page 2"}


def test_a_failed_rendering_is_not_reused() -> None:
    renders = Renders()

    def fail() -> str:
        raise KeyError("gone")

    with pytest.raises(KeyError):
        renders.get("/", fail)
    assert renders.get("/", lambda: "there again") == "there again"
