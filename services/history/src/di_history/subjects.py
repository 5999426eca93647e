"""Jobs and pods that others write about, each known by its namespace and UID.

Who may create Events or pods in a namespace chooses which UIDs they name. So a subject is found
only by what is written in its own namespace.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Final, Generic, TypeVar

MOST_GONE: Final = 50_000
"""Subjects that are remembered after their end: their last Events come later."""
EARLY_BYTES: Final = 16 << 20
"""Of what is about subjects that the watches have not shown yet."""
BURST_BYTES: Final = 256 << 10
RATE_BYTES: Final = 256.0
"""Bytes a second of Events that are accepted for one subject for ever."""
_MOST_BUDGETS: Final = 100_000

T = TypeVar("T")


class Subjects:
    """Which job a subject belongs to."""

    def __init__(self) -> None:
        self._present: dict[tuple[str, str], str] = {}
        self._gone: OrderedDict[tuple[str, str], str] = OrderedDict()

    def add(self, namespace: str, uid: str, job: str) -> None:
        """Remember a subject that exists."""
        self._gone.pop((namespace, uid), None)
        self._present[namespace, uid] = job

    def remove(self, namespace: str, uid: str) -> None:
        """Note that a subject is gone; the last MOST_GONE of these are still found."""
        if (job := self._present.pop((namespace, uid), None)) is not None:
            self.add_gone(namespace, uid, job)

    def add_gone(self, namespace: str, uid: str, job: str) -> None:
        """Remember a subject that was gone before."""
        if (namespace, uid) not in self._present:
            self._gone[namespace, uid] = job
            self._gone.move_to_end((namespace, uid))
            if len(self._gone) > MOST_GONE:
                self._gone.popitem(last=False)

    def job_of(self, namespace: str, uid: str) -> str | None:
        """UID of the job; None: no such subject is known in that namespace."""
        return self._present.get((namespace, uid)) or self._gone.get((namespace, uid))


class Early(Generic[T]):
    """What is about subjects that are not known yet, until they are.

    Past `most` bytes the namespace with most of them loses what is about its oldest subject.
    """

    def __init__(self, *, most: int = EARLY_BYTES) -> None:
        self._most = most
        self._found: dict[str, OrderedDict[str, list[tuple[T, int]]]] = {}
        self._bytes: Counter[str] = Counter()

    @property
    def bytes(self) -> int:
        """Of all."""
        return self._bytes.total()

    def add(self, namespace: str, uid: str, what: T, size: int) -> None:
        """Keep it until `take`."""
        self._found.setdefault(namespace, OrderedDict()).setdefault(uid, []).append((what, size))
        self._bytes[namespace] += size
        while self.bytes > self._most:
            ((heaviest, _),) = self._bytes.most_common(1)
            self.take(heaviest, next(iter(self._found[heaviest])))

    def take(self, namespace: str, uid: str) -> list[T]:
        """Remove what is about a subject; in the order in which it came."""
        of_namespace = self._found.get(namespace)
        if of_namespace is None:
            return []
        found = of_namespace.pop(uid, [])
        self._bytes[namespace] -= sum(size for _, size in found)
        if not of_namespace:
            del self._found[namespace], self._bytes[namespace]
        return [what for what, _ in found]


class Budgets:
    """How much is accepted about one subject: a token bucket of bytes each.

    Args:
        clock: seconds.
    """

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._left: OrderedDict[tuple[str, str], tuple[float, float, bool]] = OrderedDict()

    def take(self, namespace: str, uid: str, size: int) -> tuple[bool, bool]:
        """Take bytes; returns whether there were so many, and if not, whether that is new."""
        now = self._clock()
        left, since, was_over = self._left.pop((namespace, uid), (float(BURST_BYTES), now, False))
        left = min(float(BURST_BYTES), left + (now - since) * RATE_BYTES)
        is_within = size <= left
        self._left[namespace, uid] = (left - size if is_within else left, now, not is_within)
        if len(self._left) > _MOST_BUDGETS:
            self._left.popitem(last=False)
        return is_within, not is_within and not was_over
