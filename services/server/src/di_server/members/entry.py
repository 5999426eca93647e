"""One member's entry."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import orjson

from di_kube.compact import compact

HEARTBEAT: Final = 10.0
"""Seconds after which a pod repeats its entry."""
LIFETIME: Final = 3 * HEARTBEAT
"""Seconds after which an entry that was not repeated is removed."""
MAX_SAYS: Final = 1024
"""Maximum bytes of one member's content."""


# Without slots: derived values are computed once, on demand.
@dataclass(frozen=True, kw_only=True)
class Entry:
    """The content that a pod sent, and its version."""

    namespace: str
    job_uid: str
    pod: str
    pod_uid: str
    task: str
    says: bytes
    """A JSON object without spaces, MAX_SAYS at most."""
    version: int = 0
    """Milliseconds since 1970 by the server that received it, and always more than that server's
    previous version of the pod. So the last entry wins on every server. If the clocks of two
    servers differ by more than the transfer time, an earlier entry can win until the pod repeats
    its own.
    """

    @cached_property
    def shown(self) -> bytes:
        """Return the entry as clients read it, JSON."""
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
        """Return the digest of what clients read."""
        return hashlib.sha256(self.shown).digest()

    def is_after(self, other: Entry) -> bool:
        """Return whether it replaces another entry of the same pod; the result is the same on every
        server.
        """
        return (self.version, self.digest) > (other.version, other.digest)
