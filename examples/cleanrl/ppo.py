"""PPO for CartPole-v1 in a single file, as in CleanRL: it logs to TensorBoard and knows no job."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical
from torch.utils.tensorboard import SummaryWriter

GAMMA, LAMBDA, CLIP, EPOCHS, MINIBATCHES = 0.99, 0.95, 0.2, 4, 4


class Agent(nn.Module):  # type: ignore[misc]  # torch has no types here
    """A policy and a critic."""

    def __init__(self, inputs: int, actions: int) -> None:
        super().__init__()
        self.actor = network(inputs, actions, 0.01)
        self.critic = network(inputs, 1, 1.0)

    def act(
        self, seen: torch.Tensor, action: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the action, its log probability, the entropy and the value."""
        chances = Categorical(logits=self.actor(seen))
        action = chances.sample() if action is None else action
        return action, chances.log_prob(action), chances.entropy(), self.critic(seen).squeeze(-1)


def network(inputs: int, outputs: int, gain: float) -> nn.Sequential:
    """Two hidden layers with orthogonal weights."""
    layers = [nn.Linear(inputs, 64), nn.Linear(64, 64), nn.Linear(64, outputs)]
    for layer, scale in zip(layers, (2**0.5, 2**0.5, gain), strict=True):
        nn.init.orthogonal_(layer.weight, scale)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2])


def main() -> None:  # noqa: PLR0915  a single file reads from top to bottom
    """Train, and log the return of each episode."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--total-timesteps", type=int, default=25_000)
    parser.add_argument("--learning-rate", type=float, default=2.5e-3)
    parser.add_argument("--num-envs", type=int, default=4)
    parser.add_argument("--num-steps", type=int, default=128)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=Path, default=Path("/tmp/runs"))
    args = parser.parse_args()

    writer = SummaryWriter(str(args.runs / f"CartPole-v1__ppo__{args.seed}__{int(time.time())}"))
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    envs = [gym.make("CartPole-v1") for _ in range(args.num_envs)]
    agent = Agent(4, 2)
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)
    shape = (args.num_steps, args.num_envs)
    rewards, dones = torch.zeros(shape), torch.zeros(shape)
    seen = torch.zeros((*shape, 4))
    actions, logprobs, values = torch.zeros(shape), torch.zeros(shape), torch.zeros(shape)
    observation = np.stack([env.reset(seed=args.seed + i)[0] for i, env in enumerate(envs)])
    returns, global_step = np.zeros(args.num_envs), 0

    while global_step < args.total_timesteps:
        optimizer.param_groups[0]["lr"] = args.learning_rate * (
            1 - global_step / args.total_timesteps
        )
        for step in range(args.num_steps):
            global_step += args.num_envs
            seen[step] = torch.as_tensor(observation)
            with torch.no_grad():
                actions[step], logprobs[step], _, values[step] = agent.act(seen[step])
            for i, env in enumerate(envs):
                observation[i], reward, terminated, truncated, _ = env.step(int(actions[step, i]))
                rewards[step, i], dones[step, i] = float(reward), float(terminated or truncated)
                returns[i] += float(reward)
                if terminated or truncated:
                    writer.add_scalar("charts/episodic_return", returns[i], global_step)
                    observation[i], returns[i] = env.reset()[0], 0.0

        with torch.no_grad():
            following = agent.critic(torch.as_tensor(observation)).squeeze(-1)
            advantages, last = torch.zeros(shape), torch.zeros(args.num_envs)
            for step in reversed(range(args.num_steps)):
                goes_on = 1 - dones[step]
                delta = rewards[step] + GAMMA * following * goes_on - values[step]
                advantages[step] = last = delta + GAMMA * LAMBDA * goes_on * last
                following = values[step]
            targets = advantages + values

        flat = [each.flatten(0, 1) for each in (seen, actions, logprobs, advantages, targets)]
        for _ in range(EPOCHS):
            for part in torch.randperm(len(flat[0])).chunk(MINIBATCHES):
                saw, did, before, advantage, target = (each[part] for each in flat)
                _, logprob, entropy, value = agent.act(saw, did)
                ratio = (logprob - before).exp()
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
                policy_loss = -torch.min(advantage * ratio, advantage * clipped).mean()
                loss = policy_loss - 0.01 * entropy.mean() + 0.25 * ((value - target) ** 2).mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
        writer.add_scalar("losses/policy_loss", policy_loss.item(), global_step)
        writer.add_scalar("charts/learning_rate", optimizer.param_groups[0]["lr"], global_step)
    writer.close()


if __name__ == "__main__":
    main()
