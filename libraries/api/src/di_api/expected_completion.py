"""`status.expectedCompletion`: when the operator expects a job to be complete."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from di_api.timestamps import format_time, parse_time


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedCompletion:
    """The time at which a job will be complete: with 80 % probability between `earliest` and
    `latest`.
    """

    earliest: datetime
    expected: datetime
    latest: datetime

    @classmethod
    def read(cls, raw: object) -> ExpectedCompletion | None:
        """Parse a value of any shape; None if it is invalid."""
        fields = raw if isinstance(raw, Mapping) else {}
        times = (parse_time(fields.get(key)) for key in ("earliest", "expected", "latest"))
        earliest, expected, latest = times
        if earliest is None or expected is None or latest is None:
            return None
        if not earliest <= expected <= latest:
            return None
        return cls(earliest=earliest, expected=expected, latest=latest)

    def left(self, now: datetime) -> tuple[float, float, float] | None:
        """Return the seconds until the earliest, the expected and the latest time.

        Once the expected time has passed, the latest one is expected; once that has passed too,
        nothing is.
        """
        if self.latest <= now:
            return None
        earliest, expected, latest = (
            (moment - now).total_seconds() for moment in (self.earliest, self.expected, self.latest)
        )
        return max(0.0, earliest), expected if expected > 0 else latest, latest

    def dump(self) -> dict[str, str]:
        """Return the field's value, in whole seconds."""
        return {
            "earliest": format_time(self.earliest),
            "expected": format_time(self.expected),
            "latest": format_time(self.latest),
        }
