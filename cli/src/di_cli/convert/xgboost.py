"""XGBoostJob of Kubeflow's training-operator."""

from __future__ import annotations

from typing import Final

from di_cli.convert.fields import Fields, Object
from di_cli.convert.groups import MASTER, ROLES, group_spec
from di_cli.convert.replica_types import JobKind

_KIND: Final = JobKind(
    kind="XGBoostJob",
    replicas="xgbReplicaSpecs",
    types=ROLES,
    single=(MASTER,),
    framework="xgboost",
    container="xgboost",
    port="xgboostjob-port",
    restart_policy="Never",
)


def xgboost_spec(spec: Fields) -> Object:
    """Return the spec of a DIJob for an XGBoostJob."""
    result = group_spec(spec, _KIND)
    spec.rest()
    return result
