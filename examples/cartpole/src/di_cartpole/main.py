"""Entry point of every pod of the job: its task type says what it does."""

from __future__ import annotations

import logging
import os
import sys

import di_orchestrator as di
from di_cartpole import collector, evaluator, learner


def main() -> None:
    """Run this pod's part; exit code 0 when training succeeded or the pod was asked to leave."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    leaving = di.leaving()
    try:
        job = di.job()
        if not job.is_inside:
            sys.exit("DI_JOB_ID is not set: this program runs as a task of a DIJob")
        logging.info("rank %d of %s, %s", job.rank, job.id, job.task_type)
        url = f"http://{job.addresses('learner')[0]}:{di.PORT}"
        match job.task_type:
            case "learner":
                learner.run(seed=int(os.environ.get("SEED", "1")))
            case "collector":
                collector.run(url, job.rank, leaving)
            case "evaluator":
                evaluator.run(url, job.rank, leaving)
            case other:
                sys.exit(f"DI_TASK_TYPE {other!r}: there is no such part in this example")
    except di.Left as left:
        logging.info("%s", left)
    except (di.DIError, learner.NotSolved, learner.Interrupted) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
