"""Samples of the GRPO example age, and its batches are shared among processes that may be late."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from di_grpo.model.problems import ANSWER, LENGTH
from di_grpo.samples import GROUP, MOST_BATCHES, OLDEST, Batch, Buffer
from di_grpo.shares import Share, Shares, split


def arrays(version: int = 0, *, count: int = GROUP) -> dict[str, Any]:
    """A batch as it travels."""
    return {
        "version": version,
        "texts": np.zeros((count, LENGTH), np.uint8),
        "rewards": np.zeros(count, np.float32),
        "log_probabilities": np.zeros((count, ANSWER), np.float32),
    }


def batch(version: int) -> Batch:
    return Batch.of(arrays(version))


def versions(batches: list[Batch]) -> list[int]:
    return [each.version for each in batches]


class TestBuffer:
    def test_old_batches_are_dropped_and_counted_once(self) -> None:
        buffer = Buffer()
        for version in (0, 1):
            buffer.add(batch(version), version=1)
        assert versions(buffer.take(1, version=1 + OLDEST)) == [1]
        assert buffer.dropped() == 1
        assert buffer.dropped() == 0

    def test_the_buffer_is_bounded(self) -> None:
        buffer = Buffer()
        for _ in range(MOST_BATCHES + 3):
            buffer.add(batch(0), version=0)
        assert buffer.dropped() == 3
        assert buffer.take(MOST_BATCHES + 1, version=0) == []
        assert len(buffer.take(MOST_BATCHES, version=0)) == MOST_BATCHES


def whole(rows: int, version: int = 5) -> Share:
    return Share(
        index=0,
        version=version,
        texts=np.arange(rows * LENGTH, dtype=np.uint8).reshape(rows, LENGTH),
        advantages=np.arange(rows, dtype=np.float32),
        log_probabilities=np.zeros((rows, ANSWER), np.float32),
    )


class TestShares:
    def test_a_batch_is_split_without_loss(self) -> None:
        parts = split(whole(7), 3)
        assert [part.index for part in parts] == [0, 1, 2]
        assert [len(part.texts) for part in parts] == [3, 2, 2]
        assert np.concatenate([part.advantages for part in parts]).tolist() == list(range(7))
        assert len(split(whole(1), 3)) == 1

    @pytest.mark.proves(
        "grpo.md#what-is-lost-when-something-dies/a-learner-that-computes-gradients"
    )
    def test_a_share_is_leased_to_one_learner_at_a_time(self) -> None:
        shares = Shares(split(whole(4), 2), lease=3.0)
        first, second = shares.take(10.0), shares.take(11.0)
        assert first is not None
        assert second is not None
        assert [first.index, second.index] == [0, 1]
        assert shares.take(12.9) is None
        assert shares.next_late == 13.0
        late = shares.take(13.0)
        assert late is not None
        assert late.index == 0

    def test_the_first_gradient_of_a_share_counts(self) -> None:
        shares = Shares(split(whole(4), 2), lease=3.0)
        one, other = {"x": np.ones(1, np.float32)}, {"x": np.zeros(1, np.float32)}
        assert not shares.give(4, 0, other)
        assert shares.give(5, 0, one)
        assert not shares.give(5, 0, other)
        assert not shares.give(5, 2, other)
        assert shares.give(5, 1, one)
        assert shares.next_late is None
        assert shares.take(100.0) is None
        assert shares.mean()["x"] == 1

    def test_gradients_are_weighted_by_samples(self) -> None:
        shares = Shares(split(whole(3), 2), lease=3.0)
        shares.give(5, 1, {"x": np.array([6.0], np.float32)})
        shares.give(5, 0, {"x": np.array([3.0], np.float32)})
        assert shares.mean()["x"] == pytest.approx(4.0)
        assert shares.mean()["x"].dtype == np.float32
