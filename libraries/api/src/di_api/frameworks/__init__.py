"""The frameworks whose variables a process group has: a declaration in a module for each.

The webhook and the admission policy refuse what a framework cannot do. The operator gives pods the
variables.
"""

from collections.abc import Mapping
from typing import Final

from di_api.frameworks.declaration import Declaration, Listed, Member
from di_api.frameworks.jax import JAX
from di_api.frameworks.mpi import MPI
from di_api.frameworks.none import NONE
from di_api.frameworks.paddle import PADDLE
from di_api.frameworks.tensorflow import TENSORFLOW
from di_api.frameworks.torch import TORCH
from di_api.frameworks.xgboost import XGBOOST
from di_api.spec.process_group import Framework

FRAMEWORKS: Final[Mapping[Framework, Declaration]] = {
    Framework.TORCH: TORCH,
    Framework.JAX: JAX,
    Framework.TENSORFLOW: TENSORFLOW,
    Framework.PADDLE: PADDLE,
    Framework.XGBOOST: XGBOOST,
    Framework.MPI: MPI,
    Framework.NONE: NONE,
}
"""Declarations by framework: a framework is a row here and a member of `Framework`."""

__all__ = ["FRAMEWORKS", "Declaration", "Listed", "Member"]
