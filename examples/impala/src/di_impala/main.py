"""Entry point of every pod of the job: its task type says what it does."""

from __future__ import annotations

import logging
import os
import sys

import di_orchestrator as di
from di_impala import collector, learner


def main() -> None:
    """Run this pod's part; exit code 0 when it has learned, or collected until it had to leave."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    leaving = di.leaving()
    try:
        job = di.job()
        if not job.is_inside:
            sys.exit("DI_JOB_ID is not set: this program runs as a task of a DIJob")
        logging.info("%s", job.pod)
        match job.task_type:
            case "learner":
                settings = learner.Settings(
                    target=float(os.environ["MEAN_RETURN"]),
                    most_steps=int(os.environ["MOST_STEPS"]),
                    seed=int(os.environ.get("SEED", "1")),
                )
                learner.run(settings, port=job.port())
            case "collector":
                collector.run(f"http://{job.service('learner')}", job.pod, leaving)
            case other:
                sys.exit(f"DI_TASK_TYPE {other!r}: there is no such part in this example")
    except (di.DIError, learner.NotLearned, learner.Interrupted) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
