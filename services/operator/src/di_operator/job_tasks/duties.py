"""The leader's parts for DIJobTasks, put together."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from di_kube.cache import WatchCache
from di_kube.client import KubeClient
from di_kube.resources import DIJOB_TASKS, DIJOBS, PODS, Resource
from di_operator.cluster.informer_state import InformerState, transform
from di_operator.config import Config
from di_operator.job_tasks.keeper import INDEX_OWNER, JobTasks, index_owner
from di_operator.lifecycle.observed.pods import PodReader
from di_operator.lifecycle.vocabulary.decision import JobEvent
from di_operator.process.clock import Clock
from di_operator.process.controller import Observer, controller_of, job_queue
from di_operator.process.lease_state import Loss
from di_operator.process.supervision import Duty

WORKERS: Final = 4
"""Jobs that are reconciled at the same time: a reconcile is a few writes, and most jobs have no
such tasks.
"""


def job_task_duties(
    config: Config,
    *,
    client: KubeClient,
    caches: Mapping[Resource, WatchCache],
    informers: InformerState,
    read_pod: PodReader,
    emit: Callable[[Mapping[str, Any], JobEvent], None],
    check_lease: Callable[[], None],
    loss: Loss,
    observer: Observer,
    clock: Clock,
    rng: random.Random,
    poll: Callable[[WatchCache], None],
) -> Mapping[str, Duty]:
    """Return the parts that keep DIJobTasks, by name; empty if the configuration disables them.

    `poll` is called with the cache of DIJobTasks, which polls have to compare with the API server.

    One part watches them, one reconciles jobs. Both wait while the API server does not serve their
    kind. The other arguments are those of `JobTasks`, `Controller` and `WatchCache`.
    """
    if not config.job_tasks:
        return {}
    found = WatchCache(
        client,
        DIJOB_TASKS,
        namespace=config.watch_namespace,
        transform=transform,
        indexes={INDEX_OWNER: index_owner},
        clock=clock.monotonic,
        rng=rng,
    )
    poll(found)
    queue = job_queue(workers=WORKERS)
    tasks = JobTasks(
        client=client,
        found=found,
        job=informers.job,
        pods=informers.pods,
        read_pod=read_pod,
        observe_job=partial(informers.observe, DIJOBS, is_news=True),
        emit=emit,
        wake=queue.add_after,
        check_lease=check_lease,
    )
    caches[DIJOBS].subscribe(tasks.follow_job)
    caches[PODS].subscribe(tasks.follow_pod)
    found.subscribe(tasks.follow_task)
    controller = controller_of(
        tasks, queue=queue, workers=WORKERS, loss=loss, clock=clock, rng=rng, observer=observer
    )
    return {"watch dijobtasks": found.run, "job tasks": controller.run}
