"""What the first learner of the GRPO example sends, saves and reports; and the judge."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from di_grpo import judge, worker
from di_grpo.book import GONE, Book
from di_grpo.learner import BATCHES, ENGINES, NotLearned, Settings, Training
from di_grpo.model.adam import Adam
from di_grpo.model.weights import Weights, initial_weights
from di_grpo.record import POINTS, Record
from di_grpo.shares import Share, split
from di_grpo.state import RATE, State

import di_orchestrator as di
from di_api import names
from di_orchestrator.arrays import pack, unpack
from tests.unit.examples.test_grpo_samples import arrays, whole
from tests.unit.sdk.conftest import Clock

WEIGHTS: Weights = {"x": np.arange(3, dtype=np.float32)}
MAX_BYTES = 32 * 1024
"""Of all profilings of a job."""


def request(method: str, path: str, body: bytes = b"", **query: str) -> di.Asked:
    return di.Asked(method=method, path=path, query=query, body=body)


def samples(who: str, number: int, *, version: int = 5) -> di.Asked:
    """A batch of an engine."""
    return request("POST", "/samples", pack(**arrays(version)), who=who, batch=str(number))


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

    @pytest.mark.proves("grpo.md#who-finds-whom")
    def test_weights_are_sent_to_an_engine_with_older_ones(self, book: Book) -> None:
        said = unpack(book.answer(request("GET", "/weights", who="a", have="-1")).body)
        assert said.pop("version") == 5
        assert said["x"].tolist() == [0, 1, 2]
        assert book.answer(request("GET", "/weights", who="a", have="5")) == di.Reply()

    def test_stale_samples_are_dropped_and_counted(self, book: Book) -> None:
        book.answer(samples("a", 1, version=0))
        assert book.take(1, seconds=0) == []
        assert book.dropped() == 1

    def test_batches_of_a_leaving_engine_are_counted_as_lost(self, book: Book) -> None:
        for number in (1, 2, 3):
            book.answer(samples("whole", number))
            book.answer(samples("broken", number))
        for who, batches in (("whole", 3), ("broken", 4), ("unknown", 9)):
            left = request("POST", "/left", who=who, batches=str(batches))
            assert book.answer(left) == di.Reply()
        assert book.left() == [0, 1, 0]
        assert book.left() == []

    @pytest.mark.proves(
        "grpo.md#what-is-lost-when-something-dies/a-learner-that-computes-gradients"
    )
    def test_shares_go_to_learners_that_ask_and_then_to_the_first(self, book: Book) -> None:
        book.open(split(whole(4), 2), lease=3.0)
        got = Share.of(unpack(book.answer(request("GET", "/share", who="b")).body))
        left = book.take_share()
        assert left is not None
        assert (got.index, left.index) == (0, 1)
        book.give(5, 1, {"x": np.zeros(1, np.float32)})
        gradient = pack(version=5, index=0, x=np.full(1, 2, np.float32))
        assert book.answer(request("POST", "/gradient", gradient)).status == 200
        assert book.take_share() is None
        assert book.mean_gradient()["x"] == 1


def test_other_learners_relay_requests_to_the_first() -> None:
    def answer(asked: di.Asked) -> di.Reply:
        if asked.path == "/wrong":
            raise LookupError("nothing")
        return di.Reply(GONE if asked.path == "/over" else 200, asked.target.encode())

    first = di.Hub(answer, 0)
    with di.Hub(worker.relay(f"http://127.0.0.1:{first.port}"), 0) as second:
        url = f"http://127.0.0.1:{second.port}"
        assert di.call("POST", f"{url}/x?who=a&have=1", b"abc") == b"/x?who=a&have=1"
        with pytest.raises(di.Gone):
            di.call("GET", f"{url}/over")
        with pytest.raises(di.Refused, match="nothing"):
            di.call("GET", f"{url}/wrong")
        first.close()


@pytest.fixture
def state() -> State:
    return State(
        weights=WEIGHTS,
        adam=Adam(RATE, 7, {"x": np.ones(3, np.float32)}, {"x": np.zeros(3, np.float32)}),
        version=7,
        engines=4,
        seconds=12.5,
        series={"passAt1": [[1.5, 0.25]]},
        drained=3,
        lost=1,
    )


class TestState:
    @pytest.mark.proves(
        "grpo.md#what-is-lost-when-something-dies/the-first-learner",
        "grpo.md#what-is-lost-when-something-dies/the-pod-of-the-first-learner",
    )
    def test_a_saved_state_is_resumed(self, state: State, tmp_path: Path) -> None:
        assert State.load(tmp_path) is None
        state.save(tmp_path)
        found = State.load(tmp_path)
        assert found is not None
        assert (found.version, found.engines, found.seconds) == (7, 4, 12.5)
        assert found.series == state.series
        assert (found.drained, found.lost) == (3, 1)
        assert (found.adam.steps, found.adam.rate) == (7, RATE)
        gradient = {"x": np.full(3, 0.1, np.float32)}
        one, other = (s.adam.step(s.weights, gradient)["x"] for s in (state, found))
        assert one.tolist() == other.tolist()


class TestRecord:
    def test_an_evaluation_is_recorded_with_its_measurements(self, state: State) -> None:
        record = Record(state)
        record.note(0.5, waiting=0.5, stale=0.25)
        assert record.best == 0.5
        says = {"url": "http://c:22270", "weightVersion": 7}
        report = record.profilings([di.Member("grpo-rollout-0", "x", ENGINES, says["url"], says)])  # type: ignore[arg-type]
        assert report["series"] == {
            "passAt1": [[1.5, 0.25], [12.5, 0.5]],
            "waiting": [[12.5, 0.5]],
            "stale": [[12.5, 0.25]],
            "engines": [[12.5, 4]],
        }
        assert report["members"] == [{"pod": "grpo-rollout-0", **says}]
        assert (report["drained"], report["lost"]) == (3, 1)

    def test_a_long_record_fits_into_a_report(self, state: State) -> None:
        record = Record(state)
        for second in range(10 * POINTS):
            state.seconds = 1000.1 + second
            record.note(0.1234, waiting=0.1234, stale=0.1234)
        report = record.profilings([])
        assert len(json.dumps(report)) < MAX_BYTES / 2
        for points in report["series"].values():
            assert len(points) <= POINTS + 1
            assert points[-1][0] == round(state.seconds, 1)


ENVIRONMENT = {
    names.ENV_JOB_ID: names.job_id("rl", "grpo"),
    names.ENV_RANK: "0",
    names.ENV_TASK_NAME: "learner",
    names.ENV_TASK_TYPE: "learner",
    names.ENV_TASK_RANK: "0",
    names.task_nodes_env("learner"): "a,b",
    names.task_nodes_env(ENGINES): "c,d,e",
}


class TestTraining:
    @pytest.fixture
    def here(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[di.Training]:
        """The training of the first of two learners, without a server."""
        monkeypatch.setattr(di, "watch_members", lambda task: iter(()))
        for name, value in {**ENVIRONMENT, names.ENV_SERVER_URL: "http://127.0.0.1:1"}.items():
            monkeypatch.setenv(name, value)
        with di.training(samples_from=ENGINES, reports=False) as entered:
            assert (entered.collectors, entered.learners) == (3, 2)
            yield entered

    @pytest.mark.proves("grpo.md#language-model-reinforcement-learning/learner")
    def test_a_version_is_saved_before_it_is_published(
        self, here: di.Training, tmp_path: Path
    ) -> None:
        weights = initial_weights(np.random.default_rng(1))
        state = State(
            weights=weights, adam=Adam(RATE), version=0, engines=2, seconds=0.0, series={}
        )
        settings = Settings(base=tmp_path, folder=tmp_path, target=0.9, most_steps=2)
        book = Book(clock=Clock())
        book.publish(0, weights)
        for number in range(2 * BATCHES):
            book.answer(samples("a", number, version=0))
        book.answer(request("POST", "/evaluations", b'{"version": 0, "passAt1": 0.5}'))
        with pytest.raises(NotLearned, match=r"pass@1 0.5 after 2 steps"):
            Training(state, settings, book, here).run()
        kept = State.load(tmp_path)
        assert kept is not None
        told = unpack(book.answer(request("GET", "/weights", who="a", have="0")).body)
        assert told["version"] == kept.version == 2
        assert state.series["passAt1"][0][1] == 0.5
        # Of what was kept, and not of how many there were when the pod started.
        assert here.collectors == state.engines == 2


@pytest.mark.proves("grpo.md#language-model-reinforcement-learning/judge")
@pytest.mark.parametrize(
    ("text", "reward"),
    [
        ("12+34=046.", 1.0),
        ("99+99=198.", 1.0),
        ("12+34=047.", 0.0),
        ("12+34=46..", 0.0),
        ("12+34=046", 0.0),
        ("12+34=046.1", 0.0),
        ("", 0.0),
    ],
)
def test_the_judge_rewards_exact_answers(text: str, reward: float) -> None:
    said = judge.answer(request("POST", "/rewards", json.dumps({"texts": [text]}).encode()))
    assert json.loads(said.body) == {"rewards": [reward]}
