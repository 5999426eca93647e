"""What the first learner of the GRPO example says to others, keeps, and reports; and the judge."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from di_grpo import judge
from di_grpo.book import PRESENT_SECONDS, Book
from di_grpo.client import GONE, Answer, Over, Refused, Unreachable, ask, ask_patiently
from di_grpo.drain import Drain
from di_grpo.hub import MAX_BODY, Request, relay, serve
from di_grpo.messages import pack, unpack
from di_grpo.model.adam import Adam
from di_grpo.model.weights import Weights
from di_grpo.record import POINTS, Record
from di_grpo.reports import Reports
from di_grpo.scaling import Step, Window
from di_grpo.shares import Share, split
from di_grpo.state import RATE, State

from tests.unit.examples.test_grpo_samples import arrays, whole
from tests.waiting import wait_until

WEIGHTS: Weights = {"x": np.arange(3, dtype=np.float32)}
MAX_BYTES = 32 * 1024
"""Of all profilings of a job."""


class FakeClock:
    """Seconds that pass only when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def request(method: str, path: str, body: bytes = b"", **query: str) -> Request:
    return Request(method=method, target=path, path=path, query=query, body=body)


def samples(who: str, number: int, *, version: int = 5) -> Request:
    """A batch of an engine."""
    return request("POST", "/samples", pack(**arrays(version)), who=who, batch=str(number))


class TestBook:
    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()

    @pytest.fixture
    def book(self, clock: FakeClock) -> Book:
        """One with version 5 of the weights."""
        made = Book(clock=clock)
        made.publish(5, WEIGHTS)
        return made

    def test_weights_are_told_to_who_has_others(self, book: Book) -> None:
        said = unpack(book.answer(request("GET", "/weights", who="a", have="-1")).body)
        assert said.pop("version") == 5
        assert said["x"].tolist() == [0, 1, 2]
        assert book.answer(request("GET", "/weights", who="a", have="5")) == Answer(200)

    def test_samples_are_taken_when_there_are_enough(self, book: Book) -> None:
        assert book.answer(samples("a", 1)).code == 200
        assert book.take(2, seconds=0) == []
        book.answer(samples("b", 1))
        assert [batch.version for batch in book.take(2, seconds=0)] == [5, 5]

    def test_stale_samples_are_counted(self, book: Book) -> None:
        book.answer(samples("a", 1, version=0))
        assert book.take(1, seconds=0) == []
        assert book.dropped() == 1

    def test_who_leaves_has_brought_what_it_began_or_it_is_lost(self, book: Book) -> None:
        for number in (1, 2, 3):
            book.answer(samples("whole", number))
            book.answer(samples("broken", number))
        for who, batches in (("whole", 3), ("broken", 4), ("unknown", 9)):
            left = request("POST", "/left", who=who, batches=str(batches))
            assert book.answer(left) == Answer(200)
        assert book.left() == [0, 1, 0]
        assert book.left() == []

    def test_who_comes_back_under_its_name_counts_from_one(self, book: Book) -> None:
        for number in (1, 2, 3, 1):
            book.answer(samples("a", number))
        book.answer(request("POST", "/left", who="a", batches="1"))
        assert book.left() == [0]

    def test_who_asks_gets_a_share_and_the_first_learner_those_that_are_left(
        self, book: Book
    ) -> None:
        book.open(split(whole(4), 2), lease=3.0)
        got = Share.of(unpack(book.answer(request("GET", "/share", who="b")).body))
        left = book.take_share()
        assert left is not None
        assert (got.index, left.index) == (0, 1)
        book.give(5, 1, {"x": np.zeros(1, np.float32)})
        gradient = pack(version=5, index=0, x=np.full(1, 2, np.float32))
        assert book.answer(request("POST", "/gradient", gradient)).code == 200
        assert book.take_share() is None
        assert book.mean_gradient()["x"] == 1

    def test_the_share_of_one_who_is_late_falls_to_the_first_learner(
        self, book: Book, clock: FakeClock
    ) -> None:
        book.open(split(whole(4), 1), lease=3.0)
        book.answer(request("GET", "/share", who="b"))
        clock.now += 3.0
        late = book.take_share()
        assert late is not None
        assert late.index == 0

    def test_evaluations_are_told_once(self, book: Book) -> None:
        book.answer(request("POST", "/evaluations", b'{"version": 5, "passAt1": 0.5}'))
        assert book.new_evaluations() == [{"version": 5, "passAt1": 0.5}]
        assert book.new_evaluations() == []

    def test_all_who_are_there_are_told_of_the_end(self, book: Book, clock: FakeClock) -> None:
        for who in ("gone", "engine"):
            book.answer(request("GET", "/weights", who=who, have="5"))
            clock.now += PRESENT_SECONDS
        book.finish()
        assert not book.everyone_told(awaited={"learner-1"})
        assert book.answer(request("GET", "/share", who="learner-1")).code == GONE
        assert not book.everyone_told(awaited={"learner-1"})
        assert book.answer(request("GET", "/weights", who="engine", have="5")).code == GONE
        assert book.everyone_told(awaited={"learner-1"})

    def test_what_it_does_not_know_is_an_error(self, book: Book) -> None:
        for wrong in (request("GET", "/else"), request("GET", "/weights", who="a")):
            with pytest.raises(LookupError):
                book.answer(wrong)


