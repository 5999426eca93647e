"""What the learner of the IMPALA example sends to its collectors, and reports."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from di_impala import collector
from di_impala.book import EPISODES, Book
from di_impala.learner import UNROLLS, NotLearned, Settings, Training
from di_impala.network import first_weights
from di_impala.unrolls import STEPS

import di_orchestrator as di
from di_orchestrator.arrays import pack, unpack
from tests.unit.examples.test_impala_learning import floats, played
from tests.unit.sdk.conftest import Clock

WEIGHTS = first_weights(1)
SETTINGS = Settings(target=50, most_steps=3, seed=1)


def asked(who: str, have: int) -> di.Asked:
    return di.Asked(method="GET", path="/weights", query={"who": who, "have": str(have)})


def brought(who: str, have: int, *returns: float) -> di.Asked:
    body = pack(**{**played(WEIGHTS, version=have), "returns": floats(*returns)})
    return replace(asked(who, have), method="POST", path="/unrolls", body=body)


class TestBook:
    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    @pytest.fixture
    def book(self, clock: Clock) -> Book:
        """One with version 5 of the weights."""
        made = Book(clock=clock)
        made.publish(5, WEIGHTS)
        return made

    @pytest.mark.parametrize("request_of", [asked, brought])
    def test_a_collector_with_other_weights_gets_the_newest(
        self, book: Book, request_of: Callable[[str, int], di.Asked]
    ) -> None:
        for have in (-1, 4, 57):
            said = unpack(book.answer(request_of("a", have)).body)
            assert said.pop("version") == 5
            assert said.keys() == WEIGHTS.keys()
        assert book.answer(request_of("a", 5)) == di.Reply()

    def test_the_mean_return_is_of_the_last_episodes(self, book: Book) -> None:
        for each in range(EPISODES - 1):
            book.answer(brought("a", 5, each))
        assert book.mean_return() == 0
        book.answer(brought("a", 5, EPISODES - 1, EPISODES))
        assert book.mean_return() == (1 + EPISODES) / 2


@pytest.fixture
def book() -> Book:
    return Book(clock=Clock())


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[di.Training]:
    """A training outside a job, in which a report that makes no sense is an error."""
    monkeypatch.setenv("DI_TEST", "1")
    with di.training() as entered:
        yield entered


class TestTraining:
    def test_training_runs_until_its_target(self, book: Book, here: di.Training) -> None:
        training = Training(SETTINGS, book, here)
        for version in range(2):
            for _ in range(UNROLLS):
                book.answer(brought("a", 0, *[100.0] * (4 if version else 0)))
        # Half of the episodes are missing until the second batch is there.
        book.answer(brought("a", 0, *[100.0] * (EPISODES - 4 * UNROLLS)))
        training.run()
        assert training.curve[-1][1:] == [(2 * UNROLLS + 1) * STEPS, 100.0]
        report = training.profilings()
        assert report["env_steps"] == (2 * UNROLLS + 1) * STEPS

    def test_training_fails_after_too_many_steps(self, book: Book, here: di.Training) -> None:
        training = Training(SETTINGS, book, here)
        for _ in range(SETTINGS.most_steps * UNROLLS):
            book.answer(brought("a", 0))
        with pytest.raises(NotLearned, match="after 3 steps"):
            training.run()
        # Its weights are the newest, and those of the first step three behind.
        assert unpack(book.answer(asked("a", 0)).body)["version"] == 3
        assert training.profilings()["policy_lag"] == 2


def test_a_collector_sends_unrolls_until_it_leaves(book: Book) -> None:
    book.publish(5, WEIGHTS)
    leaving = threading.Event()
    with di.Hub(book.answer, 0) as hub:
        url = f"http://127.0.0.1:{hub.port}"
        thread = threading.Thread(target=collector.run, args=(url, "a", leaving), daemon=True)
        thread.start()
        taken = book.take(3, seconds=30)
        assert [unroll.version for unroll in taken] == [5, 5, 5]
        assert book.collectors() == 1
        leaving.set()
        thread.join(60)
        assert not thread.is_alive()
