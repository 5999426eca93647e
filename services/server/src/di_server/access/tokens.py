"""Authentication of tokens by TokenReview, with a cache."""

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
"""Seconds for which an invalid token is cached, less than for a valid one: it protects the API
server from repeated requests, and the owner may soon fix the cause.
"""
_MOST_GOOD: Final = 65_536
"""More than the pods of a large cluster: if more send requests by turns, each is forgotten before
its next one, and the budget refuses many. One takes 1.2 kB.
"""
_MOST_BAD: Final = 4096


class TokenAuthenticator:
    """Caches the results of reviews by the digest of the token.

    Valid and invalid tokens are cached separately, because a client can send any number of invalid
    ones. A token that was valid before is reviewed again at once and without a budget: a flood of
    other tokens must not stop known callers.
    """

    def __init__(self, *, reviews: ReviewStore, budget: Budget, clock: Clock) -> None:
        self._reviews = reviews
        self._budget = budget
        self._good = TtlCache[bytes, User](seconds=_HOLDS_SECONDS, most=_MOST_GOOD, clock=clock)
        self._bad = TtlCache[bytes, bool](seconds=_FAILS_SECONDS, most=_MOST_BAD, clock=clock)
        self._asking = SingleFlight[bytes, User | None]()

    def has_held(self, token: str) -> bool:
        """Return whether the token was valid at its last review."""
        return self._good.had(fingerprint(token))

    def user_of(self, token: str, deadline: Deadline) -> User | None:
        """Return the user of a token, None if it is invalid.

        Raises:
            OverBudget: it needs a review, and the budget is used up.
        """
        digest = fingerprint(token)
        return self._good.get(digest) or self._asking.run(
            digest, lambda: self._ask(digest, token, deadline), deadline
        )

    def _ask(self, digest: bytes, token: str, deadline: Deadline) -> User | None:
        # Another thread may have reviewed it meanwhile.
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
    """Return the digest by which a token is cached."""
    return hashlib.sha256(token.encode()).digest()
