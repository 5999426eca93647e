"""Both lanes count, and both are heard."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import lanes

GOOD, BAD = "def test_it():\n    pass\n", "def test_it():\n    raise RuntimeError('of this lane')\n"


def lane(folder: Path, source: str) -> list[str]:
    folder.mkdir()
    (folder / "test_one.py").write_text(source)
    return [str(folder), "-q", "-p", "no:cacheprovider", "-c", "/dev/null"]


@pytest.fixture(autouse=True)
def few_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take seconds to load."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


@pytest.mark.parametrize(
    ("computing", "waiting", "code"),
    [(GOOD, GOOD, 0), (BAD, GOOD, 1), (GOOD, BAD, 1), ("", GOOD, 0)],
    ids=["both pass", "the first fails", "the last fails", "one is empty"],
)
def test_a_failure_in_either_lane_is_one_of_the_run(
    computing: str,
    waiting: str,
    code: int,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert lanes.run([lane(tmp_path / "a", computing), lane(tmp_path / "b", waiting)]) == code
    said = capfd.readouterr().out
    first, second = said.split("beside these: ")
    assert "1 passed" in first or "1 failed" in first
    assert second.startswith(str(tmp_path / "a"))
    assert ("of this lane" in said) == (BAD in (computing, waiting))


def test_every_folder_with_tests_is_in_a_lane() -> None:
    root = Path(lanes.__file__).parent
    folders = {f"tests/{path.relative_to(root).parts[0]}" for path in root.rglob("test_*.py")}
    # Its images are large; `make frameworks` is its command.
    assert folders - {"tests/frameworks"} == {*lanes.FIRST, *lanes.SECOND} - {*lanes.APART}
    assert {Path(each).parent.as_posix() for each in lanes.APART} <= {*lanes.SECOND}
    assert all((root.parent / each).exists() for each in lanes.APART)
