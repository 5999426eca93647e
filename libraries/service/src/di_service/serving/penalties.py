"""Sources that are slowed down for what they do."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from di_service.token_buckets import TokenBuckets

FAULTS_AT_ONCE: Final = 32
"""Of one source, before it is slowed down."""
FAULTS_PER_SECOND: Final = 1.0
"""Of one source, for as long as it likes."""
_LINE_SECONDS: Final = 60.0

_log = logging.getLogger("gunicorn.error")


class Penalties:
    """Counts what no good client does often, in a token bucket for each source.

    A fault is a handshake or request that did not come in time or is none, an answer that was not
    read, a question before the last answer, a credential that does not hold. One costs nothing:
    a client's program may be wrong, a certificate new. One after another costs all others time,
    so their source is served slowly until it stops.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Nobody has done anything.

        Args:
            clock: tells seconds.
        """
        self._forgiven = TokenBuckets[str](
            rate=FAULTS_PER_SECOND, burst=FAULTS_AT_ONCE, clock=clock
        )
        self._lines = TokenBuckets[str](rate=1 / _LINE_SECONDS, burst=1, clock=clock)

    def count(self, source: str, what: str) -> None:
        """One more fault of a source.

        Args:
            source: as `source_of` says it.
            what: for the log, which tells of each source once a minute.
        """
        if self.slows(source) and not self._lines.take(source):
            _log.warning(
                "clients at %s are served slowly, one after another: %s, and more than %d such "
                "faults at once or one a second",
                source,
                what,
                FAULTS_AT_ONCE,
            )
        # One is owed, so that a source which goes on has no moment in which it is forgiven.
        self._forgiven.take(source, owed=1.0)

    def slows(self, source: str) -> bool:
        """Whether the source has used up what is forgiven."""
        return self._forgiven.wait(source) > 0.0
