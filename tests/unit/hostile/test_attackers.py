"""What attackers are given."""

from __future__ import annotations

import pickle

from tools.hostile.attackers import Plan


def test_a_plan_can_be_given_to_a_process_of_its_own() -> None:
    plan = Plan(connections=3, seconds=1.0)
    given = pickle.loads(pickle.dumps(plan))
    assert given == plan
    given.on_open()
