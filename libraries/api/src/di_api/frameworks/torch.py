"""PyTorch, with and without torchrun.

torchrun reads each of its options from `PET_<OPTION>` and sets the variables of torch.distributed
for the processes that it starts (torch/distributed/argparse_util.py, run.py).
"""

from collections.abc import Mapping
from typing import Final

from di_api import names
from di_api.frameworks.declaration import Declaration, Member
from di_api.frameworks.ranks import master_variables, place_variables

MAX_RESTARTS: Final = 10
"""How often torchrun restarts in a pod after a member was lost; new members do not count."""


def _variables(member: Member) -> Mapping[str, str]:
    if member.group.elastic:
        return _elastic(member)
    processes = member.group.processes_per_replica
    torchrun = {
        "NNODES": str(len(member.nodes)),
        "NPROC_PER_NODE": str(processes),
        "NODE_RANK": str(member.index),
        **master_variables(member),
    }
    variables = {f"{names.PREFIX_TORCHRUN}{key}": value for key, value in torchrun.items()}
    if processes > 1:
        # Only the launcher of the processes knows their local ranks.
        return master_variables(member) | variables
    alone = {names.ENV_LOCAL_WORLD_SIZE: "1", names.ENV_LOCAL_RANK: "0"}
    return place_variables(member) | alone | variables


def _elastic(member: Member) -> Mapping[str, str]:
    """Return the variables for torchrun, which finds the members through a store in the first pod
    and assigns ranks at each rendezvous.
    """
    group = member.group
    configuration = {
        "is_host": "true" if member.index == 0 else "false",
        "join_timeout": group.deadline_seconds,
        "last_call_timeout": group.last_call_seconds,
        # Includes the time until the first pod is ready.
        "read_timeout": group.deadline_seconds,
    }
    least, most = member.bounds
    torchrun = {
        "NNODES": f"{least}:{most}",
        "NPROC_PER_NODE": str(group.processes_per_replica),
        "RDZV_BACKEND": "c10d",
        "RDZV_ENDPOINT": f"{member.master}:{member.port}",
        "RDZV_CONF": ",".join(f"{key}={value}" for key, value in configuration.items()),
        "MAX_RESTARTS": str(MAX_RESTARTS),
    }
    return {f"{names.PREFIX_TORCHRUN}{key}": value for key, value in torchrun.items()}


TORCH: Final = Declaration(variables=_variables)
