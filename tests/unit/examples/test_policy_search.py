"""The policy follows its weights; the search moves them by the order of returns alone."""

from __future__ import annotations

import numpy as np
from di_cartpole.policy import Search, SearchSettings, Weights, perturbation

SEEDS = list(range(24))


def search(seed: int = 1) -> Search:
    return Search(settings=SearchSettings(), seed=seed)


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
