"""What a phase is said to be: every phase one thing, so that none is forgotten."""

from __future__ import annotations

import pytest

from di_api.phase import Phase


@pytest.mark.parametrize("phase", Phase)
def test_a_phase_waits_or_is_up_or_replaces_pods_or_is_the_end(phase: Phase) -> None:
    said = (phase.is_waiting, phase.is_up, phase.is_replacing, phase.is_finished)
    assert sum(said) == 1
    assert phase.is_placed == (phase.is_up or phase.is_replacing)
