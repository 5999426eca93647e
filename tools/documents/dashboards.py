"""The Grafana dashboards of the chart: which panels there are, and what they ask Prometheus."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

FOLDER: Final = (
    Path(__file__).resolve().parents[2] / "charts" / "di-orchestrator" / "files" / "dashboards"
)
_WIDTH, _HEIGHT = 12, 8
_DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_PODS: Final = '{namespace="$namespace",pod=~"$dijob-.+"}'
# Kubelets have these at two paths, and a whole pod without the name of a container: each is counted
# once.
_CONTAINERS: Final = '{namespace="$namespace",pod=~"$dijob-.+",container!=""}'
_JOB: Final = '{namespace="$namespace",dijob="$dijob"}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A graph: expressions with the texts of their legends, in a unit of Grafana's.

    `may_be_empty` says why an expression has no data where nothing is wrong; empty: it has.
    """

    title: str
    asks: Sequence[tuple[str, str]]
    unit: str = "short"
    may_be_empty: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """A page of panels; `of_a_job` lets the reader choose one."""

    name: str
    title: str
    panels: Sequence[Panel]
    of_a_job: bool = False


def _quantiles(metric: str, by: str = "") -> tuple[tuple[str, str], ...]:
    labels = f"le, {by}" if by else "le"
    legend = f" {{{{{by}}}}}" if by else ""
    return tuple(
        (
            f"histogram_quantile({share}, "
            f"sum by ({labels}) (rate({metric}_bucket[$__rate_interval])))",
            f"p{share * 100:g}{legend}",
        )
        for share in (0.5, 0.99)
    )


def _rate(metric: str, by: str) -> tuple[tuple[str, str], ...]:
    return ((f"sum by ({by}) (rate({metric}[$__rate_interval]))", f"{{{{{by}}}}}"),)


def _by_pod(measured: str) -> tuple[tuple[str, str], ...]:
    """What is measured of a job's pods, by pod.

    The names of its pods are `$dijob-TASK-INDEX`; so are those of a job whose name begins alike,
    but it has other tasks then.
    """
    tasks = f"0 * max by (task) (di_job_pods{_JOB}) + 1"
    named = f'label_replace({measured}, "task", "$1", "pod", "$dijob-(.+)-[0-9]+")'
    return ((f"{named} * on (task) group_left () ({tasks})", "{{pod}}"),)


def _days_left(service: str) -> tuple[tuple[str, str], ...]:
    expiry = f"di_{service}_certificate_expiry_timestamp_seconds"
    return ((f"(min({expiry} > 0) - time()) / 86400", "days"),)


_NO_JOBS: Final = "no job has metrics of its own, or none that says this"
_NO_ALLOCATOR: Final = "there is no allocator, or nothing to allocate"
_NO_KUBELETS: Final = "the metrics of kubelets are not scraped"
_NEVER: Final = "it has never happened"

