"""What is kept, when, and what is gone on from."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from di_api import names
from di_orchestrator.errors import BadEnvironment, CheckpointLost
from di_orchestrator.training_run.checkpoint import Checkpoints
from di_orchestrator.training_run.checkpoint_files import KEPT
from tests.unit.sdk.conftest import Clock
from tests.waiting import DEADLINE


def of(folder: Path, step: str | None = None) -> Checkpoints:
    told = {names.ENV_CHECKPOINT_DIR: str(folder)}
    return Checkpoints.of(told if step is None else {**told, names.ENV_RESTORE_STEP: step})


@pytest.mark.proves(
    "sdk.md#stopping-and-going-on",
    "sdk.md#reference/restore-is-complete-callable-path-bool",
    "sdk.md#reference/save-step-int-write-callable-path-object",
    "sdk.md#reference/of-environment-mapping-str-str-every",
)
def test_a_saved_checkpoint_is_restored(tmp_path: Path) -> None:
    first = of(tmp_path)
    assert first.restore() is None
    assert first.save(7, lambda path: path.write_text("seven"))
    assert first.saved_step == 7
    again = of(tmp_path, "7")
    found = again.restore()
    assert found is not None
    assert (found.read_text(), again.step_of_restored, again.restored_step) == ("seven", 7, 7)


def test_a_checkpoint_may_be_a_folder(tmp_path: Path) -> None:
    def make(path: Path) -> None:
        path.mkdir()
        (path / "weights").write_text("w")

    checkpoints = of(tmp_path)
    for _ in range(2):
        assert checkpoints.save(1, make)
    found = of(tmp_path, "1").restore()
    assert found is not None
    assert (found / "weights").read_text() == "w"


@pytest.mark.proves("sdk.md#reference/step-of-restored-int-none")
def test_a_checkpoint_newer_than_the_last_report_is_restored(tmp_path: Path) -> None:
    for step in (10, 9, 12):
        of(tmp_path).save(step, lambda path: path.write_text("x"))
    assert of(tmp_path, "10").step_of_restored == 12


def test_the_newest_checkpoints_are_kept(tmp_path: Path) -> None:
    checkpoints = of(tmp_path)
    for step in (8, 9, 10, 11):
        checkpoints.save(step, lambda path: path.write_text("x"))
    (tmp_path / "another").write_text("stays")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "another",
        *sorted(f"checkpoint-{step}" for step in range(12 - KEPT, 12)),
    ]


def test_an_incomplete_checkpoint_is_ignored(tmp_path: Path) -> None:
    checkpoints = of(tmp_path)
    checkpoints.save(1, lambda path: path.write_text("whole"))

    def die(path: Path) -> None:
        path.write_text("ha")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        checkpoints.save(2, die)
    assert checkpoints.saved_step == 1
    assert of(tmp_path, "1").step_of_restored == 1
    checkpoints.save(2, lambda path: path.write_text("half no more"))
    found = of(tmp_path, "2").restore()
    assert found is not None
    assert found.read_text() == "half no more"


@pytest.mark.proves("sdk.md#reference/di-checkpointlost")
def test_a_missing_checkpoint_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointLost, match=r"step 5.*is it the volume of this job"):
        of(tmp_path / "absent", "5").restore()
    of(tmp_path).save(4, lambda path: path.write_text("x"))
    with pytest.raises(CheckpointLost):
        of(tmp_path, "5").restore()


def test_a_checkpoint_of_an_earlier_job_is_not_restored(tmp_path: Path) -> None:
    of(tmp_path).save(4, lambda path: path.write_text("x"))
    assert of(tmp_path).restore() is None


def in_pod(folder: Path, uid: str, step: str | None = None) -> Checkpoints:
    """Those of a process in a pod of the job with that UID."""
    told = {names.ENV_CHECKPOINT_DIR: str(folder), names.ENV_JOB_UID: uid}
    return Checkpoints.of(told if step is None else {**told, names.ENV_RESTORE_STEP: step})


@pytest.mark.proves("sdk.md#stopping-and-going-on", "sdk.md#reference/completed-step-int-none")
@pytest.mark.parametrize("by_library", [False, True])
def test_a_process_restarted_in_its_pod_restores_what_its_job_saved(
    tmp_path: Path, by_library: bool
) -> None:
    first = in_pod(tmp_path, "uid")
    assert first.restore() is None
    if by_library:
        (tmp_path / "checkpoint-7").mkdir()
        first.saved(7)
    else:
        first.save(7, lambda path: path.write_text("seven"))
    again = in_pod(tmp_path, "uid")
    assert (again.restored_step, again.step_of_restored) == (7, 7)
    assert in_pod(tmp_path, "another").restore() is None
    assert in_pod(tmp_path, "uid", "5").restored_step == 5


def test_an_unreadable_claim_of_checkpoints_is_none(tmp_path: Path) -> None:
    (tmp_path / ".checkpoint.job").write_text("uid seven")
    assert in_pod(tmp_path, "uid").restore() is None


def test_without_a_directory_nothing_is_written() -> None:
    def never(path: Path) -> None:
        raise AssertionError(path)

    nowhere = Checkpoints.of({names.ENV_RESTORE_STEP: "3"})
    assert not nowhere.save(1, never)
    assert (nowhere.saved_step, nowhere.restore()) == (None, None)


@pytest.mark.proves("sdk.md#reference/is-due-bool", "sdk.md#reference/ask-none")
def test_a_checkpoint_is_due_after_its_interval_or_a_request(clock: Clock) -> None:
    checkpoints = Checkpoints(every_seconds=10, clock=clock)
    due = [checkpoints.is_due]
    clock.pass_(10)
    due.append(checkpoints.is_due)
    checkpoints.save(1, lambda _: None)
    due.append(checkpoints.is_due)
    checkpoints.ask()
    due.append(checkpoints.is_due)
    assert due == [False, True, False, True]
    assert not Checkpoints(clock=clock).is_due


def test_a_bad_step_or_name_is_refused() -> None:
    with pytest.raises(BadEnvironment, match="DI_RESTORE_STEP is 'x'"):
        Checkpoints.of({names.ENV_RESTORE_STEP: "x"})
    with pytest.raises(ValueError, match="letters, digits"):
        Checkpoints(name="../x")


SAVES = """
import sys
from pathlib import Path
from threading import Thread
from typing import Any
from di_orchestrator.training_run.checkpoint import Checkpoints

