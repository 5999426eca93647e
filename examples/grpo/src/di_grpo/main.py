"""Entry point of every pod of the job: its task says what it does."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from di_grpo import evaluator, judge, learner, rollout, worker
from di_grpo.client import Refused, Unreachable
from di_grpo.peers import Peers

NOT_LEARNED = 3
"""Exit code of a training that another process would not save."""


def main() -> None:
    """Run this pod's part; exit code 0 when training succeeded or the pod was asked to leave."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    leaving = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: leaving.set())
    try:
        peers = Peers.from_environment(os.environ)
    except KeyError as error:
        sys.exit(f"{error.args[0]} is not set: this program runs as a task of a DIJob")
    logging.info("%s, number %d", peers.task, peers.index)
    try:
        _run(peers, leaving, os.environ)
    except (Refused, Unreachable) as error:
        sys.exit(str(error))


def _run(peers: Peers, leaving: threading.Event, environment: Mapping[str, str]) -> None:
    match peers.task:
        case "learner" if peers.index == 0:
            _train(peers, leaving, environment)
        case "learner":
            worker.run(peers, leaving)
        case "rollout":
            rollout.run(peers, leaving)
        case "judge":
            judge.run(leaving)
        case "evaluator":
            evaluator.run(peers, leaving)
        case other:
            sys.exit(f"task {other!r}: there is no such part in this example")


def _train(peers: Peers, leaving: threading.Event, environment: Mapping[str, str]) -> None:
    settings = learner.Settings(
        base=Path(environment["BASE_WEIGHTS"]),
        folder=Path(environment["STATE_FOLDER"]),
        target=float(environment["PASS_AT_1"]),
        most_steps=int(environment["MOST_STEPS"]),
    )
    try:
        learner.run(peers, settings, leaving)
    except learner.NotLearned as error:
        logging.error("%s", error)
        sys.exit(NOT_LEARNED)
    except learner.Interrupted as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
