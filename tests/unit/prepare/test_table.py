"""The table has everything that tests would fetch or build in their own time."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from di_cluster.builds.binaries import COMPONENTS, component_of
from di_cluster.reporter import Reporter
from di_cluster.settings import Settings
from tools.prepare.__main__ import main
from tools.prepare.items import COMMANDS, Item, needed_by
from tools.prepare.table import EXAMPLES, PROGRAMS, ROOT, items

HERE = Path(__file__).resolve().parent


def sources() -> Iterator[tuple[Path, str]]:
    for path in sorted((ROOT / "tests").rglob("*.py")):
        if path.parent != HERE:
            yield path, path.read_text()


def table(**environment: str) -> dict[str, Item]:
    settings = Settings.from_environment({"HOME": "/nonexistent", **environment})
    return {item.name: item for item in items(settings, Reporter(None))}


def test_every_program_that_tests_ask_for_is_in_the_table() -> None:
    asked = {
        name
        for _, text in sources()
        for name in re.findall(r"""\.(?:binary|manifests)\(\s*["']([\w-]+)""", text)
    }
    assert {component_of(name).name for name in asked} >= {"kubernetes", "helm", "kueue"}
    assert {component_of(name).name for name in asked} <= set(PROGRAMS)
    assert set(PROGRAMS) == {component.name for component in COMPONENTS}


def test_every_example_with_an_image_is_in_the_table() -> None:
    assert set(EXAMPLES) == {path.parent.name for path in (ROOT / "examples").glob("*/Dockerfile")}


def test_no_test_installs_packages_by_itself() -> None:
    ours = ROOT / "tests/integration/cluster/test_packages.py"
    found = [
        path for path, text in sources() if "di_cluster.builds.packages" in text and path != ours
    ]
    assert found == []


def test_items_depend_on_items_of_the_table_that_the_same_command_needs() -> None:
    for command in COMMANDS:
        needed = {item.name for item in needed_by(table().values(), command)}
        for item in needed_by(table().values(), command):
            assert needed >= set(item.after), item.name


def test_a_cluster_elsewhere_needs_no_image_of_this_machine() -> None:
    assert [name for name in table() if name.startswith("image ")]
    assert [name for name in table(CLUSTER="current") if "image" in name or "node" in name] == []


def test_nothing_is_made_if_all_is_ready(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ready = [
        Item(
            name="etcd",
            command="test",
            group="control plane",
            how="",
            advice="",
            is_ready=lambda: True,
            make=lambda: pytest.fail("it is ready"),
        )
    ]
    monkeypatch.setattr("tools.prepare.__main__.items", lambda *_: ready)
    assert main([]) == 0
    assert "1 items for test: 1 were ready, 0 made" in capsys.readouterr().err


def test_a_failure_is_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise OSError("no network")

    broken = Item(
        name="etcd",
        command="check",
        group="helm",
        how="Go",
        advice="wait",
        is_ready=lambda: False,
        make=fail,
    )
    monkeypatch.setattr("tools.prepare.__main__.items", lambda *_: [broken])
    assert main(["all"]) == 1
    assert "0 were ready, 0 made, 1 FAILED" in capsys.readouterr().err


def test_a_terminal_shows_the_items_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", stream)
    shown = []
    item = Item(
        name="etcd",
        command="check",
        group="helm",
        how="Go",
        advice="",
        is_ready=lambda: False,
        make=lambda: shown.append(stream.getvalue()),
    )
    monkeypatch.setattr("tools.prepare.__main__.items", lambda *_: [item])
    assert main(["check"]) == 0
    assert "etcd is ready" in stream.getvalue()
