"""The language model of the GRPO example: two implementations, and what samples teach it."""

from __future__ import annotations

import numpy as np
import pytest
from di_grpo.grpo import CLIP, advantages, gradient
from di_grpo.model.network import log_probabilities
from di_grpo.model.problems import (
    ANSWER,
    HELD_OUT,
    LENGTH,
    TRAINING,
    answers,
    held_out_problems,
    nth_training_problems,
    prompts,
    training_problems,
)
from di_grpo.model.sampler import Sampler
from di_grpo.model.warm_up import LOOK_STEPS, pass_at_1, warmed_up
from di_grpo.model.weights import Floats, Weights, initial_weights
from di_grpo.samples import GROUP
from di_grpo.shares import Share

RNG = np.random.default_rng
ROWS = 2 * GROUP


@pytest.fixture
def weights() -> Weights:
    return initial_weights(RNG(3))


def share_of(weights: Weights, better: Floats) -> Share:
    """Samples of these weights, one for each advantage."""
    samples = Sampler(weights).sample(prompts(training_problems(RNG(1), len(better))), RNG(2))
    return Share(
        index=0,
        version=0,
        texts=samples.texts,
        advantages=better,
        log_probabilities=samples.log_probabilities,
    )


def test_held_out_problems_are_not_trained_on() -> None:
    held = held_out_problems(HELD_OUT)
    assert len(set(held.tolist())) == HELD_OUT
    assert not set(held.tolist()) & set(training_problems(RNG(0), 50_000).tolist())
    training = nth_training_problems(range(TRAINING)).tolist()
    assert sorted([*training, *held_out_problems(HELD_OUT).tolist()]) == [*range(100 * 100)]
    assert (held_out_problems(10) == held[:10]).all()


def test_engines_and_learners_agree_on_probabilities(weights: Weights) -> None:
    samples = Sampler(weights).sample(prompts(training_problems(RNG(0), ROWS)), RNG(1))
    assert samples.texts.shape == (ROWS, LENGTH)
    learned = log_probabilities(weights, samples.texts)[:, -ANSWER:]
    np.testing.assert_allclose(samples.log_probabilities, learned, atol=1e-4)


def test_an_advantage_is_relative_to_its_group() -> None:
    rewards = np.array([1, *[0] * (GROUP - 1), *[1] * GROUP], np.float32)
    better = advantages(rewards)
    assert better[0] > 2
    assert (better[1:GROUP] < 0).all()
    assert abs(better[:GROUP].sum()) < 1e-4
    assert (better[GROUP:] == 0).all()


def test_the_gradient_matches_the_loss(weights: Weights) -> None:
    """Numerically, of the unclipped loss, whose ratio of probabilities is 1 here."""
    share = share_of(weights, RNG(4).standard_normal(ROWS).astype(np.float32))
    found = gradient(weights, share)
    assert {part.dtype for part in found.values()} == {np.dtype(np.float32)}
    direction = {name: RNG(6).standard_normal(part.shape) for name, part in weights.items()}

    def loss(step: float) -> float:
        moved = {
            name: (part + step * direction[name]).astype(np.float32)
            for name, part in weights.items()
        }
        ratio = np.exp(log_probabilities(moved, share.texts)[:, -ANSWER:] - share.log_probabilities)
        return -float((ratio * share.advantages[:, None]).mean())

    slope = (loss(1e-4) - loss(-1e-4)) / 2e-4
    along = sum(float((found[name] * part).sum()) for name, part in direction.items())
    assert along == pytest.approx(slope, rel=0.02)


def test_a_clipped_ratio_has_no_gradient(weights: Weights) -> None:
    share = share_of(weights, np.ones(ROWS, np.float32))
    before = share.log_probabilities - np.float32(np.log(1 + 2 * CLIP))
    far = Share(
        index=0, version=0, texts=share.texts, advantages=share.advantages, log_probabilities=before
    )
    assert all((part == 0).all() for part in gradient(weights, far).values())
    assert any((part != 0).any() for part in gradient(weights, share).values())


@pytest.mark.extended
def test_the_warm_up_is_reproducible_and_imitates() -> None:
    (one, steps), (other, _) = (warmed_up(RNG(0), most=LOOK_STEPS) for _ in range(2))
    assert steps == LOOK_STEPS
    assert all((one[name] == other[name]).all() for name in one)
    asked = prompts(held_out_problems(ROWS))
    right = np.concatenate([asked, answers(held_out_problems(ROWS))], 1)
    first = log_probabilities(initial_weights(RNG(0)), right)[:, -ANSWER:].mean()
    assert log_probabilities(one, right)[:, -ANSWER:].mean() > first
    assert pass_at_1(one) < 0.1
