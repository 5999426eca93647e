"""Logs on their way to the storage: whole, bounded, and of no consequence to each other."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from di_history.spool import Room, Spool

MIB = 1 << 20


def written(spool: Spool) -> bytes:
    spool.finish()
    return gzip.decompress(b"".join(spool.parts()))


def test_a_spooled_log_is_unchanged(tmp_path: Path) -> None:
    room = Room(folder=tmp_path, most=MIB)
    with Spool(room, namespace="rl", most=MIB) as spool:
        for _ in range(100):
            spool.take(b"a line\n")
        assert written(spool) == b"a line\n" * 100
        # As often as the storage has to be tried.
        assert gzip.decompress(b"".join(spool.parts())) == b"a line\n" * 100
        assert (spool.size, spool.cut, spool.fault) == (700, False, "")
        assert room.used > 0
    assert room.used == 0
    assert list(tmp_path.iterdir()) == []


def test_a_longer_log_is_cut(tmp_path: Path) -> None:
    with Spool(Room(folder=tmp_path, most=MIB), namespace="rl", most=10) as spool:
        for _ in range(3):
            spool.take(b"1234567\n")
        assert written(spool) == b"1234567\n12"
        assert (spool.size, spool.cut, spool.fault) == (10, True, "")


@pytest.mark.proves("history.md#shares/log")
def test_all_spooled_logs_share_one_bound(tmp_path: Path) -> None:
    room = Room(folder=tmp_path, most=MIB)
    with (
        Spool(room, namespace="rl", most=100 * MIB) as first,
        Spool(room, namespace="rl", most=100 * MIB) as second,
    ):
        for _ in range(20):
            first.take(os.urandom(100_000))
        assert first.fault == "too many logs wait for the storage"
        second.take(b"x")
        assert second.fault == first.fault
        assert room.used < 1.2 * MIB
        first.close()
        with Spool(room, namespace="rl", most=MIB) as third:
            third.take(b"there is room again")
            assert written(third) == b"there is room again"
    assert room.used == 0


def test_one_namespace_leaves_spool_space_to_others(tmp_path: Path) -> None:
    room = Room(folder=tmp_path, most=MIB)
    with (
        Spool(room, namespace="a", most=100 * MIB) as greedy,
        Spool(room, namespace="b", most=MIB) as other,
    ):
        for _ in range(20):
            greedy.take(os.urandom(100_000))
        assert greedy.fault == "too many logs wait for the storage"
        assert room.used < room.most
        other.take(b"a line\n")
        assert written(other) == b"a line\n"


@pytest.mark.parametrize("size", [1, 10 * MIB], ids=["at the end", "at once"])
def test_a_full_disk_fails_one_log(
    size: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    full = Path("/dev/full")
    monkeypatch.setattr("di_history.spool.TemporaryFile", lambda **_: full.open("wb"))
    with Spool(Room(folder=tmp_path, most=100 * MIB), namespace="rl", most=100 * MIB) as spool:
        spool.take(os.urandom(size))
        spool.finish()
        assert spool.fault == "No space left on device"


def test_a_missing_folder_fails_one_log(tmp_path: Path) -> None:
    with Spool(Room(folder=tmp_path / "none", most=MIB), namespace="rl", most=MIB) as spool:
        spool.take(b"x")
        spool.finish()
        assert spool.fault == "No such file or directory"
