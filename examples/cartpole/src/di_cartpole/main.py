"""Entry point of every pod of the job: its task type says what it does."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading

from di_cartpole import collector, evaluator, learner
from di_cartpole.checkpoint import Checkpoints, Lost
from di_cartpole.client import Unreachable
from di_cartpole.peers import Peers


def main() -> None:
    """Run this pod's part; exit code 0 when training succeeded or the pod was asked to leave."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    leaving = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: leaving.set())
    try:
        peers = Peers.from_environment(os.environ)
    except KeyError as error:
        sys.exit(f"{error.args[0]} is not set: this program runs as a task of a DIJob")
    logging.info("rank %d of %d, %s", peers.rank, len(peers.nodes), peers.task_type)
    try:
        match peers.task_type:
            case "learner":
                checkpoints = Checkpoints.from_environment(os.environ)
                seed = int(os.environ.get("SEED", "1"))
                learner.run(peers, leaving, checkpoints, seed=seed)
            case "collector":
                collector.run(peers, leaving)
            case "evaluator":
                evaluator.run(peers, leaving)
            case other:
                sys.exit(f"DI_TASK_TYPE {other!r}: there is no such part in this example")
    except (Unreachable, Lost, learner.NotSolved, learner.Interrupted) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
