"""Names and addresses of coordinated jobs, in which one coordinator pod requests all others while
it trains.

They are derived from `spec.coordinated`. The server responds with the addresses of replicas before
they exist, and the operator creates them, so both must compute exactly the same names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from di_api.dns_names import MAX_LABEL
from di_api.field_error import items, mapping
from di_api.names import (
    DI_CONTAINER,
    DI_PORT_NAME,
)
from di_api.spec.coordinated import Role
from di_api.spec.template import Template

DEFAULT_PORTS: Final[Mapping[Role, int]] = {
    Role.COLLECTOR: 22270,
    Role.LEARNER: 22271,
    Role.DDP_LEARNER: 22271,
    Role.AGGREGATOR: 22272,
    Role.COORDINATOR: 22273,
}
"""Port that DI-engine listens on by role, unless the template names a `di-port`."""
PORT_VARIABLES: Final[Mapping[Role, str]] = {
    Role.COLLECTOR: "COLLECTOR_PORT",
    Role.LEARNER: "LEARNER_PORT",
    Role.DDP_LEARNER: "LEARNER_PORT",
    Role.AGGREGATOR: "AGGREGATOR_PORT",
    Role.COORDINATOR: "COORDINATOR_PORT",
}
"""Variable with the pod's own port, by role."""

SUFFIX_LENGTH: Final = 5
SUFFIX_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels and no similar-looking characters, as in the API server's generated names."""
LONGEST_JOB_NAME: Final = MAX_LABEL - len(f"-{Role.DDP_LEARNER.value}-") - SUFFIX_LENGTH
"""Maximum length of a coordinated job's name, so that every name derived from it is a DNS label."""

_GENERATED: Final = re.compile(
    rf"(?P<job>.+)-(?P<role>aggregator)-[a-z0-9]{{{SUFFIX_LENGTH}}}", re.ASCII
)


def is_coordinated(job: Mapping[str, Any]) -> bool:
    """Return whether a raw job has a coordinator."""
    spec = job.get("spec")
    return isinstance(spec, Mapping) and isinstance(spec.get("coordinated"), Mapping)


def coordinator_name(job: str) -> str:
    """Return the name of a job's coordinator pod and of its Service."""
    return f"{job}-{Role.COORDINATOR.value}"


def replica_name(job: str, role: Role, suffix: str) -> str:
    """Return the name of a replica's pod and of its Service; `suffix` is SUFFIX_LENGTH
    characters.
    """
    return f"{job}-{role.value}-{suffix}"


def job_of(pod: str) -> str | None:
    """Return the job that a coordinator or aggregator pod with this name would belong to."""
    job, dash, role = pod.rpartition("-")
    if dash and job and role == Role.COORDINATOR.value:
        return job
    found = _GENERATED.fullmatch(pod)
    return found["job"] if found else None


def port_of(template: Template | None, role: Role) -> int:
    """Return the port of a pod with that role: the one that its template names, or the default."""
    number = named_port((template or {}).get("spec"))
    return DEFAULT_PORTS[role] if number is None else number


def named_port(spec: object) -> int | None:
    """Return the `di-port` of the `di-container` in a pod's spec of any shape, None if it
    has none.
    """
    for container in _objects(spec, "containers"):
        if container.get("name") == DI_CONTAINER:
            for port in _objects(container, "ports"):
                number = port.get("containerPort")
                if port.get("name") == DI_PORT_NAME and isinstance(number, int):
                    return number
    return None


def address(pod: str, namespace: str, port: int) -> str:
    """Return `<pod>.<namespace>:<port>`: clients cut the last label and expect one colon."""
    return f"{pod}.{namespace}:{port}"


def _objects(owner: object, key: str) -> Iterable[Mapping[str, Any]]:
    return (each for each in items(mapping(owner).get(key)) if isinstance(each, Mapping))
