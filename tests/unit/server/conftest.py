"""Fixtures of the server's unit tests."""

from __future__ import annotations

import pytest

from tests.unit.server.fakes import Stand, job, make_stand


@pytest.fixture
def stand() -> Stand:
    """An open server with one running job `rl/cartpole`: one learner, two collectors."""
    stand = make_stand()
    stand.add(job())
    return stand