DASHBOARDS: Final = (
    Dashboard(
        name="overview",
        title="Overview",
        panels=(
            Panel(
                title="Jobs by phase",
                asks=(("max by (phase) (di_jobs)", "{{phase}}"),),
                may_be_empty="there are no jobs",
            ),
            Panel(title="Leaders", asks=(("sum(di_operator_leading)", "leaders"),)),
            Panel(
                title="Replicas that answer",
                asks=(
                    ("count(di_operator_leading)", "operator"),
                    ("count(di_server_members)", "server"),
                    ("count(di_webhook_certificate_expiry_timestamp_seconds)", "webhook"),
                ),
            ),
            Panel(
                title="Requests and reviews a second",
                asks=(
                    ("sum(rate(di_server_requests_total[$__rate_interval]))", "requests"),
                    ("sum(rate(di_webhook_admissions_total[$__rate_interval]))", "reviews"),
                ),
                unit="reqps",
                may_be_empty="nobody has asked anything yet",
            ),
            Panel(
                title="Warnings a second, by reason",
                asks=_rate("di_operator_anomalies_total", "reason"),
                may_be_empty=_NEVER,
            ),
            Panel(
                title="Pods ready, of jobs that are shown",
                asks=(
                    ("sum(di_job_ready_pods)", "ready"),
                    ("sum(di_job_pods)", "wanted"),
                ),
                may_be_empty=_NO_JOBS,
            ),
        ),
    ),
    Dashboard(
        name="operator",
        title="Operator",
        panels=(
            Panel(
                title="Reconciles a second, by result",
                asks=_rate("di_operator_reconciles_total", "result"),
                may_be_empty="there are no jobs",
            ),
            Panel(
                title="Time of a reconcile",
                asks=_quantiles("di_operator_reconcile_duration_seconds"),
                unit="s",
            ),
            Panel(
                title="Jobs that wait for a worker, or are due later",
                asks=(
                    ("max(di_operator_queue_length)", "waiting"),
                    ("max(di_operator_queue_delayed)", "due later"),
                ),
            ),
            Panel(
                title="Writes a second, by action",
                asks=_rate("di_operator_actions_total", "action"),
                may_be_empty="there are no jobs",
            ),
            Panel(
                title="Status writes a second, by result",
                asks=_rate("di_operator_status_writes_total", "result"),
                may_be_empty="there are no jobs",
            ),
            Panel(
                title="Requests to the API server a second, by code",
                asks=_rate("di_operator_api_requests_total", "code"),
            ),
            Panel(
                title="Objects in caches",
                asks=(("max by (plural) (di_operator_cache_objects)", "{{plural}}"),),
            ),
            Panel(
                title="Time without an answer of a watch",
                asks=(("max by (plural) (di_operator_cache_away_seconds)", "{{plural}}"),),
                unit="s",
            ),
            Panel(
                title="Events a second, by what became of them",
                asks=_rate("di_operator_events_total", "result"),
                may_be_empty="there are no jobs",
            ),
            Panel(
                title="Failures of parts",
                asks=_rate("di_operator_duty_failures_total", "duty"),
                may_be_empty=_NEVER,
            ),
            Panel(
                title="Time of a call of the policy",
                asks=_quantiles("di_operator_policy_duration_seconds", "call"),
                unit="s",
                may_be_empty=_NO_ALLOCATOR,
            ),
            Panel(
                title="Objects that the allocator leaves out",
                asks=(("max by (kind) (di_operator_unreadable)", "{{kind}}"),),
                may_be_empty=_NO_ALLOCATOR,
            ),
        ),
    ),
    Dashboard(
        name="server",
        title="Server",
        panels=(
            Panel(
                title="Requests a second, by operation",
                asks=_rate("di_server_requests_total", "operation"),
                unit="reqps",
            ),
            Panel(
                title="Requests a second, by status",
                asks=_rate("di_server_requests_total", "code"),
                unit="reqps",
            ),
            Panel(
                title="Time of an answer",
                asks=_quantiles("di_server_request_seconds", "operation"),
                unit="s",
            ),
            Panel(
                title="Writes repeated after a conflict, a second",
                asks=(("sum(rate(di_server_conflicts_total[$__rate_interval]))", "conflicts"),),
            ),
            Panel(
                title="Members, and requests that wait for news of them",
                asks=(
                    ("sum(di_server_members)", "members"),
                    ("sum(di_server_members_waiting)", "waiting"),
                ),
            ),
            Panel(
                title="Exchanges of members a second",
                asks=_rate("di_server_member_exchanges_total", "result"),
                may_be_empty="there is one replica",
            ),
            Panel(
                title="Objects in memory",
                asks=(("max by (resource) (di_server_watched_objects)", "{{resource}}"),),
            ),
            Panel(
                title="Days until the certificate expires",
                asks=_days_left("server"),
                may_be_empty="it serves plain HTTP",
            ),
        ),
    ),
    Dashboard(
        name="webhook",
        title="Webhook",
        panels=(
            Panel(
                title="Reviews a second, by outcome",
                asks=_rate("di_webhook_admissions_total", "outcome"),
                unit="reqps",
                may_be_empty="nobody has created anything yet",
            ),
            Panel(
                title="Time of a review",
                asks=_quantiles("di_webhook_admission_seconds", "webhook"),
                unit="s",
                may_be_empty="nobody has created anything yet",
            ),
            Panel(
                title="Rules that failed to run, a second",
                asks=(("sum(rate(di_webhook_faults_total[$__rate_interval]))", "faults"),),
            ),
            Panel(
                title="Days until the certificate expires",
                asks=_days_left("webhook"),
            ),
        ),
    ),
    Dashboard(
        name="job",
        title="A job",
        of_a_job=True,
        panels=(
            Panel(
                title="Pods by task and phase",
                asks=((f"max by (task, phase) (di_job_pods{_JOB})", "{{task}} {{phase}}"),),
            ),
            Panel(
                title="Progress",
                asks=((f"max(di_job_progress_ratio{_JOB})", "done"),),
                unit="percentunit",
            ),
            Panel(
                title="Time left: expected, and between which in four of five cases",
                asks=(
                    (
                        "max by (bound) (di_job_expected_completion_timestamp_seconds"
                        f"{_JOB}) - time()",
                        "{{bound}}",
                    ),
                ),
                unit="s",
                may_be_empty="it does not report how many steps there are to be",
            ),
            Panel(
                title="Time until it starts, as the allocator foretells it",
                asks=(
                    (
                        f"max by (bound) (di_job_expected_start_timestamp_seconds{_JOB}) - time()",
                        "{{bound}}",
                    ),
                ),
                unit="s",
                may_be_empty="it does not wait for nodes, or nobody says when there will be some",
            ),
            Panel(
                title="Goodput: useful samples a second, as the allocator sees it",
                asks=((f"max(di_job_goodput_samples_per_second{_JOB})", "goodput"),),
                may_be_empty="the allocator has not placed it, or it has not reported its speed",
            ),
            Panel(
                title="Time that the learner waits for samples",
                asks=((f"max(di_job_learner_waiting_ratio{_JOB})", "waiting"),),
                unit="percentunit",
            ),
            Panel(
                title="Steps a second",
                asks=(
                    (f"max(di_job_env_steps_per_second{_JOB})", "of environments"),
                    (f"max(di_job_train_steps_per_second{_JOB})", "of training"),
                ),
            ),
            Panel(
                title="Use of CPUs by pod, in cores",
                asks=_by_pod(
                    "sum by (pod) (max by (pod, container) (rate("
                    f"container_cpu_usage_seconds_total{_CONTAINERS}[$__rate_interval])))"
                ),
                may_be_empty=_NO_KUBELETS,
            ),
            Panel(
                title="Use of memory by pod",
                asks=_by_pod(
                    "sum by (pod) (max by (pod, container) ("
                    f"container_memory_working_set_bytes{_CONTAINERS}))"
                ),
                unit="bytes",
                may_be_empty=_NO_KUBELETS,
            ),
            Panel(
                title="Use of GPUs by pod",
                asks=_by_pod(f"avg by (pod) (DCGM_FI_DEV_GPU_UTIL{_PODS})"),
                unit="percent",
                may_be_empty="it has no GPUs, or dcgm-exporter is not scraped with honorLabels",
            ),
            Panel(
                title="Restarts and reschedules",
                asks=(
                    (f"max(di_job_restarts_total{_JOB})", "restarts"),
                    (f"max(di_job_reschedules_total{_JOB})", "reschedules"),
                ),
            ),
        ),
    ),
    Dashboard(
        name="queues",
        title="Queues",
        panels=(
            Panel(
                title="Pending jobs",
                asks=(('max(di_jobs{phase="Pending"}) or vector(0)', "pending"),),
            ),
            Panel(
                title="Pending jobs by namespace, of those that are shown",
                asks=(("count by (namespace) (di_job_queue_wait_seconds)", "{{namespace}}"),),
                may_be_empty="none waits",
            ),
            Panel(
                title="Longest wait by namespace",
                asks=(("max by (namespace) (di_job_queue_wait_seconds)", "{{namespace}}"),),
                unit="s",
                may_be_empty="none waits",
            ),
            Panel(
                title="Pods ready by namespace",
                asks=(("sum by (namespace) (di_job_ready_pods)", "{{namespace}}"),),
                may_be_empty=_NO_JOBS,
            ),
            Panel(
                title="Jobs without metrics of their own",
                asks=(("max by (namespace) (di_job_metrics_left_out)", "{{namespace}}"),),
                may_be_empty="all have some",
            ),
            Panel(
                title="Jobs that hang",
                asks=(("sum(di_job_hung) or vector(0)", "hang"),),
            ),
        ),
    ),
)


