"""Addresses of replicas, as the requesting pod needs them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

from di_api.coordinated import address
from di_api.spec import Replica, Role
from di_server.coordination.requests import MAX_GPUS
from di_server.model.job import Job


class Listing(TypedDict):
    """The `data` of a response; each entry is `<pod>.<namespace>:<port>`."""

    namespace: str
    coordinator: str
    collectors: list[str]
    learners: list[str]


def listing(job: Job, replicas: Iterable[Replica], pod: str, *, aggregator_port: int) -> Listing:
    """Return the addresses of `replicas` of the job: for each learner its one pod or its
    aggregator.

    An aggregator (`pod`) gets the ddp learners behind it, one address per GPU: every process
    listens, on consecutive ports.
    """
    shown = (each for each in replicas if each.role is not Role.DDP_LEARNER)
    if pod != job.coordinator:
        shown = (each for each in replicas if each.aggregator == pod)
    found = Listing(namespace=job.ref.namespace, coordinator=pod, collectors=[], learners=[])
    for each in shown:
        first = aggregator_port if each.role is Role.AGGREGATOR else job.ports[each.role]
        found["collectors" if each.role is Role.COLLECTOR else "learners"] += (
            address(each.name, job.ref.namespace, port)
            for port in range(first, first + _processes(each))
        )
    return found


def _processes(replica: Replica) -> int:
    # The limit keeps a number that was edited by hand from making the list endless.
    return min(max(replica.gpus, 1), MAX_GPUS) if replica.role is Role.DDP_LEARNER else 1
