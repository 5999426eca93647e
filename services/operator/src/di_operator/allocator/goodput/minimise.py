"""A bounded quasi-Newton search for a handful of variables.

Dense BFGS on the variables that are not held by a bound, with a projected line search. It exists
because the operator's image should not grow by a scientific library for seven variables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import hypot, isfinite

Vector = list[float]
Objective = Callable[[Sequence[float]], tuple[float, Vector]]
"""From a point to the value there and its gradient."""

_SUFFICIENT = 1e-4
_SMALLEST_STEP = 1e-10
_SMALLEST_CURVATURE = 1e-12


def minimise(
    objective: Objective,
    start: Sequence[float],
    *,
    lower: Sequence[float],
    upper: Sequence[float],
    evaluations: int,
    tolerance: float = 1e-7,
) -> Vector:
    """Return the best point found within the bounds after at most so many evaluations.

    Ends earlier when a step gains less than `tolerance` or the gradient vanishes. Never raises
    for a finite objective; the point returned is never worse than the start.
    """

    def clipped(point: Sequence[float]) -> Vector:
        return [min(max(x, lo), hi) for x, lo, hi in zip(point, lower, upper, strict=True)]

    point = clipped(start)
    value, gradient = objective(point)
    inverse, fresh = _identity(len(point)), True
    spent = 1
    while spent < evaluations:
        free = [
            not ((x <= lo and g > 0) or (x >= hi and g < 0))
            for x, g, lo, hi in zip(point, gradient, lower, upper, strict=True)
        ]
        slope = [g if kept else 0.0 for g, kept in zip(gradient, free, strict=True)]
        if not max(map(abs, slope)) > tolerance:
            break
        direction = [
            -_dot(row, slope) if kept else 0.0 for row, kept in zip(inverse, free, strict=True)
        ]
        if not _dot(direction, slope) < 0:
            inverse, fresh = _identity(len(point)), True
            direction = [-s for s in slope]
        step = min(1.0, 1.0 / hypot(*slope)) if fresh else 1.0
        while True:
            trial = clipped([x + step * d for x, d in zip(point, direction, strict=True)])
            reached, next_gradient = objective(trial)
            spent += 1
            moved = [after - before for after, before in zip(trial, point, strict=True)]
            enough = reached <= value + _SUFFICIENT * _dot(slope, moved)
            if enough or spent >= evaluations or step < _SMALLEST_STEP:
                break
            step *= 0.5 if isfinite(reached) else 0.1
        gained = value - reached
        if not gained > 0:
            if fresh:
                break
            inverse, fresh = _identity(len(point)), True
            continue
        bent = [after - before for after, before in zip(next_gradient, gradient, strict=True)]
        point, value, gradient = trial, reached, next_gradient
        if gained < tolerance:
            break
        inverse, fresh = _updated(inverse, moved, bent, fresh=fresh), False
    return point


def _updated(inverse: list[Vector], moved: Vector, bent: Vector, *, fresh: bool) -> list[Vector]:
    """The inverse Hessian after one step (Broyden, Fletcher, Goldfarb, Shanno)."""
    curvature = _dot(moved, bent)
    if not curvature > _SMALLEST_CURVATURE:
        return inverse
    if fresh:
        scale = curvature / _dot(bent, bent)
        inverse = [[scale * x for x in row] for row in inverse]
    # (I - s y'/c) H (I - y s'/c) + s s'/c, multiplied out.
    towards = [_dot(row, bent) for row in inverse]
    factor = (1 + _dot(bent, towards) / curvature) / curvature
    return [
        [
            h
            + factor * moved[i] * moved[j]
            - (towards[i] * moved[j] + moved[i] * towards[j]) / curvature
            for j, h in enumerate(row)
        ]
        for i, row in enumerate(inverse)
    ]


def _identity(size: int) -> list[Vector]:
    return [[float(i == j) for j in range(size)] for i in range(size)]


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))
