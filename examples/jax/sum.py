"""A sum over the devices of all pods: every process adds its own part, and each gets the whole."""

from __future__ import annotations

import os

import jax
from jax.experimental import multihost_utils


def main() -> None:
    """Join the others, add up, and say what was found."""
    jax.distributed.initialize(
        # The coordinator it takes from JAX_COORDINATOR_ADDRESS.
        num_processes=int(os.environ["JAX_NUM_PROCESSES"]),
        process_id=int(os.environ["JAX_PROCESS_ID"]),
    )
    mine = jax.numpy.array([jax.process_index() + 1.0])
    parts = multihost_utils.process_allgather(mine)
    print(
        f"process {jax.process_index()} of {jax.process_count()}, "
        f"{jax.device_count()} devices in all, sum {float(parts.sum())}",
        flush=True,
    )


if __name__ == "__main__":
    main()
