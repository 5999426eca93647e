"""Recorded applications: recorded points, points between them, and unknown ones."""

from __future__ import annotations

import pytest

from di_simulator.application import EPOCHS, Application, load_applications
from di_simulator.main import RECORDED


@pytest.fixture(scope="module")
def applications() -> dict[str, Application]:
    return load_applications(RECORDED / "traces")


def test_all_recordings_are_loaded(applications: dict[str, Application]) -> None:
    assert set(applications) == set(EPOCHS)
    cifar = applications["cifar10"]
    assert (cifar.limits.initial, cifar.limits.maximum) == (128, 4096)
    assert (cifar.limits.local_min, cifar.limits.local_max) == (32, 1024)
    assert applications["yolov3"].limits.local_max == 8


def test_step_times_are_interpolated_between_recorded_points(
    applications: dict[str, Application],
) -> None:
    cifar = applications["cifar10"]
    low, high = cifar.step((1,), 32), cifar.step((1,), 45)

    assert low == pytest.approx((0.0427886962890625, 0.0004995360016822816))
    assert cifar.step((1,), 40)[0] == pytest.approx(low[0] + (high[0] - low[0]) * 8 / 13)


def test_the_order_of_nodes_does_not_change_step_times(
    applications: dict[str, Application],
) -> None:
    cifar = applications["cifar10"]

    assert cifar.step((4, 2, 3), 64) == cifar.step((2, 3, 4), 64) == cifar.step((3, 4, 2), 64)


def test_large_placements_are_interpolated_between_scales(
    applications: dict[str, Application],
) -> None:
    imagenet = applications["imagenet"]
    step, sync = imagenet.step((4,) * 10, 100)

    assert 0 < sync < step
    assert imagenet.step((4,) * 8, 100)[0] < step * 1.2


def test_an_unrecorded_configuration_is_an_error(applications: dict[str, Application]) -> None:
    with pytest.raises(ValueError, match="cifar10: nothing recorded"):
        applications["cifar10"].step((1,), 5000)
    with pytest.raises(ValueError, match="cifar10: nothing recorded near"):
        applications["cifar10"].step((4,) * 16, 700)


def test_gradients_and_progress_are_interpolated_by_batch_size(
    applications: dict[str, Application],
) -> None:
    cifar = applications["cifar10"]
    low, mid, high = (cifar.gradient(batch, 5)[1] for batch in (128, 192, 256))

    assert mid == pytest.approx((low + high) / 2)
    assert cifar.progress_after(0) == 0
    assert 0 < cifar.progress_after(1) < cifar.progress_after(100)
    assert cifar.iterations_after(256, 3) < cifar.iterations_after(128, 3)
