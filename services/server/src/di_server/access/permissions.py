"""Permissions of users by SubjectAccessReview, with a cache of denials."""

from __future__ import annotations

from typing import Final

from di_kube.reviews import User
from di_server.access.tokens import fingerprint
from di_server.deadline import Clock, Deadline
from di_server.model.references import JobRef
from di_server.storage.reviews import ReviewStore
from di_service.ttl_cache import TtlCache

_DENIED_SECONDS: Final = 10.0
"""Seconds for which a denial is cached, as for an invalid token: a new permission takes effect
soon.
"""
_MOST_DENIED: Final = 4096


class Permissions:
    """Caches denials per token, so that repeated requests cost other callers nothing.

    Permissions that were granted are not cached: a revoked permission ends at once.
    """

    def __init__(self, *, reviews: ReviewStore, clock: Clock) -> None:
        self._reviews = reviews
        self._denied = TtlCache[tuple[bytes, str, JobRef], bool](
            seconds=_DENIED_SECONDS, most=_MOST_DENIED, clock=clock
        )

    def may(self, token: str, user: User, verb: str, ref: JobRef, deadline: Deadline) -> bool:
        """Return whether RBAC grants `user`, the owner of the token, `verb` on the job's permission
        name.
        """
        asked = (fingerprint(token), verb, ref)
        if self._denied.get(asked):
            return False
        allowed = self._reviews.may(user, verb, ref, deadline)
        if not allowed:
            self._denied.put(asked, True)
        return allowed
