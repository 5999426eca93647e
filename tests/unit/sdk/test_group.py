"""Processes of a group save and stop at the same place of their loops."""

from __future__ import annotations

import multiprocessing
import socket
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from di_orchestrator.errors import BadEnvironment
from di_orchestrator.job import Job
from di_orchestrator.termination import Leaving
from di_orchestrator.training_run import first_process as first_process_module
from di_orchestrator.training_run import group as group_module
from di_orchestrator.training_run.checkpoint import Checkpoints
from di_orchestrator.training_run.first_process import FirstProcess
from di_orchestrator.training_run.follower import JOIN_SECONDS, Follower
from di_orchestrator.training_run.group import Group
from di_orchestrator.training_run.place import Place
from tests.ports import held_port
from tests.unit.sdk import grouped
from tests.unit.sdk.conftest import LEARNER, Clock
from tests.waiting import wait_until

PROCESSES = 3


def run(folder: Path, **more: Any) -> tuple[dict[int, tuple[int, list[int]]], list[int | None]]:
    """Run the program; return the last step and the saves by rank, and the exit codes."""
    context = multiprocessing.get_context("spawn")
    collectives = context.Barrier(PROCESSES), context.Barrier(PROCESSES)
    said = context.Queue()
    told = {"folder": str(folder), "said": said, **more}
    with held_port() as port:
        processes = [
            context.Process(target=grouped.train, args=(rank, PROCESSES, port, collectives, told))
            for rank in range(PROCESSES)
        ]
        # The first one comes last.
        for process in reversed(processes):
            process.start()
        found = {rank: (step, kept) for rank, step, kept in (said.get() for _ in processes)}
        for process in processes:
            process.join()
    return found, [process.exitcode for process in processes]


@pytest.mark.proves(
    "sdk.md#several-processes/run-checkpoint-is-due",
    "sdk.md#several-processes/run-save-write-shards-true",
)
def test_a_group_saves_at_the_same_steps(tmp_path: Path) -> None:
    found, codes = run(tmp_path, steps=150)
    assert codes == [0] * PROCESSES
    ((last, saves),) = {(step, tuple(kept)) for step, kept in found.values()}
    assert last == 150
    assert len(saves) > 1
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == sorted(f"checkpoint-{step}" for step in saves[-2:])
    for name in names:
        parts = sorted(path.name for path in (tmp_path / name).iterdir())
        assert parts == [f"part-{rank}" for rank in range(PROCESSES)]


@pytest.mark.proves(
    "sdk.md#several-processes/run-stopping",
)
@pytest.mark.parametrize("rank", [0, 2])
def test_a_group_saves_and_stops_when_a_pod_of_it_leaves(tmp_path: Path, rank: int) -> None:
    found, codes = run(tmp_path, steps=10_000, leaves=rank)
    assert codes == [0] * PROCESSES
    ((last, saves),) = {(step, tuple(kept)) for step, kept in found.values()}
    assert last < 10_000
    assert saves[-1] == last


@pytest.mark.parametrize("rank", [0, 1])
def test_an_incomplete_sharded_checkpoint_is_no_checkpoint(tmp_path: Path, rank: int) -> None:
    found, codes = run(tmp_path, steps=60, fails=rank)
    assert codes == [0] * PROCESSES
    assert {(step, tuple(kept)) for step, kept in found.values()} == {(60, ())}
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".")


# ------------------------------------------------------------ in one process
SECRET = b"s" * 32


@contextmanager
def first_process(*, leaves: bool = False, **more: Any) -> Iterator[tuple[FirstProcess, Place]]:
    with held_port() as port:
        place = Place(0, 2, "127.0.0.1", port, **more)
        first = FirstProcess(place, SECRET, lambda: leaves)
        try:
            yield first, replace(place, rank=1)
        finally:
            first.close()


def test_a_process_that_connects_late_gets_all_decisions() -> None:
    with first_process() as (first, place):
        decided = [first.is_due(step % 3 == 0) for step in range(10)]
        late = Follower(place, SECRET, lambda: False)
        assert [late.is_due(False) for _ in range(10)] == decided
        assert first.stops() == late.stops() is False
        late.close()


