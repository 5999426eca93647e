"""Names of objects."""

from __future__ import annotations

from dataclasses import dataclass

from di_api.names import job_id


@dataclass(frozen=True, slots=True)
class JobRef:
    """Which job is meant."""

    namespace: str
    name: str

    @property
    def id(self) -> str:
        """As DI_JOB_ID has it."""
        return job_id(self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class ConfigRef:
    """Which AggregatorConfig is used."""

    namespace: str
    name: str
