"""Exit codes of commands; docs/reference/cli.md has the same table."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final


class ExitCode(IntEnum):
    """An exit code with its meaning."""

    meaning: str

    def __new__(cls, number: int, meaning: str) -> ExitCode:
        """Take the number as the value."""
        member = int.__new__(cls, number)
        member._value_ = number
        member.meaning = meaning
        return member

    DONE = 0, "done"
    FAILED = 1, "refused, or failed in another way; the message says why"
    USAGE = 2, "the command line is wrong"
    NOT_FOUND = 3, "no such job, pod, file, namespace or context"
    NOT_ALLOWED = 4, "the API server does not know you, or you have no permission"
    UNAVAILABLE = 5, "the API server, di-server or di-history does not respond"
    TIMED_OUT = 6, "`di wait`: the timeout has passed"
    ENDED_OTHERWISE = (
        7,
        "`di wait`, `di logs -f`, `di submit -f`: the job ended without reaching the goal",
    )
    FAULTS_FOUND = 8, "`di doctor`: something does not work"
    INTERRUPTED = 130, "Ctrl-C"


BY_STATUS: Final[Mapping[int, ExitCode]] = {
    401: ExitCode.NOT_ALLOWED,
    403: ExitCode.NOT_ALLOWED,
    404: ExitCode.NOT_FOUND,
    503: ExitCode.UNAVAILABLE,
    504: ExitCode.UNAVAILABLE,
}
"""The exit codes for HTTP statuses of di-server and di-history; FAILED for any other one."""
