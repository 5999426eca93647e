"""Archives that are the same for the same files: no times, no owners."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Collection, Mapping
from pathlib import Path


def pack(archive: Path, files: Mapping[str, Path], *, programs: Collection[str] = ()) -> Path:
    """Write a compressed tar.

    Args:
        archive: what is written.
        files: what is in it, by the names there and in that order.
        programs: the names that can be executed.
    """
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, file in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = file.stat().st_size, 0o755 if name in programs else 0o644
            with file.open("rb") as opened:
                tar.addfile(entry, opened)
    archive.write_bytes(gzip.compress(content.getvalue(), mtime=0))
    return archive
