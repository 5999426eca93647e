"""Fixtures of the server's unit tests."""

from __future__ import annotations

import pytest

from tests.unit.server.fakes import Harness, job, make_harness


@pytest.fixture
def harness() -> Harness:
    """An open server with one running job `rl/cartpole`: one learner, two collectors."""
    harness = make_harness()
    harness.add(job())
    return harness
