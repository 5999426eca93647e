"""Metrics of single jobs: which, of how many jobs, by which replica, and of malformed ones."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from di_operator.metrics.jobs.choice import MOST_NAMESPACES, SERIES_OF_A_JOB
from di_operator.metrics.jobs.collect import JobMetrics, Source
from di_operator.metrics.metrics import Metrics

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


def job(name: str = "cartpole", namespace: str = "rl", **status: Any) -> Mapping[str, Any]:
    metadata = {
        "namespace": namespace,
        "name": name,
        "uid": f"uid-{name}",
        "creationTimestamp": "2026-03-01T11:00:00Z",
    }
    return {"metadata": metadata, "spec": {}, "status": status}


def source(*, most: int = 10, leads: bool = True) -> Source:
    return Source(
        leads=lambda: leads,
        now=lambda: NOW,
        most=most,
        goodput=lambda key, uid: 12.5 if (key, uid) == ("rl/cartpole", "uid-cartpole") else None,
    )


def lines(*jobs: Mapping[str, Any], most: int = 10, leads: bool = True) -> list[str]:
    metrics = Metrics()
    followed = metrics.of_jobs(source(most=most, leads=leads))
    for each in jobs:
        followed.follow("ADDED", each)
    return of_jobs(metrics)


def of_jobs(metrics: Metrics) -> list[str]:
    text = metrics.render().decode()
    return [line for line in text.splitlines() if line.startswith("di_job_")]


def shown(found: list[str]) -> set[str]:
    """The jobs that have restarts in an exposition, which each of these tests gives them."""
    return {line.split('"')[1] for line in found if line.startswith("di_job_restarts_total")}


@pytest.mark.proves("metrics.md#operator/di-job-expected-start-timestamp-seconds")
def test_a_waiting_job_has_the_metrics_of_its_expected_start() -> None:
    start = {**RUNNING["expectedCompletion"], "promised": "2026-03-01T12:45:00Z"}
    found = [each for each in lines(job(phase="Pending", expectedStart=start)) if "_start_" in each]
    assert len(found) == 3
    which = 'bound="latest",dijob="cartpole",namespace="rl"'
    assert f"di_job_expected_start_timestamp_seconds{{{which}}} 1.7723736e+09" in found


@pytest.mark.proves(
    "metrics.md#operator/di-job-env-steps-per-second",
    "metrics.md#operator/di-job-expected-completion-timestamp",
    "metrics.md#operator/di-job-goodput-samples-per-second",
    "metrics.md#operator/di-job-hung",
    "metrics.md#operator/di-job-learner-waiting-ratio",
    "metrics.md#operator/di-job-metrics-left-out",
    "metrics.md#operator/di-job-pods",
    "metrics.md#operator/di-job-policy-lag",
    "metrics.md#operator/di-job-progress-ratio",
    "metrics.md#operator/di-job-queue-depth",
    "metrics.md#operator/di-job-ready-pods",
    "metrics.md#operator/di-job-reschedules-total",
    "metrics.md#operator/di-job-restarts-total",
    "metrics.md#operator/di-job-stale-ratio",
    "metrics.md#operator/di-job-train-steps-per-second",
)
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
        ]
    )


@pytest.mark.proves("metrics.md#operator/di-job-shards")
def test_data_shards_have_their_total_and_those_that_are_done() -> None:
    shards = {"prompts": {"total": 30, "done": 12}, "odd": {"total": "many"}, "x" * 64: {"done": 1}}
    found = [line for line in lines(job(shards=shards)) if "shards" in line]
    which = 'dataset="prompts",dijob="cartpole",namespace="rl"'
    assert sorted(found) == [
        f'di_job_shards{{{which},state="done"}} 12.0',
        f'di_job_shards{{{which},state="total"}} 30.0',
    ]


@pytest.mark.proves("metrics.md#operator/di-job-queue-wait-seconds")
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


def test_a_change_replaces_the_numbers_of_a_job_and_an_end_removes_them() -> None:
    metrics = Metrics()
    followed = metrics.of_jobs(source())
    followed.follow("ADDED", job("a", restarts=1))
    followed.follow("MODIFIED", job("a", restarts=2))
    assert "di_job_restarts_total" in "".join(of_jobs(metrics))
    (line,) = [each for each in of_jobs(metrics) if "restarts" in each]
    assert line.endswith(" 2.0")
    followed.follow("MODIFIED", job("a", phase="Succeeded", restarts=2))
    assert of_jobs(metrics) == []
    followed.follow("ADDED", job("b", restarts=1))
    followed.follow("DELETED", job("b", restarts=1))
    assert of_jobs(metrics) == []


@pytest.mark.proves("operations.md#metrics-of-single-jobs/a-scrape")
def test_a_scrape_reads_no_job() -> None:
    reads = 0

    class Watched(dict[str, Any]):
        @override
        def get(self, key: str, default: Any = None) -> Any:
            nonlocal reads
            reads += 1
            return super().get(key, default)

    metrics = Metrics()
    followed = metrics.of_jobs(source())
    followed.follow("ADDED", Watched(job(**RUNNING)))
    at_change, reads = reads, 0
    assert at_change
    assert of_jobs(metrics)
    assert reads == 0


@pytest.mark.proves("operations.md#metrics-of-single-jobs/series")
def test_the_series_of_jobs_are_bounded_whatever_jobs_have() -> None:
    wide = {f"task-{number}": {"Running": 1, "Pending": 1} for number in range(64)}
    jobs = [job(f"job-{number}", restarts=0, taskStatus=wide) for number in range(20)]
    found = lines(*jobs, most=10)
    left_out = [line for line in found if "left_out" in line]
    assert 0 < len(found) - len(left_out) <= 10 * SERIES_OF_A_JOB
    assert left_out == ['di_job_metrics_left_out{namespace="rl"} 19.0']


def test_the_same_jobs_are_shown_in_any_order() -> None:
    jobs = [job(f"job-{number}", restarts=0) for number in range(90)]
    assert lines(*jobs, most=2) == lines(*jobs[::-1], most=2)
    assert 0 < len(shown(lines(*jobs, most=2))) < 90


@pytest.mark.proves(
    "operations.md#metrics-of-single-jobs/namespaces",
    "operations.md#metrics-of-single-jobs/di-job-metrics-left-out",
)
def test_many_jobs_of_a_namespace_do_not_silence_those_of_others() -> None:
    many = [job(f"a-{number:03}", "a", phase="Pending", restarts=0) for number in range(200)]
    others = [job(f"job-{each}", each, phase="Running", restarts=0) for each in "bcd"]
    found = lines(*many, *others, most=2)
    assert {"job-b", "job-c", "job-d"} < shown(found)
    left_out = [line for line in found if "left_out" in line]
    assert left_out == [
        f'di_job_metrics_left_out{{namespace="a"}} {float(203 - len(shown(found)))}'
    ]


@pytest.mark.proves("operations.md#metrics-of-single-jobs/first")
def test_jobs_that_hang_or_fail_are_shown_first() -> None:
    hangs: Any = {"conditions": [{"type": "Hung", "status": "True"}]}
    well = [job(f"a-{number:03}", restarts=0) for number in range(200)]
    failing = [job(f"f-{number:03}", restarts=1) for number in range(200)]
    hung = job("z", restarts=0, **hangs)
    found = shown(lines(*well, *failing, hung, most=2))
    assert "z" in found
    assert {name[0] for name in found} == {"z", "f"}


def test_failing_jobs_of_one_namespace_leave_half_of_the_series_to_others() -> None:
    failing = [job(f"f-{number:03}", "a", restarts=1) for number in range(200)]
    waiting = [job(f"w-{number}", f"team-{number}", restarts=0) for number in range(4)]
    assert {each["metadata"]["name"] for each in waiting} < shown(lines(*failing, *waiting, most=2))


def test_jobs_without_metrics_are_counted_for_so_many_namespaces() -> None:
    jobs = [job("x", f"team-{number:04}", restarts=0) for number in range(MOST_NAMESPACES + 50)]
    left_out = [line for line in lines(*jobs, most=1) if "left_out" in line]
    assert len(left_out) == MOST_NAMESPACES + 1
    others = next(line for line in left_out if 'namespace=""' in line)
    assert 0 < float(others.split()[-1]) <= 50


def test_a_limit_of_0_and_a_standby_replica_have_no_job_metrics() -> None:
    assert lines(job(**RUNNING), most=0) == []
    assert lines(job(**RUNNING), leads=False) == []


def test_jobs_of_the_same_form_share_what_their_numbers_are_called() -> None:
    metrics = JobMetrics(source())
    for number in range(3):
        metrics.follow("ADDED", job(f"job-{number}", **RUNNING))
    kept = list(metrics._jobs.values())
    assert len({id(each.layout) for each in kept}) == 1


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
