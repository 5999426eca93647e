"""Metrics of single jobs: which, of how many jobs, by which replica, and of malformed ones."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from di_operator.job_metrics import JobMetrics, Source

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
RUNNING: dict[str, Any] = {
    "phase": "Running",
    "readyReplicas": 2,
    "restarts": 3,
    "reschedules": 1,
    "taskStatus": {"learner": {"Running": 1}, "collector": {"Running": 1, "Pending": 2}},
    "profilings": {
        **{"learnerWaitFrac": 0.25, "envStepsPerSec": 40, "trainStepsPerSec": 4},
        **{"queueDepth": 6, "policyLag": 1.5, "staleFrac": 0.125},
    },
    "progress": {"step": 25, "totalSteps": 100},
    "conditions": [{"type": "Hung", "status": "True"}],
    "expectedCompletion": {
        "earliest": "2026-03-01T12:30:00Z",
        "expected": "2026-03-01T13:00:00Z",
        "latest": "2026-03-01T14:00:00Z",
    },
}


def job(name: str = "cartpole", **status: Any) -> Mapping[str, Any]:
    metadata = {"namespace": "rl", "name": name, "creationTimestamp": "2026-03-01T11:00:00Z"}
    return {"metadata": metadata, "spec": {}, "status": status}


def lines(*jobs: Mapping[str, Any], most: int = 10, leads: bool = True) -> list[str]:
    registry = CollectorRegistry()
    source = Source(
        leads=lambda: leads,
        unfinished=lambda: jobs,
        now=lambda: NOW,
        most=most,
        goodput=lambda job: 12.5 if job["status"] == RUNNING else None,
    )
    registry.register(JobMetrics(source))
    text = generate_latest(registry).decode()
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_a_waiting_job_has_the_metrics_of_its_expected_start() -> None:
    start = {**RUNNING["expectedCompletion"], "promised": "2026-03-01T12:45:00Z"}
    found = [each for each in lines(job(phase="Pending", expectedStart=start)) if "_start_" in each]
    assert len(found) == 3
    which = 'bound="latest",dijob="cartpole",namespace="rl"'
    assert f"di_job_expected_start_timestamp_seconds{{{which}}} 1.7723736e+09" in found


def test_the_metrics_of_a_job_are_those_of_its_status() -> None:
    which = 'dijob="cartpole",namespace="rl"'
    assert sorted(lines(job(**RUNNING))) == sorted(
        [
            f'di_job_pods{{{which},phase="Running",task="learner"}} 1.0',
            f'di_job_pods{{{which},phase="Running",task="collector"}} 1.0',
            f'di_job_pods{{{which},phase="Pending",task="collector"}} 2.0',
            f"di_job_ready_pods{{{which}}} 2.0",
            f"di_job_restarts_total{{{which}}} 3.0",
            f"di_job_reschedules_total{{{which}}} 1.0",
            f"di_job_learner_waiting_ratio{{{which}}} 0.25",
            f"di_job_env_steps_per_second{{{which}}} 40.0",
            f"di_job_train_steps_per_second{{{which}}} 4.0",
            f"di_job_queue_depth{{{which}}} 6.0",
            f"di_job_policy_lag{{{which}}} 1.5",
            f"di_job_stale_ratio{{{which}}} 0.125",
            f"di_job_progress_ratio{{{which}}} 0.25",
            f"di_job_hung{{{which}}} 1.0",
            f"di_job_goodput_samples_per_second{{{which}}} 12.5",
            *(
                f'di_job_expected_completion_timestamp_seconds{{bound="{bound}",{which}}} {at}'
                for bound, at in (
                    ("earliest", "1.7723682e+09"),
                    ("expected", "1.77237e+09"),
                    ("latest", "1.7723736e+09"),
                )
            ),
            "di_job_metrics_left_out 0.0",
        ]
    )


@pytest.mark.parametrize(
    ("status", "seconds"),
    [
        ({}, 3600),
        ({"phase": "Pending"}, 3600),
        (
            {
                "phase": "Pending",
                "conditions": [{"type": "Pending", "lastTransitionTime": "2026-03-01T11:59:00Z"}],
            },
            60,
        ),
    ],
)
def test_a_waiting_job_has_the_metric_of_its_wait(status: Any, seconds: float) -> None:
    assert f'di_job_queue_wait_seconds{{dijob="cartpole",namespace="rl"}} {seconds:.1f}' in lines(
        job(**status)
    )


def test_the_limit_of_jobs_keeps_the_same_ones_in_any_order() -> None:
    jobs = [job(f"job-{number}", restarts=0) for number in range(9)]
    for order in (jobs, jobs[::-1]):
        found = lines(*order, most=2)
        assert "di_job_metrics_left_out 7.0" in found
        assert [line for line in found if "restarts" in line] == [
            f'di_job_restarts_total{{dijob="job-{number}",namespace="rl"}} 0.0' for number in (0, 1)
        ]


def test_a_limit_of_0_and_a_standby_replica_have_no_job_metrics() -> None:
    nothing = ["di_job_metrics_left_out 0.0"]
    assert lines(job(**RUNNING), most=0) == nothing
    assert lines(job(**RUNNING), leads=False) == nothing


_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*RUNNING, "type", "learner", "Running"]), inner)
    ),
    max_leaves=20,
)


@given(_JSON)
def test_a_malformed_job_does_not_hide_the_metrics_of_others(status: Any) -> None:
    odd = {**job("a"), "status": status}
    assert 'di_job_restarts_total{dijob="b",namespace="rl"} 3.0' in lines(odd, job("b", **RUNNING))
