"""Encoding of arrays in NumPy's own format, which unlike a pickle contains no code.

NumPy is imported only when one of these functions is called.
"""

from __future__ import annotations

import io
from typing import Any
from zipfile import BadZipFile


def pack(**arrays: Any) -> bytes:
    """Encode named arrays and numbers as bytes."""
    import numpy as np  # noqa: PLC0415  only who uses it has it

    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def unpack(message: bytes) -> dict[str, Any]:
    """Decode the bytes of `pack` to arrays by name.

    Raises:
        ValueError: the bytes are invalid.
    """
    import numpy as np  # noqa: PLC0415  as above

    try:
        with np.load(io.BytesIO(message), allow_pickle=False) as arrays:
            return dict(arrays)
    except (BadZipFile, EOFError, OSError, TypeError, ValueError) as error:
        raise ValueError(f"no arrays: {error}") from error