def write(path):
    path.mkdir()
    for index in range(3):
        (path / str(index)).write_text("x")

checkpoints = Checkpoints(Path(sys.argv[1]))
print(flush=True)
sys.stdin.readline()
for step in range(1, 60):
    checkpoints.save(step, write)
"""


def test_two_processes_save_the_same_steps_at_once(tmp_path: Path) -> None:
    saving = [
        subprocess.Popen(
            [sys.executable, "-c", SAVES, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(2)
    ]
    for each in saving:
        assert each.stdout is not None
        each.stdout.readline()
    for each in saving:
        each.communicate(b"\n")
    assert [each.returncode for each in saving] == [0, 0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-58", "checkpoint-59"]
    assert sorted(path.name for path in (tmp_path / "checkpoint-59").iterdir()) == ["0", "1", "2"]


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], stdout=subprocess.PIPE, check=True
    )
    ended = int(done.stdout)
    host = socket.gethostname()
    kept = {f".checkpoint-1.{host}.{os.getppid()}.part", f".checkpoint-1.elsewhere.{ended}.part"}
    for name in (*kept, f".checkpoint-1.{host}.{ended}.part"):
        (tmp_path / name).write_text("half")
    of(tmp_path).save(2, lambda path: path.write_text("whole"))
    assert {path.name for path in tmp_path.iterdir()} == {*kept, "checkpoint-2"}


@pytest.mark.proves(
    "sdk.md#reference/saved-step-int-none",
    "sdk.md#reference/passed-none",
)
def test_a_checkpoint_of_a_library_begins_a_new_interval(clock: Clock) -> None:
    checkpoints = Checkpoints(every_seconds=10, clock=clock)
    clock.pass_(10)
    checkpoints.saved(7)
    assert (checkpoints.is_due, checkpoints.saved_step) == (False, 7)
    clock.pass_(10)
    assert checkpoints.is_due
    checkpoints.passed()
    assert (checkpoints.is_due, checkpoints.saved_step) == (False, 7)


def _copy_of(folder: Path, source: Path, **more: object) -> Checkpoints:
    told = {
        names.ENV_CHECKPOINT_DIR: str(folder),
        names.ENV_RESTORE_FROM: str(source),
        names.ENV_JOB_UID: "copy",
    }
    return Checkpoints.of(told, **more)  # type: ignore[arg-type]  # of one value each


@pytest.mark.proves("sdk.md#stopping-and-going-on", "sweeps.md#population-based-training")
def test_a_copy_begins_with_the_newest_checkpoint_of_its_source(tmp_path: Path) -> None:
    source = of(tmp_path / "source")
    for step in (5, 7):
        source.save(step, lambda path: path.write_text("theirs"))
    copy = _copy_of(tmp_path / "own", tmp_path / "source")
    assert (copy.restored_step, copy.saved_step) == (7, None)
    assert copy.restore() == tmp_path / "own" / "checkpoint-7"
    copy.save(8, lambda path: path.write_text("own"))
    source.save(99, lambda path: path.write_text("theirs"))
    again = _copy_of(tmp_path / "own", tmp_path / "source")
    found = again.restore()
    assert found is not None
    assert found.read_text() == "own"


def test_a_copy_takes_the_checkpoint_that_its_source_has_recorded(tmp_path: Path) -> None:
    source = Checkpoints(tmp_path / "source", job="source")
    source.save(5, lambda path: path.mkdir())
    # A library is writing it.
    (tmp_path / "source" / "checkpoint-6").mkdir()
    assert _copy_of(tmp_path / "own", tmp_path / "source").restored_step == 5


def test_a_copy_of_a_trial_without_a_checkpoint_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointLost, match="has no checkpoint to copy"):
        _copy_of(tmp_path / "own", tmp_path / "nothing")


def test_a_checkpoint_that_is_replaced_while_it_is_copied_is_copied_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = of(tmp_path / "source")
    source.save(1, lambda path: path.mkdir())
    real = shutil.copytree

    def late(*given: Any, **more: Any) -> Any:
        monkeypatch.setattr(shutil, "copytree", real)
        for step in (2, 3):
            source.save(step, lambda path: path.mkdir())
        return real(*given, **more)

    monkeypatch.setattr(shutil, "copytree", late)
    assert _copy_of(tmp_path / "own", tmp_path / "source").restored_step == 3


def test_another_process_of_the_group_waits_for_the_copy(tmp_path: Path) -> None:
    of(tmp_path / "source").save(4, lambda path: path.write_text("x"))
    copying = Thread(target=lambda: _copy_of(tmp_path / "own", tmp_path / "source"))
    seen: list[float] = []

    def clock() -> float:
        # The copy begins once the other process waits for it.
        if not seen:
            copying.start()
        seen.append(0.0)
        return 0.0

    other = _copy_of(tmp_path / "own", tmp_path / "source", copies=False, clock=clock)
    copying.join(DEADLINE)
    assert other.restored_step == 4


def test_a_process_whose_group_makes_no_copy_ends(tmp_path: Path) -> None:
    hours = iter(range(0, 10**6, 3600))
    with pytest.raises(CheckpointLost, match="has the first process of the group ended"):
        _copy_of(tmp_path / "own", tmp_path, copies=False, clock=lambda: float(next(hours)))
