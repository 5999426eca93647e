"""A process group of real processes that is killed, suspended and resumed again and again."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from di_kube.config import load_config
from di_kube.resources import DIJOBS, PODS
from di_kube.sync import SyncKubeClient
from di_local.api.objects import Object
from tests.integration.local import group_program
from tests.integration.local.group_program import INTERVAL, LOCAL
from tests.integration.local.test_run_command import Command, command
from tests.unit.local.machine import job, task
from tests.waiting import START_SECONDS, wait_until

__all__ = ["command"]
SIZE = 2
NAME = "tiny"


class Group:
    """What the group has noted, and what befalls it."""

    def __init__(self, notes: Path, client: SyncKubeClient) -> None:
        self._notes = notes
        self._client = client
        self._begun = 0

    def status(self) -> Object:
        found: Object = self._client.get(DIJOBS, NAME, "default").get("status") or {}
        return found

    def steps(self) -> list[tuple[str, int]]:
        path = self._notes / "steps"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(word, int(number)) for word, _, number in map(_words, lines)]

    def wait_for_steps(self) -> int:
        """Wait until the group that began last has saved twice; return the step it began at."""
        begun = self._begun

        def found() -> list[tuple[str, int]]:
            steps = self.steps()
            begins = [at for at, (word, _) in enumerate(steps) if word == "begin"]
            assert len(begins) > begun, "no new group has begun"
            own = steps[begins[-1] :]
            assert len(own) > 2 * INTERVAL
            reported = (self.status().get("profilings") or {}).get("checkpointStep")
            assert reported is not None, "no checkpoint has been reported"
            return own

        own = wait_until(found, what=f"group {begun + 1}")
        self._begun = sum(word == "begin" for word, _ in self.steps())
        return own[0][1]

    def last(self) -> int:
        return self.steps()[-1][1]

    def kill(self, rank: int) -> None:
        os.kill(int((self._notes / f"pid-{rank}").read_text()), signal.SIGKILL)

    def suspend(self) -> None:
        self._client.patch(DIJOBS, NAME, {"spec": {"suspend": True}}, "default")
        wait_until(lambda: not self._client.list(PODS, "default")[0], what="no pods")
        self._client.patch(DIJOBS, NAME, {"spec": {"suspend": False}}, "default")

    def end(self) -> None:
        (self._notes / "enough").touch()


def _words(line: str) -> tuple[str, str, str]:
    return line.partition(" ")


@pytest.mark.parametrize("times", [2, pytest.param(10, marks=pytest.mark.extended)])
def test_a_group_that_is_killed_and_suspended_loses_no_saved_step(
    command: Command, times: int
) -> None:
    notes = command.path / "notes"
    notes.mkdir()
    learner = task(
        [sys.executable, group_program.__file__], replicas=SIZE, processGroup={"framework": "torch"}
    )
    (container,) = learner["template"]["spec"]["containers"]
    container["env"] = [{"name": "NOTES", "value": str(notes)}]
    path = command.manifest(job(learner, name=NAME, backoffLimit=99))
    with command.start(path, "--checkpoint", command.path / "saved") as process:
        assert process.stdout is not None
        assert any("2/2 ready" in line for line in process.stdout)
        config = load_config(str(command.the_run().kubeconfig))
        with SyncKubeClient(config=config, timeout=60) as client:
            group = Group(notes, client)
            assert group.wait_for_steps() == 0
            for turn in range(times):
                group.kill(turn % (SIZE * LOCAL))
                begun = group.wait_for_steps()
                before = _before(group.steps())
                assert before - begun <= INTERVAL, f"{before} steps, and from {begun} on again"
                group.suspend()
                begun = group.wait_for_steps()
                assert begun == _before(group.steps()), "the stop has saved the last step"
                assert group.status()["restarts"] == turn + 1, "a restart by our doing"
            group.end()
            said, _ = process.communicate(timeout=START_SECONDS)
    assert process.returncode == 0, said


def _before(steps: list[tuple[str, int]]) -> int:
    """The last step before the group that began last."""
    begins = [at for at, (word, _) in enumerate(steps) if word == "begin"]
    return steps[begins[-1] - 1][1]
