"""Smoothing, bands and thinning of compared curves; the choice in a URL."""

from __future__ import annotations

from urllib.parse import parse_qs

import pytest

from di_cli.views.comparison import Axis
from di_dashboard.views.bands import MOST_POINTS, PLACES, band, smoothed, thinned
from di_dashboard.views.comparison import Choice, Chosen, names_of


@pytest.mark.proves("dashboard.md#comparing-jobs")
def test_a_band_is_over_the_seeds_that_have_values_at_a_place() -> None:
    long = [(0.0, 0.0), (100.0, 100.0)]
    short = [(0.0, 10.0), (50.0, 10.0)]
    late = [(50.0, 20.0), (200.0, 20.0)]
    found = band([long, short, late])
    assert len(found) == PLACES
    # From the second beginning to the last end but one: there are two seeds everywhere.
    assert (found[0].place, found[-1].place) == (0.0, 100.0)
    assert (found[0].mean, found[0].low, found[0].high) == (5.0, 0.0, 10.0)
    assert (found[-1].mean, found[-1].low, found[-1].high) == (60.0, 20.0, 100.0)


def test_curves_without_two_seeds_at_one_place_have_no_band() -> None:
    assert band([]) == band([[(0.0, 1.0), (1.0, 2.0)]]) == []
    assert band([[(0.0, 1.0), (1.0, 2.0)], [(5.0, 1.0), (6.0, 1.0)]]) == []
    assert band([[(0.0, 1.0), (1.0, 2.0)], []]) == []


def test_smoothing_weighs_values_by_their_age() -> None:
    assert smoothed([(0.0, 4.0), (1.0, 8.0)], 0.0) == [(0.0, 4.0), (1.0, 8.0)]
    assert smoothed([(0.0, 4.0), (1.0, 8.0)], 0.5) == [(0.0, 4.0), (1.0, (1 + 4) / 0.75)]


@pytest.mark.proves("dashboard.md#comparing-jobs")
def test_thinning_keeps_peaks_and_the_number_of_points_within_bounds() -> None:
    curve = [(float(place), 0.0) for place in range(5_000)]
    curve[1_234], curve[4_321] = (1_234.0, 9.0), (4_321.0, -9.0)
    found = thinned(curve)
    assert len(found) <= MOST_POINTS
    assert {(1_234.0, 9.0), (4_321.0, -9.0)} <= {*found}
    assert found == sorted(found)
    assert thinned(curve[:MOST_POINTS]) == curve[:MOST_POINTS]
    assert thinned([(1.0, 2.0)] * 5_000) == [(1.0, 2.0)]


def test_a_choice_reads_back_from_its_query() -> None:
    found = Choice(
        jobs=[Chosen("a", "b"), Chosen("a", "c", "u")],
        metric="loss & more",
        axis=Axis.ENV_STEP,
        smooth=0.5,
        is_log=True,
        is_each=True,
        is_lowest=True,
    )
    query = parse_qs(found.query.removeprefix("?"))
    rest = {key: values[0] for key, values in query.items()}
    assert Choice.read(query["job"], rest) == found
    assert found.without(found.jobs[0]) == ""


@pytest.mark.parametrize(
    ("text", "smooth"), [("2", 0.98), ("-1", 0.0), ("x", 0.0), ("inf", 0.0), ("0.3", 0.3)]
)
def test_smoothing_is_bounded(text: str, smooth: float) -> None:
    assert Choice.read(["a/b", "a/c"], {"smooth": text}).smooth == smooth


def test_jobs_of_one_name_are_told_apart() -> None:
    jobs = [Chosen("a", "x"), Chosen("a", "x", "u1"), Chosen("a", "y")]
    assert names_of(jobs) == ["x (last)", "x (u1)", "y"]
    assert names_of([Chosen("a", "x"), Chosen("b", "x")]) == ["a/x", "b/x"]
