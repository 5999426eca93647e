"""Arrays from pod to pod, in NumPy's own format: it brings no code along, as a pickle would.

NumPy is imported when one of these is called, and not before.
"""

from __future__ import annotations

import io
from typing import Any
from zipfile import BadZipFile


def pack(**arrays: Any) -> bytes:
    """Arrays and numbers by name, as they travel."""
    import numpy as np  # noqa: PLC0415  only who uses it has it

    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def unpack(message: bytes) -> dict[str, Any]:
    """Arrays by name, as `pack` was given them.

    Raises:
        ValueError: it is no such message.
    """
    import numpy as np  # noqa: PLC0415  as above

    try:
        with np.load(io.BytesIO(message), allow_pickle=False) as arrays:
            return dict(arrays)
    except (BadZipFile, EOFError, OSError, TypeError, ValueError) as error:
        raise ValueError(f"no arrays: {error}") from error
