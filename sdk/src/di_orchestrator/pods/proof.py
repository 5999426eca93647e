"""The proof by which a pod shows another that it belongs to the same job. Pure functions.

All pods of a job share a secret, which is never sent. A request has a proof computed from the
secret, its method, path and body, and the present minute.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

ENVIRONMENT = "DI_JOB_SECRET"
HEADER = "DI-Proof"
HEADER_DRAIN = "DI-Drain-Token"
"""Header of the kubelet's drain request, with `drain_token`, because the kubelet cannot compute a
proof.
"""
SECONDS = 300.0
"""Seconds for which a proof is valid, which also covers clock differences of two nodes."""


def secret_of(environment: Mapping[str, str]) -> bytes | None:
    """Return the secret of this pod's job; None outside a job, and in a job of an older
    operator.
    """
    return environment.get(ENVIRONMENT, "").encode() or None


def proof(secret: bytes, method: str, target: str, body: bytes, *, now: float) -> str:
    """Return the value of the header.

    Args:
        target: path and query, in the form that is sent.
        now: seconds since the epoch.
    """
    return str(Proof(str(int(now)), sha256(body).hexdigest(), "").signed(secret, method, target))


@dataclass(frozen=True)
class Proof:
    """The parsed, unverified header of a request.

    Attributes:
        at: seconds since the epoch, as text.
        body: SHA-256 of the body, hexadecimal.
        signature: computed with the secret.
    """

    at: str
    body: str
    signature: str

    @classmethod
    def read(cls, header: str) -> Proof | None:
        """Parse a header; None if it is invalid."""
        words = header.split(" ")
        if len(words) != 3 or not (words[0].isascii() and words[0].isdigit()):
            return None
        return cls(*words)

    def __str__(self) -> str:
        return f"{self.at} {self.body} {self.signature}"

    def signed(self, secret: bytes, method: str, target: str) -> Proof:
        """Return this proof with the correct signature."""
        # Python's server reduces several slashes at the beginning to one.
        path = f"/{target.lstrip('/')}"
        signed = "\n".join((self.at, method, path, self.body)).encode()
        return Proof(self.at, self.body, hmac.new(secret, signed, sha256).hexdigest())

    def holds(self, secret: bytes, method: str, target: str, *, now: float) -> bool:
        """Return whether the signature is that of this job for the present minute; the body is not
        checked.
        """
        expected = self.signed(secret, method, target).signature
        is_signed = hmac.compare_digest(self.signature.encode(), expected.encode())
        return is_signed and abs(float(self.at) - now) <= SECONDS

    def is_of(self, body: bytes) -> bool:
        """Return whether the proof matches this body."""
        return hmac.compare_digest(self.body.encode(), sha256(body).hexdigest().encode())


def drain_token(secret: bytes) -> str:
    """Return the token by which the kubelet asks this pod to drain; the operator computes
    the same.
    """
    return hmac.new(secret, b"drain", sha256).hexdigest()


def is_drain_token(secret: bytes, shown: str) -> bool:
    """Return whether a kubelet's token is correct."""
    return hmac.compare_digest(drain_token(secret).encode(), shown.encode())