class TestHub:
    def test_pods_of_a_job_talk_through_it(self) -> None:
        seen: list[Request] = []

        def answer(request: Request) -> Answer:
            seen.append(request)
            codes = {"/over": GONE, "/busy": 503}
            if request.path == "/wrong":
                raise LookupError("nothing")
            return Answer(codes.get(request.path, 200), request.body[::-1])

        first = serve(answer, port=0)
        second = serve(relay(f"http://127.0.0.1:{first.server_port}"), port=0)
        try:
            for hub in (first, second):
                url = f"http://127.0.0.1:{hub.server_port}"
                assert ask("POST", f"{url}/x?who=a&have=1", b"abc") == b"cba"
                assert seen[-1].query == {"who": "a", "have": "1"}
                with pytest.raises(Over):
                    ask("GET", f"{url}/over")
                with pytest.raises(Refused, match="nothing"):
                    ask("GET", f"{url}/wrong")
                with pytest.raises(Unreachable, match="503"):
                    ask("GET", f"{url}/busy")
            with pytest.raises((Refused, Unreachable)):
                ask("POST", f"http://127.0.0.1:{first.server_port}/x", bytes(MAX_BODY + 1))
            first.shutdown()
            first.server_close()
            with pytest.raises(Unreachable, match="503"):
                ask("GET", f"http://127.0.0.1:{second.server_port}/x")
        finally:
            second.shutdown()
            second.server_close()

    def test_who_is_patient_asks_until_the_time_is_up(self) -> None:
        clock, pauses = FakeClock(), list[float]()

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            clock.now += 40

        with pytest.raises(Unreachable):
            ask_patiently("GET", "http://127.0.0.1:1/x", clock=clock, pause=pause)
        assert len(pauses) == 3


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
    def test_another_process_goes_on_where_this_one_was(self, state: State, tmp_path: Path) -> None:
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

    def test_a_state_that_was_half_written_is_not_taken(self, state: State, tmp_path: Path) -> None:
        state.save(tmp_path)
        (tmp_path / "state.npz.part").write_bytes(b"half")
        found = State.load(tmp_path)
        assert found is not None
        assert found.version == 7

    def test_the_first_one_has_the_weights_of_the_image(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "base.npz", allow_pickle=False, **WEIGHTS)
        found = State.first(tmp_path / "base.npz", engines=3)
        assert found.weights["x"].tolist() == [0, 1, 2]
        assert (found.version, found.engines, found.seconds) == (0, 3, 0.0)


class TestRecord:
    def test_an_evaluation_is_noted_with_what_was_measured(self, state: State) -> None:
        record, window = Record(state, target=0.9), Window(0.0)
        window.add(Step(seconds=2.0, waited=1.0, used=3, stale=1))
        record.note(0.5, window)
        assert record.best == 0.5
        report = record.profilings(window)
        assert report["series"] == {
            "passAt1": [[1.5, 0.25], [12.5, 0.5]],
            "waiting": [[12.5, 0.5]],
            "stale": [[12.5, 0.25]],
            "engines": [[12.5, 4]],
        }
        assert (report["step"], report["collectors"]) == (7, 4)
        # Of one that ends at a target a share would tell nothing.
        assert "totalSteps" not in report
        assert (report["drained"], report["lost"]) == (3, 1)

    def test_a_long_record_fits_into_a_report(self, state: State) -> None:
        record, window = Record(state, target=0.9), Window(0.0)
        for second in range(10 * POINTS):
            state.seconds = 1000.1 + second
            record.note(0.1234, window)
        report = record.profilings(window)
        assert len(json.dumps(report)) < MAX_BYTES / 2
        for points in report["series"].values():
            assert len(points) <= POINTS + 1
            assert points[-1][0] == round(state.seconds, 1)


class TestReports:
    def test_the_newest_is_sent_and_the_last_one_always(self) -> None:
        sent: list[Mapping[str, Any]] = []
        begun, go_on = threading.Event(), threading.Event()

        def send(report: Mapping[str, Any]) -> None:
            sent.append(report)
            begun.set()
            assert go_on.wait(30)

        reports = Reports(send)
        reports.tell({"step": 1})
        assert begun.wait(30)
        reports.tell({"step": 2})
        reports.tell({"step": 3})
        go_on.set()
        reports.finish()
        assert sent == [{"step": 1}, {"step": 3}]

    def test_the_last_one_is_repeated_where_that_is_asked_for(self) -> None:
        sent: list[Mapping[str, Any]] = []
        often = threading.Event()

        def send(report: Mapping[str, Any]) -> None:
            sent.append(report)
            if len(sent) == 3:
                often.set()

        reports = Reports(send, repeat_seconds=0.01)
        reports.tell({"step": 1})
        assert often.wait(30)
        reports.tell({"step": 2})
        reports.finish()
        assert sent[:3] == 3 * [{"step": 1}]
        assert sent[-1] == {"step": 2}


def test_who_asks_an_engine_to_drain_is_answered_when_it_has_finished() -> None:
    drain, answers = Drain(), list[Answer]()
    asking = threading.Thread(
        target=lambda: answers.append(drain.answer(request("GET", "/drain"))), daemon=True
    )
    assert not drain.is_asked
    asking.start()
    wait_until(lambda: drain.is_asked)
    assert answers == []
    drain.finish()
    asking.join(30)
    assert answers == [Answer(200)]
    with pytest.raises(LookupError):
        drain.answer(request("GET", "/else"))


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
def test_the_judge_rewards_what_is_right_to_the_letter(text: str, reward: float) -> None:
    said = judge.answer(request("POST", "/rewards", json.dumps({"texts": [text]}).encode()))
    assert json.loads(said.body) == {"rewards": [reward]}


def test_the_judge_takes_no_request_without_bounds() -> None:
    many = json.dumps({"texts": [""] * (judge.MOST_TEXTS + 1)}).encode()
    for body in (many, b"no JSON"):
        with pytest.raises(ValueError, match=r"at most|Expecting"):
            judge.answer(request("POST", "/rewards", body))
    with pytest.raises(LookupError):
        judge.answer(request("POST", "/rewards", b"{}"))
    assert judge.answer(request("GET", "/ready")).code == 200
