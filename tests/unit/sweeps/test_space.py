"""The parameters of trials."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_api.sweeps import Space, SweepTooSmall
from di_api.sweeps.sampling import halton_point, random_point
from tests.unit.sweeps.sweeps import spec_of

Object = dict[str, Any]
_NAMES = [f"p{number}" for number in range(16)]
_RANGES: dict[str, Object] = {
    "uniform": {"uniform": {"min": -1.5, "max": 2.25}},
    "logUniform": {"logUniform": {"min": 1e-6, "max": 10.0}},
    "int": {"int": {"min": -3, "max": 9, "step": 4}},
    "quniform": {"quniform": {"min": 0.1, "max": 0.4, "step": 0.1}},
    "values": {"values": ["adam", 3, 0.5, True]},
}


def _parameter(kind: str, name: str = "p") -> Object:
    return {"name": name, "environment": name.upper(), **_RANGES[kind]}


@pytest.mark.proves("sweeps.md#parameters")
@pytest.mark.parametrize("sampler", ["Random", "QuasiRandom"])
@pytest.mark.parametrize("kind", _RANGES)
def test_drawn_values_are_of_their_set_and_reach_all_of_it(sampler: str, kind: str) -> None:
    spec = spec_of(parameters=[_parameter(kind)], sampler=sampler, maxTrials=400)
    drawn = [Space(spec).parameters(trial)["p"] for trial in range(400)]
    match kind:
        case "int":
            assert set(drawn) == {-3, 1, 5, 9}
        case "quniform":
            assert set(drawn) == {0.1, 0.2, 0.3, 0.4}
        case "values":
            assert {(type(each), each) for each in drawn} == {
                (str, "adam"),
                (int, 3),
                (float, 0.5),
                (bool, True),
            }
        case _:
            bounds = _RANGES[kind][kind]
            numbers = [each for each in drawn if isinstance(each, float)]
            places = [math.log(each) if kind == "logUniform" else each for each in numbers]
            low, high = (
                math.log(bounds[end]) if kind == "logUniform" else bounds[end]
                for end in ("min", "max")
            )
            tenths = {int(10 * (each - low) / (high - low)) for each in places}
            assert len(numbers) == 400
            assert bounds["min"] <= min(numbers)
            assert max(numbers) <= bounds["max"]
            assert tenths >= set(range(10))


@pytest.mark.proves("sweeps.md#samplers")
def test_a_grid_has_every_combination_once() -> None:
    spec = spec_of(
        parameters=[_parameter("values", "a"), _parameter("int", "b")],
        sampler="Grid",
        maxTrials=None,
    )
    space = Space(spec)
    found = [tuple(space.parameters(trial).values()) for trial in range(space.size)]
    assert found == list(itertools.product(["adam", 3, 0.5, True], [-3, 1, 5, 9]))


@pytest.mark.proves("sweeps.md#seeds")
def test_seeds_repeat_each_choice_of_parameters() -> None:
    spec = spec_of(seeds={"count": 3, "environment": "SEED"}, maxTrials=6)
    found = [Space(spec).parameters(trial) for trial in range(6)]
    assert [each.pop("seed") for each in found] == [0, 1, 2, 0, 1, 2]
    assert found[0] == found[1] == found[2] != found[3]


def test_seeds_alone_are_a_sweep_of_one_choice() -> None:
    spec = spec_of(parameters=None, seeds={"count": 4, "environment": "SEED"}, maxTrials=None)
    assert Space(spec).size == 4
    assert Space(spec).parameters(3) == {"seed": 3}


def test_there_is_no_trial_beyond_the_last() -> None:
    space = Space(spec_of(maxTrials=2))
    with pytest.raises(SweepTooSmall):
        space.parameters(2)


@given(seed=st.integers(0, 1 << 40), index=st.integers(0, 1 << 20))
def test_points_depend_on_nothing_but_seed_and_index(seed: int, index: int) -> None:
    for draw in (random_point, halton_point):
        point = draw(seed, index, _NAMES)
        assert point == draw(seed, index, _NAMES)
        assert all(0 <= each < 1 for each in point)
        assert point[:3] == draw(seed, index, _NAMES[:3])


@given(seed=st.integers(0, 1 << 40))
def test_halton_points_put_one_in_each_interval_of_a_dimension(seed: int) -> None:
    for dimension, base in enumerate((2, 3, 5, 7, 11)):
        points = [halton_point(seed, index, _NAMES)[dimension] for index in range(base**2)]
        assert sorted(int(each * base**2) for each in points) == list(range(base**2))


@pytest.mark.proves("sweeps.md#samplers")
def test_another_random_seed_gives_other_trials() -> None:
    first, second = (
        [Space(spec_of(randomSeed=seed)).parameters(trial) for trial in range(12)]
        for seed in (0, 1)
    )
    assert first != second
