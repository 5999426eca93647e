"""Entry point of every pod of the job: its task type says what it does."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading

from di_impala import collector, learner
from di_impala.client import Refused, Unreachable
from di_impala.peers import Peers


def main() -> None:
    """Run this pod's part; exit code 0 when it has learned, or collected until it had to leave."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    leaving = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: leaving.set())
    try:
        peers = Peers.from_environment(os.environ)
    except KeyError as error:
        sys.exit(f"{error.args[0]} is not set: this program runs as a task of a DIJob")
    logging.info("%s", peers.name)
    try:
        match peers.task_type:
            case "learner":
                settings = learner.Settings(
                    target=float(os.environ["MEAN_RETURN"]),
                    most_steps=int(os.environ["MOST_STEPS"]),
                    seed=int(os.environ.get("SEED", "1")),
                )
                learner.run(peers, settings, leaving)
            case "collector":
                collector.run(peers, leaving)
            case other:
                sys.exit(f"DI_TASK_TYPE {other!r}: there is no such part in this example")
    except (Refused, Unreachable, learner.NotLearned, learner.Interrupted) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