@pytest.mark.proves("security.md#ports-in-the-pods-of-jobs/the-process-group-of-di-training-port")
def test_a_process_that_connects_too_late_decides_for_itself(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(first_process_module, "MOST_PAST", 10)
    with first_process() as (first, place):
        for _ in range(12):
            first.is_due(False)
        assert len(caplog.records) == 1
        late = Follower(place, SECRET, lambda: False)
        assert [late.is_due(own) for own in (True, False, True)] == [True, False, True]
        late.close()


def test_what_is_not_of_the_job_decides_nothing() -> None:
    with first_process() as (first, place):
        for hello in (b"1 forged\n", b"7\n", b"no rank\n", b"x" * 5000):
            with socket.create_connection((place.host, place.port)) as stranger:
                stranger.sendall(hello)
                # It is closed without a line.
                with suppress(ConnectionResetError):
                    assert stranger.recv(1) == b""
        assert not first.stops()


def test_a_process_goes_on_alone_when_the_first_one_has_ended(
    caplog: pytest.LogCaptureFixture,
) -> None:
    leaves = False
    with first_process() as (first, place):
        other = Follower(place, SECRET, lambda: leaves)
        first.is_due(True)
        assert other.is_due(False)
    assert [other.is_due(own) for own in (False, True)] == [False, True]
    leaves = True
    assert other.stops()
    assert caplog.text == ""
    other.close()


def test_a_process_goes_on_alone_when_no_first_one_answers(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    with held_port() as port:
        place = Place(1, 2, "127.0.0.1", port)
        other = Follower(place, None, lambda: False, clock=clock, pause=lambda _: clock.pass_(60))
        assert other.is_due(True)
    assert clock.now > JOIN_SECONDS
    assert "rank 1 decides for itself when to save and stop" in caplog.text


def lose(first: FirstProcess) -> None:
    """Close its sockets as the end of a killed process does."""
    first._wake.send(b".")
    first._thread.join()
    for each in (first._listener, *(link.sock for link in first._links.values())):
        each.close()


def test_a_process_goes_on_alone_at_once_when_the_first_one_is_killed(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    with first_process() as (first, place):
        other = Follower(place, SECRET, lambda: False, clock=clock, pause=clock.pass_)
        first.is_due(True)
        assert other.is_due(False)
        began = clock.now
        lose(first)
        assert not other.stops()
        assert clock.now == began
    assert "rank 1 decides for itself when to save and stop" in caplog.text


def test_a_process_started_again_waits_for_the_next_first_one(clock: Clock) -> None:
    with first_process() as (first, place):
        before = Follower(place, SECRET, lambda: False)
        first.is_due(False)
        assert not before.is_due(False)
        before.close()
        wait_until(lambda: not first._links)
        other = Follower(place, SECRET, lambda: False, clock=clock, pause=clock.pass_)
        other._connect()
        wait_until(lambda: first._links)
        lose(first)
        assert not other.stops()
    assert clock.now > JOIN_SECONDS


def test_a_member_of_an_elastic_group_leaves_alone_after_a_checkpoint() -> None:
    leaves = False
    with first_process(is_elastic=True) as (first, place):
        other = Follower(place, SECRET, lambda: leaves)
        assert first.is_due(False) == other.is_due(False) is False
        leaves = True
        assert not other.stops()
        wait_until(lambda: first.is_due(False), 10)
        while not other.is_due(False):
            pass
        assert (first.stops(), other.stops()) == (False, True)
        other.close()


@pytest.mark.parametrize(("is_asked", "code"), [(False, 143), (True, None)])
def test_a_pod_that_was_not_asked_to_leave_has_not_succeeded(
    monkeypatch: pytest.MonkeyPatch, is_asked: bool, code: int | None
) -> None:
    monkeypatch.setattr(group_module, "LEFT_SECONDS", 0.01)
    with held_port() as port:
        environment = {**LEARNER, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port - 1)}
        job = Job.of({**environment, "WORLD_SIZE": "2", "RANK": "0"})
        place = Place.of(job)
        assert place is not None
        leaving = Leaving(lambda: None)
        group = Group(job, place, Checkpoints(), leaving)
        group.join()
        assert not group.stops
        other = Follower(replace(place, rank=1), None, lambda: True)
        assert not other.stops()
        wait_until(lambda: group.stops, 10)
        leaving.is_asked = is_asked
        with pytest.raises(SystemExit) if code else nullcontext() as raised:
            group.end(has_failed=False)
        assert code is None or raised is None or raised.value.code == code
        other.close()


def test_the_port_of_a_group_is_the_one_after_the_masters() -> None:
    torch = {"MASTER_ADDR": "m", "MASTER_PORT": "29500", "WORLD_SIZE": "2", "RANK": "1"}
    assert Place.of(Job.of(torch)) == Place(1, 2, "m", 29501)
    elastic = {"PET_RDZV_ENDPOINT": "m:10314", "PET_NNODES": "1:4"}
    assert Place.of(Job.of({**torch, **elastic})) == Place(1, 2, "m", 10315, is_elastic=True)
    named = {**LEARNER, **torch, "DI_PORT_DI_GROUP": "23001"}
    assert Place.of(Job.of(named)) == Place(1, 2, "m", 23001)
    for missing in ({"WORLD_SIZE": "1"}, {"MASTER_PORT": "x"}):
        assert Place.of(Job.of({**torch, **missing})) is None


def test_a_port_in_use_is_an_error_that_names_it() -> None:
    with first_process() as (_, place):
        job = Job.of(LEARNER)
        group = Group(job, replace(place, rank=0), Checkpoints(), Leaving(lambda: None))
        with pytest.raises(BadEnvironment, match=f"port {place.port}.*named di-group"):
            group.join()


def test_sharded_saves_of_a_single_process_are_a_folder(tmp_path: Path) -> None:
    group = Group(Job.of({}), None, Checkpoints(tmp_path), Leaving(lambda: None))
    assert group.save(3, lambda path: (path / "part").write_text("x"), shards=True)
    assert (tmp_path / "checkpoint-3" / "part").read_text() == "x"
