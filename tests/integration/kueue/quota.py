"""What the pods of a namespace take, after every single change of one of them."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal

from di_api.quantity import parse_quantity
from di_kube.cache import DELETED, WatchCache
from di_kube.client import KubeClient
from di_kube.resources import PODS
from di_kube.wire import Object
from tests.following import following

Amounts = Mapping[str, Decimal]
_ENDED = {"Succeeded", "Failed"}


def requests(pod: Object) -> Counter[str]:
    """What a pod asks for in all; nothing once it has ended."""
    asked: Counter[str] = Counter()
    if pod.get("status", {}).get("phase") not in _ENDED:
        for container in pod["spec"]["containers"]:
            for name, amount in ((container.get("resources") or {}).get("requests") or {}).items():
                asked[name] += parse_quantity(amount)  # type: ignore[assignment]
    return asked


@dataclass(slots=True, kw_only=True)
class Usage:
    """What pods took: a pod counts from its creation until it has ended or is gone, so that one
    which is asked to stop counts while it does.

    Attributes:
        groups: of a pod: each of them has a sum of its own.
        now, peak: by group and resource.
        changes: seconds since the start, group, resource and sum, after every change of a sum.
    """

    groups: Callable[[Object], Iterable[str]]
    now: dict[tuple[str, str], Decimal] = field(default_factory=dict)
    peak: dict[tuple[str, str], Decimal] = field(default_factory=dict)
    changes: list[tuple[float, str, str, Decimal]] = field(default_factory=list)
    _counted: dict[str, Amounts] = field(default_factory=dict)
    _started: float = field(default_factory=time.monotonic)

    def take(self, kind: str, pod: Object) -> None:
        """A change of a pod, in the order in which the API server made them."""
        uid = pod["metadata"]["uid"]
        before = self._counted.get(uid, {})
        after: Amounts = {} if kind == DELETED else requests(pod)  # type: ignore[assignment]
        self._counted[uid] = after
        for name in before.keys() | after.keys():
            more = after.get(name, Decimal(0)) - before.get(name, Decimal(0))
            if more:
                for group in self.groups(pod):
                    self._add(group, name, more)

    def _add(self, group: str, name: str, more: Decimal) -> None:
        sum_ = self.now.get((group, name), Decimal(0)) + more
        self.now[group, name] = sum_
        self.peak[group, name] = max(sum_, self.peak.get((group, name), Decimal(0)))
        self.changes.append((time.monotonic() - self._started, group, name, sum_))

    def assert_held(self, group: str, **limits: str) -> None:
        """Fail if a group took more of a resource at any moment."""
        for name, limit in limits.items():
            peak = self.peak.get((group, name), Decimal(0))
            assert peak <= parse_quantity(limit), f"{group} took {peak} of {limit} {name}"


@asynccontextmanager
async def watched_usage(
    client: KubeClient, namespace: str, groups: Callable[[Object], Iterable[str]]
) -> AsyncIterator[Usage]:
    """The sums of a namespace's pods while the block runs."""
    usage = Usage(groups=groups)
    cache = WatchCache(client, PODS, namespace=namespace, clock=time.monotonic, rng=random.Random())
    cache.subscribe(usage.take)
    async with following(cache):
        yield usage
