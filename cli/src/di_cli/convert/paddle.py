"""PaddleJob of Kubeflow's training-operator."""

from __future__ import annotations

from typing import Final

from di_cli.convert.fields import Fields, Object
from di_cli.convert.groups import MASTER, ROLES, group_spec
from di_cli.convert.replica_types import JobKind

_KIND: Final = JobKind(
    kind="PaddleJob",
    replicas="paddleReplicaSpecs",
    types=ROLES,
    single=(MASTER,),
    framework="paddle",
    container="paddle",
    port="master",
    restart_policy="OnFailure",
)


def paddle_spec(spec: Fields) -> Object:
    """Return the spec of a DIJob for a PaddleJob."""
    elastic = spec.inner("elasticPolicy")
    for name in ("minReplicas", "maxReplicas", "maxRestarts", "metrics"):
        elastic.comment(name, "a process group of paddle has a fixed size")
    elastic.rest()
    result = group_spec(spec, _KIND)
    spec.rest()
    return result
