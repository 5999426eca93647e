"""One member's entry."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import orjson

from di_api.compact import compact

HEARTBEAT: Final = 10.0
"""Seconds after which a pod repeats its entry."""
LIFETIME: Final = 3 * HEARTBEAT
"""Seconds after which an entry that was not repeated is gone."""
MAX_SAYS: Final = 1024
"""Bytes that one member says."""


# Without slots: what is made of it is made once, and only if somebody asks.
@dataclass(frozen=True, kw_only=True)
class Entry:
    """What a pod said, and when among all it has said."""

    namespace: str
    job_uid: str
    pod: str
    pod_uid: str
    task: str
    says: bytes
    """A JSON object without spaces, MAX_SAYS at most."""
    version: int = 0
    """Milliseconds since 1970 by the server that was told, and always later than what that one knew
    of the pod before. So the last word wins on every server; where the clocks of two differ by more
    than their news are on the way, the one before may, until the pod repeats itself."""

    @cached_property
    def shown(self) -> bytes:
        """As clients read it, JSON."""
        return compact(
            orjson.dumps(
                {
                    "pod": self.pod,
                    "uid": self.pod_uid,
                    "task": self.task,
                    "says": orjson.Fragment(self.says),
                }
            )
        )

    @cached_property
    def digest(self) -> bytes:
        """Of what clients read."""
        return hashlib.sha256(self.shown).digest()

    def is_after(self, other: Entry) -> bool:
        """Whether it replaces another of the same pod; every server decides the same."""
        return (self.version, self.digest) > (other.version, other.digest)
