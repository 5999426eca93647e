"""CPU, memory and GPUs that pods use, read from metrics for a job page, and kept a while."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from di_cli.views.pods import name_of
from di_cli.views.top import gpu_share, used
from di_kube.errors import ApiError

Object = Mapping[str, Any]
T = TypeVar("T")
Read = Callable[[str, str], Sequence[Object]]


class Use(NamedTuple):
    """Cores, bytes of memory and percentage of the GPUs that a pod uses; None: not measured."""

    cpu: float | None = None
    memory: float | None = None
    gpus: float | None = None


_SECONDS: Final = 15.0
"""Interval at which metrics-server measures."""
_REFUSED_SECONDS: Final = 60.0
"""Seconds after which a refusal, or metrics that are not served, are tried again."""
_KEPT: Final = 256


class Usage:
    """Reads the use of jobs' pods. Thread-safe.

    Args:
        read: the metrics of the pods of a namespace's job, of metrics-server.
        read_gpus: likewise, the values of the custom metric of GPUs.
        clock: monotonic seconds.
    """

    def __init__(self, read: Read, read_gpus: Read, clock: Callable[[], float]) -> None:
        self._pods = _Kept(lambda *of: {name_of(each): used(each) for each in read(*of)}, clock)
        self._gpus = _Kept(lambda *of: dict(map(gpu_share, read_gpus(*of))), clock)

    def of(self, namespace: str, job: str, *, gpus: bool) -> Mapping[str, Use]:
        """Return the use of a job's pods by name; empty if it is not measured or not readable.

        Args:
            gpus: whether the pods have any.
        """
        pods = self._pods.of(namespace, job)
        shares = self._gpus.of(namespace, job) if gpus else {}
        found: dict[str, Use] = {}
        for name in {**pods, **shares}:
            cpu, memory = pods.get(name, (None, None))
            found[name] = Use(cpu=cpu, memory=memory, gpus=shares.get(name))
        return found


class _Kept(Generic[T]):
    """Measurements by pod, read at most once in their interval."""

    def __init__(
        self, read: Callable[[str, str], Mapping[str, T]], clock: Callable[[], float]
    ) -> None:
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str], tuple[float, Mapping[str, T]]] = OrderedDict()

    def of(self, namespace: str, job: str) -> Mapping[str, T]:
        key, now = (namespace, job), self._clock()
        with self._lock:
            until, found = self._kept.get(key, (now, {}))
            if now < until:
                return found
            if key in self._kept:
                # Meanwhile other pages show the last measurement, and do not read.
                self._keep(key, now + _SECONDS, found)
        try:
            found, seconds = self._read(*key), _SECONDS
        except ApiError:
            found, seconds = {}, _REFUSED_SECONDS
        with self._lock:
            self._keep(key, now + seconds, found)
        return found

    def _keep(self, key: tuple[str, str], until: float, found: Mapping[str, T]) -> None:
        self._kept[key] = (until, found)
        self._kept.move_to_end(key)
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
