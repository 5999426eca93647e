"""Errors for people: what failed, where, and what to do, in at most three lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from di_cli.exit_codes import ExitCode
from di_cli.hints import scoped
from di_kube.errors import ApiError

if TYPE_CHECKING:
    from di_api.explain import Explanation

_CODES = {
    "WrongName": ExitCode.NOT_FOUND,
    "MissingKind": ExitCode.NOT_FOUND,
    "NotAllowed": ExitCode.NOT_ALLOWED,
    "ApiServerAway": ExitCode.UNAVAILABLE,
}
"""Exit codes by the cause of a refusal."""
_FIELDS_SHOWN = 20


class CommandError(Exception):
    """A command that failed.

    Attributes:
        what: what failed.
        where: the place, or a quoted message; a line for each wrong field.
        remedy: what to do.
        code: exit code of the command.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str = "",
        remedy: str = "",
        code: ExitCode = ExitCode.FAILED,
    ) -> None:
        self.what, self.where, self.remedy, self.code = what, where, remedy, code
        super().__init__(what)

    def lines(self) -> list[str]:
        """Return the lines to print."""
        where = [f"  {line}" for line in self.where.splitlines() if line.strip()]
        return [
            f"error: {self.what}",
            *where,
            *([f"  try: {scoped(self.remedy)}"] if self.remedy else []),
        ]


def from_clone(extra: str) -> str:
    """Return the command that installs an extra of ours. No index is asked for our names."""
    return f"pip install './sdk[{extra}]' in a clone of the repository"


def from_api(error: ApiError, what: str = "") -> CommandError:
    """Return the error for an API server's refusal; `what` was requested, if not by its name."""
    # Some milliseconds per command, which successful ones need not spend.
    from di_api.explain import explain_refusal  # noqa: PLC0415

    found = explain_refusal(
        what or error.target,
        code=error.code,
        reason=error.reason,
        message=error.message,
        causes=error.causes,
    )
    texts = [": ".join(part for part in (each.label, each.text) if part) for each in found.evidence]
    shown = texts[:_FIELDS_SHOWN]
    if hidden := len(texts) - len(shown):
        shown.append(f"and {hidden} more")
    return CommandError(
        found.summary,
        where="\n".join(shown),
        remedy=found.remedy,
        code=_CODES.get(found.cause, ExitCode.FAILED),
    )


def joined(errors: Sequence[CommandError]) -> CommandError:
    """Return one error for those of several jobs, with the advice for the first."""
    first = errors[0]
    what = "; ".join(each.what for each in errors)
    return CommandError(what, where=first.where, remedy=first.remedy, code=first.code)


def unknown_job(found: Explanation) -> CommandError:
    """Return the error for the explanation of a job that does not exist."""
    return CommandError(
        found.summary,
        where="; ".join(f"{each.label}: {each.text}" for each in found.evidence),
        remedy=found.remedy,
        code=ExitCode.NOT_FOUND,
    )
