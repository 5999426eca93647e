"""PPO of RLlib learns CartPole-v1, and continues from its checkpoint."""

from __future__ import annotations

import argparse

import ray
from ray.rllib.algorithms.ppo import PPOConfig

import di_orchestrator as di


def main() -> None:
    """Learn for as many steps of the environment as asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=12_000)
    parser.add_argument("--save-every", type=float, default=60, help="seconds")
    parser.add_argument("--env-runners", type=int, default=1, help="processes that play")
    arguments = parser.parse_args()
    ray.init()  # on the cluster that RAY_ADDRESS names, or a new one in this pod
    config = (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=arguments.env_runners)
        .learners(num_learners=0)
        .training(train_batch_size_per_learner=1000, minibatch_size=125, num_epochs=6, lr=1e-3)
    )
    algorithm = config.build_algo()
    steps = 0
    with di.training(max_env_steps=arguments.steps, save_every=arguments.save_every) as run:
        if (found := run.checkpoint.restore()) is not None:
            algorithm.restore_from_path(str(found))
            steps = run.checkpoint.step_of_restored or 0
            print(f"continues from step {steps}", flush=True)
        while steps < arguments.steps and not run.stopping:
            played = algorithm.train()["env_runners"]
            steps = int(played["num_env_steps_sampled_lifetime"])
            mean = played["episode_return_mean"]
            print(f"step {steps}: mean return {mean:.0f}", flush=True)
            run.report(env_steps=steps, episodeReturn=mean)
            if run.checkpoint.is_due:
                run.save(lambda path: algorithm.save_to_path(str(path)), step=steps)
    algorithm.stop()


if __name__ == "__main__":
    main()
