"""A stop or a freeze of the leader, and what followed from it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from tools.faults.component import Life
from tools.faults.plan import Freeze, Stop


@dataclass(frozen=True, slots=True, kw_only=True)
class Aftermath:
    """What followed from an interruption; times are in seconds.

    Attributes:
        exit_code: of the interrupted process; None if it still runs.
        ended: from SIGTERM or SIGCONT until its end; None if it still runs.
        leads: it has renewed its lease since then.
        stood_by: another replica had read the lease before; otherwise the interrupted one may take
            the lease again after its restart.
        succeeded: from the interruption until another replica wrote the lease; None if none did.
    """

    action: Stop | Freeze
    exit_code: int | None
    ended: float | None
    leads: bool
    stood_by: bool
    succeeded: float | None

    @property
    def is_complete(self) -> bool:
        """Whether nothing more follows: the process leads, or has ended and another one leads."""
        followed = self.succeeded is not None or not self.stood_by
        return self.leads or (self.ended is not None and followed)


class Interruption:
    """SIGTERM, or SIGSTOP and SIGCONT, from now on.

    Attributes:
        over: when SIGTERM or SIGCONT is sent, in monotonic seconds.
    """

    def __init__(self, action: Stop | Freeze, life: Life) -> None:
        self._action = action
        self._life = life
        self._began = time.monotonic()
        self.over = self._began + (action.seconds if isinstance(action, Freeze) else 0.0)

    def aftermath(
        self, *, mine: Sequence[float], of_others: Sequence[float], standby_since: float
    ) -> Aftermath:
        """Return what has followed by now, from the times of the lease's renewals."""
        ended = self._life.ended_at
        return Aftermath(
            action=self._action,
            exit_code=self._life.exit_code,
            ended=None if ended is None else max(0.0, ended - self.over),
            leads=ended is None and self._leads(mine),
            stood_by=standby_since < self._began,
            succeeded=next((at - self._began for at in of_others if at > self._began), None),
        )

    def _leads(self, renewals: Sequence[float]) -> bool:
        return isinstance(self._action, Freeze) and any(at > self.over for at in renewals)
