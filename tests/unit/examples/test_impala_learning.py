"""What the learner of the IMPALA example makes of what its collectors bring."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from di_impala.collector import Player
from di_impala.improve import Adam, aims, gradient, loss
from di_impala.network import (
    ACTIONS,
    ACTOR,
    OBSERVATIONS,
    Floats,
    Weights,
    first_weights,
    forward,
    log_chances,
)
from di_impala.unrolls import MOST_UNROLLS, STEPS, Batch, Queue, Unroll
from di_impala.vtrace import Targets, targets


def floats(*values: float) -> Floats:
    return np.array(values, np.float32)


def some_weights(seed: int) -> Weights:
    rng = np.random.default_rng(seed)
    return {
        name: rng.standard_normal(part.shape).astype(np.float32) / np.float32(2)
        for name, part in first_weights(seed).items()
    }


def played(weights: Weights, *, seed: int = 1, version: int = 0) -> dict[str, Any]:
    """An unroll as it travels."""
    return {"version": version, **Player(seed=seed).play(weights)}


def batch(weights: Weights, *, collectors: int = 3) -> Batch:
    return Batch.of([Unroll.of(played(weights, seed=seed)) for seed in range(collectors)])


class TestTargets:
    """Against sums that are written out, of three steps."""

    values = floats(9, 9, 9, 8)
    rewards = floats(1, 2, 4)

    def found(self, **other: Floats) -> Targets:
        plain = {"ratios": floats(1, 1, 1), "discounts": floats(0.5, 0.5, 0.5)}
        return targets(**{**plain, "rewards": self.rewards, "values": self.values, **other})

    def test_on_policy_targets_are_the_returns(self) -> None:
        found = self.found()
        assert found.values.tolist() == [4, 6, 8]
        assert found.advantages.tolist() == [4 - 9, 6 - 9, 8 - 9]

    def test_targets_end_with_the_episode(self) -> None:
        found = self.found(discounts=floats(0.5, 0, 0.5))
        assert found.values.tolist() == [2, 2, 8]
        assert found.advantages.tolist() == [2 - 9, 2 - 9, 8 - 9]

    def test_a_zero_ratio_cuts_the_trace(self) -> None:
        found = self.found(ratios=floats(1, 0, 1))
        assert found.values.tolist() == [1 + 0.5 * 9, 9, 8]
        assert found.advantages.tolist() == [5.5 - 9, 0, 8 - 9]

    def test_ratios_are_clipped_at_one(self) -> None:
        found = self.found(ratios=floats(7, 7, 7))
        assert found.values.tolist() == self.found().values.tolist()
        assert found.advantages.tolist() == self.found().advantages.tolist()


class TestGradient:
    def test_the_gradient_matches_the_loss(self) -> None:
        weights = some_weights(1)
        seen = batch(some_weights(2))
        aimed = aims(weights, seen)
        slopes = gradient(weights, seen, aimed)
        exact = {name: part.astype(np.float64) for name, part in weights.items()}
        assert slopes.keys() == weights.keys()
        for name, part in exact.items():
            at = np.unravel_index(np.argmax(np.abs(slopes[name])), part.shape)
            near = []
            for step in (1e-4, -1e-4):
                moved = part.copy()
                moved[at] += step
                near.append(loss({**exact, name: moved}, seen, aimed))  # type: ignore[dict-item]
            assert slopes[name][at] == pytest.approx((near[0] - near[1]) / 2e-4, rel=1e-3), name

    @pytest.mark.parametrize("better", range(ACTIONS))
    def test_the_action_that_earns_becomes_likelier(self, better: int) -> None:
        weights, adam = first_weights(1), Adam(1e-2)
        seen = batch(weights)
        # Every step an episode of its own, so that no other one earns by it.
        rewards = (seen.actions == better).astype(np.float32)
        seen = replace(seen, rewards=rewards, goes_on=np.zeros_like(seen.goes_on))
        for _ in range(20):
            weights = adam.step(weights, gradient(weights, seen, aims(weights, seen)))
        chances = np.exp(log_chances(forward(weights, ACTOR, seen.observations)[1]))
        assert chances.sum(-1) == pytest.approx(1, abs=1e-5)
        assert chances[..., better].mean() > 0.6


class TestPlayer:
    def test_returns_are_of_ended_episodes(self) -> None:
        player, weights = Player(seed=3), first_weights(1)
        seen = [Unroll.of({"version": 0, **player.play(weights)}) for _ in range(5)]
        ended = [float(value) for unroll in seen for value in unroll.returns]
        (at,) = np.nonzero(np.concatenate([unroll.goes_on for unroll in seen]) == 0)
        # A reward of 1 for every step.
        assert ended == np.diff(at, prepend=-1).tolist()
        assert len(ended) > 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("actions", np.zeros(STEPS - 1, np.uint8)),
        ("actions", np.full(STEPS, ACTIONS, np.uint8)),
        ("observations", np.zeros((STEPS, OBSERVATIONS))),
        ("rewards", np.full(STEPS, np.nan)),
        ("goes_on", np.zeros((STEPS, 1))),
        ("log_chances", np.full(STEPS, np.inf)),
        ("returns", np.zeros(STEPS + 1)),
        ("returns", floats(np.nan)),
    ],
)
def test_a_bad_unroll_is_refused(name: str, value: Any) -> None:
    arrays = played(first_weights(1))
    with pytest.raises(ValueError, match=name):
        Unroll.of({**arrays, name: value})
    del arrays[name]
    with pytest.raises(KeyError, match=name):
        Unroll.of(arrays)


class TestQueue:
    def test_the_queue_gives_whole_batches_oldest_first(self) -> None:
        queue, weights = Queue(), first_weights(1)
        for version in range(3):
            queue.add(Unroll.of(played(weights, version=version)))
        assert queue.take(4) == []
        assert [unroll.version for unroll in queue.take(2)] == [0, 1]
        assert queue.take(2) == []
        assert queue.dropped() == 0

    def test_a_full_queue_drops_the_oldest(self) -> None:
        queue = Queue()
        unroll = Unroll.of(played(first_weights(1)))
        for version in range(MOST_UNROLLS + 2):
            queue.add(replace(unroll, version=version))
        assert queue.dropped() == 2
        assert queue.dropped() == 0
        assert queue.take(1)[0].version == 2
