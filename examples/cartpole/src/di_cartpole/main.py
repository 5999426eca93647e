"""Entry point of every pod of the job: its task type says what it does."""

from __future__ import annotations

import logging
import os
import signal
import sys
from types import FrameType

from di_cartpole import collector, evaluator, learner
from di_cartpole.client import Unreachable
from di_cartpole.peers import Peers


def main() -> None:
    """Run this pod's part; exit code 0 when training succeeded or the pod was asked to leave."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    signal.signal(signal.SIGTERM, _leave)
    try:
        peers = Peers.from_environment(os.environ)
    except KeyError as error:
        sys.exit(f"{error.args[0]} is not set: this program runs as a task of a DIJob")
    logging.info("rank %d of %d, %s", peers.rank, len(peers.nodes), peers.task_type)
    try:
        match peers.task_type:
            case "learner":
                learner.run(peers, seed=int(os.environ.get("SEED", "1")))
            case "collector":
                collector.run(peers)
            case "evaluator":
                evaluator.run(peers)
            case other:
                sys.exit(f"DI_TASK_TYPE {other!r}: there is no such part in this example")
    except (Unreachable, learner.NotSolved) as error:
        sys.exit(str(error))


def _leave(signum: int, frame: FrameType | None) -> None:
    """A collector that is given back leaves at once; the learner hands its trials to another."""
    raise SystemExit(0)


if __name__ == "__main__":
    main()
