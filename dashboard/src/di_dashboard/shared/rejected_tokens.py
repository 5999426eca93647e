"""Cache and limit for invalid tokens, so that each does not cost the cluster a review."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from di_dashboard.shared.rights import Caller
from di_service.sources import source_of
from di_service.token_buckets import TokenBuckets

REFUSED_SECONDS: Final = 30.0
"""Seconds for which an invalid token is refused without a review."""
AT_ONCE: Final = 32
"""Burst of refusals of one address; all users of a single sign-on share its address."""
PER_SECOND: Final = 1.0
"""Sustained refusals per second of one address."""
_MOST: Final = 4096


class TooMany(Exception):
    """Too many tokens of that address were refused; `seconds` until the next one is reviewed."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"{seconds:.1f} s")


class RejectedTokens:
    """Counts refusals by address, and caches refused tokens. Thread-safe.

    An open page with an expired token sends a request every few seconds, but costs one review per
    REFUSED_SECONDS, so it uses little of its address's limit.
    """

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._buckets = TokenBuckets[str](rate=PER_SECOND, burst=AT_ONCE, clock=clock)
        self._lock = threading.Lock()
        self._refused: OrderedDict[str, float] = OrderedDict()

    def is_refused(self, caller: Caller, address: str) -> bool:
        """Return whether the token was refused recently.

        Raises:
            TooMany: it was not, and the address has reached its limit.
        """
        with self._lock:
            if self._refused.get(caller.key, 0.0) > self._clock():
                return True
        wait = self._buckets.wait(source_of(address))
        if wait:
            raise TooMany(wait)
        return False

    def count(self, caller: Caller, address: str) -> None:
        """Count a token that the API server refused, from an address."""
        # Concurrently admitted requests are refused concurrently: the bucket goes into debt for
        # them.
        self._buckets.take(source_of(address), owed=AT_ONCE)
        with self._lock:
            self._refused.pop(caller.key, None)
            self._refused[caller.key] = self._clock() + REFUSED_SECONDS
            while len(self._refused) > _MOST:
                self._refused.popitem(last=False)
