"""References to objects."""

from __future__ import annotations

from dataclasses import dataclass

from di_api.names import job_id


@dataclass(frozen=True, slots=True)
class JobRef:
    """Reference to a job."""

    namespace: str
    name: str

    @property
    def id(self) -> str:
        """Return the id in the form of DI_JOB_ID."""
        return job_id(self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class ConfigRef:
    """Reference to an AggregatorConfig."""

    namespace: str
    name: str
