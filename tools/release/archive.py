"""Archives that are the same for the same files: no times, no owners."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Collection, Mapping
from pathlib import Path


def pack(
    archive: Path, files: Mapping[str, Path | bytes], *, programs: Collection[str] = ()
) -> Path:
    """Write a compressed tar.

    Args:
        archive: what is written.
        files: what is in it, a file here or bytes, by the names there and in that order.
        programs: the names that can be executed.
    """
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, file in files.items():
            body = file if isinstance(file, bytes) else file.read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(body), 0o755 if name in programs else 0o644
            tar.addfile(entry, io.BytesIO(body))
    archive.write_bytes(gzip.compress(content.getvalue(), mtime=0))
    return archive
