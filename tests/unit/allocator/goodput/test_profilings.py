"""Reports of jobs: read, checked, fitted, and not believed for ever."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_operator.allocator.goodput.fit import Observation
from di_operator.allocator.goodput.params import GradParams
from di_operator.allocator.model.profilings import (
    OBSERVATIONS,
    InvalidProfilings,
    load_profilings,
)

NOW = datetime(2025, 6, 1, 12, tzinfo=UTC)
PERF = {
    "alphaC": 0.1,
    "betaC": 0.01,
    "alphaN": 0.2,
    "betaN": 0.01,
    "alphaR": 0.1,
    "betaR": 0.01,
    "gamma": 2,
}


def observation(**changes: Any) -> dict[str, Any]:
    seen = {"nodes": 1, "replicas": 2, "samples": 32, "computing": 0.1, "iteration": 0.2}
    return seen | changes


def report(**changes: Any) -> dict[str, Any]:
    return {
        "reportedAt": "2025-06-01T11:59:00Z",
        "envSteps": 1000,
        "maxEnvSteps": 5000,
        "initBatchSize": 64,
        "maxBatchSize": 1024,
        "samplesPerEnvStep": 2,
        "perfParams": PERF,
    } | changes


def load(**changes: Any) -> Any:
    return load_profilings(report(**changes))


@pytest.mark.proves(
    "allocation.md#what-a-job-reports/perfparams",
    "allocation.md#what-a-job-reports/initbatchsize-maxbatchsize-localbatchmin",
    "allocation.md#what-a-job-reports/envsteps-maxenvsteps-samplesperenvstep",
)
def test_a_report_gives_the_model_and_the_remaining_work() -> None:
    found = load(gradParams={"sqr": 1, "var": 4}, learners=3, somethingElse={"of": "the job"})
    model = found.models()[""]

    assert model.perf.alpha_n == 0.2
    assert model.grad == GradParams(sqr=1, var=4)
    assert (model.limits.initial, model.limits.maximum) == (64, 1024)
    assert found.remaining(NOW) == 8000
    assert found.explored() == 3


@pytest.mark.proves("allocation.md#what-a-job-reports/restoreseconds")
def test_the_restore_time_is_a_finite_positive_number() -> None:
    assert load(restoreSeconds=12.5).restore_seconds == 12.5
    assert load().restore_seconds is None
    for bad in (-1, float("inf"), "12", True):
        with pytest.raises(InvalidProfilings, match="restoreSeconds"):
            load(restoreSeconds=bad)


@pytest.mark.proves(
    "allocation.md#what-a-job-reports/observations", "allocation.md#what-a-job-reports/perfparams"
)
def test_observations_are_fitted_if_parameters_are_missing() -> None:
    found = load(perfParams=None, observations=[observation(replicas=k) for k in (1, 2, 4)])

    assert found.models()[""].perf.alpha_c > 0
    assert found.explored() == 4


def test_only_the_latest_observations_are_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Observation] = []
    monkeypatch.setattr("di_operator.allocator.model.profilings.fit", seen.extend)
    many = [observation(samples=n) for n in range(1, 3 * OBSERVATIONS)]
    load(perfParams=None, observations=many).models()

    assert [o.samples for o in seen] == [o["samples"] for o in many[-OBSERVATIONS:]]


@pytest.mark.proves("allocation.md#what-a-job-reports/learners-batchsize-trainstepspersec")
def test_the_rate_of_training_steps_is_an_observation() -> None:
    rate = {"trainStepsPerSec": 2.0, "learners": 2, "batchSize": 64, "learnerWaitFrac": 0.5}
    perf = load(perfParams=None, **rate).models()[""].perf

    # A step takes half a second, of which half is waiting for data.
    assert perf.alpha_c + perf.beta_c * 32 == pytest.approx(0.25, rel=0.01)


@pytest.mark.parametrize("missing", [{"learnerWaitFrac": 1.0}, {"learners": None}])
def test_a_rate_without_learners_or_computing_is_not_an_observation(
    missing: dict[str, Any],
) -> None:
    rate = {"trainStepsPerSec": 2.0, "learners": 2, "batchSize": 64} | missing

    assert load(perfParams=None, **rate).models() == {}


@pytest.mark.proves("allocation.md#what-a-job-reports/collectors-envstepspersec")
def test_the_rate_of_collectors_excludes_their_waiting_time() -> None:
    found = load(envStepsPerSec=300.0, collectors=4, collectorWaitFrac=0.25).collecting()

    assert (found.rate, found.samples_per_step) == (100.0, 2.0)
    assert load(envStepsPerSec=300.0).collecting() is None
    assert load(envStepsPerSec=300.0, collectors=4, collectorWaitFrac=1.0).collecting() is None


@pytest.mark.proves("allocation.md#what-a-job-reports/gradparams")
def test_a_report_without_gradient_noise_has_variance_0() -> None:
    assert load().models()[""].grad.var == 0


@pytest.mark.parametrize("raw", [{}, {"note": "mine"}, {"envSteps": None}])
def test_a_report_without_known_fields_is_none(raw: dict[str, Any]) -> None:
    assert load_profilings(raw) is None


@pytest.mark.parametrize("missing", ["perfParams", "initBatchSize"])
def test_an_incomplete_report_gives_no_model(missing: str) -> None:
    raw = report()
    del raw[missing]
    found = load_profilings(raw)

    assert found is not None
    assert found.models() == {}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"envSteps": -1}, "envSteps"),
        ({"envSteps": float("nan")}, "envSteps: must be finite"),
        ({"envSteps": float("inf")}, "envSteps: must be finite"),
        ({"envSteps": "7"}, "envSteps: must be a number"),
        ({"envSteps": True}, "envSteps: must be a number"),
        ({"learners": 1.5}, "learners: must be a whole number"),
        ({"learners": 0}, "learners"),
        ({"learnerWaitFrac": 1.1}, "learnerWaitFrac"),
        ({"reportedAt": "yesterday"}, "reportedAt"),
        ({"perfParams": PERF | {"gamma": 11}}, "perfParams.gamma"),
        ({"perfParams": PERF | {"alphaC": 0}}, "perfParams.alphaC"),
        ({"perfParams": {"alphaC": 1}}, "perfParams.betaC"),
        ({"gradParams": {"sqr": -1, "var": 1}}, "gradParams.sqr"),
        (
            {"observations": [observation(), observation(iteration=0)]},
            r"\[1\].iteration",
        ),
        ({"observations": 3}, "observations"),
        ({"collectors": -1, "learnerWaitFrac": 2}, "collectors.*learnerWaitFrac"),
        ({"kind": 3}, "kind: must be a string of at most 63 characters"),
        ({"kind": "x" * 64}, "kind: must be a string"),
        ({"observations": [observation(kind=[])]}, r"observations\[0\].kind: must be a string"),
        ({"byKind": []}, "byKind: must be an object of at most 16 kinds"),
        ({"byKind": {str(n): {} for n in range(17)}}, "byKind: must be an object of at most 16"),
        ({"byKind": {"x" * 64: {}}}, "byKind: must be a string of at most 63"),
        ({"byKind": {"a": 1}}, "byKind.a: must be an object"),
        ({"byKind": {"a": {"localBatchMax": 0}}}, "byKind.a.localBatchMax: must be at least 1"),
        ({"byKind": {"a": {"perfParams": {}}}}, "byKind.a.perfParams.alphaC: is missing"),
    ],
)
def test_an_invalid_report_is_refused_with_all_fields_that_are_wrong(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidProfilings, match=message):
        load(**changes)


def test_more_steps_than_planned_leave_no_work() -> None:
    assert load(envSteps=5001).remaining(NOW) == 0


@pytest.mark.proves("allocation.md#what-a-job-reports/reportedat")
@pytest.mark.parametrize(
    ("age", "stale"), [(0, False), (599, False), (601, True), (-30, False), (-601, True)]
)
def test_an_old_report_has_no_remaining_work(age: int, stale: bool) -> None:
    found = load(reportedAt=(NOW - timedelta(seconds=age)).isoformat())

    assert found.is_stale(NOW) is stale
    assert (found.remaining(NOW) is None) is stale
    assert set(found.models()) == {""}


def test_measurements_are_kept_apart_by_node_type() -> None:
    slow = [observation(replicas=k, kind="slow") for k in (1, 2)]
    fast = [observation(replicas=k, computing=0.01, iteration=0.11) for k in (1, 2)]
    found = load(perfParams=None, kind="fast", observations=[*slow, *fast]).models()

    assert set(found) == {"slow", "fast"}
    assert found["slow"].perf.alpha_c > 5 * found["fast"].perf.alpha_c


@pytest.mark.proves("allocation.md#what-a-job-reports/kind")
def test_the_node_type_of_a_report_is_that_of_its_parameters() -> None:
    rate = {"trainStepsPerSec": 2.0, "learners": 2, "batchSize": 64}

    assert set(load(kind="fast").models()) == {"fast"}
    assert set(load(perfParams=None, kind="fast", **rate).models()) == {"fast"}


@pytest.mark.proves("allocation.md#what-a-job-reports/bykind-kind")
def test_a_node_type_may_have_its_own_parameters_and_limits() -> None:
    own = {"perfParams": PERF | {"alphaC": 0.5}, "localBatchMin": 2, "localBatchMax": 8}
    found = load(kind="fast", byKind={"slow": own}, localBatchMin=4, localBatchMax=32).models()

    assert [found[kind].perf.alpha_c for kind in ("slow", "fast")] == [0.5, 0.1]
    assert [found[kind].limits.local_min for kind in ("slow", "fast")] == [2, 4]
    assert [found[kind].limits.local_max for kind in ("slow", "fast")] == [8, 32]


def test_limits_alone_are_not_a_measurement() -> None:
    assert set(load(byKind={"slow": {"localBatchMax": 8}}).models()) == {""}


def test_a_report_without_a_time_counts_as_old() -> None:
    assert load(reportedAt=None).is_stale(NOW)


def test_a_time_without_a_zone_is_utc() -> None:
    assert load(reportedAt="2025-06-01T11:55:00").reported_at == NOW - timedelta(minutes=5)


JSON = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.sampled_from(["", "x", "NaN", "1"])
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["", "x", "NaN", "1"]), inner, max_size=3),
    ),
    max_leaves=6,
)


# A loaded machine draws slowly; that is no fault of the reports.
@given(st.dictionaries(st.sampled_from([*report(), "gradParams", "observations"]), JSON))
def test_any_report_is_read_or_refused(raw: dict[str, Any]) -> None:
    try:
        found = load_profilings(raw)
    except InvalidProfilings:
        return
    left = found.remaining(NOW) if found else None
    assert left is None or left >= 0


@pytest.mark.parametrize(
    ("raw", "seconds"),
    [
        ({"step": 50, "checkpointStep": 10, "trainStepsPerSec": 2}, 20.0),
        ({"step": 50, "trainStepsPerSec": 2}, 0.0),
        ({"step": 50, "checkpointStep": 10}, 0.0),
    ],
    ids=["known", "no checkpoint", "no rate"],
)
def test_work_since_the_last_checkpoint_is_read_of_a_report(
    raw: dict[str, Any], seconds: float
) -> None:
    said = load_profilings({"reportedAt": "2026-01-01T00:00:00Z", **raw})
    assert said is not None
    assert said.unsaved() == seconds
