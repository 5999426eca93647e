"""The watch caches of jobs and of their objects."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Final

from di_api.names import LABEL_OPERATOR, OPERATOR_NAME
from di_kube.cache import Transform, WatchCache
from di_kube.client import KubeClient
from di_kube.resources import CONFIGMAPS, DIJOBS, PODS, SERVICES, Resource
from di_kube.watch_limits import WatchLimits
from di_operator.builders.configmap import transform_configmap
from di_operator.cluster.informer_state import (
    INDEX_JOB,
    INDEX_PHASE,
    INDEX_SWEEP,
    index_job,
    index_phase,
    index_sweep,
    transform,
    transform_job,
    transform_pod,
)
from di_operator.config import Config
from di_operator.process.clock import Clock

WATCH_LIMITS: Final = WatchLimits(backoff_maximum=10.0)
"""When the API server returns after a long outage, every job has to be up to date within half a
minute.
"""


def watch_caches(
    config: Config, client: KubeClient, clock: Clock, rng: random.Random
) -> Mapping[Resource, WatchCache]:
    """Return the caches of DIJobs and of the objects created for them, by kind."""
    ours = f"{LABEL_OPERATOR}={OPERATOR_NAME}"
    selectors = {DIJOBS: None, PODS: ours, SERVICES: ours, CONFIGMAPS: ours}
    kept_of: Mapping[Resource, Transform] = {
        DIJOBS: transform_job,
        PODS: transform_pod,
        CONFIGMAPS: transform_configmap,
    }
    return {
        resource: WatchCache(
            client,
            resource,
            namespace=config.watch_namespace,
            label_selector=selector,
            transform=kept_of.get(resource, transform),
            indexes=(
                {INDEX_PHASE: index_phase, INDEX_SWEEP: index_sweep}
                if resource == DIJOBS
                else {INDEX_JOB: index_job}
            ),
            clock=clock.monotonic,
            rng=rng,
            limits=WATCH_LIMITS,
        )
        for resource, selector in selectors.items()
    }
