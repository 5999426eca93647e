"""When the history is swept."""

from __future__ import annotations

from di_history.keeping import SWEEP_SECONDS, sweep_is_due

GIB = 1 << 30


def test_a_sweep_comes_with_time() -> None:
    assert not sweep_is_due(waited=SWEEP_SECONDS - 1, unswept=0, size=GIB)
    assert sweep_is_due(waited=SWEEP_SECONDS, unswept=0, size=GIB)


def test_a_sweep_comes_earlier_when_much_was_written() -> None:
    """A tenant that fills the volume is bounded before it is full."""
    assert not sweep_is_due(waited=1, unswept=GIB // 64 - 1, size=GIB)
    assert sweep_is_due(waited=1, unswept=GIB // 64, size=GIB)
