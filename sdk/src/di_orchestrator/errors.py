"""What goes wrong. Each message says what, where, and what to do about it."""

from __future__ import annotations


class DIError(Exception):
    """Anything that this package raises of its own."""


class BadEnvironment(DIError):
    """A variable of the pod does not hold what the operator puts there; see `Job`."""


class NotInJob(DIError):
    """It makes no sense outside a job, and there is nothing harmless in its place."""


class Unreachable(DIError):
    """Nobody has given a usable answer until the deadline."""


class Refused(DIError):
    """Who was asked (di-server, or another pod) will not do it, however often it is asked.

    Attributes:
        status: of the HTTP answer.
        reason: in di-server's own words.
    """

    def __init__(self, what: str, status: int, reason: str) -> None:
        super().__init__(f"{what}: {reason} (HTTP {status})")
        self.status = status
        self.reason = reason


class Gone(Refused):
    """The pod that was asked says that what it was asked for is over (HTTP 410)."""


class Left(DIError):
    """The pod is to leave, and had no answer until then."""


class BadReport(DIError):
    """A report that makes no sense; each fault begins with its path.

    Attributes:
        faults: such as `step: must be a number`.
    """

    def __init__(self, faults: tuple[str, ...]) -> None:
        super().__init__(f"the report makes no sense: {'; '.join(faults)}")
        self.faults = faults


class CheckpointLost(DIError):
    """The job has saved a step, and the directory of checkpoints does not have it."""
