"""The scan finds what its source knows, and says when it had none."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest

from tools.release import vulnerabilities
from tools.release.vulnerabilities import SERVICE, is_affected


@pytest.fixture
def root(tmp_path: Path) -> Path:
    hashes = f" \\\n    --hash=sha256:{'0' * 64}\n"
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        lock = f"flask=={'2.0.3' if folder == 'b' else '3.1.3'}{hashes}click==8.0.0{hashes}"
        (tmp_path / folder / "requirements.lock").write_text(lock)
    (tmp_path / "pyproject.toml").write_text("")
    return tmp_path


def database(folder: Path, *entries: Any) -> str:
    """A copy of OSV's database in two files."""
    path = folder / "all.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number, entry in enumerate(entries):
            archive.writestr(f"{number}.json", json.dumps(entry))
    return str(path)


def entry(number: str, *, name: str = "flask", fixed: str = "2.2.5", **more: Any) -> Any:
    events = [{"introduced": "0"}, {"fixed": fixed}]
    package = {"ecosystem": "PyPI", "name": name}
    affected = {"package": package, "ranges": [{"type": "ECOSYSTEM", "events": events}]}
    return {"id": number, "affected": [affected], **more}


def unreachable(_: bytes) -> bytes:
    raise URLError("Name or service not known")


@pytest.mark.proves("security.md#images-and-dependencies")
def test_without_network_and_database_the_scan_is_reported_as_not_done(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert vulnerabilities.main(root, files="", ask=unreachable) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert f"NOT SCANNED, 3 packages are unchecked: {SERVICE}: Name or service" in said.err
    assert "VULNERABILITIES=FILE" in said.err


@pytest.mark.parametrize("answer", [b"", b"<html>", b"{}", b'{"results": []}', b'{"results": [1]}'])
def test_an_odd_answer_is_no_scan(
    root: Path, answer: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    assert vulnerabilities.main(root, files="", ask=lambda _: answer) == 0
    assert "NOT SCANNED" in capsys.readouterr().err


@pytest.mark.proves("security.md#images-and-dependencies")
def test_what_the_service_knows_fails_the_scan(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def ask(body: bytes) -> bytes:
        queries = json.loads(body)["queries"]
        found = [
            {"vulns": [{"id": "GHSA-1"}]} if each["version"] == "2.0.3" else {} for each in queries
        ]
        return json.dumps({"results": found}).encode()

    assert vulnerabilities.main(root, files="", ask=ask) == 1
    said = capsys.readouterr()
    assert said.err == "flask 2.0.3: GHSA-1 (https://osv.dev/GHSA-1) in b/requirements.lock\n"
    assert said.out == f"vulnerabilities: 3 packages compared with {SERVICE}, 1 found\n"


def test_a_scan_without_findings_names_its_source(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = database(tmp_path, entry("OSV-1", name="other"), entry("OSV-2", withdrawn="2026"))
    assert vulnerabilities.main(root, files=files, ask=unreachable) == 0
    assert capsys.readouterr().out == (
        f"vulnerabilities: 3 packages compared with {files}, 0 found\n"
    )


def test_a_database_file_replaces_the_network(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = database(tmp_path, entry("OSV-1"), entry("OSV-2", fixed="2.0.3"))
    assert vulnerabilities.main(root, files=files, ask=unreachable) == 1
    assert capsys.readouterr().err.splitlines() == [
        "flask 2.0.3: OSV-1 (https://osv.dev/OSV-1) in b/requirements.lock"
    ]


@pytest.mark.parametrize(
    "waiver", ['[tool.locks.accepted]\n"OSV-1" = "why"\n', '[tool.locks.apart]\nb = "why"\n']
)
def test_an_accepted_vulnerability_is_shown_and_does_not_fail(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], waiver: str
) -> None:
    (root / "pyproject.toml").write_text(waiver)
    assert vulnerabilities.main(root, files=database(tmp_path, entry("OSV-1"))) == 0
    assert "accepted (tool.locks in pyproject.toml): flask 2.0.3: OSV-1" in capsys.readouterr().out


def test_a_database_that_cannot_be_used_fails(root: Path, tmp_path: Path) -> None:
    assert vulnerabilities.main(root, files=str(tmp_path / "none.zip")) == 1
    (tmp_path / "text.zip").write_text("no archive")
    assert vulnerabilities.main(root, files=str(tmp_path / "text.zip")) == 1
    # One of another ecosystem would find nothing.
    assert vulnerabilities.main(root, files=database(tmp_path)) == 1


def test_versions_are_matched_as_the_schema_says() -> None:
    events = [{"introduced": "1.0"}, {"fixed": "1.5"}, {"introduced": "2.0"}, {"fixed": "2.1"}]
    affected = {"versions": ["0.1"], "ranges": [{"type": "ECOSYSTEM", "events": events}]}
    versions = ("0.1", "0.2", "1.0", "1.4.9", "1.5", "2.0.1", "2.1", "no version")
    assert [each for each in versions if is_affected(affected, each)] == [
        "0.1",
        "1.0",
        "1.4.9",
        "2.0.1",
        "no version",
    ]
    last = {"ranges": [{"type": "SEMVER", "events": [{"introduced": "0"}, {"last_affected": "3"}]}]}
    assert [is_affected(last, each) for each in ("3", "3.0.1")] == [True, False]
    assert not is_affected({"ranges": [{"type": "GIT", "events": [{"introduced": "0"}]}]}, "1")
