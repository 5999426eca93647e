"""A learner in a pod of a DIJob; alone it is a group of one."""

from __future__ import annotations

import logging
import os
import sys
import threading
from functools import partial
from random import Random

import di_orchestrator as di
from di_share.learner import Learner, Settings
from di_share.meeting import First, Meeting, Other, Place, WorldOverError, answering
from di_share.worlds import Worlds

log = logging.getLogger(__name__)


def main() -> int:
    """Train until all steps are made, or the pod is to leave; returns the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stdout)
    settings = Settings(
        steps=int(os.environ.get("STEPS", "400")),
        batch=int(os.environ.get("BATCH", "64")),
        sample_seconds=float(os.environ.get("SAMPLE_SECONDS", "0.004")),
    )
    job = di.job()
    # On one node, as the demonstration has them.
    with di.training(
        total_steps=settings.steps, init_batch_size=settings.batch, learners=1, nodes=1
    ) as run:
        learner = Learner(settings, run, Random(job.index))
        if not job.is_inside:
            alone = Meeting()
            learner.train(First(alone, 1, 1, pause=run.leaving.wait), rank=0, size=1)
        else:
            _train_in_worlds(job, learner, run)
    log.info("ends at step %d", learner.step)
    return 0


def _train_in_worlds(job: di.Job, learner: Learner, run: di.Training) -> None:
    meeting = Meeting()
    with di.Hub(answering(meeting), job.port()):
        _train_in_each(job, learner, run, meeting)
        # Whoever still waits for this one has an answer.
        meeting.open(0, 0)


def _train_in_each(job: di.Job, learner: Learner, run: di.Training, meeting: Meeting) -> None:
    worlds = Worlds(on_new=meeting.end_all_but)
    threading.Thread(target=worlds.follow, args=(di.watch_worlds(),), daemon=True).start()
    generation = 0
    while (world := worlds.next(job.index, generation, run.leaving.is_set)) is not None:
        generation, rank = world.generation, world.members.index(job.index)
        if rank == 0:
            place: Place = First(meeting, generation, len(world.members), pause=run.leaving.wait)
        else:
            place = Other(
                f"http://{_address(job, world)}:{job.port()}",
                generation,
                rank,
                is_over=partial(worlds.is_over, generation),
                pause=run.leaving.wait,
            )
        try:
            learner.train(place, rank=rank, size=len(world.members))
            break
        except WorldOverError as error:
            log.info("%s", error)


def _address(job: di.Job, world: di.World) -> str:
    """Of the first member: as this pod was told at its start, where nothing else may resolve."""
    known, first = job.addresses(job.task), world.members[0]
    is_known = first < len(known) and known[first] != di.HOLE
    return known[first] if is_known else world.master_address


if __name__ == "__main__":
    sys.exit(main())
