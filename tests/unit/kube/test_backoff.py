"""Waits before another attempt."""

from __future__ import annotations

from random import Random

from di_kube.backoff import Backoff


def make(seed: int = 1) -> Backoff:
    return Backoff(minimum=0.1, maximum=30, rng=Random(seed))


def test_delays_double_with_jitter_up_to_the_maximum() -> None:
    backoff = make()
    whole = 0.1
    for _ in range(20):
        assert whole / 2 <= backoff.delay() <= whole
        whole = min(30, whole * 2)


def test_the_server_may_lengthen_a_delay_but_not_shorten_it() -> None:
    backoff = make()
    assert backoff.delay(at_least=7) == 7
    assert backoff.delay(at_least=0.001) >= 0.1


def test_after_a_reset_delays_begin_at_the_minimum() -> None:
    backoff = make()
    for _ in range(10):
        backoff.delay()
    backoff.reset()
    assert backoff.delay() <= 0.1


def test_two_clients_wait_for_different_delays() -> None:
    assert make(1).delay() != make(2).delay()
