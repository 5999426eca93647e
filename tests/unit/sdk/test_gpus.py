"""The idle share of a pod's GPUs. NVML is a fake: no test machine has a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from di_orchestrator.training_run.gpus import MEASUREMENTS, IdleGpus, busy_gpus
from tests.unit.sdk.conftest import Clock
from tests.unit.sdk.trainings import Told, make
from tests.waiting import wait_until

_NOT_SUPPORTED = 3


class Nvml:
    """The functions of NVML that are used; `failing` is the name of one that fails."""

    def __init__(self, *percent: int, failing: str = "") -> None:
        self.percent = [*percent]
        self.failing = failing

    def nvmlInit_v2(self) -> int:
        return self._code("nvmlInit_v2")

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:
        count._obj.value = len(self.percent)
        return self._code("nvmlDeviceGetCount_v2")

    def nvmlDeviceGetHandleByIndex_v2(self, index: Any, device: Any) -> int:
        device._obj.value = 1000 + index.value
        return self._code("nvmlDeviceGetHandleByIndex_v2")

    def nvmlDeviceGetUtilizationRates(self, device: Any, found: Any) -> int:
        found._obj.gpu = self.percent[device.value - 1000]
        return self._code("nvmlDeviceGetUtilizationRates")

    def _code(self, name: str) -> int:
        return _NOT_SUPPORTED if name == self.failing else 0


@pytest.mark.proves("lifecycle.md#idle-gpus")
def test_gpus_are_busy_for_the_mean_share_of_all() -> None:
    busy = busy_gpus(Nvml(100, 20))
    assert busy is not None
    assert busy() == 0.6


@pytest.mark.parametrize(
    "nvml",
    [
        Nvml(),
        *(
            Nvml(50, failing=name)
            for name in (
                "nvmlInit_v2",
                "nvmlDeviceGetCount_v2",
                "nvmlDeviceGetHandleByIndex_v2",
                "nvmlDeviceGetUtilizationRates",
            )
        ),
    ],
)
def test_gpus_that_cannot_be_measured_have_no_share(nvml: Nvml) -> None:
    assert busy_gpus(nvml) is None


@pytest.mark.parametrize("library", ["libabsent-nvml.so.1", "libc.so.6"])
def test_a_pod_without_the_functions_of_the_driver_has_no_share(
    monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    monkeypatch.setattr("di_orchestrator.training_run.gpus._LIBRARY", library)
    assert IdleGpus.of_this_pod() is None


def test_the_idle_share_is_the_mean_of_the_last_measurements() -> None:
    measured = iter([1.0] * 100 + [0.25] * MEASUREMENTS)
    gpus = IdleGpus(lambda: next(measured, 0.25), interval=0.0)
    wait_until(lambda: gpus.share == 0.75, what="the last measurements")
    gpus.close()


def test_after_a_failed_measurement_nothing_is_known() -> None:
    def measured() -> Iterator[float]:
        yield 0.5
        raise OSError

    found = measured()
    gpus = IdleGpus(lambda: next(found), interval=0.0)
    wait_until(lambda: next(found, None) is None, what="the failure")
    wait_until(lambda: gpus.share is None, what="no share")


class Idle:
    """In the place of a measurement."""

    share: float | None = 0.912345
    is_closed = False

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.proves("lifecycle.md#idle-gpus", "allocation.md#what-a-job-reports/gpuidlefrac")
def test_reports_have_the_idle_share_while_it_is_measured(clock: Clock) -> None:
    told, idle = Told(), Idle()
    with make(clock, told, gpus=idle) as run:
        run.report(step=1)
        idle.share = None
        run.report(step=2)
    first, second = told.reports[:2]
    assert (first["gpuIdleFrac"], second["gpuIdleFrac"]) == (0.9123, None)
    assert idle.is_closed
