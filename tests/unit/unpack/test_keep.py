"""The program that keeps bundles on a claim: whole or not at all, and no longer than needed."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from di_unpack import keep as program
from di_unpack.keep import ABSENT, PRESENT, Refused, forget, is_whole, keep
from di_unpack.program import MOST_BYTES
from tests.unit.unpack.archives import member, packed, tar

PLAIN = tar(member("train.py", b"print(1)\n"))
HASH = hashlib.sha256(PLAIN).hexdigest()
NOW = 1_800_000_000.0
HOUR = program.SECONDS


def request(bundle: bytes, **changes: Any) -> dict[str, Any]:
    sent = {"size": len(bundle), "packed": hashlib.sha256(bundle).hexdigest()}
    return {"sha256": HASH, "needed": [], **sent, **changes}


def put(folder: Path, bundle: bytes = packed(PLAIN), now: float = NOW, **changes: Any) -> str:
    return keep(str(folder), request(bundle, **changes), io.BytesIO(bundle), now)


def old(folder: Path, name: str, age: float) -> Path:
    place = folder / name
    place.mkdir()
    (place / "bundle.tar.gz").write_bytes(b"x")
    os.utime(place, (NOW - age, NOW - age))
    return place


def test_a_bundle_is_kept_once_and_readable_by_pods_of_other_users(tmp_path: Path) -> None:
    asked = {"sha256": HASH, "needed": [], "size": 1}
    assert keep(str(tmp_path), asked, io.BytesIO(), NOW) == ABSENT
    assert put(tmp_path) == PRESENT
    assert [each.name for each in tmp_path.iterdir()] == [HASH]
    file = tmp_path / HASH / "bundle.tar.gz"
    assert file.read_bytes() == packed(PLAIN)
    assert (file.stat().st_mode & 0o777, (tmp_path / HASH).stat().st_mode & 0o777) == (
        0o644,
        0o755,
    )
    # Nothing is read of a second upload.
    assert keep(str(tmp_path), request(packed(PLAIN)), io.BytesIO(), NOW) == PRESENT


@pytest.mark.parametrize("cut", [0, 1, 100])
def test_an_upload_that_ends_early_leaves_nothing(tmp_path: Path, cut: int) -> None:
    bundle = packed(PLAIN)
    with pytest.raises(Refused, match=f"ended after {cut} of {len(bundle)} bytes"):
        keep(str(tmp_path), request(bundle), io.BytesIO(bundle[:cut]), NOW)
    assert not list(tmp_path.iterdir())


def test_changed_bytes_are_refused(tmp_path: Path) -> None:
    bundle = packed(PLAIN)
    with pytest.raises(Refused, match="not those that were sent"):
        keep(str(tmp_path), request(bundle), io.BytesIO(bundle[:-1] + b"x"), NOW)
    assert not list(tmp_path.iterdir())


def test_a_damaged_bundle_is_replaced(tmp_path: Path) -> None:
    for damage in (b"", packed(PLAIN)[:-9], packed(b"other"), b"text"):
        place = tmp_path / HASH
        place.mkdir(exist_ok=True)
        (place / "bundle.tar.gz").write_bytes(damage)
        assert not is_whole(str(place), HASH)
        assert put(tmp_path) == PRESENT
        assert is_whole(str(place), HASH)


def test_a_bundle_that_another_client_kept_meanwhile_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rename(source: str, target: str) -> None:
        monkeypatch.undo()
        put(tmp_path)
        raise OSError("Directory not empty")

    monkeypatch.setattr("os.rename", rename)
    assert put(tmp_path) == PRESENT
    assert [each.name for each in tmp_path.iterdir()] == [HASH]


def test_a_full_claim_leaves_nothing_and_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(**_: str) -> str:
        raise PermissionError(13, "Permission denied")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(OSError, match="No space left"):
            put(tmp_path)
    assert not list(tmp_path.iterdir())
    # Before a byte of the bundle is sent.
    for size, what in ((1 << 60, "No space left for"), (1, "")):
        asked = {"sha256": HASH, "needed": [], "size": size}
        if not what:
            monkeypatch.setattr("tempfile.mkdtemp", denied)
        with pytest.raises(OSError, match=what or "Permission denied"):
            keep(str(tmp_path), asked, io.BytesIO(), NOW)


def test_old_bundles_without_a_job_and_interrupted_uploads_are_deleted(tmp_path: Path) -> None:
    needed, unneeded, young = "1" * 64, "2" * 64, "3" * 64
    kept = {old(tmp_path, needed, 2 * HOUR), old(tmp_path, young, HOUR - 1)}
    kept |= {old(tmp_path, ".upload-young", HOUR - 1), old(tmp_path, "notes", 2 * HOUR)}
    old(tmp_path, unneeded, HOUR + 1)
    old(tmp_path, ".upload-old", HOUR + 1)
    forget(str(tmp_path), {needed}, NOW)
    assert set(tmp_path.iterdir()) == kept


def test_a_bundle_that_is_used_again_counts_as_new(tmp_path: Path) -> None:
    put(tmp_path, now=NOW)
    place = tmp_path / HASH
    os.utime(place, (NOW - 2 * HOUR, NOW - 2 * HOUR))
    assert put(tmp_path) == PRESENT
    forget(str(tmp_path), (), NOW + HOUR)
    assert place.exists()
    forget(str(tmp_path), (), NOW + HOUR + 1)
    assert not place.exists()


def test_the_limit_is_that_of_pods() -> None:
    assert program.MOST_BYTES == MOST_BYTES


def test_a_link_is_not_followed_by_the_deletion(tmp_path: Path) -> None:
    folder, outside = tmp_path / "claim", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    (outside / "file").touch()
    (folder / ("4" * 64)).symlink_to(outside)
    os.utime(folder / ("4" * 64), (NOW - 2 * HOUR,) * 2, follow_symlinks=False)
    forget(str(folder), (), NOW)
    assert (outside / "file").exists()


def test_the_text_alone_keeps_a_bundle_and_reports_its_refusal(tmp_path: Path) -> None:
    text = Path(program.__file__).read_text().replace('"/di-code"', repr(str(tmp_path)))
    bundle = packed(PLAIN)

    def run(sent: bytes) -> subprocess.CompletedProcess[bytes]:
        head = json.dumps(request(bundle)).encode() + b"\n"
        command = [sys.executable, "-c", text]
        return subprocess.run(command, input=head + sent, capture_output=True, check=False)

    refused = run(bundle[:-1])
    assert (refused.returncode, refused.stdout) == (1, b"")
    assert refused.stderr.startswith(b"di-code: the connection ended after")
    assert run(bundle).stdout == b"present\n"
