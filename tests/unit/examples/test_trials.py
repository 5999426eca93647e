"""Trials are handed out until each has come back exactly once, whatever becomes of collectors."""

from __future__ import annotations

import threading

import pytest
from di_cartpole.wire import answer, answering, ask
from di_cartpole.work import ACTIVE_SECONDS, LEASE_SECONDS, Book, Generation

import di_orchestrator as di


class FakeClock:
    """Seconds that pass only when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def book(clock: FakeClock) -> Book:
    """A book with generation 0 of four trials open."""
    made = Book(clock=clock)
    made.open(0, [0.5], [11, 12, 13, 14], sigma=0.3)
    return made


def is_complete(book: Book) -> bool:
    return book.wait_complete(0)


class TestGeneration:
    def test_a_trial_is_with_one_collector_at_a_time(self) -> None:
        generation = Generation([1, 2, 3], portion=2)
        assert generation.take(10.0) == [1, 2]
        assert generation.take(10.0) == [3]
        assert generation.take(10.0) == []

    def test_a_trial_is_handed_out_again_when_its_lease_ends_and_not_before(self) -> None:
        generation = Generation([1], portion=2)
        generation.take(10.0)
        assert generation.take(10.0 + LEASE_SECONDS - 0.1) == []
        assert generation.take(10.0 + LEASE_SECONDS) == [1]
        assert generation.take(10.0 + LEASE_SECONDS) == []

    def test_a_result_that_comes_twice_counts_once(self) -> None:
        generation = Generation([1, 2], portion=2)
        generation.take(0.0)
        assert generation.give_back(1, 5.0, 6.0)
        assert not generation.give_back(1, 500.0, 500.0)
        assert generation.returns == {1: (5.0, 6.0)}
        assert not generation.complete

    def test_a_trial_that_came_back_is_never_handed_out_again(self) -> None:
        generation = Generation([1, 2], portion=2)
        generation.take(0.0)
        generation.give_back(1, 5.0, 6.0)
        assert generation.take(10 * LEASE_SECONDS) == [2]

    def test_a_trial_of_nowhere_is_refused(self) -> None:
        generation = Generation([1], portion=1)
        assert not generation.give_back(99, 1.0, 1.0)
        assert generation.returns == {}

    def test_it_is_complete_when_the_last_trial_is_back(self) -> None:
        generation = Generation([1, 2], portion=2)
        generation.give_back(2, 0.0, 0.0)
        assert not generation.complete
        generation.give_back(1, 0.0, 0.0)
        assert generation.complete


class TestBook:
    def test_a_collector_gets_what_it_needs_to_play(self, book: Book) -> None:
        assert book.work(2, 0.0) == {
            "generation": 0,
            "weights": [0.5],
            "sigma": 0.3,
            "seeds": [11, 12],
        }

    def test_a_collector_waits_while_all_trials_are_with_others(self, book: Book) -> None:
        book.work(2, 0.0)
        book.work(3, 0.0)
        assert set(book.work(4, 0.0)) == {"wait"}

    def test_a_collector_that_is_early_waits_for_the_first_generation(
        self, clock: FakeClock
    ) -> None:
        assert set(Book(clock=clock).work(2, 0.0)) == {"wait"}

    def test_trials_of_a_lost_collector_go_to_another(self, book: Book, clock: FakeClock) -> None:
        lost = book.work(2, 0.0)["seeds"]
        done = book.work(3, 0.0)["seeds"]
        book.results(0, [(seed, 1.0, 2.0, 3) for seed in done])
        clock.now += LEASE_SECONDS
        assert book.work(3, 0.0)["seeds"] == lost
        book.results(0, [(seed, 1.0, 2.0, 3) for seed in lost])
        assert is_complete(book)

    def test_a_late_result_of_a_lost_collector_changes_nothing(
        self, book: Book, clock: FakeClock
    ) -> None:
        late = book.work(2, 0.0)["seeds"]
        clock.now += LEASE_SECONDS
        assert book.work(3, 0.0)["seeds"] == late
        book.results(0, [(seed, 1.0, 1.0, 3) for seed in late])
        book.results(0, [(seed, 9.0, 9.0, 3) for seed in late])
        assert book.returns() == {11: (1.0, 1.0), 12: (1.0, 1.0)}

    def test_results_of_an_earlier_generation_do_not_enter_the_next(self, book: Book) -> None:
        book.open(1, [0.6], [11, 22], sigma=0.3)
        book.results(0, [(11, 500.0, 0.0, 40)])
        assert book.returns() == {}
        # They were played all the same.
        assert book.env_steps == 40

    def test_only_new_evaluations_are_told(self, book: Book) -> None:
        book.evaluated({"generation": 0, "meanReturn": 21.0})
        assert [e["meanReturn"] for e in book.new_evaluations()] == [21.0]
        assert book.new_evaluations() == []

    def test_the_evaluator_sees_the_newest_policy(self, book: Book) -> None:
        book.open(1, [0.6], [21], sigma=0.3)
        assert book.policy(1) == {"generation": 1, "weights": [0.6], "done": False}

    def test_present_collectors_are_those_heard_lately(self, book: Book, clock: FakeClock) -> None:
        book.work(2, 0.2)
        clock.now += ACTIVE_SECONDS
        book.work(3, 0.4)
        present, idle = book.collectors()
        assert present == 2
        assert idle == pytest.approx(0.3)
        clock.now += 0.1
        assert book.collectors() == (1, 0.4)

    def test_the_evaluator_is_no_collector(self, book: Book) -> None:
        book.policy(1)
        assert book.collectors()[0] == 0

    def test_the_end_is_told_to_everyone_present(self, book: Book, clock: FakeClock) -> None:
        book.work(2, 0.0)
        book.policy(1)
        book.finish()
        assert book.work(2, 0.0) == {"done": True}
        assert not book.everyone_told()
        assert book.policy(1)["done"]
        assert book.everyone_told()

    def test_nobody_waits_for_peers_that_are_gone(self, book: Book, clock: FakeClock) -> None:
        book.work(2, 0.0)
        book.finish()
        clock.now += ACTIVE_SECONDS
        assert not book.everyone_told()
        clock.now += 0.1
        assert book.everyone_told()


class TestRequests:
    def test_a_collector_brings_back_what_it_took(self, book: Book) -> None:
        taken = answer(book, "/work", {"rank": 2, "idle": 0.0})
        results = [[seed, 1.0, 2.0, 5] for seed in taken["seeds"]]
        assert answer(book, "/results", {"generation": 0, "results": results}) == {}
        assert book.returns() == {11: (1.0, 2.0), 12: (1.0, 2.0)}
        assert book.env_steps == 10

    def test_nobody_waits_for_one_that_has_said_that_it_goes(self, book: Book) -> None:
        book.work(2, 0.0)
        book.work(3, 0.0)
        assert answer(book, "/left", {"rank": 2}) == {}
        assert book.collectors()[0] == 1
        book.finish()
        book.work(3, 0.0)
        assert book.everyone_told()

    def test_an_evaluation_arrives(self, book: Book) -> None:
        answer(book, "/evaluations", {"generation": 0, "meanReturn": 9.0, "weights": [0.5]})
        assert [e["meanReturn"] for e in book.new_evaluations()] == [9.0]

    @pytest.mark.parametrize(
        ("path", "body"),
        [("/elsewhere", {}), ("/work", {"rank": 1}), ("/results", {"generation": 0})],
        ids=["an unknown path", "a missing field", "no results"],
    )
    def test_a_request_that_makes_no_sense_is_refused(
        self, book: Book, path: str, body: dict[str, object]
    ) -> None:
        with pytest.raises(LookupError):
            answer(book, path, body)

    def test_it_is_asked_from_another_pod(self, book: Book) -> None:
        stays = threading.Event()
        with di.Hub(answering(book), 0) as hub:
            url = f"http://127.0.0.1:{hub.port}"
            assert ask(f"{url}/policy", {"rank": 1}, stays) == book.policy(1)
            with pytest.raises(di.Refused, match="elsewhere"):
                ask(f"{url}/elsewhere", {}, stays)
