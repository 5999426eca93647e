"""Metrics are rendered once a second at most."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from di_service.exposition import Exposition


class Registry:
    """Counts how often it is rendered; the rendering waits until it may go on."""

    def __init__(self) -> None:
        self.now = 100.0
        self.renderings = 0
        self.takes = 0.0
        self.failure: Exception | None = None
        self.began, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()

    def render(self) -> bytes:
        self.renderings += 1
        self.began.set()
        assert self.go_on.wait(60)
        self.now += self.takes
        if self.failure is not None:
            raise self.failure
        return str(self.renderings).encode()


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.fixture
def exposition(registry: Registry) -> Exposition:
    return Exposition(registry.render, clock=lambda: registry.now)


def test_metrics_are_rendered_once_a_second(registry: Registry, exposition: Exposition) -> None:
    assert {exposition() for _ in range(100)} == {b"1"}
    registry.now += 0.9
    assert exposition() == b"1"
    registry.now += 0.1
    assert {exposition() for _ in range(100)} == {b"2"}
    assert registry.renderings == 2


def test_a_long_rendering_is_followed_by_a_pause(
    registry: Registry, exposition: Exposition
) -> None:
    registry.takes = 5
    assert exposition() == exposition() == b"1"


def test_a_request_during_a_rendering_gets_the_last_one(
    registry: Registry, exposition: Exposition
) -> None:
    exposition()
    registry.now += 1
    registry.began.clear()
    registry.go_on.clear()
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(exposition)
        assert registry.began.wait(60)
        assert exposition() == b"1"
        registry.go_on.set()
        assert slow.result(60) == b"2"


def test_concurrent_first_requests_share_one_rendering(
    registry: Registry, exposition: Exposition
) -> None:
    registry.go_on.clear()
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(exposition) for _ in range(4)]
        assert registry.began.wait(60)
        registry.go_on.set()
        assert {future.result(60) for future in asked} == {b"1"}


def test_a_failed_rendering_is_not_cached(registry: Registry, exposition: Exposition) -> None:
    registry.failure = ValueError("no")
    with pytest.raises(ValueError, match="no"):
        exposition()
    registry.failure = None
    assert exposition() == b"2"
