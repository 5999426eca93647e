"""Errors as a person reads them: what, where, and what to do; three lines at most."""

from __future__ import annotations

from di_cli.exit_codes import ExitCode
from di_cli.hints import scoped
from di_kube.errors import ApiError

_CODES = {
    "WrongName": ExitCode.NOT_FOUND,
    "MissingKind": ExitCode.NOT_FOUND,
    "NotAllowed": ExitCode.NOT_ALLOWED,
    "ApiServerAway": ExitCode.UNAVAILABLE,
}
"""By the cause of a refusal."""
_FIELDS_SHOWN = 20


class CommandError(Exception):
    """A command cannot do what it was asked for.

    Attributes:
        what: went wrong.
        where: it did, or in whose words; a line for each field that is wrong.
        remedy: what to do.
        code: of the command.
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
        """As it is shown."""
        where = [f"  {line}" for line in self.where.splitlines() if line.strip()]
        return [
            f"error: {self.what}",
            *where,
            *([f"  try: {scoped(self.remedy)}"] if self.remedy else []),
        ]


def from_api(error: ApiError, what: str = "") -> CommandError:
    """What the API server's refusal is to a person; `what` was asked for, if not by its name."""
    # Some milliseconds of each command, which those that succeed need not pay.
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
