"""What the owner of a token may do, asked less often of those who may not."""

from __future__ import annotations

from typing import Final

from di_kube.reviews import User
from di_server.access.tokens import fingerprint
from di_server.deadline import Clock, Deadline
from di_server.model.references import JobRef
from di_server.storage.reviews import ReviewStore
from di_service.ttl_cache import TtlCache

_DENIED_SECONDS: Final = 10.0
"""As long as a token that does not hold: whoever was just given the right need not wait long."""
_MOST_DENIED: Final = 4096


class Permissions:
    """Remembers what was denied to a token, so that asking again and again costs nobody else.

    What was allowed is not remembered: a right that is taken away ends at once.
    """

    def __init__(self, *, reviews: ReviewStore, clock: Clock) -> None:
        self._reviews = reviews
        self._denied = TtlCache[tuple[bytes, str, JobRef], bool](
            seconds=_DENIED_SECONDS, most=_MOST_DENIED, clock=clock
        )

    def may(self, token: str, user: User, verb: str, ref: JobRef, deadline: Deadline) -> bool:
        """Whether RBAC grants `user`, whose token it is, `verb` on the job's permission name."""
        asked = (fingerprint(token), verb, ref)
        if self._denied.get(asked):
            return False
        allowed = self._reviews.may(user, verb, ref, deadline)
        if not allowed:
            self._denied.put(asked, True)
        return allowed
