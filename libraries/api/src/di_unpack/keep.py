"""The program of a pod that keeps bundles on a claim, for `di submit` and `di push`; see
docs/how-to/own-code.md.

It runs in the image of a task, on Python 3.8 or newer, and imports only the standard library. Its
standard input has a line of JSON, and perhaps a bundle after it. A bundle is in the folder that its
hash names, whole or not at all. Each call deletes what no job needs.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import time
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any, BinaryIO

FOLDER = "/di-code"
"""Directory of the pod with the bundles of the namespace."""
BUNDLE = "bundle.tar.gz"
SECONDS = 3600
"""Age below which nothing is deleted: the job of a new bundle may not exist yet."""
MOST_BYTES = 256 << 20
"""Bytes of an uncompressed bundle."""
PRESENT, ABSENT = "present", "absent"
_UPLOAD = ".upload-"
_HASH = re.compile("[0-9a-f]{64}")
_CHUNK = 1 << 14


class Refused(Exception):
    """A bundle that is not kept."""


def main() -> int:
    """Do what the standard input requests; return the exit code."""
    source = sys.stdin.buffer
    try:
        print(keep(FOLDER, json.loads(source.readline()), source, time.time()), flush=True)
    except (Refused, OSError) as error:
        print(f"di-code: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


def keep(folder: str, request: dict[str, Any], source: BinaryIO, now: float) -> str:
    """Delete what no job needs, then keep a bundle; return whether it is there.

    Args:
        folder: with the bundles.
        request: `sha256` of the uncompressed bundle, the hashes `needed` by jobs, the `size` of the
            bundle in bytes, and if it follows its hash `packed`.
        source: has the bundle after the request.
        now: seconds since the epoch.

    Raises:
        Refused: the bundle is not what was sent.
        OSError: the claim is full, or cannot be written.
    """
    place = os.path.join(folder, request["sha256"])
    forget(folder, {*request["needed"], request["sha256"]}, now)
    if is_whole(place, request["sha256"]):
        # It belongs to no job yet, and counts as new again.
        os.utime(place, (now, now))
        return PRESENT
    free = shutil.disk_usage(folder).free
    if free < request["size"]:
        raise OSError(errno.ENOSPC, f"No space left for {request['size']} bytes, {free} are free")
    upload = tempfile.mkdtemp(prefix=_UPLOAD, dir=folder)
    try:
        if "packed" not in request:
            # Nothing is sent to a claim that cannot be written.
            return ABSENT
        _receive(os.path.join(upload, BUNDLE), request["size"], request["packed"], source)
        # Pods of other users read it.
        os.chmod(upload, 0o755)
        shutil.rmtree(place, ignore_errors=True)
        try:
            os.rename(upload, place)
        except OSError:
            # Another client may have kept the same bundle meanwhile.
            if not is_whole(place, request["sha256"]):
                raise
    finally:
        shutil.rmtree(upload, ignore_errors=True)
    return PRESENT


def forget(folder: str, needed: Collection[str], now: float) -> None:
    """Delete old bundles without a job, and what interrupted uploads have left."""
    for name in sorted(os.listdir(folder)):
        place = os.path.join(folder, name)
        is_ours = name.startswith(_UPLOAD) or _HASH.fullmatch(name)
        if is_ours and name not in needed and now - os.lstat(place).st_mtime > SECONDS:
            shutil.rmtree(place, ignore_errors=True)


def is_whole(place: str, sha256: str) -> bool:
    """Return whether a folder has the bundle with a hash."""
    reader, digest, size = zlib.decompressobj(16 + zlib.MAX_WBITS), hashlib.sha256(), 0
    try:
        with open(os.path.join(place, BUNDLE), "rb") as opened:
            while not reader.eof:
                chunk = opened.read(_CHUNK)
                plain = reader.decompress(chunk)
                size += len(plain)
                if not chunk or size > MOST_BYTES:
                    return False
                digest.update(plain)
    except (OSError, zlib.error):
        return False
    return digest.hexdigest() == sha256


def _receive(path: str, size: int, sha256: str, source: BinaryIO) -> None:
    """Write so many bytes of a stream to a file, and to the disk."""
    digest, left = hashlib.sha256(), size
    with open(path, "wb") as opened:
        while left:
            chunk = source.read(min(left, 1 << 20))
            if not chunk:
                raise Refused(f"the connection ended after {size - left} of {size} bytes")
            opened.write(chunk)
            digest.update(chunk)
            left -= len(chunk)
        opened.flush()
        os.fsync(opened.fileno())
    os.chmod(path, 0o644)
    if digest.hexdigest() != sha256:
        raise Refused("the bytes that arrived are not those that were sent")


if __name__ == "__main__":
    sys.exit(main())
