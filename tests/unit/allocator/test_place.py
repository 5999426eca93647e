"""Where replicas go: who stays, who moves, and who never shares a node."""

from __future__ import annotations

from dataclasses import replace

import pytest

from di_operator.allocator.model.free_capacity import FreeCapacity
from di_operator.allocator.placement.place_jobs import PlacementRequest, Placer
from tests.unit.allocator.worlds import nodes, task

GPU_TASK = task(1, maximum=64, gpu=1)


def capacity_of(count: int, gpus: int = 4) -> FreeCapacity:
    return FreeCapacity(nodes(count, gpu=gpus))


def request(key: str, count: int, *current: str, movable: bool = True) -> PlacementRequest:
    return PlacementRequest(key=key, task=GPU_TASK, count=count, current=current, movable=movable)


def packed(capacity: FreeCapacity, *requests: PlacementRequest) -> dict[str, tuple[str, ...]]:
    placer = Placer(capacity)
    placer.place(requests)
    return {each.key: placer.nodes(each.key) for each in requests}


def test_a_job_of_the_same_size_keeps_its_nodes() -> None:
    held = ("n001", "n002", "n002")

    assert packed(capacity_of(4), request("a", 3, *held), request("b", 4))["a"] == held


def test_the_largest_jobs_are_placed_first() -> None:
    found = packed(
        capacity_of(2), request("a", 1), request("b", 2), request("c", 4), request("d", 1)
    )

    assert found["c"] == ("n000",) * 4
    assert {*found["a"], *found["b"], *found["d"]} == {"n001"}


def test_an_elastic_group_grows_and_shrinks_where_its_members_are() -> None:
    def resized(elastic: bool, count: int, *current: str) -> tuple[str, ...]:
        group = replace(GPU_TASK, elastic=elastic)
        asked = PlacementRequest(key="a", task=group, count=count, current=current)
        fullest = request("b", 2, "n001", "n001")
        return packed(capacity_of(3), fullest, asked)["a"]

    assert resized(True, 2, "n002") == ("n002",) * 2
    assert resized(False, 2, "n002") == ("n001",) * 2
    assert resized(True, 1, "n002", "n000") == ("n002",)
    assert resized(True, 6, *["n002"] * 4) == ("n001",) * 2 + ("n002",) * 4
    assert resized(False, 6, *["n002"] * 4) == ("n000",) * 4 + ("n001",) * 2


def test_a_job_larger_than_a_node_has_its_nodes_to_itself() -> None:
    found = packed(capacity_of(4), request("a", 6), request("b", 6))

    assert len(found["a"]) == len(found["b"]) == 6
    assert not {*found["a"]} & {*found["b"]}


def test_a_job_that_would_fit_on_one_node_is_not_spread_over_two() -> None:
    found = packed(capacity_of(2), request("a", 2, "n000", "n000"), request("b", 2, "n001", "n001"))
    more = packed(
        capacity_of(2),
        request("a", 2, "n000", "n000", movable=False),
        request("b", 2, "n001", "n001", movable=False),
        request("c", 4),
    )

    assert all(found.values())
    assert more["c"] == ()


def test_smaller_jobs_move_if_free_capacity_is_fragmented() -> None:
    found = packed(
        capacity_of(2),
        request("a", 1, "n000"),
        request("b", 2, "n001", "n001"),
        request("c", 4),
    )

    # The one job of one replica is cheaper to move than the one of two.
    assert found["b"] == ("n001", "n001")
    assert found["c"] == ("n000",) * 4
    assert found["a"] == ("n001",)


def test_jobs_of_equal_size_do_not_displace_each_other() -> None:
    held = [request("a", 2, "n000", "n000"), request("b", 2, "n001", "n001")]

    found = packed(capacity_of(2, gpus=3), *held, request("c", 2))

    assert found["a"] == ("n000", "n000")
    assert found["b"] == ("n001", "n001")
    assert found["c"] == ()


def test_a_job_moved_in_vain_is_put_back() -> None:
    found = packed(
        capacity_of(2),
        request("a", 1, "n000"),
        request("b", 3, "n001", "n001", "n001", movable=False),
        request("c", 1, "n001"),
        request("d", 8),
    )

    assert found["d"] == ()
    assert found["a"] == ("n000",)


def test_jobs_moved_in_vain_return_to_their_own_nodes() -> None:
    # Both nodes are cleared before it shows that the third cannot be.
    found = packed(
        capacity_of(3),
        request("a", 1, "n000"),
        request("b", 2, "n001", "n001"),
        request("c", 3, "n002", "n002", "n002", movable=False),
        request("d", 12),
    )

    assert found["d"] == ()
    assert found["a"] == ("n000",)
    assert found["b"] == ("n001", "n001")


def test_a_removed_node_is_replaced() -> None:
    assert packed(capacity_of(1), request("a", 2, "gone", "gone"))["a"] == ("n000", "n000")


@pytest.mark.parametrize("count", [0, 9])
def test_zero_replicas_and_too_many_are_not_placed(count: int) -> None:
    capacity = capacity_of(2)

    assert packed(capacity, request("a", count))["a"] == ()
    assert all(free == each.free for free, each in zip(capacity.free, capacity.nodes, strict=True))


def test_two_large_jobs_that_share_a_node_are_separated() -> None:
    found = packed(
        capacity_of(4),
        request("a", 6, *["n000"] * 4, "n001", "n001"),
        request("b", 6, *["n002"] * 4, "n001", "n001"),
    )

    assert len(found["a"]) == len(found["b"]) == 6
    assert not {*found["a"]} & {*found["b"]}


def test_two_large_jobs_that_cannot_be_separated_stay() -> None:
    held = {"a": [*["n000"] * 4, "n001", "n001"], "b": ["n001", "n001", *["n002"] * 4]}

    found = packed(capacity_of(3), *(request(key, 6, *nodes) for key, nodes in held.items()))

    assert {key: list(nodes) for key, nodes in found.items()} == held


def test_a_large_job_shares_a_node_rather_than_wait() -> None:
    found = packed(capacity_of(3), request("a", 6), request("b", 6))

    assert len(found["a"]) == len(found["b"]) == 6
    assert len({*found["a"]} & {*found["b"]}) == 1


def test_a_job_whose_node_has_filled_up_is_moved() -> None:
    found = packed(capacity_of(2), request("a", 3, *["n000"] * 3), request("b", 2, "n000", "n000"))
    assert found == {"a": ("n000",) * 3, "b": ("n001",) * 2}
