"""Whose a token is, asked as seldom as can be."""

from __future__ import annotations

import hashlib
from typing import Final

from di_kube.reviews import User
from di_server.access.budget import Budget
from di_server.access.single_flight import SingleFlight
from di_server.deadline import Clock, Deadline
from di_server.storage.reviews import ReviewStore
from di_service.ttl_cache import TtlCache

_HOLDS_SECONDS: Final = 60.0
_FAILS_SECONDS: Final = 10.0
"""Less than that of a good one: it spares the API server a client that asks again and again, and
its owner may be about to mend it."""
_MOST_GOOD: Final = 10_000
_MOST_BAD: Final = 4096


class TokenAuthenticator:
    """Remembers reviews, of tokens only the digests.

    Tokens that hold and tokens that do not are kept apart: of the latter anybody can send as many
    as they like. A token that held when it was last asked about is asked about again at once and
    at no cost to the budget: a flood of others must not stop those who were there before it.
    """

    def __init__(self, *, reviews: ReviewStore, budget: Budget, clock: Clock) -> None:
        self._reviews = reviews
        self._budget = budget
        self._good = TtlCache[bytes, User](seconds=_HOLDS_SECONDS, most=_MOST_GOOD, clock=clock)
        self._bad = TtlCache[bytes, bool](seconds=_FAILS_SECONDS, most=_MOST_BAD, clock=clock)
        self._asking = SingleFlight[bytes, User | None]()

    def has_held(self, token: str) -> bool:
        """Whether it held when it was last asked about."""
        return self._good.had(fingerprint(token))

    def user_of(self, token: str, deadline: Deadline) -> User | None:
        """Whose token it is, None when it does not hold.

        Raises:
            OverBudget: it has to be asked about, and not now.
        """
        digest = fingerprint(token)
        return self._good.get(digest) or self._asking.run(
            digest, lambda: self._ask(digest, token, deadline), deadline
        )

    def _ask(self, digest: bytes, token: str, deadline: Deadline) -> User | None:
        # Somebody may have asked since we looked.
        known = self._good.get(digest)
        if known is not None or self._bad.get(digest):
            return known
        if not self._good.had(digest):
            self._budget.take()
        user = self._reviews.user_of(token, deadline)
        if user is None:
            self._good.forget(digest)
            self._bad.put(digest, True)
        else:
            self._good.put(digest, user)
        return user


def fingerprint(token: str) -> bytes:
    """What is remembered of a token."""
    return hashlib.sha256(token.encode()).digest()
