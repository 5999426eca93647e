"""JAXJob of Kubeflow's training-operator."""

from __future__ import annotations

from typing import Final

from di_cli.convert.fields import Fields, Object
from di_cli.convert.groups import WORKER, group_spec
from di_cli.convert.replica_types import JobKind

_KIND: Final = JobKind(
    kind="JAXJob",
    replicas="jaxReplicaSpecs",
    types=(WORKER,),
    single=(),
    framework="jax",
    container="jax",
    port="jaxjob-port",
    restart_policy="OnFailure",
)


def jax_spec(spec: Fields) -> Object:
    """Return the spec of a DIJob for a JAXJob."""
    result = group_spec(spec, _KIND)
    spec.rest()
    return result
