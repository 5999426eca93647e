"""What is wrong with a report is the same here and at di-server."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from di_api import profilings
from di_orchestrator.errors import BadReport
from di_orchestrator.training_run.report import NUMBERS, OBSERVATION, TEXTS, faults_of, keyed

ODD: list[Any] = [
    *(None, True, "1", [], {}, -1, -1e-9, 0, 1e-10, 0.5, 1, 1.0, 1.5, 2, 1e12, 1e13, math.nan)
]
VALUES = st.one_of(
    st.sampled_from([*ODD, math.inf, -math.inf, 10**400]),
    st.floats(),
    st.integers(),
    st.text(max_size=70),
)
KEYS = st.sampled_from([each.key for each in NUMBERS] + [*TEXTS, "loss"])
OBSERVATIONS = st.dictionaries(
    st.sampled_from([each.key for each in OBSERVATION]), VALUES, max_size=5
)


def rows(numbers: Any) -> list[tuple[Any, ...]]:
    return [(each.key, each.name, each.least, each.most, each.is_whole) for each in numbers]


def test_the_numbers_match_the_servers_declaration() -> None:
    assert rows(NUMBERS) == rows(profilings._NUMBERS)
    assert rows(OBSERVATION) == rows(profilings._OBSERVATION)


@given(st.dictionaries(KEYS, VALUES, max_size=6))
def test_flat_reports_are_judged_as_by_the_server(report: dict[str, Any]) -> None:
    assert sorted(faults_of(report)) == sorted(profilings.read_profilings(report)[1])


@given(st.one_of(VALUES, st.lists(st.one_of(VALUES, OBSERVATIONS), max_size=4)))
@example([{"nodes": 1, "replicas": 1, "samples": 32, "computing": 0.1, "iteration": 0.2}])
@example([None])
def test_observations_are_judged_as_by_the_server(observations: Any) -> None:
    report = {"observations": observations}
    assert sorted(faults_of(report)) == sorted(profilings.read_profilings(report)[1])


class Wrapped:
    """A number as numpy and torch have it."""

    def __init__(self, value: float, *, several: bool = False) -> None:
        self.value = value
        self.several = several

    def item(self) -> float:
        if self.several:
            raise ValueError("only one element arrays can be converted")
        return self.value


def test_report_names_become_camel_case_keys() -> None:
    said = keyed({"env_steps": Wrapped(7), "step": 3, "loss": 0.5, "curve": [1, 2], "phase": "x"})
    assert said == {"envSteps": 7, "step": 3, "loss": 0.5, "curve": [1, 2], "phase": "x"}


def test_a_loss_that_is_not_finite_is_reported_as_text() -> None:
    assert keyed({"loss": math.nan, "best": Wrapped(-math.inf)}) == {"loss": "nan", "best": "-inf"}


def test_all_faults_of_a_report_are_named() -> None:
    with pytest.raises(BadReport) as caught:
        keyed({"step": "3", "policy_lag": -1, "loss": object(), "x": Wrapped(1, several=True)})
    assert caught.value.faults == (
        "step: must be a number",
        "policyLag: must be at least 0",
        "loss: must be what JSON knows",
        "x: must be what JSON knows",
    )
    assert "step: must be a number" in str(caught.value)
