"""How many pods a learner on several GPUs is spread over."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_server.coordination.gpus import split, usual


@pytest.mark.parametrize(
    ("nodes", "gpus", "parts"),
    [
        ({8: 1}, 10, (8, 2)),
        ({8: 4, 10: 3, 6: 3}, 12, (8, 4)),
        ({8: 4, 10: 3, 6: 3}, 16, (8, 8)),
        ({8: 4, 10: 4, 6: 3}, 16, (10, 6)),
        ({8: 4, 10: 4, 6: 3}, 8, (8,)),
        ({8: 2, 0: 1, 4: 1}, 2, (2,)),
        ({8: 2, 0: 5, 4: 1}, 10, (8, 2)),
        ({0: 5}, 10, (10,)),
        ({}, 10, (10,)),
    ],
)
def test_a_learner_is_spread_over_nodes_of_the_usual_kind(
    nodes: dict[int, int], gpus: int, parts: tuple[int, ...]
) -> None:
    each = [count for count, number in nodes.items() for _ in range(number)]
    assert split(gpus, usual(each)) == parts


@given(st.integers(1, 1024), st.integers(0, 64))
def test_the_parts_are_the_whole_in_as_few_pods_as_fit(gpus: int, node: int) -> None:
    parts = split(gpus, node)
    assert sum(parts) == gpus
    assert all(parts)
    assert list(parts) == sorted(parts, reverse=True)
    assert len(parts) == (-(-gpus // node) if node else 1)
