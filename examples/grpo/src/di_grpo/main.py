"""Entry point of every pod of the job: its task says what it does."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import di_orchestrator as di
from di_grpo import evaluator, judge, learner, rollout, worker

NOT_LEARNED = 3
"""Exit code of a training that another process would not save."""


def main() -> None:
    """Run this pod's part; exit code 0 when training succeeded or the pod was asked to leave."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    leaving = di.leaving()
    try:
        job = di.job()
        if not job.is_inside:
            sys.exit("DI_JOB_ID is not set: this program runs as a task of a DIJob")
        logging.info("%s", job.pod)
        _run(job, leaving)
    except di.DIError as error:
        sys.exit(str(error))


def _run(job: di.Job, leaving: threading.Event) -> None:
    match job.task:
        case "learner" if job.is_leader:
            _train(job, os.environ)
        case "learner":
            worker.run(job, leaving)
        case "rollout":
            rollout.run(job, leaving, port=job.port())
        case "judge":
            judge.run(leaving)
        case "evaluator":
            evaluator.run(job, leaving)
        case other:
            sys.exit(f"task {other!r}: there is no such part in this example")


def _train(job: di.Job, environment: Mapping[str, str]) -> None:
    settings = learner.Settings(
        base=Path(environment["BASE_WEIGHTS"]),
        folder=Path(environment["STATE_FOLDER"]),
        target=float(environment["PASS_AT_1"]),
        most_steps=int(environment["MOST_STEPS"]),
    )
    try:
        learner.run(job, settings)
    except learner.NotLearned as error:
        logging.error("%s", error)
        sys.exit(NOT_LEARNED)
    except learner.Interrupted as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
