"""Many writes of one job become one a second; each is answered when it is written."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from typing_extensions import override

from di_server.deadline import Deadline
from di_server.model.references import JobRef
from di_server.problems import Busy
from di_server.storage.coalescing import INTERVAL, Coalescer, Pace
from tests.unit.server.fakes import Clock
from tests.waiting import wait_until

A_SECOND = Pace()
JOB, OTHER = JobRef("rl", "cartpole"), JobRef("rl", "other")


class Places(threading.Semaphore):
    """Knows how many are taken."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.taken = 0

    @override
    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        found = super().acquire(blocking, timeout)
        self.taken += found
        return found

    @override
    def release(self, n: int = 1) -> None:
        self.taken -= n
        super().release(n)


class Bench:
    def __init__(self, places: int = 1000, pace: Pace = A_SECOND) -> None:
        self.clock = Clock()
        self.places = Places(places)
        self.writes: list[tuple[float, JobRef, list[int]]] = []
        self.before_write: Callable[[], None] = lambda: None
        self.asleep: Callable[[], None] = lambda: None
        self.coalescer = Coalescer(
            self._write, places=self.places, clock=self.clock, sleep=self._sleep, pace=pace
        )

    def _sleep(self, seconds: float) -> None:
        self.asleep()
        self.clock.sleep(seconds)

    def _write(self, ref: JobRef, items: Sequence[int], deadline: Deadline) -> list[str]:
        self.before_write()
        self.writes.append((self.clock.now, ref, list(items)))
        return [f"wrote {item}" for item in items]

    def submit(self, item: int, ref: JobRef = JOB) -> str:
        return self.coalescer.submit(ref, item, Deadline.after(self.clock))


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_writes_of_a_job_are_a_second_apart(bench: Bench) -> None:
    began = bench.clock.now
    assert [bench.submit(1), bench.submit(2), bench.submit(3, OTHER)] == [
        "wrote 1",
        "wrote 2",
        "wrote 3",
    ]
    assert bench.writes == [
        (began, JOB, [1]),
        (began + INTERVAL, JOB, [2]),
        (began + INTERVAL, OTHER, [3]),
    ]
    bench.clock.now += INTERVAL
    bench.submit(4)
    assert bench.writes[-1] == (began + 2 * INTERVAL, JOB, [4])


def test_200_requests_in_a_second_are_two_writes() -> None:
    bench, numbers = Bench(), range(200)
    assert bench.submit(-1) == "wrote -1"
    answers: list[Future[str]] = []

    def others_have_come() -> None:
        wait_until(lambda: bench.places.taken == len(numbers), what="all to wait")
        assert not any(answer.done() for answer in answers)

    bench.asleep = others_have_come
    with ThreadPoolExecutor(len(numbers)) as pool:
        answers += [pool.submit(bench.submit, number) for number in numbers]
        assert [answer.result(60) for answer in answers] == [f"wrote {n}" for n in numbers]
    assert len(bench.writes) == 2
    assert sorted(bench.writes[1][2]) == list(numbers)
    assert bench.places.taken == 0


@contextmanager
def waiting(bench: Bench) -> Iterator[None]:
    """One request written, and another one that waits until the end."""
    bench.submit(1)
    sleeping, go_on = threading.Event(), threading.Event()

    def sleep() -> None:
        sleeping.set()
        assert go_on.wait(60)

    bench.asleep = sleep
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(bench.submit, 2)
        assert sleeping.wait(60)
        yield
        go_on.set()
        assert second.result(60) == "wrote 2"


def test_a_request_above_the_bound_writes_for_those_that_wait() -> None:
    bench = Bench(places=1)
    with waiting(bench):
        assert bench.submit(3) == "wrote 3"
    assert [items for _, _, items in bench.writes] == [[1], [2, 3]]


def test_a_request_waits_for_a_write_until_its_deadline(bench: Bench) -> None:
    with waiting(bench), pytest.raises(Busy, match="too long"):
        bench.coalescer.submit(JOB, 3, Deadline(bench.clock, bench.clock.now, 1.0))


def test_a_failed_write_fails_its_requests_alone(bench: Bench) -> None:

    def fail() -> None:
        raise Busy("away", retry_after=1)

    bench.before_write = fail
    for item in (1, 2):
        with pytest.raises(Busy, match="away"):
            bench.submit(item)
    bench.before_write = lambda: None
    assert bench.submit(3) == "wrote 3"


