"""The text of the annotation that carries what a version of the API has no field for."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from typing import Any, Final, TypedDict

from di_api import strict_json


class Carried(TypedDict, total=False):
    """What a text carries, each of it objects of the newest version."""

    spec: Mapping[str, Any]
    coordinated: Mapping[str, Any]
    """Of `spec.coordinated`; not there if the job has none."""
    status: Mapping[str, Any]
    annotation: object
    """What the job itself had under the name of the annotation."""


COMPRESSED: Final = "zlib:"
"""How a compressed text begins, base64 of a zlib stream; any other one is plain JSON."""
LONGEST_PLAIN: Final = 32 * 1024
"""Bytes. Shorter texts stay readable for people."""
LONGEST: Final = 240 * 1024
"""Bytes of a text, less where the other annotations of the job need the place."""
TOO_LARGE: Final = "too-large: "
"""How the text begins of a job that does not fit: it carries nothing, and the job cannot be
written."""
MOST_ANNOTATIONS: Final = 256 * 1024
"""Bytes of all annotations of an object, their keys included, that the API server takes."""
LARGEST: Final = 4 * 1024 * 1024
"""Bytes of JSON a text may hold; the API server takes objects of 3 MiB."""
_MOST_VALUES: Final = 384 * 1024
"""Values of JSON a text may hold, as many as a review."""
_OBJECTS: Final = ("spec", "coordinated", "status")


class Oversized(ValueError):
    """More than an annotation can carry."""


def pack(carried: Carried, longest: int = LONGEST) -> str:
    """The text, always the same for the same content.

    Raises:
        Oversized: the text would be longer than `longest`, or nested too deeply to be written.
    """
    try:
        plain = json.dumps(carried, sort_keys=True, separators=(",", ":"), allow_nan=False)
        strict_json.check_size(plain.encode())
    except (ValueError, RecursionError) as error:
        raise Oversized("the job cannot be written as JSON") from error
    if len(plain) <= min(longest, LONGEST_PLAIN):
        return plain
    packed = COMPRESSED + base64.b64encode(zlib.compress(plain.encode())).decode()
    if len(packed) > longest or len(plain) > LARGEST:
        raise Oversized(
            f"what the version has no field for takes {len(packed)} bytes in an annotation, which "
            f"may have {max(longest, 0)}"
        )
    return packed


def is_too_large(text: object) -> bool:
    """Whether the text stands for a job that did not fit."""
    return isinstance(text, str) and text.startswith(TOO_LARGE)


def unpack(text: object) -> Carried | None:
    """What `text` carries; None if it is not one that `pack` can have written."""
    if not isinstance(text, str):
        return None
    try:
        # As strictly as a review: anybody may write this text, and it becomes part of the job.
        found = strict_json.loads(_plain(text), max_values=_MOST_VALUES)
    except (ValueError, zlib.error):
        return None
    if (
        not isinstance(found, dict)
        or not found
        or not found.keys() <= Carried.__annotations__.keys()
    ):
        return None
    if not all(isinstance(found.get(key, {}), dict) for key in _OBJECTS):
        return None
    carried: Carried = found  # type: ignore[assignment]
    return carried


def _plain(text: str) -> bytes:
    if not text.startswith(COMPRESSED):
        return text.encode()
    return _decompressed(text.removeprefix(COMPRESSED))


def _decompressed(encoded: str) -> bytes:
    try:
        stream = base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise ValueError("not base64") from error
    decoder = zlib.decompressobj()
    plain = decoder.decompress(stream, LARGEST)
    if not decoder.eof:
        raise ValueError("cut off, or larger than anything that is packed")
    return plain
