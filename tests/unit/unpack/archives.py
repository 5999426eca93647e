"""Archives for `spec.code`: good ones, and generated ones that must be refused."""

from __future__ import annotations

import gzip
import io
import random
import tarfile
from collections.abc import Callable, Iterator
from typing import Any, Final

Member = tuple[tarfile.TarInfo, bytes]


def member(name: str, content: bytes = b"x", **fields: Any) -> Member:
    """A plain file, with other fields of its header."""
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, content


def tar(*members: Member) -> bytes:
    """The archive, without compression."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return written.getvalue()


def of_type(kind: bytes) -> Callable[[random.Random], list[Member]]:
    """Makes an archive with one member that is no plain file, among plain ones."""

    def make(chance: random.Random) -> list[Member]:
        target = chance.choice(["/etc/passwd", "../../a", "a", "/code/train.py", "."])
        bad = member(f"bad{chance.randrange(9)}", b"", type=kind, linkname=target)
        found = [member(f"a{number}") for number in range(chance.randrange(4))]
        found.insert(chance.randint(0, len(found)), bad)
        return found

    return make


def escaping(chance: random.Random) -> list[Member]:
    """A path that leaves the directory, or is not the canonical one."""
    deep = "/".join("d" * chance.randint(1, 3) for _ in range(chance.randrange(3)))
    name = chance.choice(
        [
            *("../a", "../../etc/cron.d/a", "/etc/passwd", "//a", "a/../../b", "./a", "a/./b"),
            *("a//b", "a/..", "..", ".", "a\\b", "a\nb", "a\x7fb", "a" * 256, "b/" * 600 + "a"),
        ]
    )
    return [member("good"), member(f"{deep}/{name}" if deep and name[0] != "/" else name)]


def colliding(chance: random.Random) -> list[Member]:
    """Two members with one place, on one file system or another."""
    first, second = chance.choice(
        [
            *(("a", "a"), ("train.py", "Train.py"), ("a/b", "A/c"), ("a", "a/b"), ("a/b", "a")),
            *(("A", "a/b"), ("stra\xdfe", "STRASSE"), ("caf\xe9", "cafe\u0301"), ("\u212a", "k")),
        ]
    )
    return [member(first), *(member(f"z{n}") for n in range(chance.randrange(3))), member(second)]


def reserved(chance: random.Random) -> list[Member]:
    """A place of the program itself."""
    return [member(f".di-part/{chance.randrange(9)}")]


KINDS: Final[dict[str, Callable[[random.Random], list[Member]]]] = {
    "symbolic links": of_type(tarfile.SYMTYPE),
    "hard links": of_type(tarfile.LNKTYPE),
    "devices": of_type(tarfile.CHRTYPE),
    "pipes": of_type(tarfile.FIFOTYPE),
    "directories": of_type(tarfile.DIRTYPE),
    "escaping paths": escaping,
    "collisions": colliding,
    "reserved places": reserved,
}


def hostile(count: int, seed: int = 1) -> Iterator[tuple[str, bytes]]:
    """So many archives, in turn of each kind: kind, and the uncompressed archive."""
    chance, kinds = random.Random(seed), list(KINDS)
    for number in range(count):
        kind = kinds[number % len(kinds)]
        yield kind, tar(*KINDS[kind](chance))


def packed(plain: bytes) -> bytes:
    """The archive as a bundle."""
    return gzip.compress(plain, 1, mtime=0)
