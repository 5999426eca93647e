"""The goodput model against its formulas, and its fit against what it was made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, replace
from itertools import product
from math import isfinite, log
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from di_operator.allocator.goodput import fit as fitting
from di_operator.allocator.goodput.curves import Curves, Question
from di_operator.allocator.goodput.fit import Observation, fit
from di_operator.allocator.goodput.minimise import Objective, Quadratic, minimise
from di_operator.allocator.goodput.model import UNEXPLORED, best_batch, goodput
from di_operator.allocator.goodput.params import BatchLimits, GoodputModel, GradParams, PerfParams
from di_operator.allocator.goodput.sizes import Bounds, sizes
from tests.unit.allocator.worlds import model

PERF = PerfParams(
    alpha_c=0.05, beta_c=0.002, alpha_n=0.2, beta_n=0.01, alpha_r=0.02, beta_r=0.004, gamma=2.0
)
LIMITS = BatchLimits(initial=128, maximum=4096, local_min=16, local_max=256)
KNOWN = GoodputModel(perf=PERF, grad=GradParams(sqr=1.0, var=8.0), limits=LIMITS)


def seconds(perf: PerfParams, nodes: int, replicas: int, samples: int) -> tuple[float, float]:
    """Computing and whole iteration, by equations 8 to 11 of the paper."""
    computing = perf.alpha_c + perf.beta_c * samples
    if nodes > 1:
        network = perf.alpha_n + perf.beta_n * max(replicas - 2, 1e-8)
    elif replicas > 1:
        network = perf.alpha_r + perf.beta_r * max(replicas - 2, 1e-8)
    else:
        network = 1e-8
    whole = (computing**perf.gamma + network**perf.gamma) ** (1 / perf.gamma)
    return computing, whole


def observe(perf: PerfParams, *configurations: tuple[int, int, int]) -> list[Observation]:
    return [
        Observation(
            nodes=n,
            replicas=k,
            samples=m,
            computing=seconds(perf, n, k, m)[0],
            iteration=seconds(perf, n, k, m)[1],
        )
        for n, k, m in configurations
    ]


@pytest.mark.parametrize(("nodes", "replicas"), [(1, 1), (1, 2), (1, 4), (2, 8), (8, 32)])
def test_the_best_batch_has_the_goodput_of_the_formulas(nodes: int, replicas: int) -> None:
    best = best_batch(KNOWN, nodes, replicas)
    computing, whole = seconds(PERF, nodes, replicas, best.atomic)
    batch = replicas * best.atomic * (best.accumulation + 1)
    phi = 8.0 / 1.0 * LIMITS.initial
    efficiency = (phi + LIMITS.initial) / (phi + batch)
    expected = batch / (best.accumulation * computing + whole) * efficiency

    assert best.goodput == pytest.approx(expected)
    assert LIMITS.local_min <= best.atomic <= LIMITS.local_max
    assert best.goodput == goodput(KNOWN, nodes, replicas)


def test_a_noisier_gradient_makes_larger_batches_worth_while() -> None:
    quiet = best_batch(replace(KNOWN, grad=GradParams(sqr=1.0, var=0.1)), 1, 4)
    noisy = best_batch(replace(KNOWN, grad=GradParams(sqr=1.0, var=1e4)), 1, 4)

    assert quiet.atomic * (quiet.accumulation + 1) < noisy.atomic * (noisy.accumulation + 1)


def test_one_replica_accumulates_to_exceed_the_initial_batch() -> None:
    best = best_batch(replace(KNOWN, grad=GradParams(sqr=1.0, var=1e6)), 1, 1)

    assert best.atomic * (best.accumulation + 1) > LIMITS.initial
    assert best.accumulation >= 1


def test_more_replicas_than_the_largest_batch_can_feed_have_no_goodput() -> None:
    assert goodput(KNOWN, 64, 256) > 0
    assert goodput(KNOWN, 65, 260) == 0


def by_every_batch(known: GoodputModel, nodes: int, replicas: int) -> float:
    """The best of all batch sizes whatever, without any search."""
    best = 0.0
    limits, phi = known.limits, known.grad.var / known.grad.sqr * known.limits.initial
    for atomic, parts in product(range(limits.local_min, limits.local_max + 1), range(1, 40)):
        batch = replicas * atomic * parts
        if not limits.initial <= batch <= limits.maximum:
            continue
        computing, whole = seconds(known.perf, nodes, replicas, atomic)
        efficiency = (phi + limits.initial) / (phi + batch)
        best = max(best, batch / ((parts - 1) * computing + whole) * efficiency)
    return best


@pytest.mark.parametrize("noise", [0.5, 20.0, 1000.0])
@pytest.mark.parametrize(("nodes", "replicas"), [(1, 2), (1, 4), (2, 8), (8, 32)])
def test_the_search_for_a_batch_finds_98_percent_of_the_best(
    nodes: int, replicas: int, noise: float
) -> None:
    known = replace(KNOWN, grad=GradParams(sqr=1.0, var=noise))

    assert goodput(known, nodes, replicas) >= 0.98 * by_every_batch(known, nodes, replicas)


def test_a_zero_gradient_counts_as_one_without_noise() -> None:
    nothing = replace(KNOWN, grad=GradParams(sqr=0.0, var=0.0))
    quiet = replace(KNOWN, grad=GradParams(sqr=1.0, var=0.0))

    assert best_batch(nothing, 1, 2) == best_batch(quiet, 1, 2)
    assert isfinite(best_batch(replace(KNOWN, grad=GradParams(sqr=0.0, var=1.0)), 1, 2).goodput)


def test_a_fit_predicts_unseen_configurations() -> None:
    shown = [(1, 1, 32), (1, 1, 128), (1, 2, 64), (1, 4, 64), (2, 8, 64), (4, 16, 128)]
    found = fit(observe(PERF, *shown))

    # The regulariser trades overlap for links that are quicker, which shows far from what was seen.
    for unseen, within in [((1, 3, 100), 0.01), ((3, 12, 64), 0.1), ((6, 24, 32), 0.25)]:
        expected = pytest.approx(seconds(PERF, *unseen)[1], rel=within)
        assert seconds(found, *unseen)[1] == expected


def test_unexplored_parameters_are_next_to_zero() -> None:
    found = fit(observe(PERF, (1, 1, 64)))

    assert found.alpha_r == pytest.approx(UNEXPLORED)
    assert found.beta_n == pytest.approx(UNEXPLORED, rel=0.2)
    assert found.alpha_c == pytest.approx(seconds(PERF, 1, 1, 64)[0] / 2, rel=1e-6)


def test_links_between_nodes_are_assumed_slower_than_within() -> None:
    found = fit(observe(PERF, (1, 1, 64), (1, 2, 64), (1, 4, 64)))

    assert found.alpha_n >= 1.1 * found.alpha_r > UNEXPLORED
    assert found.beta_n >= 1.1 * found.beta_r


def test_a_fit_without_observations_is_an_error() -> None:
    with pytest.raises(ValueError, match="nothing was observed"):
        fit([])


@settings(max_examples=30)
@given(
    st.lists(
        st.builds(
            Observation,
            nodes=st.integers(1, 16),
            replicas=st.integers(1, 64),
            samples=st.integers(1, 10_000),
            computing=st.floats(1e-9, 1e6),
            iteration=st.floats(1e-9, 1e6),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_any_observations_give_usable_parameters(seen: list[Observation]) -> None:
    found = fit(seen)

    assert all(isfinite(value) and value > 0 for value in astuple(found))
    assert 1 <= found.gamma <= 10


def test_a_fit_takes_a_bounded_number_of_evaluations(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def counted(objective: Objective, start: Sequence[float], **options: Any) -> list[float]:
        def once(point: Sequence[float]) -> Quadratic:
            asked.append(point)
            return objective(point)

        return minimise(once, start, **options)

    monkeypatch.setattr(fitting, "minimise", counted)
    configurations = [(n, 4 * n, m) for n in range(1, 9) for m in (16, 50, 130, 256)]
    noisy = [
        replace(o, iteration=o.iteration * (1 + 0.3 * (-1) ** row))
        for row, o in enumerate(observe(PERF, *configurations))
    ]
    fit(noisy)

    assert 1 < len(asked) <= fitting.EVALUATIONS


def test_the_fits_gradient_is_that_of_its_objective(monkeypatch: pytest.MonkeyPatch) -> None:
    captured: list[Objective] = []

    def capture(objective: Objective, start: Sequence[float], **_: Any) -> list[float]:
        captured.append(objective)
        return list(start)

    monkeypatch.setattr(fitting, "minimise", capture)
    fit(observe(PERF, (1, 1, 32), (1, 2, 64), (1, 4, 100), (2, 8, 64), (4, 16, 128)))
    point = [*(log(v) for v in (0.03, 0.004, 0.1, 0.02, 0.05, 0.003)), 1.7]
    gradient = captured[0](point).slope

    for axis in range(7):
        above, below = list(point), list(point)
        above[axis] += 1e-6
        below[axis] -= 1e-6
        numeric = (captured[0](above).value - captured[0](below).value) / 2e-6
        assert gradient[axis] == pytest.approx(numeric, rel=1e-4, abs=1e-7)


def test_a_fit_is_as_good_as_one_with_2000_more_evaluations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reached: list[tuple[float, float]] = []

    def patient(objective: Objective, start: Sequence[float], **options: Any) -> list[float]:
        found = minimise(objective, start, **options)
        best = minimise(objective, found, **options | {"evaluations": 2000, "tolerance": 1e-12})
        reached.append((objective(found).value, objective(best).value))
        return found

    monkeypatch.setattr(fitting, "minimise", patient)
    for noise in (0.0, 0.02, 0.2):
        configurations = [(1, 1, 32), (1, 2, 64), (1, 4, 64), (2, 8, 100), (4, 16, 128)]
        seen = observe(PERF, *configurations)
        fit(
            replace(o, iteration=o.iteration * (1 + noise * (-1) ** row))
            for row, o in enumerate(seen)
        )

    assert all(found <= best + 1e-4 for found, best in reached)


def test_a_minimum_on_a_bound_is_found() -> None:
    def bowl(point: Sequence[float]) -> Quadratic:
        x, y = point[0] - 3, point[1] + 2
        return Quadratic(x * x + 100 * y * y, [2 * x, 200 * y], [[2, 0], [0, 200]])

    found = minimise(bowl, [0.0, 0.0], lower=[-1.0, -1.0], upper=[1.0, 5.0], evaluations=60)

    assert found == pytest.approx([1.0, -1.0])


def test_a_curved_valley_is_followed_to_its_end() -> None:
    def valley(point: Sequence[float]) -> Quadratic:
        x, y = point
        bent = y - x * x
        return Quadratic(
            (1 - x) ** 2 + 100 * bent**2,
            [-2 * (1 - x) - 400 * x * bent, 200 * bent],
            [[2 + 800 * x * x, 0], [-400 * x, 200]],
        )

    found = minimise(
        valley,
        [-1.2, 1.0],
        lower=[-5.0, -5.0],
        upper=[5.0, 5.0],
        evaluations=300,
        tolerance=1e-12,
    )

    assert found == pytest.approx([1.0, 1.0], abs=1e-3)


def test_sizes_are_powers_of_two_on_a_node_and_whole_nodes_beyond() -> None:
    assert sizes(Bounds(per_node=4, minimum=1, maximum=19)) == (0, 1, 2, 4, 8, 12, 16)
    assert sizes(Bounds(per_node=8, minimum=3, maximum=6), also=5) == (0, 3, 4, 5, 6)
    assert sizes(Bounds(per_node=4, minimum=0, maximum=3), also=9) == (0, 1, 2, 3)
    assert sizes(Bounds(per_node=1, minimum=1, maximum=3)) == (0, 1, 2, 3)


def test_thousands_of_replicas_have_few_sizes() -> None:
    offered = sizes(Bounds(per_node=4, minimum=1, maximum=8000))

    assert len(offered) < 45
    assert offered[-1] >= 0.75 * 8000


def test_curves_are_computed_once_and_forgotten_with_their_jobs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    curves = Curves()
    question = Question(model=model(), sizes=(0, 1, 2, 4), per_node=4)
    first = curves.ask({"a": question, "b": question})
    assert first["a"] == pytest.approx(first["b"])
    assert first["a"][0] == 0
    assert 0 < first["a"][1] < first["a"][2] < first["a"][3]

    asked: list[int] = []

    def counted(known: GoodputModel, nodes: int, replicas: int) -> float:
        asked.append(replicas)
        return goodput(known, nodes, replicas)

    monkeypatch.setattr("di_operator.allocator.goodput.curves.goodput", counted)
    other = replace(question, model=model(noise=2.0))
    curves.ask({"a": question, "c": other})
    assert asked == [1, 2, 4]
    curves.ask({"c": other})
    curves.ask({"a": question})
    assert asked == [1, 2, 4] * 2
