"""The queue of notifications to one target: bounded in bytes, with namespaces taking turns."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final, NamedTuple

import structlog

from di_service.token_buckets import TokenBuckets

log = structlog.get_logger(__name__)

MOST_BYTES: Final = 1024 * 1024
"""Maximum bytes of bodies that wait for one target."""
PER_SECOND: Final = 1.0
BURST: Final = 30
"""Notifications of a namespace to one target that can be sent at once; then `PER_SECOND`."""
OVERHEAD: Final = 512
"""Bytes that a notification takes besides its body."""


class Notification(NamedTuple):
    """A rendered body, and its job."""

    namespace: str
    name: str
    happening: str
    body: bytes

    @property
    def weight(self) -> int:
        """Return the bytes that it takes."""
        return len(self.body) + OVERHEAD


class Outbox:
    """The queue of one target.

    Namespaces take turns, each at its own rate. When the queue is full, the namespace that uses
    most of it loses its oldest notification. So a flood in one namespace costs the others nothing.
    """

    def __init__(
        self, target: str, *, monotonic: Callable[[], float], dropped: Callable[[], None]
    ) -> None:
        """`dropped` is called for each dropped notification."""
        self._target = target
        self._dropped = dropped
        self._queues: OrderedDict[str, deque[Notification]] = OrderedDict()
        self._bytes: dict[str, int] = {}
        self._rates = TokenBuckets[str](rate=PER_SECOND, burst=BURST, clock=monotonic)
        # Namespaces whose loss was logged, until all their notifications are sent.
        self._logged: set[str] = set()

    @property
    def bytes(self) -> int:
        """Return the bytes that wait."""
        return sum(self._bytes.values())

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def put(self, notification: Notification) -> None:
        """Add a notification; notifications beyond the limit are dropped."""
        namespace = notification.namespace
        self._queues.setdefault(namespace, deque()).append(notification)
        self._bytes[namespace] = self._bytes.get(namespace, 0) + notification.weight
        while self.bytes > MOST_BYTES:
            self._drop(max(self._bytes, key=self._bytes.__getitem__))

    def take(self) -> Notification | None:
        """Return the next notification; None while no namespace is allowed to send one."""
        for namespace in self._queues:
            if self._rates.take(namespace) == 0:
                self._queues.move_to_end(namespace)
                return self._remove(namespace)
        return None

    def wait(self) -> float | None:
        """Return the seconds until `take` returns a notification; None: the queue is empty."""
        return min(map(self._rates.wait, self._queues), default=None)

    def _drop(self, namespace: str) -> None:
        lost = self._remove(namespace)
        self._dropped()
        if namespace not in self._logged:
            self._logged.add(namespace)
            log.warning(
                "notifications dropped: too many wait for the target",
                target=self._target,
                namespace=namespace,
                first=lost.name,
            )

    def _remove(self, namespace: str) -> Notification:
        queue = self._queues[namespace]
        found = queue.popleft()
        self._bytes[namespace] -= found.weight
        if not queue:
            del self._queues[namespace], self._bytes[namespace]
            self._logged.discard(namespace)
        return found
