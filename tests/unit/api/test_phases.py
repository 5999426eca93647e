"""The groups of phases: each phase is in one, so that none is forgotten."""

from __future__ import annotations

import pytest

from di_api.phase import Phase


@pytest.mark.parametrize("phase", Phase)
def test_each_phase_is_of_exactly_one_group(phase: Phase) -> None:
    said = (phase.is_waiting, phase.is_up, phase.is_replacing, phase.is_finished)
    assert sum(said) == 1
    assert phase.is_placed == (phase.is_up or phase.is_replacing)
