"""How a pod proves to another that it belongs to the same job. Pure.

All pods of a job get the same secret. It never goes over the network: a request has a proof that
was made with it, of its method, path and body and of this minute.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

ENVIRONMENT = "DI_JOB_SECRET"
HEADER = "DI-Proof"
HEADER_DRAIN = "DI-Drain-Token"
"""Of the kubelet's request to drain, with `drain_token`; it cannot make a proof."""
SECONDS = 300.0
"""That a proof holds for, and that clocks of two nodes may differ by."""


def secret_of(environment: Mapping[str, str]) -> bytes | None:
    """Return the secret of this pod's job; None outside a job, and in one of an older operator."""
    return environment.get(ENVIRONMENT, "").encode() or None


def proof(secret: bytes, method: str, target: str, body: bytes, *, now: float) -> str:
    """Return the value of the header.

    Args:
        target: path and query, as they go over the wire.
        now: seconds since the epoch.
    """
    return str(Proof(str(int(now)), sha256(body).hexdigest(), "").signed(secret, method, target))


@dataclass(frozen=True)
class Proof:
    """What the header of a request says, true or not.

    Attributes:
        at: seconds since the epoch, as text.
        body: SHA-256 of the body, hexadecimal.
        signature: by whom knows the secret.
    """

    at: str
    body: str
    signature: str

    @classmethod
    def read(cls, header: str) -> Proof | None:
        """Return what a header says; None if it is no proof."""
        words = header.split(" ")
        if len(words) != 3 or not (words[0].isascii() and words[0].isdigit()):
            return None
        return cls(*words)

    def __str__(self) -> str:
        return f"{self.at} {self.body} {self.signature}"

    def signed(self, secret: bytes, method: str, target: str) -> Proof:
        """Return the same with the signature that it should have."""
        # As Python's server gives it on: of slashes at the beginning it leaves one.
        path = f"/{target.lstrip('/')}"
        signed = "\n".join((self.at, method, path, self.body)).encode()
        return Proof(self.at, self.body, hmac.new(secret, signed, sha256).hexdigest())

    def holds(self, secret: bytes, method: str, target: str, *, now: float) -> bool:
        """Return whether it is of a request of this job and this minute; not yet of its body."""
        expected = self.signed(secret, method, target).signature
        is_signed = hmac.compare_digest(self.signature.encode(), expected.encode())
        return is_signed and abs(float(self.at) - now) <= SECONDS

    def is_of(self, body: bytes) -> bool:
        """Return whether it is of this body."""
        return hmac.compare_digest(self.body.encode(), sha256(body).hexdigest().encode())


def drain_token(secret: bytes) -> str:
    """Return what the kubelet shows that asks this pod to drain; the operator makes the same."""
    return hmac.new(secret, b"drain", sha256).hexdigest()


def is_drain_token(secret: bytes, shown: str) -> bool:
    """Return whether a kubelet shows it."""
    return hmac.compare_digest(drain_token(secret).encode(), shown.encode())
