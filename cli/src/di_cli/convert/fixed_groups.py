"""JAXJob and XGBoostJob of Kubeflow's training-operator: groups of a fixed size, and no more."""

from __future__ import annotations

from functools import partial
from typing import Final

from di_cli.convert.fields import Fields, Object
from di_cli.convert.groups import MASTER, ROLES, WORKER, group_spec
from di_cli.convert.replica_types import JobKind

_JAX: Final = JobKind(
    kind="JAXJob",
    replicas="jaxReplicaSpecs",
    types=(WORKER,),
    single=(),
    framework="jax",
    container="jax",
    port="jaxjob-port",
    restart_policy="OnFailure",
)
_XGBOOST: Final = JobKind(
    kind="XGBoostJob",
    replicas="xgbReplicaSpecs",
    types=ROLES,
    single=(MASTER,),
    framework="xgboost",
    container="xgboost",
    port="xgboostjob-port",
    restart_policy="Never",
)


def _fixed_group_spec(spec: Fields, kind: JobKind) -> Object:
    """Return the spec of a DIJob for a kind that has only replicas and a run policy."""
    result = group_spec(spec, kind)
    spec.rest()
    return result


jax_spec: Final = partial(_fixed_group_spec, kind=_JAX)
xgboost_spec: Final = partial(_fixed_group_spec, kind=_XGBOOST)
