"""The package's exceptions. Each message has what failed, where, and what to do."""

from __future__ import annotations


class DIError(Exception):
    """Base class of this package's exceptions."""


class BadEnvironment(DIError):
    """A variable of the pod does not have the operator's form; see `Job`."""


class NotInJob(DIError):
    """The call has no meaning outside a job, and no harmless replacement."""


class Unreachable(DIError):
    """There was no usable response until the deadline."""


class Refused(DIError):
    """di-server, or another pod, refused the request; a retry does not help.

    Attributes:
        status: of the HTTP response.
        reason: message of the response.
    """

    def __init__(self, what: str, status: int = 400, reason: str = "") -> None:
        super().__init__(f"{what}: {reason} (HTTP {status})" if reason else what)
        self.status = status
        self.reason = reason or what


class Gone(Refused):
    """The other pod reports that the requested thing is over (HTTP 410).

    The answering side raises it, too: `raise di.Gone("the training is over")`.
    """

    def __init__(self, what: str, status: int = 410, reason: str = "") -> None:
        super().__init__(what, status, reason)


class BadRequest(Refused):
    """Raised by the function of a `Hub` for a mistake in the request (HTTP 400)."""


class AnswersFailed(DIError):
    """A `Hub` has answered no request at a path, because its function failed each time."""


class Left(DIError):
    """The pod has to leave, and got no response before."""


class BadReport(DIError):
    """An invalid report; each fault begins with its path.

    Attributes:
        faults: such as `step: must be a number`.
    """

    def __init__(self, faults: tuple[str, ...]) -> None:
        super().__init__(f"the report makes no sense: {'; '.join(faults)}")
        self.faults = faults


class CheckpointLost(DIError):
    """The job has saved a step that is missing in the directory of checkpoints."""
