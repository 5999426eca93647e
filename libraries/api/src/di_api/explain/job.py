"""A parsed job for explanations: missing or malformed parts count as absent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from di_api.explain.facts import Facts, Object, name_of, text_of
from di_api.field_error import items, mapping
from di_api.phase import Phase
from di_api.timestamps import parse_time


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition of a job."""

    type: str
    is_true: bool
    reason: str
    message: str
    since: datetime | None


@dataclass(frozen=True, slots=True)
class Job:
    """The job of the facts."""

    facts: Facts

    @property
    def spec(self) -> Object:
        """Return the raw spec."""
        return mapping(mapping(self.facts.job).get("spec"))

    @property
    def status(self) -> Object:
        """Return the raw status."""
        return mapping(mapping(self.facts.job).get("status"))

    @property
    def metadata(self) -> Object:
        """Return the raw metadata."""
        return mapping(mapping(self.facts.job).get("metadata"))

    @property
    def phase(self) -> Phase | None:
        """Return the phase; None if the operator has written none, or an unknown one."""
        found = self.status.get("phase")
        return Phase(found) if found in tuple(Phase) else None

    @property
    def age(self) -> float:
        """Return the seconds since the job was created."""
        made = parse_time(self.metadata.get("creationTimestamp"))
        return (self.facts.now - made).total_seconds() if made else 0.0

    @property
    def current(self) -> Condition | None:
        """Return the condition of its phase."""
        return self.condition(self.phase.value) if self.phase else None

    def pod(self, name: str) -> Object | None:
        """Return the pod of a name, if the job still has it."""
        return next((each for each in self.facts.pods if name_of(each) == name), None)

    def count(self, key: str) -> int:
        """Return a counter of the status."""
        found = self.status.get(key)
        return found if isinstance(found, int) and not isinstance(found, bool) else 0

    def condition(self, kind: str) -> Condition | None:
        """Return the condition of a type."""
        return next((each for each in self.conditions() if each.type == kind), None)

    def holds(self, kind: str) -> Condition | None:
        """Return the condition of a type if it is True."""
        found = self.condition(kind)
        return found if found is not None and found.is_true else None

    def conditions(self) -> Iterator[Condition]:
        """Yield the conditions that can be parsed."""
        for each in items(self.status.get("conditions")):
            found = mapping(each)
            yield Condition(
                type=text_of(found.get("type")),
                is_true=found.get("status") == "True",
                reason=text_of(found.get("reason")),
                message=text_of(found.get("message")),
                since=parse_time(found.get("lastTransitionTime")),
            )
