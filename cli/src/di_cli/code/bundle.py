"""The bundle of a job's code: a tar archive whose bytes depend only on the files.

What a pod would refuse is refused here, by the same rules (`di_unpack.program`).
"""

from __future__ import annotations

import base64
import binascii
import gzip
import hashlib
import io
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from di_api.field_error import mapping
from di_api.names import CODE_BUNDLE_KEY, CODE_FALLBACK, MOST_CODE_PARTS
from di_cli.code.files import File
from di_cli.errors import CommandError
from di_unpack.program import BadBundle, members, unpacked

PART: Final = 700 << 10
"""Compressed bytes of a part: its ConfigMap stays below the API server's limit of 1 MiB."""
MOST_PACKED: Final = MOST_CODE_PARTS * PART
"""Compressed bytes of a bundle."""
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A compressed bundle.

    Attributes:
        packed: for the ConfigMaps.
        sha256: of the uncompressed archive, because compression differs between machines.
    """

    packed: bytes
    sha256: str

    @property
    def parts(self) -> list[bytes]:
        """Return the bytes of each ConfigMap."""
        return [self.packed[at : at + PART] for at in range(0, len(self.packed), PART)]


def make(files: Mapping[str, File]) -> Bundle:
    """Return the bundle of some files by path. Raises CommandError."""
    plain = _archive(files)
    try:
        members(plain)
    except BadBundle as error:
        raise CommandError(
            "the files cannot be a bundle",
            where=str(error),
            remedy="rename the file, or leave it out with a file .diignore",
        ) from error
    packed = gzip.compress(plain, 9, mtime=0)
    if len(packed) > MOST_PACKED:
        raise CommandError(
            f"the files have {_kib(len(packed))} KiB when compressed, and a bundle has "
            f"{_kib(MOST_PACKED)} KiB at most",
            where=_largest(files),
            remedy="leave out data and results with a file .diignore; mount large files as a "
            "volume, or build an image",
        )
    return Bundle(packed=packed, sha256=hashlib.sha256(plain).hexdigest())


def bundle_in(config_maps: Sequence[Mapping[str, Any]], sha256: str) -> Bundle | None:
    """Return the bundle of its ConfigMaps; None if they have none with this hash."""
    try:
        packed = packed_in(config_maps)
        plain = unpacked(packed)
        members(plain)
    except (binascii.Error, BadBundle):
        return None
    is_same = hashlib.sha256(plain).hexdigest() == sha256
    return Bundle(packed=packed, sha256=sha256) if is_same else None


def packed_in(config_maps: Sequence[Mapping[str, Any]]) -> bytes:
    """Return the compressed bytes in the ConfigMaps of a bundle. Raises binascii.Error."""
    texts = (mapping(each.get("binaryData")).get(CODE_BUNDLE_KEY) for each in config_maps)
    return b"".join(base64.b64decode(str(text), validate=True) for text in texts)


def contents(packed: bytes) -> dict[str, bytes]:
    """Return the files of the user in a bundle by path. Raises BadBundle for an unsafe one."""
    return {
        name: content
        for name, content, _ in members(unpacked(packed))
        if not name.startswith(f"{CODE_FALLBACK}/")
    }


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
    lines = [f"{_kib(len(files[name].content))} KiB {name}" for name in largest]
    if packages:
        size = len(gzip.compress(b"".join(each.content for each in packages)))
        lines.append(f"{_kib(size)} KiB compressed of di_orchestrator and what it imports")
    return "\n".join(lines)


def _kib(count: int) -> int:
    return -(-count >> 10)
