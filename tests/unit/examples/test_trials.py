"""Trials are handed out until each has come back exactly once, whatever becomes of collectors."""

from __future__ import annotations

import threading

import pytest
from di_cartpole.wire import answer, answering, ask
from di_cartpole.work import ACTIVE_SECONDS, LEASE_SECONDS, Book

import di_orchestrator as di
from tests.unit.sdk.conftest import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def book(clock: Clock) -> Book:
    """A book with generation 0 of four trials open."""
    made = Book(clock=clock)
    made.open(0, [0.5], [11, 12, 13, 14], sigma=0.3)
    return made


def is_complete(book: Book) -> bool:
    return book.wait_complete(0)


class TestBook:
    def test_a_lost_collectors_trials_are_leased_again(self, book: Book, clock: Clock) -> None:
        lost = book.work(2, 0.0)["seeds"]
        done = book.work(3, 0.0)["seeds"]
        book.results(0, [(seed, 1.0, 2.0, 3) for seed in done])
        clock.now += LEASE_SECONDS
        assert book.work(3, 0.0)["seeds"] == lost
        book.results(0, [(seed, 1.0, 2.0, 3) for seed in lost])
        assert is_complete(book)

    def test_results_of_an_earlier_generation_are_not_used(self, book: Book) -> None:
        book.open(1, [0.6], [11, 22], sigma=0.3)
        book.results(0, [(11, 500.0, 0.0, 40)])
        assert book.returns() == {}
        # They were played all the same.
        assert book.env_steps == 40

    def test_collectors_are_counted_by_recent_requests(self, book: Book, clock: Clock) -> None:
        book.work(2, 0.2)
        clock.now += ACTIVE_SECONDS
        book.work(3, 0.4)
        present, idle = book.collectors()
        assert present == 2
        assert idle == pytest.approx(0.3)
        clock.now += 0.1
        assert book.collectors() == (1, 0.4)

    def test_present_peers_receive_the_end(self, book: Book, clock: Clock) -> None:
        book.work(2, 0.0)
        book.policy(1)
        book.finish()
        assert book.work(2, 0.0) == {"done": True}
        assert not book.everyone_told()
        assert book.policy(1)["done"]
        assert book.everyone_told()


class TestRequests:
    def test_a_collector_returns_its_trials(self, book: Book) -> None:
        taken = answer(book, "/work", {"rank": 2, "idle": 0.0})
        results = [[seed, 1.0, 2.0, 5] for seed in taken["seeds"]]
        assert answer(book, "/results", {"generation": 0, "results": results}) == {}
        assert book.returns() == {11: (1.0, 2.0), 12: (1.0, 2.0)}
        assert book.env_steps == 10

    def test_a_collector_that_left_is_not_awaited(self, book: Book) -> None:
        book.work(2, 0.0)
        book.work(3, 0.0)
        assert answer(book, "/left", {"rank": 2}) == {}
        assert book.collectors()[0] == 1
        book.finish()
        book.work(3, 0.0)
        assert book.everyone_told()

    @pytest.mark.parametrize(
        ("path", "body"),
        [("/elsewhere", {}), ("/work", {"rank": 1}), ("/results", {"generation": 0})],
        ids=["an unknown path", "a missing field", "no results"],
    )
    def test_a_bad_request_is_refused(self, book: Book, path: str, body: dict[str, object]) -> None:
        with pytest.raises(LookupError):
            answer(book, path, body)

    def test_requests_arrive_over_http(self, book: Book) -> None:
        stays = threading.Event()
        with di.Hub(answering(book), 0) as hub:
            url = f"http://127.0.0.1:{hub.port}"
            assert ask(f"{url}/policy", {"rank": 1}, stays) == book.policy(1)
            with pytest.raises(di.Refused, match="elsewhere"):
                ask(f"{url}/elsewhere", {}, stays)
