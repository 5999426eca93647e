"""JAX: `jax.distributed.initialize()` reads the coordinator's address."""

from collections.abc import Mapping
from typing import Final

from di_api import names
from di_api.frameworks.declaration import Declaration, Member


def _variables(member: Member) -> Mapping[str, str]:
    return {
        names.ENV_JAX_COORDINATOR: f"{member.master}:{member.port}",
        names.ENV_JAX_PROCESSES: str(len(member.nodes)),
        names.ENV_JAX_PROCESS: str(member.index),
    }


JAX: Final = Declaration(
    variables=_variables,
    single_process="jax has one process in each pod",
    fixed_size="jax takes no member in",
)
