"""The bundle of a job's code: a tar archive whose bytes depend only on the files.

What a pod would refuse is refused here, by the same rules (`di_unpack.program`).
"""

from __future__ import annotations

import base64
import binascii
import gzip
import hashlib
import io
import json
import tarfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from di_api.code_names import CODE_BUNDLE_KEY, CODE_FALLBACK, MOST_CODE_PARTS
from di_api.field_error import mapping
from di_cli.code.files import File
from di_cli.errors import CommandError
from di_unpack.program import MOST_PACKED, BadBundle, members, unpacked

PART: Final = 700 << 10
"""Compressed bytes of a part: its ConfigMap stays below the API server's limit of 1 MiB."""
MOST_IN_PARTS: Final = MOST_CODE_PARTS * PART
"""Compressed bytes of a bundle in ConfigMaps; a larger one is kept on a claim."""
_LEVEL: Final = 6
"""Level of gzip: 9 saves 1 % of the bytes of our own packages, and takes four times as long."""
_SHOWN: Final = 5
_DIGITS: Final = 16
_MOST_LISTED: Final = 16 << 20
"""Bytes of the listing of a bundle: of so many files, with the longest paths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A compressed bundle.

    Attributes:
        packed: for the ConfigMaps or the claim.
        sha256: of the uncompressed archive, because compression differs between machines.
        largest: lines with the sizes and paths of the largest files, for errors about a large
            bundle; empty for a small one.
    """

    packed: bytes
    sha256: str
    largest: str = ""

    @property
    def is_large(self) -> bool:
        """Return whether it is kept on a claim."""
        return len(self.packed) > MOST_IN_PARTS

    @property
    def parts(self) -> list[bytes]:
        """Return the bytes of each ConfigMap."""
        return [self.packed[at : at + PART] for at in range(0, len(self.packed), PART)]


def make(files: Mapping[str, File]) -> Bundle:
    """Return the bundle of some files by path. Raises CommandError."""
    plain = _archive(files)
    try:
        members(io.BytesIO(plain))
    except BadBundle as error:
        raise CommandError(
            "the files cannot be a bundle",
            where=str(error),
            remedy="rename the file, or leave it out with a file .diignore",
        ) from error
    packed = gzip.compress(plain, _LEVEL, mtime=0)
    if len(packed) > MOST_PACKED:
        raise CommandError(
            f"the files have {kib(len(packed))} KiB when compressed, and a bundle has "
            f"{kib(MOST_PACKED)} KiB at most",
            where=_largest(files),
            remedy="leave out data and results with a file .diignore; mount large files as a "
            "volume, or build an image",
        )
    made = Bundle(packed=packed, sha256=hashlib.sha256(plain).hexdigest())
    # The lines take as long as a fourth of a push.
    return replace(made, largest=_largest(files)) if made.is_large else made


def bundle_in(config_maps: Sequence[Mapping[str, Any]], sha256: str) -> Bundle | None:
    """Return the bundle of its ConfigMaps; None if they have none with this hash."""
    try:
        packed, plain = packed_in(config_maps), io.BytesIO()
        is_same = unpacked([packed], plain) == sha256
        members(plain)
    except (binascii.Error, BadBundle):
        return None
    return Bundle(packed=packed, sha256=sha256) if is_same else None


def packed_in(config_maps: Sequence[Mapping[str, Any]], key: str = CODE_BUNDLE_KEY) -> bytes:
    """Return the compressed bytes in the ConfigMaps of a bundle. Raises binascii.Error."""
    texts = (mapping(each.get("binaryData")).get(key) for each in config_maps)
    return b"".join(base64.b64decode(str(text), validate=True) for text in texts)


def contents(packed: bytes) -> dict[str, bytes]:
    """Return the files of the user in a bundle by path. Raises BadBundle for an unsafe one."""
    plain = io.BytesIO()
    unpacked([packed], plain)
    found = members(plain)
    whole = plain.getbuffer()
    return {
        name: bytes(whole[place : place + size])
        for name, place, size, _ in found
        if not name.startswith(f"{CODE_FALLBACK}/")
    }


def hash_of(content: bytes) -> str:
    """Return the start of a file's SHA-256, by which changed files are found."""
    return hashlib.sha256(content).hexdigest()[:_DIGITS]


def listing(packed: bytes) -> bytes:
    """Return the hashes of the user's files in a bundle by path, compressed JSON."""
    found = {name: hash_of(content) for name, content in contents(packed).items()}
    return gzip.compress(json.dumps(found).encode(), _LEVEL, mtime=0)


def listed(packed: bytes) -> dict[str, str]:
    """Return what `listing` made; empty for anything else, because any client can write it."""
    reader = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        found = json.loads(reader.decompress(packed, _MOST_LISTED))
    except (zlib.error, ValueError, RecursionError):
        return {}
    return {str(name): str(value) for name, value in mapping(found).items()}


def _archive(files: Mapping[str, File]) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(files):
            file = files[name]
            # Of a new TarInfo, owner and time are zero.
            info = tarfile.TarInfo(name)
            info.size = len(file.content)
            info.mode = 0o755 if file.is_executable else 0o644
            archive.addfile(info, io.BytesIO(file.content))
    return written.getvalue()


def _largest(files: Mapping[str, File]) -> str:
    own = [name for name in files if not name.startswith(f"{CODE_FALLBACK}/")]
    largest = sorted(own, key=lambda name: (-len(files[name].content), name))[:_SHOWN]
    packages = [file for name, file in files.items() if name not in own]
    lines = [f"{kib(len(files[name].content))} KiB {name}" for name in largest]
    if packages:
        size = len(gzip.compress(b"".join(each.content for each in packages)))
        lines.append(f"{kib(size)} KiB compressed of di_orchestrator and what it imports")
    return "\n".join(lines)


def kib(count: int) -> int:
    """Return a count of bytes in KiB, rounded up."""
    return -(-count >> 10)
