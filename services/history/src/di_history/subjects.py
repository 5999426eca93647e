"""Subjects: jobs and pods that other objects refer to, by namespace and UID.

A user who can create Events or pods in a namespace chooses the UIDs in them. So a subject is found
only by objects in its own namespace.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Final, Generic, TypeVar

MOST_GONE: Final = 50_000
"""Number of deleted subjects that are remembered, because their last Events arrive later."""
EARLY_BYTES: Final = 16 << 20
"""Maximum bytes of data about subjects that the watches have not delivered yet."""
BURST_BYTES: Final = 256 << 10
RATE_BYTES: Final = 256.0
"""Sustained bytes per second of Events that are accepted for one subject."""
_MOST_BUDGETS: Final = 100_000

T = TypeVar("T")


class Subjects:
    """Maps subjects to their jobs."""

    def __init__(self) -> None:
        self._present: dict[tuple[str, str], str] = {}
        self._gone: OrderedDict[tuple[str, str], str] = OrderedDict()

    def add(self, namespace: str, uid: str, job: str) -> None:
        """Add an existing subject."""
        self._gone.pop((namespace, uid), None)
        self._present[namespace, uid] = job

    def remove(self, namespace: str, uid: str) -> None:
        """Record that a subject is deleted; the last MOST_GONE of these are still found."""
        if (job := self._present.pop((namespace, uid), None)) is not None:
            self.add_gone(namespace, uid, job)

    def add_gone(self, namespace: str, uid: str, job: str) -> None:
        """Add a subject that was deleted before."""
        if (namespace, uid) not in self._present:
            self._gone[namespace, uid] = job
            self._gone.move_to_end((namespace, uid))
            if len(self._gone) > MOST_GONE:
                self._gone.popitem(last=False)

    def job_of(self, namespace: str, uid: str) -> str | None:
        """Return the UID of the job; None: the namespace has no such subject."""
        return self._present.get((namespace, uid)) or self._gone.get((namespace, uid))


class Early(Generic[T]):
    """Data about subjects that are not known yet.

    Beyond `most` bytes the namespace with the most loses the data about its oldest subject.
    """

    def __init__(self, *, most: int = EARLY_BYTES) -> None:
        self._most = most
        self._found: dict[str, OrderedDict[str, list[tuple[T, int]]]] = {}
        self._bytes: Counter[str] = Counter()

    @property
    def bytes(self) -> int:
        """Return the bytes of all data."""
        return self._bytes.total()

    def add(self, namespace: str, uid: str, what: T, size: int) -> None:
        """Keep data until `take`."""
        self._found.setdefault(namespace, OrderedDict()).setdefault(uid, []).append((what, size))
        self._bytes[namespace] += size
        while self.bytes > self._most:
            ((heaviest, _),) = self._bytes.most_common(1)
            self.take(heaviest, next(iter(self._found[heaviest])))

    def take(self, namespace: str, uid: str) -> list[T]:
        """Remove and return the data about a subject, in order of arrival."""
        of_namespace = self._found.get(namespace)
        if of_namespace is None:
            return []
        found = of_namespace.pop(uid, [])
        self._bytes[namespace] -= sum(size for _, size in found)
        if not of_namespace:
            del self._found[namespace], self._bytes[namespace]
        return [what for what, _ in found]


class Budgets:
    """Limits on the data about one subject: a token bucket of bytes each.

    Args:
        clock: returns seconds.
    """

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._left: OrderedDict[tuple[str, str], tuple[float, float, bool]] = OrderedDict()

    def take(self, namespace: str, uid: str, size: int) -> tuple[bool, bool]:
        """Take bytes; return whether the bucket had them, and if not, whether this is the first
        failure.
        """
        now = self._clock()
        left, since, was_over = self._left.pop((namespace, uid), (float(BURST_BYTES), now, False))
        left = min(float(BURST_BYTES), left + (now - since) * RATE_BYTES)
        is_within = size <= left
        self._left[namespace, uid] = (left - size if is_within else left, now, not is_within)
        if len(self._left) > _MOST_BUDGETS:
            self._left.popitem(last=False)
        return is_within, not is_within and not was_over