def expressions() -> Iterator[tuple[str, str]]:
    """Every expression, and why it may have no data; empty: it has to have some."""
    for dashboard in DASHBOARDS:
        for panel in dashboard.panels:
            for text, _ in panel.asks:
                yield text, panel.may_be_empty


def documents() -> Mapping[Path, Callable[[], str]]:
    """What each file holds."""
    return {FOLDER / f"{each.name}.json": partial(_text, each) for each in DASHBOARDS}


def _text(dashboard: Dashboard) -> str:
    return json.dumps(_body(dashboard), indent=1) + "\n"


def _body(dashboard: Dashboard) -> dict[str, Any]:
    variables: list[dict[str, Any]] = [
        {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    ]
    if dashboard.of_a_job:
        variables += [
            _variable("namespace", "label_values(di_job_restarts_total, namespace)"),
            _variable(
                "dijob", 'label_values(di_job_restarts_total{namespace="$namespace"}, dijob)'
            ),
        ]
    return {
        "uid": f"di-orchestrator-{dashboard.name}",
        "title": f"DI Orchestrator / {dashboard.title}",
        "tags": ["di-orchestrator"],
        "editable": True,
        "schemaVersion": 39,
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "30s",
        "templating": {"list": variables},
        "panels": [_panel(number, each) for number, each in enumerate(dashboard.panels)],
    }


def _variable(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": _DATASOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    place = {"x": number % 2 * _WIDTH, "y": number // 2 * _HEIGHT, "w": _WIDTH, "h": _HEIGHT}
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": _DATASOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}},
        "targets": [
            {"refId": chr(ord("A") + place), "expr": text, "legendFormat": legend}
            for place, (text, legend) in enumerate(panel.asks)
        ],
    }
