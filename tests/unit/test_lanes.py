"""Every session counts, is shown, and runs on its own Python."""

from __future__ import annotations

import platform
import re
import sys
import threading
from pathlib import Path
from typing import IO

import pytest

from tests import lanes
from tests.lanes import Session

GOOD, BAD = "def test_it():\n    pass\n", "def test_it():\n    raise RuntimeError('of this one')\n"
SECONDS = 60


def session(folder: Path, source: str) -> Session:
    folder.mkdir()
    (folder / "test_one.py").write_text(source)
    return Session([str(folder), "-q", "-p", "no:cacheprovider", "-c", "/dev/null"])


@pytest.fixture(autouse=True)
def few_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take seconds to load."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


@pytest.mark.parametrize(
    ("waiting", "computing", "code"),
    [(GOOD, GOOD, 0), (BAD, GOOD, 1), (GOOD, BAD, 1), (GOOD, "", 0)],
    ids=["both pass", "the first fails", "the last fails", "one is empty"],
)
def test_a_failure_in_either_session_is_one_of_the_run(
    waiting: str,
    computing: str,
    code: int,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    sessions = [session(tmp_path / "a", waiting), session(tmp_path / "b", computing)]
    assert lanes.run(sessions) == code
    out = capfd.readouterr().out
    title = f"Python {platform.python_version()}: pytest {tmp_path}"
    first, second = re.split(rf"\n(?={title}/b)", out, maxsplit=1)
    assert first.startswith(f"{title}/a")
    assert "1 passed" in first or "1 failed" in first
    assert ("of this one" in out) == (BAD in (waiting, computing))
    assert re.findall(rf"^(passed|FAILED) in \d+ s on {title}/(.)", second, re.MULTILINE) == [
        ("FAILED" if source == BAD else "passed", name)
        for source, name in ((waiting, "a"), (computing, "b"))
    ]


def test_a_session_runs_on_its_own_python_and_names_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "python"
    other.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = -c ]; then echo 3.11.2; exit; fi\n'
        f'echo "other: $*"; exec {sys.executable} "$@"\n'
    )
    other.chmod(0o755)
    here = session(tmp_path / "a", GOOD)
    assert lanes.run([here, Session(here.arguments, other)]) == 0
    out = capfd.readouterr().out
    assert out.count(f"other: -m pytest {tmp_path}/a") == 1
    assert re.search(rf"^passed in \d+ s on Python 3\.11\.2: pytest {tmp_path}/a ", out, re.M)


def test_two_sessions_run_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    both, third = threading.Barrier(2), threading.Event()
    seen = list[bool]()

    def run(session: Session, output: IO[bytes] | None) -> lanes._Ended:
        del output
        match session.arguments[0]:
            case "a":  # The third one starts while the first one runs, when the second has ended.
                both.wait(SECONDS)
                seen.append(third.wait(SECONDS))
            case "b":
                both.wait(SECONDS)
                seen.append(third.is_set())
            case _:
                third.set()
        return lanes._Ended(0, 1.0)

    monkeypatch.setattr(lanes, "_run", run)
    assert lanes.run([Session([name]) for name in "abc"]) == 0
    assert seen == [False, True]


def test_every_folder_with_tests_is_in_a_session() -> None:
    root = Path(lanes.__file__).parent
    folders = {f"tests/{path.relative_to(root).parts[0]}" for path in root.rglob("test_*.py")}
    # Its images are large; `make frameworks` is its command.
    assert folders - {"tests/frameworks"} == {*lanes.FIRST, *lanes.SECOND} - {*lanes.APART}
    assert {Path(each).parent.as_posix() for each in lanes.APART} <= {*lanes.SECOND}
    assert all((root.parent / each).exists() for each in lanes.APART)


def test_the_oldest_python_runs_all_tests_of_the_operator() -> None:
    root = Path(lanes.__file__).parents[1]
    chosen = {each for session in lanes.OLDEST for each in session}
    assert all((root / each).exists() for each in chosen)
    wanted = {"tests/faults"}
    wanted |= {
        path.relative_to(root).as_posix()
        for path in (root / "tests/integration").glob("test_operator_*.py")
    }
    for folder in (root / "tests/unit").iterdir():
        files = [path.read_text() for path in folder.glob("test_*.py")]
        if sum("di_operator" in text for text in files) * 2 > len(files):
            wanted.add(folder.relative_to(root).as_posix())
    assert {"tests/unit/operator", "tests/unit/lifecycle", "tests/unit/allocator"} <= wanted
    assert wanted <= chosen


def test_the_same_python_runs_the_tests_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lanes, "OLDEST_PYTHON", Path(sys.executable))
    assert len(lanes.every_session([])) == 2
    assert platform.python_version() in capsys.readouterr().out
