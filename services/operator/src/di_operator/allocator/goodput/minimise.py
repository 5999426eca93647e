"""A bounded minimisation over a handful of variables, by Levenberg and Marquardt.

Each step goes to the minimum of a quadratic model, on the variables that are not held by a bound.
Where that gains nothing the step is damped. A scientific library would do the same, but enlarge
the operator's image for seven variables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from operator import mul

Vector = list[float]
Matrix = list[list[float]]


@dataclass(frozen=True, slots=True)
class Quadratic:
    """The quadratic model of a function near a point: value, gradient and curvature.

    The curvature is not negative in any direction. Only the lower triangle of `bend` is used.
    """

    value: float
    slope: Vector
    bend: Matrix


Objective = Callable[[Sequence[float]], Quadratic]

_FIRST_DAMPING = 1e-3
_SMALLEST_DAMPING, _LARGEST_DAMPING = 1e-9, 1e8
_DAMPING = 8.0
# A step of a logarithm further than that is out of reach of the quadratic model.
_LONGEST_STEP = 8.0
# Keeps the model bent where the objective is flat.
_FLAT = 1e-12


def minimise(
    objective: Objective,
    start: Sequence[float],
    *,
    lower: Sequence[float],
    upper: Sequence[float],
    evaluations: int,
    tolerance: float = 3e-6,
) -> Vector:
    """Return the best point found within the bounds after at most so many evaluations.

    Ends earlier when a step gains less than `tolerance` or the gradient vanishes. Never raises
    for a finite objective; the point returned is never worse than the start.
    """
    point = [min(max(x, lo), hi) for x, lo, hi in zip(start, lower, upper, strict=True)]
    # The variables with their bounds; those with a single allowed value are left out.
    variable = [
        (row, lo, hi) for row, (lo, hi) in enumerate(zip(lower, upper, strict=True)) if lo < hi
    ]
    here, damping = objective(point), _FIRST_DAMPING
    spent = 1
    while spent < evaluations and damping <= _LARGEST_DAMPING:
        slope = here.slope
        free = [
            row
            for row, lo, hi in variable
            if not ((slope[row] > 0 and point[row] <= lo) or (slope[row] < 0 and point[row] >= hi))
        ]
        if all(-tolerance <= slope[row] <= tolerance for row in free):
            break
        trial = list(point)
        for row, step in zip(free, _step(here, free, damping), strict=True):
            bounded = max(-_LONGEST_STEP, min(step, _LONGEST_STEP))
            trial[row] = min(max(point[row] + bounded, lower[row]), upper[row])
        there = objective(trial)
        spent += 1
        gained = here.value - there.value
        if not gained > 0:
            damping *= _DAMPING
            continue
        point, here = trial, there
        damping = max(damping / _DAMPING, _SMALLEST_DAMPING)
        if gained < tolerance:
            break
    return point


def _step(here: Quadratic, free: Sequence[int], damping: float) -> Vector:
    """Return the minimum of the damped model, by Cholesky's factors: L L' x = -slope."""
    factor: Matrix = []
    found: Vector = []
    for row in free:
        bend_row = here.bend[row]
        # Products with a row that is being made end where it does.
        made: Vector = []
        for column, (other, done) in enumerate(zip(free, factor, strict=False)):
            made.append((bend_row[other] - sum(map(mul, made, done))) / done[column])
        damped = bend_row[row] + damping * (bend_row[row] + _SMALLEST_DAMPING) + _FLAT
        # Rounding can leave nothing, or a negative amount, of a tiny value.
        pivot = sqrt(max(damped - sum(map(mul, made, made)), _FLAT))
        found.append(-(here.slope[row] + sum(map(mul, made, found))) / pivot)
        made.append(pivot)
        factor.append(made)
    for at in range(len(free) - 1, -1, -1):
        row_at = factor[at]
        step = found[at] = found[at] / row_at[at]
        for column in range(at):
            found[column] -= row_at[column] * step
    return found
