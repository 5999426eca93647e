"""Programs of Stable-Baselines3, TRL and others learn under `di run`, are killed, and continue."""

from __future__ import annotations

import os
import re
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from examples.demo.manifests import ROOT
from tests.integration.local.test_run_command import Command
from tests.programs import Program
from tests.unit.local.machine import job, task
from tests.waiting import TRAINING_SECONDS, wait_until
from tools.prepare.environments import RL_LIBRARIES


class Run(Command):
    """A run of an example with the libraries."""

    def __init__(self, tmp_path: Path) -> None:
        super().__init__(tmp_path)
        self._environ |= {
            "PATH": f"{RL_LIBRARIES.python().parent}:{self._environ['PATH']}",
            "PYTHONPATH": str(ROOT / "sdk/src"),
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            "RAY_AUTH_MODE": "disabled",
            "RAY_USAGE_STATS_ENABLED": "0",
        }
        self._environ = {
            key: value for key, value in self._environ.items() if not key.startswith("DI_")
        }

    @property
    def saved(self) -> Path:
        """The directory of checkpoints."""
        return self.path / "saved"

    @property
    def said(self) -> str:
        """What `di run` has printed."""
        return (self.path / "said").read_text()

    def example(self, file: str, *words: str) -> Program:
        """Start `di run` of an example."""
        # A pipe that is not read would stop it.
        with (self.path / "said").open("w") as said:
            return Program(
                [Path(sys.executable).with_name("di"), "run", ROOT / "examples" / file, *words],
                cwd=self.path,
                env=self._environ,
                stdout=said,
                stderr=said,
            )

    def checkpoint(self) -> int:
        """The step of the last complete checkpoint; 0 without one."""
        with suppress(FileNotFoundError):
            return int((self.saved / ".checkpoint.job").read_text().split()[1])
        return 0

    def kill_after_a_checkpoint(self, process: Program) -> int:
        """Kill the program once it has saved, and return the step that it has to continue from."""

        def saved() -> bool:
            return process.poll() is not None or self.checkpoint() > 0

        wait_until(saved, TRAINING_SECONDS, what="a checkpoint")
        killed = self.processes()
        assert killed, self.said
        step = self.checkpoint()
        for each in killed:
            # One may have ended with another one.
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        return step


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


RETURN = re.compile(r"  return ([\d,.]+)$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Learning:
    """What a program prints.

    Attributes:
        step: a step at its start or later.
        result: how good it is.
        least: the least last result of a program that has learned; at random it is half of it.
    """

    file: str
    arguments: tuple[str, ...]
    step: str
    result: str
    least: float


LEARNING = (
    Learning(
        file="sb3/train.py",
        arguments=("--steps=10000", "--save-every=2"),
        step=r"total_timesteps +\| (\d+)",
        result=r"ep_rew_mean +\| ([\d.]+)",
        least=40,
    ),
    Learning(
        file="trl/train.py",
        # Forty steps take a second where nothing else runs.
        arguments=("--steps=120", "--save-every=0.5"),
        step=r"continues from \S*checkpoint-(\d+)",
        result=r"'reward': '([\d.]+)'",
        least=0.5,
    ),
    Learning(
        file="rllib/train.py",
        arguments=("--steps=8000", "--save-every=2"),
        step=r"step (\d+): mean return",
        result=r"mean return (\d+)",
        least=60,
    ),
)


def after_the_restart(said: str) -> str:
    """What follows the line of the restart, which has the last lines from before it."""
    before, _, after = said.partition("JobRestarting")
    after = after.partition("\n")[2]
    assert before
    assert after, said
    return after


@pytest.mark.proves(
    "sdk.md#loops-of-other-libraries/hooks-stable-baselines3-run",
    "sdk.md#loops-of-other-libraries/hooks-transformers-run",
)
@pytest.mark.parametrize("learning", LEARNING, ids=lambda each: each.file)
@pytest.mark.timeout(2 * TRAINING_SECONDS)
def test_a_killed_program_continues_from_its_checkpoint(run: Run, learning: Learning) -> None:
    words = ("-f", "--checkpoint", str(run.saved), "--", *learning.arguments)
    with run.example(learning.file, *words) as process:
        step = run.kill_after_a_checkpoint(process)
        code = process.wait(TRAINING_SECONDS)
    said = run.said
    assert code == 0, said
    continued = re.findall(learning.step, after_the_restart(said))
    assert continued, said
    assert int(continued[0]) >= step > 0, said
    assert float(re.findall(learning.result, said)[-1]) > learning.least, said


@pytest.mark.timeout(2 * TRAINING_SECONDS)
def test_two_pods_of_trl_save_at_one_step_and_continue(run: Run) -> None:
    """Each save of the trainer has collectives, which both processes have to begin."""
    learning = next(each for each in LEARNING if each.file.startswith("trl/"))
    program = str(ROOT / "examples" / learning.file)
    learner = task(
        ["python3", "-m", "torch.distributed.run", program, *learning.arguments],
        replicas=2,
        processGroup={"framework": "torch"},
    )
    path = run.manifest(job(learner, name="two", backoffLimit=3))
    with run.example(str(path), "-f", "--checkpoint", str(run.saved)) as process:
        step = run.kill_after_a_checkpoint(process)
        code = process.wait(TRAINING_SECONDS)
    said = run.said
    assert code == 0, said
    continued = [int(each) for each in re.findall(learning.step, after_the_restart(said))]
    assert len(continued) == 2, said
    assert min(continued) == max(continued) >= step > 0, said
    assert float(re.findall(learning.result, said)[-1]) > learning.least, said


@pytest.mark.timeout(2 * TRAINING_SECONDS)
def test_a_program_that_knows_no_job_reports_what_it_logs_to_tensorboard(run: Run) -> None:
    with run.example(
        "cleanrl/ppo.py", "--track", "--", "--total-timesteps=10000", f"--runs={run.path}"
    ) as process:
        code = process.wait(TRAINING_SECONDS)
    assert code == 0, run.said
    returns = [float(each.replace(",", "")) for each in RETURN.findall(run.said)]
    assert max(returns) > 100, run.said
