"""Whole logs that are being read, compressed on disk until their upload."""

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
    """The disk space of all files; one namespace gets at most three quarters of it.

    Attributes:
        most: maximum bytes, compressed.
        by_namespace: used bytes.
    """

    folder: Path
    most: int
    by_namespace: Counter[str] = field(default_factory=Counter)

    @property
    def used(self) -> int:
        """Return the used bytes of all namespaces."""
        return self.by_namespace.total()

    def is_full(self, namespace: str) -> bool:
        """Return whether the namespace can use no more."""
        return self.used >= self.most or self.by_namespace[namespace] >= self.most * 3 // 4

    def count(self, namespace: str, size: int) -> None:
        """Add used bytes of the namespace; a negative number releases them."""
        self.by_namespace[namespace] += size
        if not self.by_namespace[namespace]:
            del self.by_namespace[namespace]


class Spool:
    """One log, in a file without a name, which disappears with the process after a crash.

    Args:
        most: maximum bytes before compression; of a longer log the beginning is kept.

    Attributes:
        size: accepted bytes.
        cut: whether there was more.
        fault: why it is incomplete; empty: it is complete.
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
        """Add the next part; a full disk is a fault of this log only."""
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
        """Finish: there are no more parts."""
        try:
            self._gzip.close()
            self._file.flush()
        except OSError as error:
            self.fault = self.fault or _reason(error)
        else:
            self._count(self._file.tell())

    def parts(self) -> Iterator[bytes]:
        """Yield the finished, compressed log from its beginning; repeatable."""
        self._file.seek(0)
        while part := self._file.read(_PART):
            yield part

    def close(self) -> None:
        """Release its disk space."""
        for each in (self._gzip, self._file):
            # Data that the full disk did not accept is not written now either.
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