def test_the_memory_of_written_jobs_is_bounded(bench: Bench) -> None:
    for number in range(100):
        bench.submit(number, JobRef("rl", f"job-{number}"))
        bench.clock.now += INTERVAL
    bench.submit(100)
    kept = [held for held in vars(bench.coalescer).values() if isinstance(held, dict)]
    assert sum(map(len, kept)) == 1


def test_a_burst_of_writes_is_not_delayed_and_then_keeps_the_pace() -> None:
    bench = Bench(pace=Pace(interval=0.5, burst=3))
    began = bench.clock.now
    for item in range(5):
        bench.submit(item)
    assert [at - began for at, _, _ in bench.writes] == [0, 0, 0, 0.5, 1.0]
    bench.clock.now += 10
    later = bench.clock.now
    for item in range(4):
        bench.submit(item)
    assert [at - later for at, _, _ in bench.writes[5:]] == [0, 0, 0, 0.5]


def test_slow_writes_are_rarer() -> None:
    bench = Bench(pace=Pace(interval=0.1, share=0.25))
    began = bench.clock.now

    def takes_half_a_second() -> None:
        bench.clock.now += 0.5

    bench.before_write = takes_half_a_second
    for number in range(3):
        bench.submit(number)
    ends = [round(now - began, 3) for now, _, _ in bench.writes]
    assert ends == [0.5, 2.5, 4.5]


def test_early_writes_do_not_add_up_to_a_long_wait() -> None:
    bench = Bench(places=0, pace=Pace(interval=0.1, burst=3, share=0.25))

    def takes_half_a_second() -> None:
        bench.clock.now += 0.5

    bench.before_write = takes_half_a_second
    for number in range(20):
        bench.submit(number)
    bench.places.release()
    ended = bench.clock.now
    bench.before_write = lambda: None
    bench.submit(20)
    assert bench.clock.now - ended == pytest.approx(1.5)


def test_a_slow_write_that_fails_delays_the_next_one_too() -> None:
    bench = Bench(pace=Pace(interval=0.1, share=0.25))
    began = bench.clock.now

    def fails() -> None:
        bench.clock.now += 0.5
        raise Busy("no answer", retry_after=1)

    bench.before_write = fails
    with pytest.raises(Busy):
        bench.submit(1)
    bench.before_write = lambda: None
    bench.submit(2)
    assert bench.writes[-1][0] - began == pytest.approx(2.0)


def test_requests_that_arrive_during_a_write_share_the_next_one() -> None:
    bench = Bench(pace=Pace(interval=0.001, burst=1000))
    numbers = range(100)
    writing, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        writing.set()
        assert go_on.wait(60)

    bench.before_write = hold
    with ThreadPoolExecutor(1 + len(numbers)) as pool:
        first = pool.submit(bench.submit, -1)
        assert writing.wait(60)
        others = [pool.submit(bench.submit, number) for number in numbers]
        batch = bench.coalescer._open
        wait_until(lambda: JOB in batch and len(batch[JOB].items) == 100, what="all to be listed")
        assert not first.done()
        go_on.set()
        assert first.result(60) == "wrote -1"
        assert [other.result(60) for other in others] == [f"wrote {n}" for n in numbers]
    assert [len(items) for _, _, items in bench.writes] == [1, 100]


def test_requests_that_arrive_during_a_slow_write_keep_the_pace() -> None:
    bench = Bench(pace=Pace(interval=0.1, share=0.25))
    began = bench.clock.now
    others: list[Future[str]] = []
    with ThreadPoolExecutor(1) as pool:

        def takes_half_a_second() -> None:
            bench.before_write = lambda: None
            others.append(pool.submit(bench.submit, 2))
            wait_until(lambda: JOB in bench.coalescer._open, what="the request to wait")
            bench.clock.now += 0.5

        bench.before_write = takes_half_a_second
        bench.submit(1)
        assert others[0].result(60) == "wrote 2"
    assert [now - began for now, _, _ in bench.writes] == pytest.approx([0.5, 2.0])


def test_a_write_that_gets_no_turn_in_time_fails_its_requests() -> None:
    bench = Bench(pace=Pace(interval=0.001, burst=1000))
    writing, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        writing.set()
        assert go_on.wait(60)

    bench.before_write = hold
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(bench.submit, 1)
        assert writing.wait(60)
        with pytest.raises(Busy, match="too long"):
            bench.coalescer.submit(JOB, 2, Deadline(bench.clock, bench.clock.now, 1.0))
        go_on.set()
        assert first.result(60) == "wrote 1"
    assert bench.submit(3) == "wrote 3"
