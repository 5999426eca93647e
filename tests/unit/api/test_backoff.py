"""Waits before another attempt."""

from __future__ import annotations

from random import Random

from di_api.service.backoff import Backoff


def make(seed: int = 1) -> Backoff:
    return Backoff(minimum=0.1, maximum=30, rng=Random(seed))


def test_delays_double_with_jitter_up_to_the_maximum() -> None:
    backoff = make()
    whole = 0.1
    for _ in range(20):
        assert whole / 2 <= backoff.delay() <= whole
        whole = min(30, whole * 2)


def test_the_server_may_ask_for_more_but_not_for_less() -> None:
    backoff = make()
    assert backoff.delay(at_least=7) == 7
    assert backoff.delay(at_least=0.001) >= 0.1


def test_reset_begins_anew() -> None:
    backoff = make()
    for _ in range(10):
        backoff.delay()
    backoff.reset()
    assert backoff.delay() <= 0.1


def test_two_clients_do_not_wait_alike() -> None:
    assert make(1).delay() != make(2).delay()
