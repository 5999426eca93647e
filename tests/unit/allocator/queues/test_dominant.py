"""Dominant resource fairness: what the paper proves of it, on small models."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from di_operator.allocator.sharing.dominant_shares import fill_dominant
from tests.unit.allocator.worlds import GPU

ALMOST = 1e-6
RESOURCES = ("cpu", "memory", GPU)
rooms = st.fixed_dictionaries({name: st.integers(1, 64) for name in RESOURCES})
# What a job of the tenant takes; there are more of them than could ever run.
needs = st.fixed_dictionaries({name: st.integers(0, 8) for name in RESOURCES}).filter(
    lambda need: any(need.values())
)
tenants = st.dictionaries(st.sampled_from("abcd"), needs, min_size=2)
MANY = 1000


def many(need: dict[str, int]) -> dict[str, float]:
    return {name: float(MANY * amount) for name, amount in need.items()}


def runs(has: dict[str, float], need: dict[str, int]) -> float:
    """How many of its jobs run with that much."""
    return min(has[name] / amount for name, amount in need.items() if amount)


def divided(
    found: dict[str, dict[str, int]], room: dict[str, int], weights: dict[str, int] | None = None
) -> dict[str, dict[str, float]]:
    wanted = {tenant: many(need) for tenant, need in found.items()}
    given_weights = {tenant: float((weights or {}).get(tenant, 1)) for tenant in found}
    return fill_dominant(wanted, given_weights, {n: float(a) for n, a in room.items()}, {})


@pytest.mark.proves("teams.md#feature-by-feature/drf")
def test_the_division_of_the_papers_example_is_reproduced() -> None:
    found = divided(
        {"a": {"cpu": 1, "memory": 4}, "b": {"cpu": 3, "memory": 1}}, {"cpu": 9, "memory": 18}
    )
    assert found["a"] == pytest.approx({"cpu": 3, "memory": 12})
    assert found["b"] == pytest.approx({"cpu": 6, "memory": 2})


@pytest.mark.parametrize(
    ("wanted", "room", "expected"),
    [
        pytest.param(
            {"a": {"cpu": 4.0, GPU: 1.0}, "b": {"cpu": 4.0}, "c": {"cpu": 8.0, GPU: 0.0}},
            {"cpu": 8.0, GPU: 0.0},
            {"a": {"cpu": 0, GPU: 0}, "b": {"cpu": 4, GPU: 0}, "c": {"cpu": 4, GPU: 0}},
            id="a resource there is none of",
        ),
        pytest.param(
            {"a": {"cpu": 1.0, GPU: 1.0}, "b": {"cpu": 4.0}, "c": {GPU: 1.0}},
            {"cpu": 4.0, GPU: 1.0},
            {"a": {"cpu": 0.5, GPU: 0.5}, "b": {"cpu": 3.5, GPU: 0}, "c": {"cpu": 0, GPU: 0.5}},
            id="growth goes on in what is not used up",
        ),
        pytest.param({"a": {"cpu": 1.0}}, {}, {"a": {}}, id="no resources"),
        pytest.param(
            {"a": {}, "b": {"cpu": 0.0}},
            {"cpu": 4.0},
            {"a": {"cpu": 0}, "b": {"cpu": 0}},
            id="nothing wanted",
        ),
    ],
)
def test_the_edges_of_a_division(
    wanted: dict[str, dict[str, float]],
    room: dict[str, float],
    expected: dict[str, dict[str, float]],
) -> None:
    found = fill_dominant(wanted, dict.fromkeys(wanted, 1.0), room, {})
    assert {tenant: pytest.approx(has) for tenant, has in found.items()} == expected


@given(tenants, rooms)
def test_no_tenant_would_run_more_with_the_part_of_another(
    found: dict[str, dict[str, int]], room: dict[str, int]
) -> None:
    has = divided(found, room)
    for tenant, need in found.items():
        for other in found:
            assert runs(has[other], need) <= runs(has[tenant], need) + ALMOST


@given(tenants, rooms)
def test_no_tenant_would_run_more_with_an_equal_part(
    found: dict[str, dict[str, int]], room: dict[str, int]
) -> None:
    has = divided(found, room)
    for tenant, need in found.items():
        part = {name: amount / len(found) for name, amount in room.items()}
        assert runs(has[tenant], need) >= runs(part, need) - ALMOST


@given(tenants, rooms, needs)
def test_a_tenant_gains_nothing_by_a_false_request(
    found: dict[str, dict[str, int]], room: dict[str, int], lie: dict[str, int]
) -> None:
    liar = min(found)
    assume(lie != found[liar])
    truly, lying = divided(found, room), divided(found | {liar: lie}, room)

    assert runs(lying[liar], found[liar]) <= runs(truly[liar], found[liar]) + ALMOST


@given(tenants, rooms, st.dictionaries(st.sampled_from("abcd"), st.integers(1, 9)))
def test_nothing_usable_is_left_and_weights_count(
    found: dict[str, dict[str, int]], room: dict[str, int], weights: dict[str, int]
) -> None:
    has = divided(found, room, weights)
    left = {name: room[name] - sum(part[name] for part in has.values()) for name in room}
    assert all(amount > -ALMOST for amount in left.values())
    levels = {}
    for tenant, need in found.items():
        used_up = [name for name, amount in need.items() if amount and left[name] < ALMOST * 64]
        assert used_up
        share = max(has[tenant][name] / room[name] for name in room)
        levels[tenant] = share / weights.get(tenant, 1)
        # A tenant with less by weight is limited by a resource that those with more do not use.
        for other, level in levels.items():
            if level > levels[tenant] + ALMOST:
                assert any(not found[other][name] for name in used_up)


@given(
    st.dictionaries(st.sampled_from("abc"), st.floats(0, 100), min_size=1),
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 20)),
)
def test_guarantees_come_first_and_unused_parts_go_to_others(
    wanted: dict[str, float], guaranteed: dict[str, int]
) -> None:
    floors = {t: {GPU: min(float(g), wanted[t])} for t, g in guaranteed.items() if t in wanted}
    has = fill_dominant(
        {tenant: {GPU: want} for tenant, want in wanted.items()},
        dict.fromkeys(wanted, 1.0),
        {GPU: 64.0},
        floors,
    )
    assert sum(part[GPU] for part in has.values()) == pytest.approx(min(64, sum(wanted.values())))
    for tenant, want in wanted.items():
        assert floors.get(tenant, {}).get(GPU, 0.0) <= has[tenant][GPU] <= want + ALMOST
