"""XGBoostJob of Kubeflow's training-operator."""

from __future__ import annotations

from typing import Final

from di_cli.convert.fields import Fields, Object
from di_cli.convert.groups import GroupKind, group_spec

_KIND: Final = GroupKind(
    kind="XGBoostJob",
    replicas="xgbReplicaSpecs",
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
