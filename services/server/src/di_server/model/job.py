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


# Without slots: values from the raw job are computed once, on demand.
@dataclass(frozen=True, eq=False)
class Job:
    """One version of a job with tasks or a coordinator; `raw` can be transformed (see
    storage.transforms).
    """

    raw: Mapping[str, Any]
    listings: dict[tuple[str, int], Any] = field(default_factory=dict)
    """Cached lists of all its replicas: each is requested every second, and a version of a job has
    one for each requesting pod.
    """

    @cached_property
    def ref(self) -> JobRef:
        """Return the reference to the job."""
        metadata = self.raw["metadata"]
        return JobRef(metadata["namespace"], metadata["name"])

    @property
    def uid(self) -> str:
        """Return the UID."""
        uid: str = self.raw["metadata"]["uid"]
        return uid

    @property
    def version(self) -> str:
        """Return the resourceVersion."""
        version: str = self.raw["metadata"]["resourceVersion"]
        return version

    @property
    def has_coordinator(self) -> bool:
        """Return whether it has a coordinator instead of tasks."""
        return is_coordinated(self.raw)

    @property
    def coordinator(self) -> str:
        """Return the name of its coordinator's pod."""
        return coordinator_name(self.ref.name)

    @property
    def suspended(self) -> bool:
        """Return whether it is suspended."""
        return self.raw["spec"].get("suspend") is True

    @property
    def has_ended(self) -> bool:
        """Return whether it has ended, or is being deleted."""
        try:
            check_active(self.raw)
        except NotNow:
            return True
        return False

    @cached_property
    def replicas(self) -> tuple[Replica, ...]:
        """Return the replicas that its coordinator requested, oldest first."""
        return tuple(map(Replica.read, self._coordinated.get("replicas") or ()))

    @cached_property
    def aggregators(self) -> frozenset[str]:
        """Return the names of its aggregators."""
        return frozenset(each.name for each in self.replicas if each.role is Role.AGGREGATOR)

    @cached_property
    def ports(self) -> Mapping[Role, int]:
        """Return the ports of its replicas by role; the aggregator's template is not part of the
        job.
        """
        return {role: port_of(self._template(role), role) for role in _TEMPLATES}

    def has_template(self, role: Role) -> bool:
        """Return whether the job has a template for that role."""
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
    """Refuse a job that has ended or is being deleted.

    Raises:
        NotNow: with the reason.
    """
    if job["metadata"].get("deletionTimestamp"):
        raise NotNow("the job is being deleted")
    phase = (job.get("status") or {}).get("phase")
    if phase in [each.value for each in Phase if each.is_finished]:
        raise NotNow(f"the job is finished ({phase})")
