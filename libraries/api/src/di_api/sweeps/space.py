"""The space of a sweep: the parameters of each trial by its index."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from di_api.sweeps.sampling import halton_point, random_point
from di_api.sweeps.spec import MAX_TRIALS, Parameter, Sampler, SweepSpec

Value = str | float | bool
SEED: Final = "seed"
"""Name of the seed among the parameters of a trial."""
_DIGITS: Final = 6
"""Significant digits of a drawn number: more are never of use, and hard to read."""


class SweepTooSmall(ValueError):
    """A trial beyond the last one was asked for."""


@dataclass(frozen=True, slots=True)
class Space:
    """The trials that a sweep can have."""

    spec: SweepSpec

    @property
    def seeds(self) -> int:
        """Return the number of trials of each choice of parameters."""
        return 1 if self.spec.seeds is None else self.spec.seeds.count

    @property
    def size(self) -> int:
        """Return the number of trials of the sweep; of a population without their copies."""
        if self.spec.population is not None:
            return self.spec.population.size
        whole = self.choices * self.seeds if self.is_finite else None
        limit = self.spec.max_trials
        if whole is None:
            return limit or 0
        return whole if limit is None else min(limit, whole)

    @property
    def last_index(self) -> int:
        """Return the largest index that a trial of the sweep can have."""
        return MAX_TRIALS - 1 if self.spec.population is not None else max(self.size - 1, 0)

    @property
    def is_finite(self) -> bool:
        """Return whether all choices are tried: those of a grid, or the only one."""
        return self.spec.sampler is Sampler.GRID or not self.spec.parameters

    @property
    def choices(self) -> int:
        """Return the number of choices of a grid."""
        return math.prod(count_of(each) or 1 for each in self.spec.parameters)

    def choice(self, trial: int) -> int:
        """Return the index of a trial's choice of parameters; its other trials have other seeds."""
        return trial // self.seeds

    def parameters(self, trial: int) -> dict[str, Value]:
        """Return the parameters of a trial by name, with its seed.

        Raises:
            SweepTooSmall: the sweep has no such trial.
        """
        if not 0 <= trial < self.size:
            raise SweepTooSmall(f"trial {trial} of {self.size}")
        found = self._choice(self.choice(trial))
        return found if self.spec.seeds is None else {**found, SEED: trial % self.seeds}

    def _choice(self, index: int) -> dict[str, Value]:
        spec = self.spec
        if spec.sampler is Sampler.GRID:
            return dict(self._of_grid(index))
        names = [each.name for each in spec.parameters]
        draw = halton_point if spec.sampler is Sampler.QUASI_RANDOM else random_point
        point = draw(spec.random_seed, index, names)
        return {
            each.name: value_at(each, place)
            for each, place in zip(spec.parameters, point, strict=True)
        }

    def _of_grid(self, index: int) -> Mapping[str, Value]:
        """Return a choice of the grid; the last parameter varies first."""
        found: dict[str, Value] = {}
        for each in reversed(self.spec.parameters):
            count = count_of(each) or 1
            index, place = divmod(index, count)
            found[each.name] = value_at(each, (place + 0.5) / count)
        return {each.name: found[each.name] for each in self.spec.parameters}


def count_of(parameter: Parameter) -> int | None:
    """Return the number of values of a parameter; None for infinitely many."""
    if parameter.values:
        return len(parameter.values)
    stepped = parameter.int_ or parameter.quniform
    if stepped is None:
        return None
    # Otherwise 0.3 / 0.1 would be 2.
    return math.floor((stepped.max - stepped.min) / stepped.step + 1e-9) + 1


def value_at(parameter: Parameter, place: float) -> Value:
    """Return the value at a place from 0 to below 1 of a parameter's values, in their order."""
    count = count_of(parameter)
    if count is not None:
        index = min(int(place * count), count - 1)
        if parameter.values:
            return parameter.values[index]
        return _stepped(parameter, index)
    if (between := parameter.log_uniform) is not None:
        low, high = math.log(between.min), math.log(between.max)
        return _readable(math.exp(low + place * (high - low)), between.min, between.max)
    assert parameter.uniform is not None, "every parameter has one set of values"
    between = parameter.uniform
    # Not `max - min`, which can exceed the largest float.
    return _readable(between.min * (1 - place) + between.max * place, between.min, between.max)


def moved(parameter: Parameter, before: float, target: float, *, grows: bool) -> Value:
    """Return the value of a range that is nearest to a target, and not the present one if there
    is another in that direction.
    """
    stepped = parameter.int_ or parameter.quniform
    if stepped is not None:
        old, new = (round((each - stepped.min) / stepped.step) for each in (before, target))
        if new == old:
            new += 1 if grows else -1
        index = min(max(new, 0), (count_of(parameter) or 1) - 1)
        return _stepped(parameter, index)
    between = parameter.log_uniform or parameter.uniform
    assert between is not None, "every parameter has one set of values"
    return _readable(target, between.min, between.max)


def _stepped(parameter: Parameter, index: int) -> Value:
    """Return a value of a range with steps."""
    if parameter.int_ is not None:
        return parameter.int_.min + index * parameter.int_.step
    stepped = parameter.quniform
    assert stepped is not None, "no other parameter has a count"
    return _readable(stepped.min + index * stepped.step, stepped.min, stepped.max)


def _readable(value: float, low: float, high: float) -> float:
    return min(max(float(f"{value:.{_DIGITS}g}"), low), high)
