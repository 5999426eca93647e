"""The search in one process, whose settings are arguments: what examples/sweep runs.

It takes a fixed number of generations and reports the mean return after each.
"""

from __future__ import annotations

import argparse

import numpy as np

import di_orchestrator as di
from di_cartpole.episodes import Episodes
from di_cartpole.learner import MAX_SEED
from di_cartpole.policy import Search, SearchSettings

EPISODES = 3
"""Episodes of an evaluation."""


def main() -> None:
    """Search with the settings of the arguments; without a job as well."""
    arguments = _parser().parse_args()
    settings = SearchSettings(
        sigma=arguments.sigma, step=arguments.step, momentum=arguments.momentum
    )
    search = Search(settings=settings, seed=arguments.seed)
    rng, episodes, env_steps = np.random.default_rng(arguments.seed), Episodes(), 0
    with di.training(total_steps=arguments.generations, batch_size=2 * arguments.pairs) as run:
        for generation in range(1, arguments.generations + 1):
            if run.stopping:
                break
            returns = {}
            with run.iteration(samples=2 * arguments.pairs):
                for seed in map(int, rng.choice(MAX_SEED, size=arguments.pairs, replace=False)):
                    plus, minus = episodes.run_pair(search.weights, seed=seed, sigma=settings.sigma)
                    returns[seed] = plus.total_reward, minus.total_reward
                    env_steps += plus.steps + minus.steps
                search.improve(returns)
            value = _evaluated(search, episodes)
            run.report(generation, env_steps=env_steps, episodeReturn=value)
    print(f"mean return {value:.1f} after {generation} generations", flush=True)


def _evaluated(search: Search, episodes: Episodes) -> float:
    """The mean return of the policy itself; all trials play the same episodes."""
    found = [episodes.run(search.weights, seed=MAX_SEED + each) for each in range(EPISODES)]
    return sum(each.total_reward for each in found) / EPISODES


def _parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(description=__doc__)
    found.add_argument("--sigma", type=float, default=0.3, help="spread of the trials")
    found.add_argument("--step", type=float, default=0.1, help="length of a move")
    found.add_argument("--momentum", type=float, default=0.7)
    found.add_argument("--pairs", type=int, default=8, help="antithetic pairs of a generation")
    found.add_argument("--generations", type=int, default=27)
    found.add_argument("--seed", type=int, default=1)
    return found


if __name__ == "__main__":
    main()
