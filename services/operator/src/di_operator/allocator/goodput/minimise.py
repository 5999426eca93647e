"""A bounded quasi-Newton search for a handful of variables.

Dense BFGS on the variables that are not held by a bound, with a projected line search. It exists
because the operator's image should not grow by a scientific library for seven variables.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from di_operator.allocator.goodput.model import Array

Objective = Callable[[Array], tuple[float, Array]]
"""From a point to the value there and its gradient."""

_SUFFICIENT = 1e-4
_SMALLEST_STEP = 1e-10


def minimise(
    objective: Objective,
    start: Array,
    *,
    lower: Array,
    upper: Array,
    evaluations: int,
    tolerance: float = 1e-7,
) -> Array:
    """Return the best point found within the bounds after at most so many evaluations.

    Ends earlier when a step gains less than `tolerance` or the gradient vanishes. Never raises
    for a finite objective; the point returned is never worse than the start.
    """
    point = np.clip(start, lower, upper)
    value, gradient = objective(point)
    inverse = np.eye(len(point))
    fresh = True
    spent = 1
    while spent < evaluations:
        held = ((point <= lower) & (gradient > 0)) | ((point >= upper) & (gradient < 0))
        slope = np.where(held, 0.0, gradient)
        if not np.abs(slope).max() > tolerance:
            break
        direction = np.where(held, 0.0, -inverse @ slope)
        if not direction @ slope < 0:
            inverse, fresh = np.eye(len(point)), True
            direction = -slope
        step = min(1.0, 1.0 / float(np.linalg.norm(slope))) if fresh else 1.0
        while True:
            trial = np.clip(point + step * direction, lower, upper)
            reached, next_gradient = objective(trial)
            spent += 1
            enough = value + _SUFFICIENT * float(slope @ (trial - point))
            if reached <= enough or spent >= evaluations or step < _SMALLEST_STEP:
                break
            step *= 0.5 if np.isfinite(reached) else 0.1
        gained = value - reached
        if not gained > 0:
            if fresh:
                break
            inverse, fresh = np.eye(len(point)), True
            continue
        moved, bent = trial - point, next_gradient - gradient
        point, value, gradient = trial, reached, next_gradient
        if gained < tolerance:
            break
        inverse, fresh = _updated(inverse, moved, bent, fresh=fresh), False
    return point


def _updated(inverse: Array, moved: Array, bent: Array, *, fresh: bool) -> Array:
    """The inverse Hessian after one step (Broyden, Fletcher, Goldfarb, Shanno)."""
    curvature = float(moved @ bent)
    if not curvature > 1e-12:
        return inverse
    if fresh:
        inverse = inverse * (curvature / float(bent @ bent))
    rho = 1.0 / curvature
    left = np.eye(len(moved)) - rho * np.outer(moved, bent)
    result: Array = left @ inverse @ left.T + rho * np.outer(moved, moved)
    return result
