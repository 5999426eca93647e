"""One version of a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from di_api.coordinated import coordinator_name, is_coordinated, port_of
from di_api.phase import Phase
from di_api.spec import Replica, Role
from di_server.model.references import JobRef
from di_server.problems import NotNow

_TEMPLATES = {
    Role.COLLECTOR: "collector",
    Role.LEARNER: "learner",
    Role.DDP_LEARNER: "learner",
}


# Without slots: what is read from the raw job is read once, and only if somebody asks.
@dataclass(frozen=True, eq=False)
class Job:
    """One version of a job of either kind; `raw` may be transformed (see storage.transforms)."""

    raw: Mapping[str, Any]
    listings: dict[tuple[str, int], Any] = field(default_factory=dict)
    """Lists of all its replicas, once made: each is asked for every second, and a version of a
    job has but one for each pod that asks."""

    @cached_property
    def ref(self) -> JobRef:
        """Which job it is."""
        metadata = self.raw["metadata"]
        return JobRef(metadata["namespace"], metadata["name"])

    @property
    def uid(self) -> str:
        """What tells it from another job of its name."""
        uid: str = self.raw["metadata"]["uid"]
        return uid

    @property
    def version(self) -> str:
        """Its resourceVersion."""
        version: str = self.raw["metadata"]["resourceVersion"]
        return version

    @property
    def has_coordinator(self) -> bool:
        """Whether it has a coordinator rather than tasks."""
        return is_coordinated(self.raw)

    @property
    def coordinator(self) -> str:
        """Name of its coordinator's pod."""
        return coordinator_name(self.ref.name)

    @property
    def suspended(self) -> bool:
        """Whether it is told not to run for now."""
        return self.raw["spec"].get("suspend") is True

    @property
    def has_ended(self) -> bool:
        """Whether it has no pods any more, or soon will have none."""
        try:
            check_active(self.raw)
        except NotNow:
            return True
        return False

    @cached_property
    def replicas(self) -> tuple[Replica, ...]:
        """What its coordinator has asked for, oldest first."""
        return tuple(map(Replica.read, self._coordinated.get("replicas") or ()))

    @cached_property
    def aggregators(self) -> frozenset[str]:
        """Names of its aggregators."""
        return frozenset(each.name for each in self.replicas if each.role is Role.AGGREGATOR)

    @cached_property
    def ports(self) -> Mapping[Role, int]:
        """Where its replicas listen; an aggregator's template is not the job's."""
        return {role: port_of(self._template(role), role) for role in _TEMPLATES}

    def has_template(self, role: Role) -> bool:
        """Whether the job says how a pod of that role is made."""
        return self._template(role) is not None

    @property
    def _coordinated(self) -> Mapping[str, Any]:
        found = self.raw["spec"].get("coordinated")
        return found if isinstance(found, Mapping) else {}

    def _template(self, role: Role) -> Mapping[str, Any] | None:
        owner = self._coordinated.get(_TEMPLATES[role])
        template = owner.get("template") if isinstance(owner, Mapping) else None
        return template if isinstance(template, Mapping) else None


def check_active(job: Mapping[str, Any]) -> None:
    """Refuse a job that has ended or is going away.

    Raises:
        NotNow: saying which.
    """
    if job["metadata"].get("deletionTimestamp"):
        raise NotNow("the job is being deleted")
    phase = (job.get("status") or {}).get("phase")
    if phase in [each.value for each in Phase if each.is_finished]:
        raise NotNow(f"the job is finished ({phase})")
