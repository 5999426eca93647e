"""The leader's parts for DISweeps, put together."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from di_kube.cache import WatchCache
from di_kube.client import KubeClient
from di_kube.resources import DIJOBS, DISWEEPS, Resource
from di_operator.cluster.informer_state import INDEX_SWEEP, InformerState, index_value, transform
from di_operator.config import Config
from di_operator.process.clock import Clock
from di_operator.process.controller import Observer, controller_of, job_queue
from di_operator.process.lease_state import Loss
from di_operator.process.supervision import Duty
from di_operator.sweeps.keeper import Sweeps

WORKERS: Final = 2
"""Sweeps that are reconciled at the same time; there are far fewer than jobs."""


def sweep_duties(
    config: Config,
    *,
    client: KubeClient,
    caches: Mapping[Resource, WatchCache],
    informers: InformerState,
    check_lease: Callable[[], None],
    loss: Loss,
    observer: Observer,
    clock: Clock,
    rng: random.Random,
    poll: Callable[[WatchCache], None],
) -> Mapping[str, Duty]:
    """Return the parts that run sweeps, by name; empty if the configuration disables them.

    `poll` is called with the cache of sweeps, which polls have to compare with the API server.

    One part watches them, one reconciles them. Both wait while the API server does not serve their
    kind. The other arguments are those of `Sweeps`, `Controller` and `WatchCache`.
    """
    if not config.sweeps:
        return {}
    found = WatchCache(
        client,
        DISWEEPS,
        namespace=config.watch_namespace,
        transform=transform,
        clock=clock.monotonic,
        rng=rng,
    )
    poll(found)
    queue = job_queue(workers=WORKERS)
    jobs = caches[DIJOBS]
    sweeps = Sweeps(
        client=client,
        found=found,
        jobs=lambda key: jobs.by_index(INDEX_SWEEP, index_value(key.namespace, key.name)),
        current=informers.current,
        observe_job=partial(informers.observe, DIJOBS, is_news=True),
        wake=queue.add_after,
        check_lease=check_lease,
        now=clock.now,
    )
    jobs.subscribe(sweeps.follow_job)
    found.subscribe(sweeps.follow_sweep)
    controller = controller_of(
        sweeps, queue=queue, workers=WORKERS, loss=loss, clock=clock, rng=rng, observer=observer
    )
    return {"watch disweeps": found.run, "sweeps": controller.run}
