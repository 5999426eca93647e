"""Arrays over HTTP: numpy's own format, which brings no code along."""

from __future__ import annotations

import io
from typing import Any
from zipfile import BadZipFile

import numpy as np


def pack(**arrays: Any) -> bytes:
    """Arrays and numbers by name."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def unpack(message: bytes) -> dict[str, Any]:
    """
    Raises:
        ValueError: it is no such message.
    """
    try:
        with np.load(io.BytesIO(message), allow_pickle=False) as arrays:
            return dict(arrays)
    except (BadZipFile, EOFError, OSError, TypeError, ValueError) as error:
        raise ValueError(f"no arrays: {error}") from error
