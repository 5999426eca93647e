"""Distributed data parallel regression that goes on where it was, whoever is left.

torchrun starts it anew in all members whenever one comes or goes. Each keeps a checkpoint of its
own; after a start the furthest of them is everybody's, so a new pod needs no shared disk.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

CHECKPOINT = Path("/tmp/checkpoint.pt")
SAVE_EVERY = 10
SHOW_EVERY = 50
BATCH = 64
FEATURES = 16


def main() -> None:
    """Train, and say on the way which world it is, where it began and how good it is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--step-seconds", type=float, default=0.05, help="at least so long a step")
    arguments = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    teacher = nn.Linear(FEATURES, 1)
    model = DistributedDataParallel(nn.Linear(FEATURES, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    first = restore(model.module, optimizer)
    say(f"world {dist.get_world_size()} begins at step {first}")
    for step in range(first + 1, arguments.steps + 1):
        began = time.monotonic()
        loss = learn(model, optimizer, teacher, seed=step * 1000 + dist.get_rank())
        if step % SAVE_EVERY == 0:
            save(step, model.module, optimizer)
        if step % SHOW_EVERY == 0:
            say(f"step {step} of {arguments.steps}, loss {loss:.6f}")
        time.sleep(max(0.0, arguments.step_seconds - (time.monotonic() - began)))
    say("done")
    dist.barrier()
    dist.destroy_process_group()


def learn(
    model: DistributedDataParallel,
    optimizer: torch.optim.Optimizer,
    teacher: nn.Module,
    *,
    seed: int,
) -> float:
    """One step on a batch of one's own; DDP averages the gradients of all."""
    inputs = torch.randn(BATCH, FEATURES, generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        wanted = teacher(inputs)
    loss = nn.functional.mse_loss(model(inputs), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return float(loss)


def save(step: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Write a checkpoint, whole or not at all."""
    half = CHECKPOINT.with_suffix(".half")
    torch.save({"step": step, "model": model.state_dict(), "sgd": optimizer.state_dict()}, half)
    os.replace(half, CHECKPOINT)


def restore(model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Take over the furthest checkpoint of all members; returns its step, 0 without one."""
    own = torch.load(CHECKPOINT) if CHECKPOINT.exists() else {"step": 0}
    steps: list[int] = [0] * dist.get_world_size()
    dist.all_gather_object(steps, own["step"])
    furthest = max(steps)
    if furthest == 0:
        return 0
    found = [own]
    dist.broadcast_object_list(found, src=steps.index(furthest))
    model.load_state_dict(found[0]["model"])
    optimizer.load_state_dict(found[0]["sgd"])
    return furthest


def say(text: str) -> None:
    """Print a line, of one process for all."""
    if dist.get_rank() == 0:
        print(f"{text} (restart {os.environ['TORCHELASTIC_RESTART_COUNT']})", flush=True)


if __name__ == "__main__":
    main()
