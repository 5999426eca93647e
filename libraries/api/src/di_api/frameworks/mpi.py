"""MPI: the pod with rank 0 starts the processes in all pods over ssh.

A script of the operator starts the command of the container (`di_operator.builders.mpi`), and reads
the variables. MPI itself gives the ranks to the processes.
"""

from collections.abc import Mapping
from typing import Final

from di_api.frameworks.declaration import MOST_LISTED, Declaration, Member
from di_api.frameworks.ranks import master_variables
from di_api.names import PREFIX_MPI


def _variables(member: Member) -> Mapping[str, str]:
    script = {
        "HOSTS": ",".join(member.nodes),
        "SLOTS": str(member.group.processes_per_replica),
        "INDEX": str(member.index),
        "PORT": str(member.port),
        "WAIT_SECONDS": str(member.group.deadline_seconds),
    }
    named = {f"{PREFIX_MPI}{name}": value for name, value in script.items()}
    return {**master_variables(member), **named}


MPI: Final = Declaration(
    variables=_variables,
    fixed_size="mpi takes no member in",
    most_pods=MOST_LISTED,
    starts_command="in a group of mpi it is started when all pods are reachable",
)
