"""Tokens that hold nothing: they may be shown, and are not to cost the cluster a review each."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from di_dashboard.shared.rights import Caller
from di_service.sources import source_of
from di_service.token_buckets import TokenBuckets

REFUSED_SECONDS: Final = 30.0
"""For which a token that was refused is refused without a review."""
AT_ONCE: Final = 32
"""Refusals of one address; all who come by a single sign-on have its address."""
PER_SECOND: Final = 1.0
"""Likewise, for as long as it goes on."""
_MOST: Final = 4096


class TooMany(Exception):
    """Tokens of that address were refused too often; `seconds` until one more is looked at."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"{seconds:.1f} s")


class RejectedTokens:
    """Counts refusals by address, and remembers tokens that were refused. Safe between threads.

    A page that is left open with a token that has run out asks every few seconds, and costs one
    review each REFUSED_SECONDS; so it uses up little of what others at its address may be refused.
    """

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._buckets = TokenBuckets[str](rate=PER_SECOND, burst=AT_ONCE, clock=clock)
        self._lock = threading.Lock()
        self._refused: OrderedDict[str, float] = OrderedDict()

    def is_refused(self, caller: Caller, address: str) -> bool:
        """Whether the token was refused a moment ago.

        Raises:
            TooMany: it was not, and is not looked at now.
        """
        with self._lock:
            if self._refused.get(caller.key, 0.0) > self._clock():
                return True
        wait = self._buckets.wait(source_of(address))
        if wait:
            raise TooMany(wait)
        return False

    def count(self, caller: Caller, address: str) -> None:
        """The API server has refused a token that came from an address."""
        # All that were let through at once are refused at once, and are owed.
        self._buckets.take(source_of(address), owed=AT_ONCE)
        with self._lock:
            self._refused.pop(caller.key, None)
            self._refused[caller.key] = self._clock() + REFUSED_SECONDS
            while len(self._refused) > _MOST:
                self._refused.popitem(last=False)
