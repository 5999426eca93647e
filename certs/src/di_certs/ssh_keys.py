"""Keys for ssh that are derived, not generated."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from struct import pack
from textwrap import wrap
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

SEED_BYTES: Final = 32
"""Length of a seed."""
_TYPE: Final = b"ssh-ed25519"
_BLOCK: Final = 8
_LINE: Final = 70


def private_key(seed: bytes) -> str:
    """Return the Ed25519 key of a seed as OpenSSH stores it, without a passphrase.

    The same seed gives the same text. `cryptography` writes random check bytes into each copy.
    The format is that of PROTOCOL.key in the sources of OpenSSH.

    Raises:
        ValueError: the seed does not have 32 bytes.
    """
    public = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
    pair = _field(_TYPE) + _field(public)
    # The check bytes twice, the key, and an empty comment.
    private = sha256(seed).digest()[:4] * 2 + pair + _field(seed + public) + _field(b"")
    padding = bytes(range(1, 1 + -len(private) % _BLOCK))
    header = b"openssh-key-v1\0" + _field(b"none") * 2 + _field(b"") + pack(">I", 1)
    text = b64encode(header + _field(pair) + _field(private + padding)).decode()
    lines = ("-----BEGIN OPENSSH PRIVATE KEY-----", *wrap(text, _LINE))
    return "\n".join((*lines, "-----END OPENSSH PRIVATE KEY-----"))


def _field(value: bytes) -> bytes:
    """Return a field of the format: the length, then the bytes."""
    return pack(">I", len(value)) + value
