"""A failed run leaves what explains it, so that no second run is needed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.failures.plugin import folder_name

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = """\
import pathlib
import pytest
from tests.failures.sources import SOURCES, Source, shown_log

def log(folder, name, text):
    path = folder / name
    path.write_text(text)
    return path

@pytest.fixture
def namespace():
    return "test-1"

@pytest.fixture
def cluster(tmp_path):
    def fails(namespace):
        raise OSError("the API server is away")
    audit = log(tmp_path, "audit.log", "x" * 3_000_000 + "the end")
    source = Source(
        name="cluster",
        logs=lambda: {"etcd.log": log(tmp_path, "1.log", "etcd is slow"), "audit.log": audit},
        questions={"pods.yaml": lambda namespace: f"pods of {namespace}", "nodes.txt": fails},
    )
    with SOURCES.shown(source):
        yield

@pytest.fixture(scope="module")
def broken():
    raise RuntimeError("no image")

def test_before(tmp_path):
    with shown_log(log(tmp_path, "of-another-test.log", "")):
        pass

def test_call(cluster, namespace, tmp_path):
    with shown_log(log(tmp_path, "operator.log", "the lease is lost")):
        print("printed before")
    (tmp_path / "operator.log").unlink()
    assert 1 + 1 == 3

def test_setup(broken):
    pass

def test_setup_again(broken):
    pass

@pytest.mark.parametrize("name", ["a/b c"])
def test_teardown(request, name):
    request.addfinalizer(lambda: pytest.fail("pods are left"))

def test_passes(cluster):
    pass
"""


def run(folder: Path, text: str, **environment: str) -> str:
    """Run pytest on a file of tests; returns its output."""
    (folder / "test_example.py").write_text(text)
    command = ["-p", "tests.failures.plugin", "-c", os.devnull, "--rootdir", str(folder)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *command, "-p", "no:cacheprovider", str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The output of the example, and the folder of its failures."""
    folder = tmp_path_factory.mktemp("example")
    output = run(folder, EXAMPLE, DI_FAILURES=str(folder / "kept"))
    return output, folder / "kept"


def test_each_failed_test_has_a_folder(failed: tuple[str, Path]) -> None:
    output, kept = failed
    assert "1 failed, 3 passed, 3 errors" in output
    assert {path.name for path in kept.iterdir()} == {
        "test_example.py-test_call",
        "test_example.py-test_setup",
        "test_example.py-test_setup_again",
        "test_example.py-test_teardown[a-b-c]",
    }


def test_the_last_lines_name_the_folder(failed: tuple[str, Path]) -> None:
    output, kept = failed
    assert output.splitlines()[-2] == f"failures are explained in {kept}"


def test_the_failure_is_kept_with_what_was_printed(failed: tuple[str, Path]) -> None:
    text = (failed[1] / "test_example.py-test_call/failure.txt").read_text()
    assert "failed in call after" in text
    assert "assert (1 + 1) == 3" in text
    assert "printed before" in text


def test_logs_and_answers_of_what_runs_are_kept(failed: tuple[str, Path]) -> None:
    folder = failed[1] / "test_example.py-test_call/0-cluster"
    assert (folder / "etcd.log").read_text() == "etcd is slow"
    assert (folder / "pods.yaml").read_text() == "pods of test-1"


def test_the_log_of_what_has_ended_within_the_test_is_kept(failed: tuple[str, Path]) -> None:
    folder = failed[1] / "test_example.py-test_call"
    assert (folder / "ended-0-operator/operator.log").read_text() == "the lease is lost"
    assert list(failed[1].rglob("of-another-test.log")) == []


def test_the_end_of_a_long_log_is_kept(failed: tuple[str, Path]) -> None:
    text = (failed[1] / "test_example.py-test_call/0-cluster/audit.log").read_text()
    assert text.startswith("[the first 1951431 bytes are left out]\n")
    assert text.endswith("the end")
    assert len(text) < 1_100_000


def test_an_error_of_a_question_is_kept_in_its_place(failed: tuple[str, Path]) -> None:
    folder = failed[1] / "test_example.py-test_call/0-cluster"
    assert "the API server is away" in (folder / "nodes.txt.error").read_text()


def test_the_load_of_the_machine_is_kept(failed: tuple[str, Path]) -> None:
    text = (failed[1] / "test_example.py-test_call/machine-call.txt").read_text()
    parts = ("load", "pressure of memory", "memory", "out of memory", "disks", "processes")
    assert [part for part in parts if f"== {part}\n" not in text] == []
    assert " MiB " in text


def test_a_fixture_that_fails_for_many_tests_is_explained_once(failed: tuple[str, Path]) -> None:
    first, again = (failed[1] / f"test_example.py-test_setup{each}" for each in ("", "_again"))
    assert "no image" in (first / "failure.txt").read_text()
    assert (again / "failure.txt").read_text().endswith(f"failed in setup as in ../{first.name}\n")
    assert [path.name for path in again.iterdir()] == ["failure.txt"]


def test_a_failure_of_a_teardown_is_kept(failed: tuple[str, Path]) -> None:
    folder = failed[1] / "test_example.py-test_teardown[a-b-c]"
    assert "pods are left" in (folder / "failure.txt").read_text()


def test_a_second_run_keeps_its_own_failures_only(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    other = kept / "other" / "file"
    other.parent.mkdir(parents=True)
    other.touch()
    for name in ("one", "two"):
        run(tmp_path, f"def test_{name}():\n    assert False\n", DI_FAILURES=str(kept))
        assert {path.name for path in kept.iterdir()} == {"other", f"test_example.py-test_{name}"}
    run(tmp_path, "def test_one():\n    pass\n", DI_FAILURES=str(kept))
    assert list(kept.iterdir()) == [other.parent]


def test_a_folder_that_cannot_be_written_hides_no_failure(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    output = run(tmp_path, "def test_it():\n    assert 1 == 2\n", DI_FAILURES="file")
    assert "assert 1 == 2" in output
    assert "NotADirectoryError" in output


def test_a_run_that_passes_leaves_no_folder(tmp_path: Path) -> None:
    output = run(tmp_path, "def test_it():\n    pass\n", DI_FAILURES="")
    assert "1 passed" in output
    assert "explained" not in output
    assert not (tmp_path / "out").exists()


def test_the_ten_last_runs_are_kept(tmp_path: Path) -> None:
    for number in range(12):
        folder = tmp_path / f"out/failures/{number:02}"
        folder.mkdir(parents=True)
        os.utime(folder, (number, number))
    run(tmp_path, "def test_it():\n    assert False\n", DI_FAILURES="")
    names = sorted(path.name for path in (tmp_path / "out/failures").iterdir())
    assert names[:9] == [f"{number:02}" for number in range(3, 12)]
    assert len(names) == 10


@pytest.mark.parametrize(
    ("nodeid", "name"),
    [
        ("tests/e2e/test_why.py::test_a", "e2e.test_why.py-test_a"),
        ("tests/test_a.py::test_b[x/..\n]", "test_a.py-test_b[x-..-]"),
    ],
)
def test_a_test_id_becomes_a_folder_name(nodeid: str, name: str) -> None:
    assert folder_name(nodeid) == name


def test_long_test_ids_have_names_of_their_own() -> None:
    one, other = (folder_name(f"tests/a.py::test[{'x' * 300}{each}]") for each in "ab")
    assert one != other
    assert len(one) < 128
