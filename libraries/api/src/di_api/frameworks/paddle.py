"""PaddlePaddle, with and without `paddle.distributed.launch`.

The launcher reads its options from `PADDLE_<OPTION>` and sets the variables of
`paddle.distributed.init_parallel_env` for the processes that it starts
(paddle/distributed/launch/context/args_envs.py, parallel.py of PaddlePaddle 3.3).
"""

from collections.abc import Mapping
from typing import Final

from di_api.frameworks.declaration import MOST_LISTED, Declaration, Member
from di_api.frameworks.ranks import place_variables


def _variables(member: Member) -> Mapping[str, str]:
    processes = member.group.processes_per_replica
    launcher = {
        "PADDLE_MASTER": f"{member.master}:{member.port}",
        "PADDLE_NNODES": str(len(member.nodes)),
        "PADDLE_NPROC_PER_NODE": str(processes),
        "PADDLE_RANK": str(member.index),
    }
    if processes > 1:
        # Only the launcher of the processes knows their ranks.
        return launcher
    endpoints = [f"{node}:{member.port}" for node in member.nodes]
    return {
        **place_variables(member),
        "PADDLE_TRAINER_ID": str(member.index),
        "PADDLE_TRAINERS_NUM": str(len(endpoints)),
        "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints),
        "PADDLE_CURRENT_ENDPOINT": endpoints[member.index],
        **launcher,
    }


PADDLE: Final = Declaration(
    variables=_variables,
    fixed_size="to take members in, paddle needs an etcd of its own",
    most_pods=MOST_LISTED,
)
