"""The test commands: every test is in one lane, and a failure is one of the run."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from di_cluster.builds.binaries import component_of
from tests.waiting import wait_until
from tools.lanes import __main__ as command
from tools.lanes import page, run, table
from tools.lanes.lane import Lane, Outcome
from tools.lanes.run import Runner, ended_by_signals
from tools.prepare.items import Group
from tools.prepare.table import PROGRAMS

ROOT = Path(__file__).resolve().parents[2]
GOOD, BAD = (
    "def test_it(record_property):\n    record_property('score', '38 of <40> right')\n",
    "def test_it():\n    raise RuntimeError('of <this> one')\n",
)
SECONDS = 60
IGNORE = "--ignore="
UNIT = ROOT / "tests/unit"
IMPORT = re.compile(r"^from (tests[\w.]*) import (\([^)]*\)|.*)$", re.MULTILINE)
WORDS: Mapping[str, Group] = {
    "CHROMIUM": "browser",
    "POSTGRES": "storage",
    "PODMAN": "containers",
    "DOCKER": "containers",
    r"tools\.prepare\.prometheus": "prometheus",
    r"tools\.prepare\.versions": "earlier version",
    r"linear\.checker": "soak",
    r"api_server_with_crd\(": "control plane",
    r"\bCluster\([^)]*profile=.control-plane": "control plane",
    r"\bCluster\([^)]*profile=.node": "node",
    r"RL_LIBRARIES\.python": "libraries",
    r"from examples\.images import build": "examples",
}
"""What shows in a file that its tests need more than programs that it asks a cluster for."""


def lane(folder: Path, source: str) -> Lane:
    folder.mkdir()
    (folder / "test_one.py").write_text(source)
    options = ["-q", "-p", "no:cacheprovider", "-c", "/dev/null", f"--rootdir={folder}"]
    arguments = ["-m", "pytest", str(folder), *options]
    return Lane(name=folder.name, what="", arguments=arguments)


@pytest.fixture(autouse=True)
def few_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take seconds to load."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def test_a_lane_fails_with_its_tests_and_passes_without_any(tmp_path: Path) -> None:
    lanes = [lane(tmp_path / "a", GOOD), lane(tmp_path / "b", BAD), lane(tmp_path / "c", "")]
    lines: list[str] = []
    ended = Runner(python=Path(sys.executable), out=tmp_path, show=lines.append).run(lanes)
    found = {each.lane.name: each for each in ended}
    assert {name: each.passed for name, each in found.items()} == {"a": True, "b": False, "c": True}
    assert [(each.name, each.message) for each in found["b"].failed] == [
        ("test_one::test_it", "RuntimeError: of <this> one")
    ]
    assert "of <this> one" in found["b"].log.read_text()
    assert any(re.fullmatch(r"FAILED in \d+:\d\d: b, 1 tests", line) for line in lines)
    assert lines.count("  38 of <40> right") == 1

    page.write(tmp_path / "index.html", "title", [*lanes, *table.TEST], ended, None)
    shown = (tmp_path / "index.html").read_text()
    assert f"2 of {3 + len(table.TEST)} lanes passed, 2 tests ran, 1 failed." in shown
    assert "RuntimeError: of &lt;this&gt; one" in shown
    assert "<li>38 of &lt;40&gt; right" in shown
    assert shown.count("waiting<") == len(table.TEST)


def test_a_lane_that_names_no_failed_test_shows_its_exit_code(tmp_path: Path) -> None:
    killed = Lane(name="a", what="", arguments=["-c", "import os; os.kill(os.getpid(), 9)"])
    lines: list[str] = []
    (ended,) = Runner(python=Path(sys.executable), out=tmp_path, show=lines.append).run([killed])
    assert not ended.passed
    assert re.fullmatch(r"FAILED in \d+:\d\d: a, exit code -9", lines[-1])


def test_two_lanes_run_at_a_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    both, third = threading.Barrier(2), threading.Event()
    seen: list[bool] = []

    def one(runner: Runner, lane: Lane) -> Outcome:
        match lane.name:
            case "a":  # The third one starts while the first one runs, when the second has ended.
                both.wait(SECONDS)
                seen.append(third.wait(SECONDS))
            case "b":
                both.wait(SECONDS)
                seen.append(third.is_set())
            case _:
                third.set()
        return Outcome(lane=lane, code=0, seconds=1.0, log=runner.out / lane.name)

    monkeypatch.setattr(Runner, "_run", one)
    lanes = [Lane(name=name, what="", arguments=["-m", "pytest"]) for name in "abc"]
    ended = Runner(python=Path(sys.executable), out=tmp_path, at_once=2).run(lanes)
    assert len(ended) == len(lanes)
    assert seen == [False, True]


def test_sigterm_lets_running_lanes_remove_what_they_started(tmp_path: Path) -> None:
    source = f"""
