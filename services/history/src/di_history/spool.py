"""Logs that are being read, compressed on disk until they are objects of the storage."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import IO, Final, Self

_LEVEL: Final = 6
_PART: Final = 1 << 20


@dataclass(slots=True, kw_only=True)
class Room:
    """What all files together may have; one namespace has at most three quarters of it.

    Attributes:
        most: bytes, compressed.
        by_namespace: bytes that are used.
    """

    folder: Path
    most: int
    by_namespace: Counter[str] = field(default_factory=Counter)

    @property
    def used(self) -> int:
        """Bytes of all namespaces."""
        return self.by_namespace.total()

    def is_full(self, namespace: str) -> bool:
        """Whether nothing more of the namespace is taken."""
        return self.used >= self.most or self.by_namespace[namespace] >= self.most * 3 // 4

    def count(self, namespace: str, size: int) -> None:
        """Add bytes of the namespace, or with a negative number give them back."""
        self.by_namespace[namespace] += size
        if not self.by_namespace[namespace]:
            del self.by_namespace[namespace]


class Spool:
    """One log, in a file without a name: what a crash leaves is gone with the process.

    Args:
        most: bytes that are taken, before compression; of a longer log they are the first ones.

    Attributes:
        size: bytes that were taken.
        cut: whether there was more.
        fault: why it is not whole; empty: it is.
    """

    def __init__(self, room: Room, *, namespace: str, most: int) -> None:
        self._room = room
        self._namespace = namespace
        self._most = most
        self._counted = 0
        self.size = 0
        self.cut = False
        self.fault = ""
        self._file: IO[bytes]
        try:
            self._file = TemporaryFile(dir=room.folder)  # noqa: SIM115  # until `close`
        except OSError as error:
            self.fault = _reason(error)
            self._file = BytesIO()
        self._gzip = gzip.GzipFile(fileobj=self._file, mode="wb", compresslevel=_LEVEL, mtime=0)

    def take(self, chunk: bytes) -> None:
        """Take what comes next; a disk that is full is a fault of this one alone."""
        part = chunk[: self._most - self.size]
        self.cut = self.cut or len(part) < len(chunk)
        if self.fault or not part:
            return
        if self._room.is_full(self._namespace):
            self.fault = "too many logs wait for the storage"
            return
        try:
            self._gzip.write(part)
        except OSError as error:
            self.fault = _reason(error)
            return
        self.size += len(part)
        self._count(self._file.tell())

    def finish(self) -> None:
        """Nothing more comes."""
        try:
            self._gzip.close()
            self._file.flush()
        except OSError as error:
            self.fault = self.fault or _reason(error)
        else:
            self._count(self._file.tell())

    def parts(self) -> Iterator[bytes]:
        """What was finished, compressed, from its beginning; as often as it is asked for."""
        self._file.seek(0)
        while part := self._file.read(_PART):
            yield part

    def close(self) -> None:
        """Give its room back."""
        for each in (self._gzip, self._file):
            # What could not be written because the disk is full is not written now either.
            with suppress(OSError):
                each.close()
        self._count(0)

    def _count(self, now: int) -> None:
        self._room.count(self._namespace, now - self._counted)
        self._counted = now

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__
