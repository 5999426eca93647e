"""The folder of a failed test is bounded in bytes and in time."""

from __future__ import annotations

import threading
from pathlib import Path

from tests.failures.folder import Folder
from tests.failures.sources import LOG_BYTES, Source, Sources


def test_a_folder_takes_no_more_than_its_limit(tmp_path: Path) -> None:
    folder = Folder(tmp_path, limit=100)
    folder.write("a.log", b"x" * 90)
    folder.write("b.log", b"y" * 90)
    assert (tmp_path / "a.log").read_bytes() == b"x" * 90
    assert (tmp_path / "b.log").read_bytes().startswith(b"y" * 10 + b"\n[the rest is left out")
    assert folder.written == 100


def test_a_long_answer_is_cut(tmp_path: Path) -> None:
    Folder(tmp_path).ask("pods.yaml", lambda: "x" * (LOG_BYTES + 5))
    assert (tmp_path / "pods.yaml").read_text().endswith("\n[5 bytes are left out]\n")


def test_a_question_that_hangs_is_left_at_its_deadline(tmp_path: Path) -> None:
    end = threading.Event()
    folder = Folder(tmp_path, seconds=0.1)
    folder.ask("pods.yaml", lambda: str(end.wait(60)))
    folder.ask("nodes.txt", lambda: "never asked")
    end.set()
    assert "no answer within" in (tmp_path / "pods.yaml.error").read_text()
    assert "no time left" in (tmp_path / "nodes.txt.error").read_text()


def test_nothing_is_kept_of_what_ends_where_no_failure_is_reported(tmp_path: Path) -> None:
    sources = Sources()
    with sources.shown(Source(name="a", logs=lambda: {"a.log": tmp_path / "missing"})):
        pass
    assert sources.ended == []
