"""Explanations of errors that the API server returned to a user."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from di_api.explain.cause import Cause
from di_api.explain.explanation import Evidence, Explanation

_WHO: Final = re.compile(
    r'admission webhook "[^"]*" denied the request: |^[\w.]+ "[^"]*" is invalid: '
)
_LONGEST: Final = 300


def explain_refusal(
    what: str,
    *,
    code: int,
    reason: str,
    message: str,
    causes: Sequence[tuple[str, str]] = (),
) -> Explanation:
    """Explain an error.

    Args:
        what: the requested object, as in "DIJob rl/x".
        code: HTTP status; 0 without a response.
        reason: `Status.reason`, or the client's error.
        message: `Status.message`.
        causes: the wrong fields, each with the reason.
    """
    cause, summary, remedy = _kind(code, reason, message)
    fields = [Evidence(label=field, text=why[:_LONGEST]) for field, why in causes if field]
    text = _WHO.sub("", message)[:_LONGEST]
    evidence = tuple(fields) or ((Evidence(label="", text=text),) if text else ())
    return Explanation(
        cause=cause, summary=summary.format(what=what), evidence=evidence, remedy=remedy
    )


def _kind(code: int, reason: str, message: str) -> tuple[Cause, str, str]:
    for row_code, pattern, cause, summary, remedy in _ROWS:
        if row_code in (code, None) and re.search(pattern, f"{reason}: {message}"):
            return cause, summary, remedy
    return Cause.UNKNOWN, "{what}: the API server refused it", "correct what it names"


_ROWS: Final[tuple[tuple[int | None, str, Cause, str, str], ...]] = (
    (
        None,
        "failed calling webhook",
        Cause.WEBHOOK_DOWN,
        "{what}: an admission webhook does not answer",
        "try again in a moment; if it stays so, tell who runs the cluster (di-webhook)",
    ),
    (
        403,
        "exceeded quota",
        Cause.QUOTA,
        "{what}: the namespace's quota does not allow it",
        "kubectl describe quota: end what is not needed, or have it raised",
    ),
    (
        404,
        "the server could not find the requested resource|page not found",
        Cause.MISSING_KIND,
        "{what}: this cluster knows no DIJobs",
        "choose another context (--context), or have DI Orchestrator installed",
    ),
    (
        404,
        'namespaces? "[^"]*" not found',
        Cause.WRONG_NAME,
        "{what}: there is no such namespace",
        "give another one with -n, or create it",
    ),
    (
        404,
        "",
        Cause.WRONG_NAME,
        "{what}: there is none of that name",
        "see those that exist: di list; -n chooses another namespace",
    ),
    (
        409,
        "AlreadyExists",
        Cause.NAME_TAKEN,
        "{what}: there is one of that name already",
        "submit it under another name (--name), or delete that one first (di delete)",
    ),
    (
        409,
        "",
        Cause.NAME_TAKEN,
        "{what}: another client changed it at the same time",
        "try again",
    ),
    (
        401,
        "",
        Cause.NOT_ALLOWED,
        "{what}: the API server does not know you",
        "log in again; kubectl auth whoami shows as whom you came",
    ),
    (
        403,
        "",
        Cause.NOT_ALLOWED,
        "{what}: you may not do that",
        "ask who runs the cluster for the right that is named",
    ),
    (
        422,
        "",
        Cause.INVALID_SPEC,
        "{what}: refused, it breaks the rules",
        "correct the fields and try again; kubectl explain dijob.spec has them all",
    ),
    (
        400,
        "",
        Cause.INVALID_SPEC,
        "{what}: refused, it cannot be read",
        "correct what is named; kubectl explain dijob.spec has all fields",
    ),
    (
        429,
        "",
        Cause.API_SERVER_AWAY,
        "{what}: the API server has too much to do",
        "try again in a moment",
    ),
    (
        0,
        "",
        Cause.API_SERVER_AWAY,
        "{what}: the API server does not answer",
        "check the network and the context: kubectl cluster-info",
    ),
)
