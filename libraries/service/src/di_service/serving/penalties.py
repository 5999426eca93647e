"""Penalties: rate limits for sources with repeated faults."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from di_service.token_buckets import TokenBuckets

FAULTS_AT_ONCE: Final = 32
"""Burst of faults of one source before it is penalized."""
FAULTS_PER_SECOND: Final = 1.0
"""Rate of faults per second that one source can have without a penalty."""
_LINE_SECONDS: Final = 60.0

_log = logging.getLogger("gunicorn.error")


class Penalties:
    """Counts faults, which good clients rarely commit, in a token bucket per source.

    A fault is a handshake or request that is late or invalid, a response that was not read, a
    request before the last response, or invalid credentials. A single fault costs nothing: a
    program can have a bug, a certificate can be new. Repeated faults cost other clients time, so
    their source is served slowly until it stops.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin without faults.

        Args:
            clock: returns seconds.
        """
        self._forgiven = TokenBuckets[str](
            rate=FAULTS_PER_SECOND, burst=FAULTS_AT_ONCE, clock=clock
        )
        self._lines = TokenBuckets[str](rate=1 / _LINE_SECONDS, burst=1, clock=clock)

    def count(self, source: str, what: str) -> None:
        """Count one fault of a source.

        Args:
            source: as returned by `source_of`.
            what: for the log, which names each source once a minute.
        """
        if self.slows(source) and not self._lines.take(source):
            _log.warning(
                "clients at %s are served slowly, one after another: %s, and more than %d such "
                "faults at once or one a second",
                source,
                what,
                FAULTS_AT_ONCE,
            )
        # One token can be owed, so that a source that continues is never without a penalty.
        self._forgiven.take(source, owed=1.0)

    def slows(self, source: str) -> bool:
        """Return whether the source has used up its tokens."""
        return self._forgiven.wait(source) > 0.0
