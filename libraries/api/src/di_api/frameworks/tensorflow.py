"""TensorFlow: `TF_CONFIG` has the addresses of a cluster and the place of the pod in it.

The rules are those of TensorFlow 2.21: `distribute/multi_worker_util.py` has the roles, and
`ParameterServerStrategy` a chief that all of them serve.
"""

import json
from collections.abc import Mapping
from typing import Final

from di_api import names
from di_api.frameworks.declaration import MOST_LISTED, Declaration, Listed, Member, Roles
from di_api.frameworks.ranks import place_variables

_CHIEF, _WORKER, _SERVER, _EVALUATOR = ROLES = ("chief", "worker", "ps", "evaluator")
_PORTS_OF_ROLE: Final = 1024


def _variables(member: Member) -> Mapping[str, str]:
    cluster = {
        role: endpoints
        for role in ROLES
        # The evaluator is in no training cluster.
        if role != _EVALUATOR
        and role in member.cluster
        and (endpoints := _endpoints(role, member.cluster[role]))
    }
    config = {"cluster": cluster, "task": {"type": member.task, "index": member.index}}
    return {**place_variables(member), "TF_CONFIG": json.dumps(config)}


def _endpoints(role: str, listed: Listed) -> list[str]:
    """Return the address of each pod, with a port of its own unless the template names one.

    A server of TensorFlow listens at all addresses of its machine, so that pods on one host network
    need different ports.
    """
    if listed.port is not None:
        return [f"{node}:{listed.port}" for node in listed.nodes]
    # MASTER_PORT and the port after it are for the program itself.
    first = names.MASTER_PORT + _PORTS_OF_ROLE * (1 + ROLES.index(role))
    return [f"{node}:{first + index}" for index, node in enumerate(listed.nodes)]


TENSORFLOW: Final = Declaration(
    variables=_variables,
    single_process="a member of a cluster of tensorflow is one process",
    most_pods=MOST_LISTED,
    roles=Roles(
        names=ROLES,
        single=(_CHIEF, _EVALUATOR),
        # Without parameter servers the first worker is the chief, and all of them are one group.
        needs={_CHIEF: _SERVER, _SERVER: _CHIEF},
        elastic_with=_SERVER,
    ),
)
