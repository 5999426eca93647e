"""A sum over all pods by PaddlePaddle: every trainer adds its part, and each gets the whole."""

from __future__ import annotations

import paddle
import paddle.distributed as dist


def main() -> None:
    """Join the other trainers, add up, and print the result."""
    paddle.set_device("cpu")
    dist.init_parallel_env()
    part = paddle.to_tensor([dist.get_rank() + 1.0])
    dist.all_reduce(part)
    print(
        f"trainer {dist.get_rank()} of {dist.get_world_size()}, sum {part.item():.1f}", flush=True
    )


if __name__ == "__main__":
    main()
