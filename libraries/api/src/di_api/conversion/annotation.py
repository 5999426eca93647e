"""Encoding of the annotation that carries data without a field in an API version."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from typing import Any, Final, TypedDict

from di_api import strict_json


class Carried(TypedDict, total=False):
    """The carried data, in the form of the newest version."""

    spec: Mapping[str, Any]
    coordinated: Mapping[str, Any]
    """Parts of `spec.coordinated`; absent if the job has none."""
    status: Mapping[str, Any]
    annotation: object
    """The job's own value under the key of the annotation."""


COMPRESSED: Final = "zlib:"
"""Prefix of a compressed text, which is base64 of a zlib stream; any other text is plain JSON."""
LONGEST_PLAIN: Final = 32 * 1024
"""Size in bytes up to which a text stays uncompressed and readable."""
LONGEST: Final = 240 * 1024
"""Maximum size of a text in bytes; less if the job's other annotations need the space."""
TOO_LARGE: Final = "too-large: "
"""Prefix of the text of a job that does not fit: it carries nothing, and the job cannot be
written.
"""
MOST_ANNOTATIONS: Final = 256 * 1024
"""Maximum bytes of all annotations of an object, keys included, that the API server accepts."""
LARGEST: Final = 4 * 1024 * 1024
"""Maximum bytes of JSON in a text; the API server accepts objects of 3 MiB."""
_MOST_VALUES: Final = 384 * 1024
"""Maximum number of JSON values in a text, as in a review."""
_BYTES_OF_A_VALUE: Final = LARGEST // _MOST_VALUES
_BEGINNING: Final = 64
"""Characters, a multiple of 4, of a compressed text that show how its content begins."""
_OBJECTS: Final = ("spec", "coordinated", "status")
_ENCODER: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)
"""Made once: `json.dumps` with arguments makes one at each call, a quarter of its time for a small
job, and a list has thousands.
"""


class Oversized(ValueError):
    """The data exceeds what an annotation can carry."""


def pack(carried: Carried, longest: int = LONGEST) -> str:
    """Return the text, which is always the same for the same content.

    Raises:
        Oversized: the text would be longer than `longest`, or nested too deeply to be written.
    """
    try:
        plain = _ENCODER.encode(carried)
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
    """Return whether the text marks a job that did not fit."""
    return isinstance(text, str) and text.startswith(TOO_LARGE)


def may_be_ours(text: object) -> bool:
    """Return whether `unpack` can accept the text, or it is the mark of a job that does not fit.

    Only the beginning of a compressed text is unpacked: any user can annotate hundreds of jobs with
    texts of 1 KB that unpack to 4 MiB each, and a list converts all of them.
    """
    if not isinstance(text, str) or not text.startswith(COMPRESSED):
        return is_too_large(text) or unpack(text) is not None
    start = len(COMPRESSED)
    try:
        stream = base64.b64decode(text[start : start + _BEGINNING], validate=True)
        plain = zlib.decompressobj().decompress(stream, _BEGINNING).lstrip()
    except (binascii.Error, ValueError, zlib.error):
        return False
    # The content of a long text may begin behind what was unpacked.
    return plain.startswith(b"{") if plain else len(text) > start + _BEGINNING


def unpacking_cost(text: object) -> int:
    """Return the bytes that `unpack` reads of a compressed text, valid or not: at least
    _BYTES_OF_A_VALUE for each value in it, and LARGEST at most. 0 for other texts.
    """
    if not isinstance(text, str) or not text.startswith(COMPRESSED):
        return 0
    try:
        stream = base64.b64decode(text.removeprefix(COMPRESSED), validate=True)
        plain = zlib.decompressobj().decompress(stream, LARGEST)
    except (binascii.Error, ValueError, zlib.error):
        return 0
    values = sum(map(plain.count, (b",", b"[", b"{")))
    return min(max(len(plain), _BYTES_OF_A_VALUE * values), LARGEST)


def unpack(text: object) -> Carried | None:
    """Return the data in `text`; None if `pack` cannot have written it."""
    if not isinstance(text, str):
        return None
    try:
        # As strict as a review: any client can write this text, and it becomes part of the job.
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
