"""The place of this process in its process group, from its environment. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from di_orchestrator.errors import BadEnvironment, NotInJob
from di_orchestrator.job import Job

PORT = "di-group"
"""Name of a port of the task, on which the first process listens for the others."""


@dataclass(frozen=True)
class Place:
    """A process in a group of several.

    Attributes:
        rank, size: in the group.
        host, port: where the first process listens for the others.
        is_elastic: whether the others go on when a member leaves.
    """

    rank: int
    size: int
    host: str
    port: int
    is_elastic: bool = False

    @classmethod
    def of(cls, job: Job) -> Place | None:
        """Return the place of this process; None if it is alone, or its rank is unknown.

        The port is the task's `di-group`, or the one after the master's port.

        Raises:
            BadEnvironment: in a job, the variables of the group are not those of the operator.
        """
        try:
            group = job.process_group
        except BadEnvironment:
            if job.is_inside:
                raise
            return None
        if group is None or group.rank is None or group.size is None or group.size < 2:
            return None
        nodes = job.environment.get("PET_NNODES", "")
        return cls(
            group.rank,
            group.size,
            group.master_address,
            _port(job, group.master_port),
            is_elastic=":" in nodes and len(set(nodes.split(":"))) > 1,
        )


def _port(job: Job, master_port: int) -> int:
    try:
        return job.port(PORT)
    except (BadEnvironment, NotInJob):
        return _launcher_port(job.environment, master_port) + 1


def _launcher_port(environment: Mapping[str, str], master_port: int) -> int:
    """Return the port that all pods know: torchrun gives its processes a free one as the
    master's.
    """
    known = environment.get("PET_RDZV_ENDPOINT", "").rpartition(":")[2]
    return int(known) if known.isdecimal() and known.isascii() else master_port
