"""Data shards of a program, against the real application and outside a job."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import di_orchestrator as di
from di_kube.errors import Unavailable
from di_orchestrator.data_shards import order, worker
from di_orchestrator.data_shards.requests import Answer, Local, Piece, Plan
from di_orchestrator.data_shards.worker import Worker
from di_server.jobs.shards.order import shard_at
from tests.unit.sdk.conftest import Clock
from tests.unit.server.fakes import Harness

SET: dict[str, Any] = {"size": 20, "shard_size": 3, "epochs": 2, "lease_seconds": 3600}
LONG = 30


def table(harness: Harness) -> dict[str, Any]:
    found: dict[str, Any] = harness.job()["status"]["shards"]["prompts"]
    return found


def records(shards: Iterator[di.Shard]) -> list[int]:
    return [record for shard in shards for record in shard]


def test_both_sides_compute_the_same_order() -> None:
    places = [(place, seed) for place in range(37) for seed in (0, 5)]
    for place, seed in places:
        arguments = {"count": 37, "seed": seed, "epoch": 1}
        assert order.shard_at(place, **arguments) == shard_at(place, **arguments)


@pytest.mark.proves(
    "sdk.md#data-shards",
    "sdk.md#reference/di-shards-name-str-size-int-none-none",
    "sdk.md#reference/progress-tuple-int-int",
)
@pytest.mark.usefixtures("learner")
@pytest.mark.parametrize("shuffle", [False, True])
def test_each_record_of_an_epoch_is_given_once(harness: Harness, *, shuffle: bool) -> None:
    with di.shards("prompts", shuffle=shuffle, **SET) as shards:
        found = [(shard.epoch, record) for shard in shards for record in shard]
    assert sorted(found) == [(epoch, record) for epoch in range(2) for record in range(20)]
    assert (found == sorted(found)) is not shuffle
    assert (table(harness)["done"], table(harness)["leases"]) == (14, {})
    assert shards.progress == (14, 14)


@pytest.mark.usefixtures("learner")
def test_workers_share_the_records_of_a_data_set() -> None:
    found: list[list[int]] = []
    threads = [
        threading.Thread(target=lambda: found.append(records(di.shards("prompts", **SET))))
        for _ in range(3)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join(LONG)
    assert sorted(record for each in found for record in each) == sorted([*range(20)] * 2)


@pytest.mark.usefixtures("learner")
@pytest.mark.proves("sdk.md#reference/di-shard-index-int-epoch-int-records")
def test_records_can_have_names() -> None:
    names = ["a", "b", "c"]
    with di.shards("prompts", records=names, shard_size=2) as shards:
        assert [list(shard) for shard in shards] == [["a", "b"], ["c"]]
    with pytest.raises(di.Refused, match="prompts has records"):
        next(di.shards("prompts", records=["a", "b", "d"], shard_size=2))


@pytest.mark.proves("sdk.md#reference/close-none-give-the-shards-that-are-not-done-to")
@pytest.mark.usefixtures("learner")
def test_what_a_closed_worker_has_not_done_is_given_to_another(harness: Harness) -> None:
    with di.shards("prompts", **SET) as shards:
        first, second = next(shards), next(shards)
    assert (first.index, second.index) == (0, 1)
    assert (table(harness)["done"], table(harness)["leases"]) == (1, {})
    with di.shards("prompts", **SET) as shards:
        assert next(shards).index == 1


@pytest.mark.proves(
    "sdk.md#reference/position-dict-str-any",
    "sdk.md#reference/restore-position-mapping-str-any-none",
)
@pytest.mark.usefixtures("learner")
def test_the_position_is_where_another_run_goes_on(harness: Harness) -> None:
    with di.shards("prompts", **SET) as shards:
        seen = [next(shards).index for _ in range(4)]
        position = shards.position()
    assert position["after"] >= 4
    assert seen == [0, 1, 2, 3]
    del harness.job()["status"]["shards"]
    with di.shards("prompts", **SET) as shards:
        shards.restore(position)
        assert [shard.index for shard in shards] == [*range(3, 14)]


@pytest.mark.usefixtures("learner")
def test_a_restored_position_makes_other_workers_begin_again() -> None:
    with di.shards("prompts", **SET) as shards, di.shards("prompts", **SET) as other:
        assert next(shards).index == 0
        next(other)
        shards.restore({"after": 0, "undone": ""})
        found = [next(shards).index]
        threads = [threading.Thread(target=lambda: found.extend(s.index for s in other))]
        threads[0].start()
        found += [shard.index for shard in shards]
        threads[0].join(LONG)
    assert sorted(set(found)) == [*range(14)]


def learn(steps: int, save_at: int) -> list[int]:
    """Do so many shards as a training that saves once; return their indexes."""
    seen: list[int] = []
    with di.training() as run, di.shards("prompts", **SET) as shards:
        shards.resume(run)
        for step, shard in enumerate(shards, 1):
            seen.append(shard.index)
            if step == save_at:
                assert run.save(shards.saving(lambda path: path.write_text("x")), step=step)
            if step == steps:
                break
    return seen


@pytest.mark.proves(
    "sdk.md#data-shards",
    "sdk.md#reference/saving-write-callable-path-object",
    "sdk.md#reference/resume-run-saving-none",
)
@pytest.mark.parametrize("kind", ["job", "outside"])
def test_a_training_resumes_at_the_records_of_its_checkpoint(
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    if kind == "job":
        request.getfixturevalue("learner")
    monkeypatch.setenv("DI_CHECKPOINT_DIR", str(tmp_path))
    assert learn(6, save_at=4) == [0, 1, 2, 3, 4, 5]
    monkeypatch.setenv("DI_RESTORE_STEP", "4")
    # The fourth shard was not done when the checkpoint was saved.
    assert learn(99, save_at=7) == [*range(3, 14)]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "checkpoint-4",
        "checkpoint-4.shards-prompts.json",
        "checkpoint-7",
        "checkpoint-7.shards-prompts.json",
    ]


def test_a_position_is_saved_with_a_checkpoint_alone(tmp_path: Path) -> None:
    with di.shards("prompts", **SET) as shards:
        save = shards.saving(lambda path: path.write_text("x"))
        with pytest.raises(ValueError, match="is not a path at which"):
            save(tmp_path / "checkpoint-3")


def test_positions_of_removed_checkpoints_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DI_CHECKPOINT_DIR", str(tmp_path))
    with di.training() as run, di.shards("prompts", **SET) as shards:
        for step in range(1, 6):
            run.save(shards.saving(lambda path: path.mkdir()), step=step)
    steps = sorted(path.name.split(".")[0] for path in tmp_path.glob("*.json"))
    # The third one's is removed with the next save.
    assert steps == ["checkpoint-3", "checkpoint-4", "checkpoint-5"]


def test_a_checkpoint_without_its_position_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DI_CHECKPOINT_DIR", str(tmp_path))
    with di.training() as run, di.shards("prompts", **SET) as shards:
        run.save(lambda path: path.write_text("x"), step=1)
        monkeypatch.setenv("DI_RESTORE_STEP", "1")
    with di.training() as run, di.shards("prompts", **SET) as shards:
        with pytest.raises(di.CheckpointLost, match="has no position of prompts beside it"):
            shards.resume(run)
        run.save(shards.saving(lambda path: path.write_text("x")), step=1)
    other = di.shards("prompts", size=21)
    with di.training() as run, pytest.raises(ValueError, match="has a position of prompts as"):
        other.resume(run)


@pytest.mark.proves("sdk.md#reference/done-shard-shard-none")
@pytest.mark.usefixtures("learner")
def test_a_shard_that_is_done_by_hand_stays_until_then(harness: Harness) -> None:
    with di.shards("prompts", by_hand=True, **SET) as shards:
        first, second = next(shards), next(shards)
        shards.done(second)
        shards.position()
        assert table(harness)["done"] == 1
        shards.done(first)
        shards.position()
        assert table(harness)["done"] == 2


@pytest.mark.usefixtures("learner")
def test_lost_answers_lose_no_shard(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    # Every write takes effect, and the answers to the first and the third are lost.
    write, counts = harness.kube.patch, [0]

    def patch(*about: Any, **more: Any) -> Any:
        found = write(*about, **more)
        counts[0] += 1
        if counts[0] in (1, 3):
            raise Unavailable(kind="DIJob", code=503)
        return found

    monkeypatch.setattr(harness.kube, "patch", patch)
    with di.shards("prompts", size=5) as shards:
        found = [shard.index for shard in shards]
    assert found == [*range(5)]


@pytest.mark.usefixtures("learner")
def test_a_finished_job_ends_the_iteration_with_the_reason(harness: Harness) -> None:
    harness.job()["status"]["phase"] = "Succeeded"
    with di.shards("prompts", **SET) as shards, pytest.raises(di.Refused, match="is finished"):
        next(shards)


@pytest.mark.parametrize(
    "arguments",
    [{}, {"size": 3, "records": ["a"]}, {"size": 0}, {"size": 3, "shard_size": 0}],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="shards takes"):
        di.shards("prompts", **arguments)


@pytest.mark.parametrize("shuffle", [False, True])
def test_outside_a_job_one_process_gets_all(*, shuffle: bool) -> None:
    with di.shards("prompts", shuffle=shuffle, **SET) as shards:
        seen = [next(shards) for _ in range(3)]
        position = shards.position()
    with di.shards("prompts", shuffle=shuffle, **SET) as shards:
        shards.restore(position)
        rest = list(shards)
    done = [record for shard in (*seen[:2], *rest) for record in shard]
    assert sorted(done) == sorted([*range(20)] * 2)


def test_positions_of_di_server_have_ranges() -> None:
    local = Local(Plan(20, 3, 2, False, 0, 60, ""))
    local.restore({"after": 6, "undone": "1-2,4"})
    found = local.take({"done": [], "number": 5, "holds": [], "leaves": False})
    assert [piece.index for piece in found.pieces] == [1, 2, 4, 6, 7]


class Source:
    """Gives out what a worker asks for, and notes how many that was."""

    def __init__(self, ahead: float = 2.0) -> None:
        self.asked: list[int] = []
        self.after = 0
        self.ahead = ahead
        self.changed = threading.Condition()

    def take(self, said: Any) -> Answer:
        with self.changed:
            self.asked.append(said["number"])
            pieces = tuple(Piece(self.after + i, 0, 0, 1) for i in range(said["number"]))
            self.after += said["number"]
            self.changed.notify_all()
        return Answer(0, pieces, frozenset(), 0, 10**6, False, 0.0, self.ahead)

    def position(self) -> dict[str, Any]:
        return {}

    def restore(self, position: Any) -> None:
        """Nothing to restore."""

    def most(self, least: int) -> None:
        """Wait until a request has asked for so many."""
        with self.changed:
            assert self.changed.wait_for(lambda: max(self.asked) >= least, LONG)


def test_a_fast_worker_asks_for_many_at_once(clock: Clock) -> None:
    source = Source()
    found = Worker(source, lease_seconds=60, clock=clock)
    for _ in range(200):
        piece = found.next()
        assert piece is not None
        found.done(piece.index)
        clock.pass_(0.001)
    source.most(worker.AT_ONCE)
    found.close()


@pytest.mark.parametrize(
    ("ahead", "lease", "most"), [(1.0, 60, 10), (6.0, 60, 60), (60.0, 60, 128), (60.0, 20, 50)]
)
def test_a_worker_asks_for_the_seconds_of_work_of_the_last_response(
    clock: Clock, ahead: float, lease: float, most: int
) -> None:
    source = Source(ahead)
    found = Worker(source, lease_seconds=lease, clock=clock)
    for _ in range(4 * most):
        piece = found.next()
        assert piece is not None
        # A little less than a tenth: rounding takes none away.
        clock.pass_(0.0999)
        found.done(piece.index)
    source.most(most)
    found.close()
    assert max(source.asked) == most


def test_a_slow_worker_asks_for_nothing_ahead(clock: Clock) -> None:
    source = Source()
    found = Worker(source, lease_seconds=60, clock=clock)
    for _ in range(6):
        piece = found.next()
        assert piece is not None
        clock.pass_(40)
        found.done(piece.index)
    found.close()
    # The first ones were asked for before it was known to be slow.
    assert source.after <= 8
