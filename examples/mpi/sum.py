"""Processes of MPI add up their ranks, whatever pod they are in."""

from __future__ import annotations

import os

from mpi4py import MPI


def main() -> None:
    """Add up, and print the sum."""
    world = MPI.COMM_WORLD
    total = world.allreduce(world.rank + 1)
    pod = os.environ["DI_TASK_RANK"]
    print(f"process {world.rank} of {world.size} in pod {pod}, sum {total}", flush=True)


if __name__ == "__main__":
    main()
