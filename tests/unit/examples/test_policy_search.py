"""The policy follows its weights; the search moves them by the order of returns alone."""

from __future__ import annotations

import numpy as np
import pytest
from di_cartpole.policy import (
    ACTIONS,
    HIDDEN,
    OBSERVATIONS,
    SIZE,
    Search,
    SearchSettings,
    Weights,
    act,
    perturbation,
)

SEEDS = list(range(24))
OBSERVATION = np.array([0.1, -0.2, 0.03, 0.4])


def search(seed: int = 1) -> Search:
    return Search(settings=SearchSettings(), seed=seed)


def with_output_biases(*biases: float) -> Weights:
    """A network that decides by the biases of its outputs alone."""
    weights = np.zeros(SIZE)
    weights[-ACTIONS:] = biases
    return weights


def test_the_larger_output_is_the_action() -> None:
    assert act(with_output_biases(1.0, 0.0), OBSERVATION) == 0
    assert act(with_output_biases(0.0, 1.0), OBSERVATION) == 1


def test_the_action_depends_on_the_observation() -> None:
    # One hidden unit sees the first observation and drives the second action.
    weights = np.zeros(SIZE)
    weights[0] = 1.0
    weights[OBSERVATIONS * HIDDEN + HIDDEN + 1] = 1.0
    assert act(weights, np.array([1.0, 0, 0, 0])) == 1
    assert act(weights, np.array([-1.0, 0, 0, 0])) == 0


def test_a_seed_stands_for_the_same_direction_on_both_sides() -> None:
    np.testing.assert_array_equal(perturbation(7), perturbation(7))
    assert not np.array_equal(perturbation(7), perturbation(8))


def test_the_same_seed_starts_the_same_search() -> None:
    np.testing.assert_array_equal(search(3).weights, search(3).weights)
    assert not np.array_equal(search(3).weights, search(4).weights)


def test_a_plateau_gives_no_push() -> None:
    searching = search()
    before = searching.weights.copy()
    searching.improve(dict.fromkeys(SEEDS, (9.0, 9.0)))
    np.testing.assert_array_equal(searching.weights, before)


def test_weights_move_along_the_better_direction_of_a_pair() -> None:
    forward, backward = search(), search()
    before = forward.weights.copy()
    forward.improve({5: (10.0, 1.0)})
    backward.improve({5: (1.0, 10.0)})
    move = forward.weights - before
    assert move @ perturbation(5) > 0
    np.testing.assert_allclose(backward.weights - before, -move, atol=1e-12)


def test_only_the_order_of_returns_counts() -> None:
    """One lucky episode must not throw the policy off."""
    rng = np.random.default_rng(2)
    returns = {
        seed: (float(a), float(b)) for seed, (a, b) in zip(SEEDS, rng.random((24, 2)), strict=True)
    }
    plain, stretched = search(), search()
    plain.improve(returns)
    stretched.improve({seed: (100 * a**3, 100 * b**3) for seed, (a, b) in returns.items()})
    np.testing.assert_allclose(plain.weights, stretched.weights)


def test_the_order_in_which_results_came_back_does_not_count() -> None:
    returns = {seed: (float(seed), 0.0) for seed in SEEDS}
    one, other = search(), search()
    one.improve(returns)
    other.improve(dict(reversed(returns.items())))
    np.testing.assert_array_equal(one.weights, other.weights)


def test_the_search_climbs() -> None:
    """On a return that is known in closed form it comes much closer to the best weights."""
    target = perturbation(10_000) * 0.3
    searching = search()

    def value(weights: Weights) -> float:
        return -float(np.linalg.norm(weights - target))

    start = value(searching.weights)
    sigma = searching.settings.sigma
    for generation in range(60):
        seeds = [24 * generation + seed for seed in SEEDS]
        searching.improve(
            {
                seed: (
                    value(searching.weights + sigma * perturbation(seed)),
                    value(searching.weights - sigma * perturbation(seed)),
                )
                for seed in seeds
            }
        )
    assert value(searching.weights) > 0.6 * start


def test_the_shape_of_the_network_is_that_of_the_environment() -> None:
    assert SIZE == 4 * 16 + 16 + 16 * 2 + 2
    with pytest.raises(ValueError, match="mismatch"):
        act(np.zeros(SIZE), np.zeros(3))
