"""The errors of the Python client: those of the command, as classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from typing_extensions import override

from di_cli.errors import CommandError
from di_cli.exit_codes import ExitCode
from di_cli.hints import remember
from di_cli.session import refusals


class JobsError(CommandError):
    """Base class of this module's errors. The text has what failed, where, and what to do."""

    @override
    def __str__(self) -> str:
        return "\n".join(self.lines()).removeprefix("error: ")


class BadCall(JobsError):
    """The arguments contradict each other or the job."""


class NotFound(JobsError):
    """No such job, pod, namespace or context."""


class NotAllowed(JobsError):
    """The API server does not know you, or you have no permission."""


class Unavailable(JobsError):
    """The API server, di-server or di-history does not respond."""


class TimedOut(JobsError):
    """The timeout has passed."""


class EndedOtherwise(JobsError):
    """The job ended without reaching the goal."""


_CLASSES: Final[Mapping[ExitCode, type[JobsError]]] = {
    ExitCode.USAGE: BadCall,
    ExitCode.NOT_FOUND: NotFound,
    ExitCode.NOT_ALLOWED: NotAllowed,
    ExitCode.UNAVAILABLE: Unavailable,
    ExitCode.TIMED_OUT: TimedOut,
    ExitCode.ENDED_OTHERWISE: EndedOtherwise,
}


@contextmanager
def raised(namespace: str | None, context: str | None, job: str | None = None) -> Iterator[None]:
    """Raise what goes wrong as a JobsError; commands in it name the namespace and context."""
    remember(namespace, context)
    try:
        with refusals(job):
            yield
    except JobsError:
        raise
    except CommandError as error:
        kind = _CLASSES.get(error.code, JobsError)
        raise kind(error.what, where=error.where, remedy=error.remedy, code=error.code) from error
