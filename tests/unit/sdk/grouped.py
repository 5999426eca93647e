"""A program of several processes, each of whose steps and saves has a collective."""

from __future__ import annotations

import os
import signal
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import di_orchestrator as di

SECONDS = 60.0
"""After these a collective fails that not all processes have begun."""


def train(rank: int, size: int, port: int, collectives: tuple[Barrier, Barrier], more: Any) -> None:
    """Train up to a step; tell the step at the end, and the steps of the saves."""
    os.environ.update(
        {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port - 1), "DI_JOB_SECRET": "s" * 32}
        | {"WORLD_SIZE": str(size), "RANK": str(rank), "DI_CHECKPOINT_DIR": more["folder"]}
    )
    steps, saves = collectives
    found: list[int] = []

    def write(path: Path) -> None:
        saves.wait(SECONDS)
        if more.get("fails") == rank:
            raise ZeroDivisionError
        (path / f"part-{rank}").write_text(str(rank))

    # Each would save by a time of its own.
    with di.training(save_every=0.05 * (rank + 1)) as run:
        step = 0
        while step < more["steps"] and not run.stopping:
            steps.wait(SECONDS)
            step += 1
            if more.get("leaves") == rank and step == 20:
                os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.001 * (rank + 1))
            if run.checkpoint.is_due:
                try:
                    is_saved = run.save(write, step=step if rank == 0 else None, shards=True)
                except ZeroDivisionError:
                    is_saved = False
                if is_saved:
                    found.append(step)
    more["said"].put((rank, step, found))
