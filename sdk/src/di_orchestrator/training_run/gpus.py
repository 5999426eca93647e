"""The share of time in which the GPUs of this pod are idle, by NVIDIA's driver."""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

INTERVAL_SECONDS = 1.0
"""Seconds between two measurements; the driver's own are of the last second at most."""
MEASUREMENTS = 60
"""Number of last measurements of which the share is the mean."""
_LIBRARY = "libnvidia-ml.so.1"
_SUCCESS = 0

Busy = Callable[[], "float | None"]
"""Function that returns the mean busy share of the GPUs, from 0 to 1; None: it is not known."""


class IdleGpus:
    """Measures in a separate thread, until a measurement fails: without one nothing is idle.

    Between two iterations a GPU can be idle for a moment, so the times of reports would measure
    another share.
    """

    def __init__(self, busy: Busy, *, interval: float = INTERVAL_SECONDS) -> None:
        self._busy = busy
        self._interval = interval
        self._shares: deque[float] = deque(maxlen=MEASUREMENTS)
        self._lock = threading.Lock()
        self._is_closed = threading.Event()
        threading.Thread(target=self._run, daemon=True, name="di-gpus").start()

    @classmethod
    def of_this_pod(cls) -> IdleGpus | None:
        """Return those of this pod; None if it has none, or they cannot be measured."""
        try:
            busy = busy_gpus(ctypes.CDLL(_LIBRARY))
        except (OSError, AttributeError):
            # A library of another maker, or a stub, has other functions.
            return None
        return None if busy is None else cls(busy)

    @property
    def share(self) -> float | None:
        """Return the idle share of the last minute; None: not measured."""
        with self._lock:
            return sum(self._shares) / len(self._shares) if self._shares else None

    def close(self) -> None:
        """End the measurements."""
        self._is_closed.set()

    def _run(self) -> None:
        while not self._is_closed.wait(self._interval):
            busy = None
            with suppress(Exception):  # a training is never ended by its measurements
                busy = self._busy()
            with self._lock:
                if busy is None:
                    self._shares.clear()
                    return
                self._shares.append(1.0 - busy)


class _Utilization(ctypes.Structure):
    """`nvmlUtilization_t`: percent of the time in which a kernel ran, and memory was used."""

    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


def busy_gpus(library: Any) -> Busy | None:
    """Return the measurement of all GPUs that NVML shows to this process; None without any, or if
    one has none, as parts of a GPU (MIG).

    Args:
        library: NVML, with the functions of
            https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html.
    """
    count = ctypes.c_uint()
    if library.nvmlInit_v2() != _SUCCESS:
        return None
    if library.nvmlDeviceGetCount_v2(ctypes.byref(count)) != _SUCCESS:
        return None
    devices = [ctypes.c_void_p() for _ in range(count.value)]
    for number, device in enumerate(devices):
        index = ctypes.c_uint(number)
        if library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)) != _SUCCESS:
            return None

    def busy() -> float | None:
        total, found = 0, _Utilization()
        for device in devices:
            if library.nvmlDeviceGetUtilizationRates(device, ctypes.byref(found)) != _SUCCESS:
                return None
            total += min(found.gpu, 100)
        return total / (100 * len(devices))

    return busy if devices and busy() is not None else None
