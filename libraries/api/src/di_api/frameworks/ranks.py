"""Variables of a pod's place in its process group: MASTER_ADDR, WORLD_SIZE and its rank."""

from __future__ import annotations

from di_api import names
from di_api.frameworks.declaration import Member


def master_variables(member: Member) -> dict[str, str]:
    """Return the address of the pod with rank 0."""
    return {names.ENV_MASTER_ADDR: member.master, names.ENV_MASTER_PORT: str(member.port)}


def place_variables(member: Member) -> dict[str, str]:
    """Return the address of the pod with rank 0, the size of the group and the pod's rank in it.

    `di_orchestrator` reads them in groups of any framework without variables of its own for that.
    """
    return {
        **master_variables(member),
        names.ENV_WORLD_SIZE: str(len(member.nodes)),
        names.ENV_GROUP_RANK: str(member.index),
    }
