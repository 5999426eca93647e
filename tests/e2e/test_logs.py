"""Logs of a job on a real node, asked for as a user does."""

from __future__ import annotations

import pytest

from di_cli.exit_codes import ExitCode
from di_cli.main import run
from tests.e2e.jobs import job, task
from tests.e2e.kubectl import Kubectl

TALKS = "for i in range(40000): print('step', i, 'loss 0.123456', 'x' * 60)"


@pytest.mark.usefixtures("release", "shell")
def test_a_long_log_is_followed_to_its_end_and_its_end_is_shown(
    kubectl: Kubectl,
    namespace: str,
    python_image: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    talks = task("learner", image=python_image, program=TALKS)
    waits = task("collector", image=python_image, program="print('up'); input()")
    kubectl.apply(job("many", namespace=namespace, tasks=[talks, waits]))

    def said(*words: str) -> tuple[int, list[str]]:
        capsys.readouterr()
        code = run(["logs", "many", *words, "--namespace", namespace])
        return code, capsys.readouterr().out.splitlines()

    code, followed = said("-f", "--task", "learner", "--tail", "-1")
    assert code == ExitCode.DONE
    # What a program prints last the container runtime can lose on a busy machine: as much as the
    # pipe has. The node's file is the log.
    kept = kubectl.logs("many-learner-0", namespace=namespace).splitlines()
    assert kept[:30_000] == [f"step {i} loss 0.123456 {'x' * 60}" for i in range(30_000)]
    assert [line.partition("  ")[2] for line in followed] == kept
    _, end = said("--task", "learner", "--tail", "20000")
    assert [line.partition("  ")[2] for line in end] == kept[-20_000:]
