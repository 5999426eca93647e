"""PPO of Stable-Baselines3 learns CartPole-v1; the hook reports, saves and resumes."""

from __future__ import annotations

import argparse

from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

import di_orchestrator as di
from di_orchestrator import hooks


def main() -> None:
    """Learn for as many steps as asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--save-every", type=float, default=60, help="seconds")
    arguments = parser.parse_args()
    with di.training(max_env_steps=arguments.steps, save_every=arguments.save_every) as run:
        environments = make_vec_env("CartPole-v1", n_envs=4, seed=1)
        model = PPO("MlpPolicy", environments, n_steps=128, seed=1, device="cpu", verbose=1)
        model.learn(arguments.steps, callback=hooks.stable_baselines3(run))


if __name__ == "__main__":
    main()