import subprocess, sys, time
from pathlib import Path
import pytest
FOLDER = Path({str(tmp_path)!r})
WAITS = "from time import sleep; print(flush=True); sleep({SECONDS})"
@pytest.fixture
def started():
    child = subprocess.Popen([sys.executable, "-c", WAITS], stdout=subprocess.PIPE)
    child.stdout.readline()
    (FOLDER / "started").touch()
    yield
    if child.wait({SECONDS}) == {-signal.SIGINT}:
        (FOLDER / "removed").touch()
def test_it(started):
    time.sleep({SECONDS})
"""

    def terminate() -> None:
        wait_until((tmp_path / "started").exists, what="the test to start")
        os.kill(os.getpid(), signal.SIGTERM)

    lanes = [lane(tmp_path / "a", source), lane(tmp_path / "b", GOOD)]
    ending = threading.Thread(target=terminate)
    with ended_by_signals():
        ending.start()
        with pytest.raises(KeyboardInterrupt):
            Runner(python=Path(sys.executable), out=tmp_path).run(lanes)
    ending.join()
    assert (tmp_path / "removed").exists()
    assert not (tmp_path / "b.log").exists(), "no other lane starts"


def test_every_file_of_tests_is_in_one_lane() -> None:
    others = files(["tests/frameworks", "tests/integration/kueue", "tests/integration/peers"])
    for lanes, left in ((table.TEST, others), (table.ALL, [])):
        found = [file for lane in lanes for file in run_by(lane)]
        assert len(found) == len(set(found))
        assert {*files(["tests"])} - {*found} == {*left}


def run_by(lane: Lane) -> list[Path]:
    ignored = [each[len(IGNORE) :] for each in lane.arguments if each.startswith(IGNORE)]
    left = {*files(ignored)}
    return [file for file in files(lane.paths) if file not in left]


def files(paths: Sequence[str]) -> list[Path]:
    places = [ROOT / path for path in paths]
    return [
        file
        for place in places
        for file in (place.rglob("test_*.py") if place.is_dir() else [place])
    ]


def test_tests_that_fail_of_one_cause_are_one_line(tmp_path: Path) -> None:
    fixture = "import pytest\n@pytest.fixture\ndef broken():\n    raise RuntimeError('no node')\n"
    tests = "".join(f"def test_{name}(broken):\n    pass\n" for name in "abc")
    lines: list[str] = []
    Runner(python=Path(sys.executable), out=tmp_path, show=lines.append).run(
        [lane(tmp_path / "one", fixture + tests)]
    )
    assert [line for line in lines if "no node" in line] == [
        '  test_one::test_a (and 2 more tests): failed on setup with "RuntimeError: no node"'
    ]


@pytest.mark.parametrize(
    ("log", "where"),
    [
        (b"", ""),
        (b"collecting ...\n", ""),
        (b"tests/unit/test_a.py .....", "tests/unit/test_a.py"),
        (b"tests/a/test_a.py ..  [  9%]\ntests/a/test_b.py .", "9% tests/a/test_b.py"),
        (b"a line\n[  9%] 9 of 100 plans, 3:20 left\nanother", "9% 9 of 100 plans, 3:20 left"),
        (b"[ 61.5 s] API server is ready\n", ""),
    ],
)
def test_progress_is_read_from_what_a_program_prints(
    log: bytes, where: str, tmp_path: Path
) -> None:
    (tmp_path / "log").write_bytes(log)
    assert run.where(tmp_path / "log") == where


@pytest.mark.parametrize("source", [GOOD, BAD], ids=["passed", "failed"])
def test_the_last_line_of_a_failed_run_names_the_folder(
    source: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "prepare", lambda command, groups: set())
    monkeypatch.setitem(table.COMMANDS, "test", [lane(tmp_path / "one", source)])
    assert command.main(["test"]) == (source == BAD)
    lines = capsys.readouterr().out.splitlines()
    if source == BAD:
        assert lines[-1].endswith("out/test/failures")
        assert "E       RuntimeError: of <this> one" in lines
    else:
        assert lines[-1].endswith("results: out/test/index.html")
    assert (tmp_path / "out/test/index.html").exists()


def test_no_test_runs_that_would_fill_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    large = dataclasses.replace(lane(tmp_path / "one", BAD), disk=1 << 30)
    monkeypatch.setitem(table.COMMANDS, "test", [large])
    assert command.main(["test"]) == 1
    said = capsys.readouterr().out
    assert said.startswith("no test ran: make test needs 1073741824.0 GiB free in ")
    assert "set DI_ORCHESTRATOR_CACHE to a folder on another disk" in said


def test_no_test_runs_without_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "prepare", lambda command, groups: {*groups})
    one = dataclasses.replace(lane(tmp_path / "one", BAD), needs=["helm"])
    monkeypatch.setitem(table.COMMANDS, "all", [one])
    assert command.main(["all"]) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("no test ran: make test-all needs")
    assert not (tmp_path / "out").exists()


def test_a_lane_without_what_it_needs_fails_and_the_others_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "prepare", lambda command, groups: {"examples"})
    bad = dataclasses.replace(lane(tmp_path / "bad", GOOD), needs=["examples", "helm"])
    good = dataclasses.replace(lane(tmp_path / "good", GOOD), needs=["helm"])
    monkeypatch.setitem(table.COMMANDS, "test", [bad, good])
    assert command.main(["test"]) == 1
    said = capsys.readouterr().out
    why = "not run: what it needs could not be fetched or built (examples)"
    assert f"FAILED: bad, {why}" in said
    assert "good, 1 tests" in said
    assert "\nFAILED: bad in " in said
    shown = (tmp_path / "out/test/index.html").read_text()
    assert "1 of 2 lanes passed, 1 tests ran" in shown


def test_an_unknown_lane_is_refused_with_those_that_exist() -> None:
    assert [each.name for each in table.chosen(table.ALL, ["soak", "fuzz"])] == ["soak", "fuzz"]
    with pytest.raises(LookupError, match=r"no lane soap; there are frameworks, .*soak"):
        table.chosen(table.ALL, ["soap"])


def test_a_lane_names_every_program_and_package_of_its_tests() -> None:
    for each in table.ALL:
        used = {
            group for file in imported([*run_by(each), *conftests(each)]) for group in uses(file)
        }
        assert used <= {*each.needs}, each.name


def conftests(lane: Lane) -> list[Path]:
    folders = {parent for file in run_by(lane) for parent in file.parents if ROOT in parent.parents}
    return [file for folder in folders if (file := folder / "conftest.py").exists()]


def imported(wanted: Sequence[Path]) -> set[Path]:
    """The files, and those of tests that they import; no testbeds that unit tests look into."""
    found, waiting = set[Path](), [*wanted]
    while waiting:
        file = waiting.pop()
        if file in found:
            continue
        found.add(file)
        if UNIT in file.parents:
            continue
        for module, names in IMPORT.findall(file.read_text()):
            for name in ("", *re.findall(r"\w+", names)):
                place = ROOT / f"{module}.{name}".strip(".").replace(".", "/")
                waiting += [place.with_suffix(".py")] if place.with_suffix(".py").exists() else []
    return found


def uses(file: Path) -> set[Group]:
    """What the items are for that a file names."""
    text = file.read_text()
    programs = re.findall(r"""\.(?:binary|manifests)\(\s*["']([\w-]+)""", text)
    found = {PROGRAMS[component_of(name).name][1] for name in programs}
    found |= {group for word, group in WORDS.items() if re.search(rf"\b{word}\b", text)}
    return {*found} if file.name != Path(__file__).name else set()


@pytest.mark.parametrize(
    ("asked", "prepared"),
    [
        (["test", "--lane", "units"], ("test", ["soak"])),
        (["test", "--lane", "chart"], ("test", ["helm", "prometheus", "release"])),
        (["check"], None),
        (["all", "--lane", "units", "--lane", "soak"], ("all", ["control plane", "soak"])),
    ],
)
def test_only_what_the_lanes_need_is_prepared(
    asked: list[str],
    prepared: tuple[str, list[Group]] | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    called: list[tuple[str, list[Group]]] = []

    def prepare(command: str, groups: list[Group]) -> set[Group]:
        called.append((command, groups))
        return {*groups}

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "prepare", prepare)
    monkeypatch.setattr(Runner, "run", lambda runner, lanes: [])
    command.main(asked)
    assert called == ([prepared] if prepared else [])


def test_coverage_that_cannot_be_combined_fails_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def damage(runner: Runner, lane: Lane) -> Outcome:
        (runner.out / "coverage.one").write_text("no database")
        return Outcome(lane=lane, code=0, seconds=1.0, log=runner.out / "one.log")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "prepare", lambda command, groups: set())
    monkeypatch.setattr(Runner, "_run", damage)
    monkeypatch.setitem(table.COMMANDS, "all", [lane(tmp_path / "one", GOOD)])
    assert command.main(["all"]) == 1
    assert "FAILED: coverage combine (exit code 1) in" in capsys.readouterr().out
