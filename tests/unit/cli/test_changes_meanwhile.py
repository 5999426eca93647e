"""Commands whose job is changed by others between their read and their patch."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from di_cli.actions.patch_job import TRIES
from di_cli.exit_codes import ExitCode
from di_cli.session import Session
from tests.unit.cli.conftest import JOBS, Di

COMMANDS = pytest.mark.parametrize(
    "words",
    [
        ("scale", "cartpole", "collector=3"),
        ("set", "cartpole", "priority=high"),
        ("restart", "cartpole"),
    ],
    ids=lambda words: words[0],
)
PATH = f"{JOBS}/cartpole"


def change_after_reads(di: Di, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Another client sets a label after each of the next reads of a job."""
    read, left = Session.job, [*range(times)]

    def job(session: Session, name: str) -> Any:
        found = read(session, name)
        if left:
            changed = deepcopy(di.world.objects[PATH])
            changed["metadata"]["labels"] = {"changes": str(left.pop())}
            di.world.put(PATH, changed)
        return found

    monkeypatch.setattr(Session, "job", job)


@COMMANDS
def test_a_change_is_made_to_the_job_as_others_have_left_it(
    di: Di, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    di.job()
    change_after_reads(di, monkeypatch, TRIES - 1)
    said = di(*words)
    assert (said.code, said.err) == (0, "")
    found = di.world.objects[PATH]
    assert found["metadata"]["labels"] == {"changes": "0"}
    assert len([path for method, path, _ in di.world.requests if method == "PATCH"]) == TRIES


@COMMANDS
def test_a_job_that_others_change_each_time_is_reported(
    di: Di, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    di.job()
    change_after_reads(di, monkeypatch, TRIES)
    said = di(*words)
    assert said.code == ExitCode.FAILED
    assert "DIJob rl/cartpole" in said.err.splitlines()[0]
    assert "at the same time" in said.err.splitlines()[0]
    assert len(said.err.splitlines()) <= 3
