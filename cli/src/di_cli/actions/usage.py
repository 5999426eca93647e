"""Reads from di-history what pods held in a time of any length."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from di_api.field_error import items, mapping
from di_cli.access.history import History
from di_cli.errors import CommandError
from di_cli.exit_codes import ExitCode
from di_cli.views.usage import Held, Known, millis, spans, user

MOST_PLACEMENTS: Final = 5_000
"""Placements in one answer of di-history: those that began last."""
LONGEST: Final = 31 * 24 * 3_600_000
"""Milliseconds from `since` to `until` that di-history accepts."""
_KINDS: Final = "phase,gap,deleted"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
Object = dict[str, Any]


def placements(
    history: History, namespace: str | None, since: int, until: int, *, account_of: str
) -> list[Object]:
    """Return the pods on nodes at some time from `since` to `until`, each once.

    Args:
        history: the service.
        namespace: of the jobs; None: all.
        since, until: milliseconds since 1970.
        account_of: namespace of the account that a refusal's remedy names.

    Raises:
        CommandError: a refusal, or too many pods began at the same time.
    """
    found: dict[str, Object] = {}
    for first in range(since, until, LONGEST):
        last = min(first + LONGEST, until)
        for each in _between(history, namespace, first, last, account_of):
            found[str(each.get("podUid"))] = each
    return list(found.values())


def known_of(history: History, held: Iterable[Held], until: int) -> dict[str, Known]:
    """Return the phases and the users of jobs, by UID.

    It sends one request for each job. A job whose history was deleted is left out.

    Raises:
        CommandError: a refusal.
    """
    found = {}
    for uid, each in {each.job: each for each in held}.items():
        try:
            kept = history.json(each.namespace, each.name, uid=uid, kinds=_KINDS)
        except CommandError as error:
            if error.code != ExitCode.NOT_FOUND:
                raise
            continue
        found[uid] = Known(
            spans=spans(items(kept.get("timeline")), until), user=user(items(kept.get("revisions")))
        )
    return found


def _between(
    history: History, namespace: str | None, since: int, until: int, account_of: str
) -> Iterator[Object]:
    """Yield the placements of a time that di-history accepts, some of them twice.

    A full answer lacks those that began before all of its own; they are requested next.
    """
    chosen = {"namespace": namespace} if namespace is not None else {}
    while True:
        # `until` bounds when they began, `since` when they ended: it must be the lower one.
        query = {**chosen, "since": _text(min(since, until - 1)), "until": _text(until)}
        raw = history.get("/placements", query, account_of)
        page = [dict(each) for each in map(mapping, items(json.loads(raw).get("placements")))]
        yield from page
        if len(page) < MOST_PLACEMENTS:
            return
        # Others that began in the same millisecond can be missing.
        before = min(millis(each.get("since")) or 0 for each in page) + 1
        if before >= until:
            raise CommandError(
                f"{MOST_PLACEMENTS:,} pods or more began at the same time",
                where=_text(until - 1),
                remedy="--namespace, for the pods of one namespace",
            )
        until = before


def _text(time: int) -> str:
    moment = _EPOCH + timedelta(milliseconds=time)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
