"""What the chart brings for Prometheus and Grafana, and that the alerts fire when they should."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.chart import CHART, COMPONENTS, Chart
from tests.monitoring.alert_cases import CASES
from tools.documents import dashboards
from tools.prepare.prometheus import program

ALERTS = CHART / "files/alerts.yaml"
ALL = (
    "monitoring.podMonitor.enabled=true",
    "monitoring.podMonitor.labels.release=stack",
    "monitoring.prometheusRule.enabled=true",
    "monitoring.prometheusRule.labels.release=stack",
    "monitoring.dashboards.enabled=true",
)


def test_monitoring_is_off_by_default(chart: Chart) -> None:
    assert not {"PodMonitor", "PrometheusRule"} & chart.render().kinds()
    assert not [name for name in chart.render().of_kind("ConfigMap") if "dashboard" in name]


@pytest.mark.proves("operations.md#watching-it/monitoring-podmonitor-enabled")
def test_every_service_is_scraped(chart: Chart) -> None:
    rendered = chart.render(*ALL, "history.enabled=true")
    monitor = rendered.one("PodMonitor", "di-orchestrator")
    assert monitor["metadata"]["labels"]["release"] == "stack"
    selector = monitor["spec"]["selector"]
    (expression,) = selector["matchExpressions"]
    assert sorted(expression["values"]) == sorted((*COMPONENTS, "history", "dashboard"))
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    for deployment in rendered.of_kind("Deployment").values():
        pod = deployment["spec"]["template"]
        assert selector["matchLabels"].items() <= pod["metadata"]["labels"].items()
        assert pod["metadata"]["labels"]["app.kubernetes.io/component"] in expression["values"]
        ports = [port["name"] for port in pod["spec"]["containers"][0]["ports"]]
        assert endpoint["port"] in ports


@pytest.mark.proves("operations.md#watching-it/monitoring-prometheusrule-enabled")
def test_the_rendered_rules_match_the_file(chart: Chart) -> None:
    rule = chart.render(*ALL).one("PrometheusRule", "di-orchestrator")
    assert rule["metadata"]["labels"]["release"] == "stack"
    assert rule["spec"] == yaml.safe_load(ALERTS.read_text())


@pytest.mark.proves("operations.md#watching-it/monitoring-dashboards-enabled")
def test_dashboards_have_grafanas_label(chart: Chart) -> None:
    found = chart.render(*ALL).of_kind("ConfigMap")
    for each in dashboards.DASHBOARDS:
        config = found[f"di-dashboard-{each.name}"]
        assert config["metadata"]["labels"]["grafana_dashboard"] == "1"
        body = json.loads(config["data"][f"{each.name}.json"])
        assert [panel["title"] for panel in body["panels"]] == [p.title for p in each.panels]


@pytest.mark.proves("runbook.md#*")
def test_every_alert_fires_in_its_case_only(tmp_path: Path) -> None:
    promtool(tmp_path, "check", "rules", str(ALERTS))
    rules = {
        rule["alert"]: rule
        for group in yaml.safe_load(ALERTS.read_text())["groups"]
        for rule in group["rules"]
    }
    tests: list[dict[str, Any]] = []
    for name, case in CASES.items():
        labels = {**case.labels, "severity": rules[name]["labels"]["severity"]}
        tests.append(_test(name, case.fires, firing=labels))
        tests.append(_test(name, case.quiet, firing=None))
    file = tmp_path / "tests.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "tests": tests}))
    promtool(tmp_path, "test", "rules", str(file))


@pytest.mark.parametrize("name", ["DIJobHung", "DIOperatorNoLeader"])
def test_an_unexpected_alert_fails_promtool(tmp_path: Path, name: str) -> None:
    """promtool's silence means something."""
    body = {"rule_files": [str(ALERTS)], "tests": [_test(name, CASES[name].fires, firing=None)]}
    file = tmp_path / "tests.yaml"
    file.write_text(yaml.safe_dump(body))
    with pytest.raises(AssertionError):
        promtool(tmp_path, "test", "rules", str(file))


def _test(
    name: str, series: Sequence[tuple[str, str]], *, firing: Mapping[str, str] | None
) -> dict[str, Any]:
    """One of promtool's: the alert fires with these labels after half an hour, or does not."""
    all_labels = {"alertname": name, "alertstate": "firing", **(firing or {})}
    text = ",".join(f'{key}="{value}"' for key, value in all_labels.items())
    fired = [{"labels": f"ALERTS{{{text}}}", "value": 1}] if firing is not None else []
    expression = f'ALERTS{{alertname="{name}",alertstate="firing"}}'
    return {
        "name": f"{name}, {'quiet' if firing is None else 'fires'}",
        "interval": "1m",
        "input_series": [{"series": each, "values": values} for each, values in series],
        "promql_expr_test": [{"expr": expression, "eval_time": "30m", "exp_samples": fired}],
    }


def promtool(folder: Path, *words: str) -> None:
    """Run promtool; fails with its output."""
    done = subprocess.run(
        [program("promtool"), *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
