"""What the operator's counters are called, and by what they grow."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from di_operator.metrics.metrics import Metrics

Call = Callable[[Metrics], None]
CALLS: dict[str, tuple[Call, dict[str, str], float]] = {
    "di_operator_anomalies_total": (
        lambda metrics: metrics.anomaly("QuotaExceeded"), {"reason": "QuotaExceeded"}, 2
    ),
    "di_operator_notifications_total": (
        lambda metrics: metrics.notified("team", "sent"), {"target": "team", "result": "sent"}, 2
    ),
    "di_operator_sweep_reconciles_total": (
        lambda metrics: metrics.sweeps.reconciled("ok", 0.1), {"result": "ok"}, 2
    ),
    "di_operator_task_looks_total": (
        lambda metrics: metrics.task_looks.reconciled("ok", 0.1), {"result": "ok"}, 2
    ),
    "di_operator_pod_trials_total": (
        lambda metrics: metrics.pod_trials.reconciled("ok", 0.1), {"result": "ok"}, 2
    ),
    "di_operator_policy_duration_seconds_sum": (
        lambda metrics: metrics.allocated("optimize", "ok", 0.25),
        {"call": "optimize", "result": "ok"},
        0.5,
    ),
    "di_operator_events_total": (
        lambda metrics: metrics.event("Warning", "over_budget"),
        {"type": "Warning", "result": "over_budget"},
        2,
    ),
    "di_operator_unreadable": (lambda metrics: metrics.unreadable("pods", 3), {"kind": "pods"}, 3),
}  # fmt: skip


@pytest.mark.proves(
    "metrics.md#operator/di-operator-anomalies-total",
    "metrics.md#operator/di-operator-notifications-total",
    "metrics.md#operator/di-operator-sweep-reconciles-total",
    "metrics.md#operator/di-operator-task-looks-total",
    "metrics.md#operator/di-operator-pod-trials-total",
    "metrics.md#operator/di-operator-policy-duration-seconds",
    "metrics.md#operator/di-operator-events-total",
    "metrics.md#operator/di-operator-unreadable",
)
@pytest.mark.parametrize("name", CALLS)
def test_a_call_changes_the_metric_of_its_name(name: str) -> None:
    call, labels, value = CALLS[name]
    metrics = Metrics()
    for _ in range(2):
        call(metrics)
    assert metrics.registry.get_sample_value(name, labels) == value
