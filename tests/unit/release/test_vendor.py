"""The dashboard's files from npm match the lock."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tools.release import vendor
from tools.release.version import ROOT


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Lock, manifest and files, to be changed."""
    files = [file for found in vendor.WANTED.values() for file in found.values()]
    for each in (str(vendor.LOCK), str(vendor.MANIFEST), *files):
        (tmp_path / each).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / each, tmp_path / each)
    return tmp_path


def test_vendored_files_match_the_lock(copy: Path) -> None:
    assert list(vendor.faults(copy)) == []
    assert vendor.main(["--check"]) == 0


def test_an_edited_file_is_found(copy: Path) -> None:
    file = copy / vendor.WANTED["uplot"]["dist/uPlot.iife.min.js"]
    file.write_text(file.read_text() + "//")
    (fault,) = vendor.faults(copy)
    assert "uPlot.min.js is not what was fetched" in fault


def test_a_newer_lock_is_found(copy: Path) -> None:
    lock = copy / vendor.LOCK
    body = json.loads(lock.read_text())
    body["packages"]["node_modules/idiomorph"]["version"] = "9.9.9"
    lock.write_text(json.dumps(body))
    assert len([*vendor.faults(copy)]) == len(vendor.WANTED["idiomorph"])
    del body["packages"]["node_modules/idiomorph"]
    lock.write_text(json.dumps(body))
    (fault,) = vendor.faults(copy)
    assert "are wanted" in fault


def test_an_archive_with_another_checksum_is_refused(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    npm = copy / "npm"
    npm.write_text('#!/bin/sh\necho other > "$4/other.tgz"\n')
    npm.chmod(0o755)
    monkeypatch.setattr("tools.release.vendor.shutil.which", lambda _: str(npm))
    with pytest.raises(vendor.CannotVendor, match="another checksum"):
        vendor.fetch(copy)
    monkeypatch.setattr("tools.release.vendor.shutil.which", lambda _: None)
    with pytest.raises(vendor.CannotVendor, match="install npm"):
        vendor.fetch(copy)
